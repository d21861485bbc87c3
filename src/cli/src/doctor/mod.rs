//! `headgate doctor`: finds misconfigurations and risks in the cluster and in AWS, and suggests fixes.
//!
//! ```text
//!  gather   Kubernetes and AWS, with the caller's permissions and credentials; the leader
//!     │
//!     ▼  Facts: plain data
//!  examine  installation, webhook, pods, workloads, groups: pure, each finding with a stable reason
//! ```
//!
//! The command changes nothing: the test of the webhook is a dry run. If a fact cannot be read, a finding reports the
//! reason.

pub mod command;
mod examine;
pub mod facts;
mod finding;
pub mod gather;
mod inspect;
