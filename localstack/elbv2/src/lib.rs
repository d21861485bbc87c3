//! A local stand-in for AWS Elastic Load Balancing v2. The stand-in has propagation delays and connection draining, and
//! carries real traffic.
//!
//! The stand-in implements the Query API (2015-12-01) over HTTP, and probes targets over the network. The stand-in
//! forwards TCP (Network Load Balancer) and HTTP/1.1 (Application Load Balancer) on loopback addresses, with one node
//! per zone. A DNS server answers queries for the names of the load balancers. Each node has its own routing table,
//! which learns of changes late, as real nodes do.
//!
//! The crate has these layers. `model` is pure state with time as a parameter. `api`, `dataplane`, `dns` and `control`
//! do the I/O, and hold the model's lock for microseconds. `gate` checks each call before its action runs. `trace`
//! records all events.
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
