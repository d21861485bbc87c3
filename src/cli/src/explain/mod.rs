//! `headgate explain POD|SERVICE|TARGETBINDING|NODE|IDS`: why a pod is a target, or why not, with the words of its Events, log
//! lines and metrics; what became of one that is gone; and the same of all pods of a Service or a node.
//!
//! ```text
//!  headgate explain ─► reach: the leader, by its Lease, forwarded by the API server ─► /debug/explain
//!        │                                                                                │
//!        └─ text, json ◄─ pod: its own spec and status ◄──────── report ◄─────────────────┘
//! ```
//!
//! How an IngressDaemonSet is (`set`) is read from its status; the leader is asked for its pods.
//!
//! The caller needs no right of Headgate's: only those to read the object and Headgate's Lease, and to get and create
//! `pods/portforward` in its namespace.

pub mod command;
mod node;
mod origin;
pub mod pod;
pub mod reach;
mod set;
pub mod text;
