//! An open-loop load generator that records every request.
//!
//! Request *k* starts at `start + k / rate`, independently of all other requests, and its duration counts from this
//! time. A server that stalls can therefore neither slow down the generator nor appear faster than it is. Every request
//! has exactly one [`Outcome`], so `offered = ok + retried + lost` in every report.
//!
//! The crate implements the clients with their schedule, DNS lookups, connections and results. A client repeats a
//! request only in the one case in which HTTP allows a retry on a reused connection. The generator omits no request: a
//! request that cannot be recorded is not started. The generator reports its own delays.
//!
//! ```no_run
//! # async fn rollout() -> Result<(), Box<dyn std::error::Error>> {
//! use localstack_load::{Client, Plan, Run, Target};
//!
//! let name = "edge-0123456789abcdef.elb.us-east-1.amazonaws.com".to_owned();
//! let target = Target::Name { name, dns: "127.0.0.1:4553".parse()? };
//! let clients = vec![Client::default(), Client::pinned(), Client::keep_alive()];
//! let run = Run::start(Plan { clients, ..Plan::new(target, 18080, 200.0) })?;
//! run.mark("rollout");
//! // … in the meantime, something happens to the pods …
//! let report = run.stop().await?;
//! assert_eq!(report.counts.lost, 0, "{report}");
//! # Ok(())
//! # }
//! ```

mod answer;
mod client;
mod connection;
mod dns;
mod failure;
mod ledger;
mod phases;
mod plan;
mod record;
mod report;
mod resolver;
mod run;
mod schedule;

pub use failure::{Failure, Stage};
pub use ledger::Counts;
pub use plan::{Answer, Client, ClientKind, MAX_RECORDS, Mode, Plan, PlanError, Target};
pub use record::{Outcome, Record};
pub use report::{ClientReport, Latency, PhaseReport, Report, Summary};
pub use run::{Run, RunError};
