//! `headgate doctor`: what is missing or dangerous in the cluster, in AWS and in the Services, and what to do about it.
//!
//! ```text
//!  gather   Kubernetes, with the rights of whoever asks; the leader; AWS, with the credentials of whoever asks
//!     │
//!     ▼  Facts: plain data
//!  examine  installation, webhook, pods, what makes them, groups: pure, each finding with a stable word
//! ```
//!
//! It changes nothing: the webhook is tried with a pod that the API server is told not to store. What cannot be looked
//! at is a finding, too.

pub mod command;
mod examine;
pub mod facts;
mod finding;
pub mod gather;
mod inspect;
