//! `make zero-loss`: which departures lose no request, each played twice under traffic, with Headgate's gate and hold
//! and without.
//!
//! ```text
//!  scenario   what happens to the pods, what is promised of it
//!  asks       what a target group asks for, if not AWS's default
//!  acts       how each scenario is played
//!  profile    how late the load balancer is, and how long pods are held for it
//!  cell       scenario × profile × nodes: the table, and which of it is played
//!  stage      namespace, load balancer, Deployment, Service, Headgate, webhook of one side of a cell:
//!             replicas (of Headgate, each a `replica`), workload (the pods), swap (one set for another), nodes, and what happens to each
//!  play       the order of a cell: the promise, then the control
//!  margin     how much of the hold's margin was needed
//!  healthy    the fewest healthy targets at any moment
//!  exposure   how many pods left, and how many requests came when one of them could have been sent one
//!  report     what was counted; target/zero-loss/report.json
//!  data       docs/reference/zero-loss.csv, and its sums in docs/reference/zero-loss.md
//!  chaos      another mode: faults in turn during rolls
//! ```
//!
//! Another scenario is a variant of [`scenario::Scenario`] and its act; another load balancer one of
//! [`profile::Profile`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // a failure panics

pub mod acts;
pub mod asks;
pub mod cell;
pub mod chaos;
pub mod data;
pub mod exposure;
pub mod healthy;
pub mod margin;
pub mod play;
pub mod profile;
pub mod replica;
pub mod report;
pub mod scenario;
pub mod stage;
