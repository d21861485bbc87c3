//! `make demo`: a rollout under traffic, twice, with every request accounted for.
//!
//! ```text
//!  stage      the namespace, load balancer, Deployment, Service of one run; what kubectl does to them
//!  report     the table, the verdict and target/demo/report.json
//!  screen     the live view
//!  play       the order of it all
//! ```
//!
//! What happened, and why a request was lost, say `recorder` and `judge` of the harness, for `make zero-loss` as well.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // a failure panics

pub mod play;
pub mod report;
pub mod screen;
pub mod stage;
