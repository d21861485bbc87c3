//! What the end-to-end tests and the tools share: one local world for all tests, a namespace and target groups for each,
//! the `headgate` program as a process of its own, what happened to requests and pods (`recorder`) and what follows from
//! it (`judge`), and waiting for conditions instead of sleeping.
//!
//! Everything here fails by panicking: a panic is a failed test.

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

/// The folder of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
