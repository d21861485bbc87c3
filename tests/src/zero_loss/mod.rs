//! `make zero-loss`: which departures lose no request, each played twice under traffic, with Headgate's gate and hold
//! and without.
//!
//! ```text
//!  scenario   what happens to the pods, what is promised of it
//!  profile    how late the load balancer is, and how long pods are held for it
//!  cell       scenario × profile × nodes: the table, and which of it is played
//!  stage      namespace, load balancer, Deployment, Service, Headgate, webhook of one side of a cell
//!  play       the order of a cell: the promise, then the control
//!  margin     how much of the hold's margin was needed
//!  report     what was counted; target/zero-loss/report.json
//!  page       docs/zero-loss.md
//! ```
//!
//! Another scenario is a variant of [`scenario::Scenario`]; another load balancer one of [`profile::Profile`].

pub mod cell;
pub mod margin;
pub mod page;
pub mod play;
pub mod profile;
pub mod report;
pub mod scenario;
pub mod stage;
