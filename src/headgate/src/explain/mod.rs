//! `headgate explain POD|SERVICE|TARGETBINDING|NODE|IDS`: why a pod is a target, or why not, with the words of its Events, log lines
//! and metrics; what became of one that is gone; and the same of all pods of a Service or a node.
//!
//! ```text
//!  headgate explain ─► reach: the leader, by its Lease, forwarded by the API server ─► /debug/explain
//!        │                                                                            │ ask: a bounded queue,
//!        │                                                                            ▼      with a deadline
//!        └─ text, json ◄─ pod: its own spec and status ◄── report ◄── Engine::explain, at the engine's owner
//! ```
//!
//! How an IngressDaemonSet is (`set`) is read from its status; the leader is asked for its pods.
//!
//! Only the leader answers: it alone knows what AWS was told. Whoever asks needs no right of Headgate's, but those to read
//! the object and Headgate's Lease, and to get and create `pods/portforward` in its namespace.

pub mod ask;
pub mod node;
pub mod origin;
pub mod report;

/// Where it is asked.
pub const PATH: &str = "/debug/explain";
