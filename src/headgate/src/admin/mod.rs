//! What the outside can ask: liveness, readiness, metrics, and on loopback what Headgate thinks right now, also as a page.

pub mod debug;
mod live;
mod nodes;
mod page;
pub mod server;
pub mod standbys;
