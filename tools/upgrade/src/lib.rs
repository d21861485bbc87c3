//! Upgrade and downgrade: replaces two replicas of Headgate one after the other by those of another version, while pods are
//! created and targets serve.
//!
//! ```text
//!  stage      the test cluster, two replicas, a Service with pods that are not replaced; the steps
//!  manifests  the webhook configurations of a version, applied as kubectl does
//!  watching   the pods created during it, and the targets that must remain registered
//!  report     the counts of each step
//!  versions   other versions of Headgate, built from their commits
//! ```
//!
//! A pod counts as missed if no replica gave it the readiness gate and the hold. A target counts as lost if its pod still runs
//! but the target is not registered, or was deregistered at any time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // a failure panics

pub mod manifests;
pub mod report;
pub mod stage;
pub mod versions;
pub mod watching;
