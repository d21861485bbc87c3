//! A local stand-in for AWS Elastic Load Balancing v2 that lags, drains and carries real traffic.
//!
//! It speaks the real Query API (2015-12-01) over HTTP, probes targets for real, carries TCP (Network Load
//! Balancer) and HTTP/1.1 (Application Load Balancer) over loopback addresses, one node per zone, and answers
//! DNS for its load balancers' names. Every node has a routing table of its own that learns changes late, as
//! the real nodes do.
//!
//! Layers: `model` is pure state with time as a parameter; `api`, `dataplane`, `dns` and `control` do I/O
//! around it and hold its lock for microseconds; `gate` is what calls meet before their action; `trace` remembers what happened.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut settings = localstack_elbv2::Settings::default();
//! settings.time_scale = 0.05;
//! let running = localstack_elbv2::serve(settings).await?;
//! println!("http://{}", running.addresses().api);
//! running.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod api;
mod behaviour;
mod clock;
mod control;
mod dataplane;
mod dns;
mod flows;
mod gate;
mod kind;
mod model;
mod serve;
mod settings;
mod shared;
mod tasks;
mod trace;

pub use behaviour::{BehaviourError, Profile};
pub use serve::{Addresses, Running, ServeError, serve};
pub use settings::{ParseSettingError, Settings, Subnet, Vpc};
