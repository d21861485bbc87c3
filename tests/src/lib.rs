//! What the end-to-end tests share: one local world for all of them, a namespace and target groups for each, the
//! `headgate` program as a process of its own, and waiting for conditions instead of sleeping.
//!
//! Everything here fails by panicking: a panic is a failed test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod accounts;
pub mod admission;
pub mod aws;
pub mod bench;
pub mod cluster;
pub mod crowd;
pub mod demo;
pub mod dns;
pub mod fixtures;
pub mod gateway;
pub mod headgate;
pub mod helm;
pub mod http;
pub mod intruder;
pub mod kinds;
pub mod kubectl;
pub mod lives;
pub mod proxy;
pub mod scenario;
pub mod shared_world;
pub mod sidecar_webhook;
pub mod upgrade;
pub mod versions;
pub mod wait;
pub mod webhook;
pub mod zero_loss;
