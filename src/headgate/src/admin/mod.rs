//! The endpoints for liveness, readiness and metrics. A loopback address also serves the debug endpoints and the page.

pub mod debug;
mod live;
mod nodes;
mod page;
pub mod server;
pub mod standbys;
