//! An open-loop load generator that accounts for every request.
//!
//! Request *k* starts at `start + k / rate`, whatever became of the others, and is measured from that instant: a
//! server that stalls cannot make the generator ask less, nor look faster than it was. Every request ends as
//! exactly one of [`Outcome`], so that `offered = ok + retried + lost` holds for every report.
//!
//! The crate owns the clients: their schedule, their view of DNS, their connections, their verdicts. It never
//! repeats a request, but for the one retry that HTTP allows on a reused connection, and it never leaves a
//! request out: what it cannot record, it refuses to start. If the generator itself is late, it says so.
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
//! // … meanwhile, something happens to the pods …
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
