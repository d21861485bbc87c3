//! Upgrading and going back: two replicas of the program are replaced by those of another version one after the other,
//! while pods are created all the time, and while targets serve.
//!
//! ```text
//!  stage      the world, two replicas, a Service with pods that stay; the steps
//!  manifests  the webhook configurations of a version, applied as kubectl does
//!  watching   pods that are created meanwhile, and targets that may not go
//!  report     what was counted in each step
//!  versions   other versions of Headgate, built from their commits
//! ```
//!
//! A pod is missed if no replica gave it the readiness gate and the hold. A target is lost if one of the pods that stay is
//! not registered, or was ever removed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // a failure panics

pub mod manifests;
pub mod report;
pub mod stage;
pub mod versions;
pub mod watching;
