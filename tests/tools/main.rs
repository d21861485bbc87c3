//! Short runs of the long tools, on the local world.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a panic is a failed test

mod demo;
mod zero_loss;
