//! `headgate explain POD|SERVICE|TARGETBINDING|NODE|IDS`: why a pod is or is not a target, with the reasons of its Events,
//! log lines and metrics.
//!
//! It also shows the history of a deleted pod. For a Service or a node, it explains all pods.
//!
//! ```text
//!  headgate explain ─► reach: the leader in the Lease, forwarded by the API server ─► /debug/explain
//!        │                                                                                │
//!        └─ text, json ◄─ pod: its own spec and status ◄──────── report ◄─────────────────┘
//! ```
//!
//! The state of an IngressDaemonSet (`set`) comes from its status, and the data about its pods from the leader.
//!
//! The caller does not need Headgate's permissions. The caller must be allowed to read the object and Headgate's Lease, and
//! to get and create `pods/portforward` in Headgate's namespace.

pub mod command;
mod node;
mod origin;
pub mod pod;
pub mod reach;
mod set;
pub mod text;
