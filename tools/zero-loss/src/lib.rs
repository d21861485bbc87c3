//! `make zero-loss` shows for which kinds of pod termination no request is lost. It runs each scenario twice under traffic:
//! with Headgate's readiness gate and hold, and without them.
//!
//! ```text
//!  scenario   what happens to the pods, and what Headgate promises for it
//!  asks       target group settings other than AWS's defaults
//!  acts       the steps of each scenario
//!  profile    the delay of the load balancer, and the hold of the pods
//!  cell       scenario × profile × nodes: the table of all cells, and which of them run
//!  stage      what one run of a cell needs: namespace, load balancer, Deployment, Service, Headgate, webhook.
//!             replicas (of Headgate, each a `replica`), workload (the pods), swap (replaces one set of pods), nodes
//!  play       runs a cell: with Headgate's gate and hold, then without
//!  margin     how much of the hold's margin was needed
//!  healthy    the lowest number of healthy targets at any time
//!  exposure   how many pods terminated, and how many requests came while a load balancer could still send to them
//!  report     the counts, in target/zero-loss/report.json
//!  data       docs/reference/zero-loss.csv, and its totals in docs/reference/zero-loss.md
//!  chaos      another mode: faults during rollouts, one after the other
//! ```
//!
//! A new scenario is a variant of [`scenario::Scenario`] and its steps in `acts`. A new load balancer is a variant of
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
