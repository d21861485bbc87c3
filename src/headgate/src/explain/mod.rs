//! Explains why a pod is or is not a target. This module is the server's part of `headgate explain`.
//!
//! ```text
//!  headgate explain ─► /debug/explain ─► ask: a bounded queue with a deadline ─► Engine::explain, at the engine's owner
//!                          ▲                                                          │
//!                          └────────────── report, node, origin ◄────────────────────┘
//! ```
//!
//! Only the leader answers, because only the leader has a record of the calls to AWS. The client connects through a
//! forwarded port (`src/cli/src/explain`).

pub mod ask;
pub mod node;
pub mod origin;
pub mod report;

/// The path of the explain endpoint.
pub const PATH: &str = "/debug/explain";
