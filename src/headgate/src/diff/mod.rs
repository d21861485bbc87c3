//! `headgate diff`: what should be in the target groups, beside what AWS showed last, target by target, with the reason of each
//! difference.
//!
//! ```text
//!  headgate diff ─► reach: the leader ─► /debug/diff ─► ask ─► Engine::compare_groups, at the engine's owner
//!        └─ text, json ◄── report ◄──────────┘
//! ```

pub mod report;

/// Where it is asked.
pub const PATH: &str = "/debug/diff";
