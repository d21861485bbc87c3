//! `headgate doctor`: finds misconfigurations and risks in the cluster, in AWS and in Services, and what to do about them.
//!
//! ```text
//!  gather   Kubernetes and AWS, with the caller's permissions and credentials; the leader
//!     │
//!     ▼  Facts: plain data
//!  examine  installation, webhook, pods, workloads, groups: pure, each finding with a stable reason
//! ```
//!
//! It changes nothing: it tests the webhook with a dry run. A fact that cannot be read is a finding too.

pub mod command;
mod examine;
pub mod facts;
mod finding;
pub mod gather;
mod inspect;
