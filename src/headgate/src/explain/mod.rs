//! Why a pod is or is not a target: the server's part of `headgate explain`.
//!
//! ```text
//!  headgate explain ─► /debug/explain ─► ask: a bounded queue with a deadline ─► Engine::explain, at the engine's owner
//!                          ▲                                                          │
//!                          └────────────── report, node, origin ◄────────────────────┘
//! ```
//!
//! Only the leader answers, because only the leader knows what was sent to AWS. The client connects through a port that the
//! API server forwards (`src/cli/src/explain`).

pub mod ask;
pub mod node;
pub mod origin;
pub mod report;

/// The path of its endpoint.
pub const PATH: &str = "/debug/explain";
