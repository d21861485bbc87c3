//! Whole worlds, started, killed and taken down.
//!
//! The worlds here are control planes without load balancers and kubelets, so that this crate's
//! tests need no other crate's programs. Each has a cache of its own, which shares only the build
//! of Kubernetes with the real one. One world at a time: they are heavy.

#![allow(clippy::unwrap_used, reason = "clippy knows test functions as tests, but not what they share")]

mod builds;
mod components;
mod endings;
mod failures;
mod real;
mod support;
