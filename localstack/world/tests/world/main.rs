//! Tests with complete worlds, which are started, killed and stopped.
//!
//! These worlds are control planes without load balancers and kubelets, so that the tests need no programs of other
//! crates. Each has its own cache, which only shares the build of Kubernetes with the real cache. Only one world runs
//! at a time, because they are heavy.

#![allow(clippy::unwrap_used, reason = "clippy knows test functions as tests, but not what they share")]

mod builds;
mod components;
mod endings;
mod failures;
mod real;
mod support;
