//! Collects the problems and the state of every target group by zone. This module is the server's part of `headgate
//! status`.
//!
//! ```text
//!  headgate status ─► /debug/status ─► draw: from the views, which the engine's owner replaces when they change
//!                          ▲             │ problems: all problems, most severe first
//!                          └── report ◄──┘
//! ```
//!
//! A request does not wait for the engine, because the views are in memory. Only the leader answers requests.

pub mod draw;
pub mod problems;
pub mod report;

/// The path of the status endpoint.
pub const PATH: &str = "/debug/status";
