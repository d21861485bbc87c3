//! What the outside can ask: liveness, readiness, metrics, and what Headgate thinks right now.

pub mod metrics;
pub mod server;
