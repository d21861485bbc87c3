//! `make demo`: a rollout under traffic, once without and once with Headgate. It reports the result of every request.
//!
//! ```text
//!  stage      the namespace, load balancer, Deployment and Service of one run, and the kubectl commands of the demo
//!  report     the table, the verdict and target/demo/report.json
//!  screen     the live view
//!  play       the sequence of the steps
//! ```
//!
//! `recorder` and `judge` of the harness find out what happened and why a request was lost. `make zero-loss` uses them too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // a failure panics

pub mod play;
pub mod report;
pub mod screen;
pub mod stage;
