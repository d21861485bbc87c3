//! The problems, their objects, and the state of every target group by zone: the server's part of `headgate status`.
//!
//! ```text
//!  headgate status ─► /debug/status ─► draw: from the views, which the engine's owner replaces when they change
//!                          ▲             │ problems: all problems, most severe first
//!                          └── report ◄──┘
//! ```
//!
//! A request does not wait for the engine: the views are in memory. Only the leader answers.

pub mod draw;
pub mod problems;
pub mod report;

/// The path of its endpoint.
pub const PATH: &str = "/debug/status";
