//! The load generator against servers that misbehave on purpose: it must see exactly what was done to it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod command;
mod dns;
mod keep_alive;
mod losses;
mod name_server;
mod pace;
mod phases;
mod plans;
mod server;
mod wait;
