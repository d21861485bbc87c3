//! The differences between the desired targets and the targets that AWS last reported, each with a reason. This module
//! is the server's part of `headgate diff`.
//!
//! ```text
//!  headgate diff ─► /debug/diff ─► explain::ask ─► Engine::compare_groups, at the engine's owner
//!                        ▲                              │
//!                        └─────────── report ◄──────────┘
//! ```

pub mod report;

/// The path of the diff endpoint.
pub const PATH: &str = "/debug/diff";
