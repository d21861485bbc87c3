//! `headgate explain POD|SERVICE|TARGETBINDING|NODE|IDS`: explains why a pod is or is not a target. The explanation has
//! the same reasons as Headgate's Events, log lines and metrics.
//!
//! For a deleted pod, the command prints the pod's history. For a Service or a node, the command explains all pods.
//!
//! ```text
//!  headgate explain ─► reach: the leader in the Lease, forwarded by the API server ─► /debug/explain
//!        │                                                                                │
//!        └─ text, json ◄─ pod: its own spec and status ◄──────── report ◄─────────────────┘
//! ```
//!
//! An explanation of an IngressDaemonSet (`set`) combines the set's status with the leader's data about the pods.
//!
//! The caller does not need Headgate's permissions. The caller must be allowed to read the object and Headgate's Lease,
//! and to get and create `pods/portforward` in Headgate's namespace.

pub mod command;
mod node;
mod origin;
pub mod pod;
pub mod reach;
mod set;
pub mod text;
