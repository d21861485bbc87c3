//! Helpers that the end-to-end tests and the tools share: one local world for all tests, a namespace and target groups
//! for each test, and the `headgate` program as a process. `recorder` records what happened to requests and pods, and
//! `judge` explains it. Tests wait for conditions and never sleep for a fixed time.
//!
//! All helpers fail by a panic, which fails the test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod accounts;
pub mod admission;
pub mod aws;
pub mod bindings;
pub mod browser;
pub mod certificates;
pub mod cluster;
pub mod crowd;
pub mod daemonsets;
pub mod dns;
pub mod evictions;
pub mod figures;
pub mod forward_proxy;
pub mod gateway;
pub mod grants;
pub mod headgate;
pub mod helm;
pub mod hostile;
pub mod http;
pub mod ingresses;
pub mod injection;
pub mod intruder;
pub mod judge;
pub mod kinds;
pub mod kubectl;
pub mod lbc;
pub mod monitoring;
pub mod other_webhook;
pub mod pages;
pub mod pods;
pub mod prometheus;
pub mod proxy;
pub mod recorder;
pub mod release;
pub mod rights;
pub mod scenario;
pub mod shared_world;
pub mod sts;
pub mod tenants;
pub mod typed;
pub mod wait;
pub mod webhook;

use std::path::Path;

/// The root folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
