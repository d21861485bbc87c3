//! The differences between what should be in the target groups and what AWS showed last, target by target, each with its
//! reason: the server's half of `headgate diff`.
//!
//! ```text
//!  headgate diff ─► /debug/diff ─► explain::ask ─► Engine::compare_groups, at the engine's owner
//!                        ▲                              │
//!                        └─────────── report ◄──────────┘
//! ```

pub mod report;

/// Where it is asked.
pub const PATH: &str = "/debug/diff";
