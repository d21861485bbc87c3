//! The properties of a node that Headgate uses.

use std::sync::Arc;

use super::{object::Uid, time::WallTime};

/// The annotation on a Node that will be removed: the time since which no load balancer sends requests to its pods.
pub const DETACHED_AT: &str = "headgate.dev/detached-at";

/// The last known state of a node.
#[allow(clippy::struct_excessive_bools)] // each field is an independent fact
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: Arc<str>,
    /// The UID, which distinguishes the node from a later node with the same name.
    pub uid: Uid,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// Whether the node accepts new pods: it is not cordoned, and has no taint that excludes pods in general.
    pub takes_pods: bool,
    /// The keys of the node's taints, without values and effects.
    pub taints: Vec<Box<str>>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether the node's condition `Ready` is missing or not true.
    pub not_ready: bool,
    /// Whether the node's kubelet is shutting down.
    pub shuts_down: bool,
    /// Whether the node has the annotation [`DETACHED_AT`].
    pub detached: bool,
}

/// Whether pods can still run on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The node is ready.
    Well,
    /// The node has not been ready for a while.
    Lost,
    /// The node was deleted.
    Gone,
}

/// An annotation to write on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedWrite {
    /// The name of the node.
    pub node: Arc<str>,
    /// The UID of the node.
    pub uid: Uid,
    /// The value of [`DETACHED_AT`], or `None` to remove the annotation.
    pub at: Option<WallTime>,
}
