//! Tests of the load generator with servers that fail on purpose: it must detect each failure.

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
