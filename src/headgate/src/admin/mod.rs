//! What the outside can ask: liveness, readiness, metrics, and what Headgate thinks right now.

pub mod debug;
pub mod server;
