//! `headgate status`: what is wrong, where, and how every target group stands, by zone.
//!
//! ```text
//!  headgate status ─► reach: the leader ─► /debug/status
//!        │                                      │ draw: from the views, which the engine's owner replaces as they change
//!        └─ text, json ◄── report ◄─────────────┘ problems: what is wrong, the worst first
//! ```
//!
//! Nobody waits for the engine: the views are at hand, so asking costs it nothing. Only the leader answers.

pub mod draw;
pub mod problems;
pub mod report;

/// Where it is asked.
pub const PATH: &str = "/debug/status";
