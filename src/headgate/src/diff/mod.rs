//! The differences between the targets that Headgate wants and those that AWS showed last, each with its reason. This is
//! the server's part of `headgate diff`.
//!
//! ```text
//!  headgate diff ─► /debug/diff ─► explain::ask ─► Engine::compare_groups, at the engine's owner
//!                        ▲                              │
//!                        └─────────── report ◄──────────┘
//! ```

pub mod report;

/// The path of its endpoint.
pub const PATH: &str = "/debug/diff";
