//! What Headgate needs to know about a node.

use std::sync::Arc;

use super::{object::Uid, time::WallTime};

/// The annotation on a Node that will be removed: since when no load balancer sends to a pod there.
pub const DETACHED_AT: &str = "headgate.dev/detached-at";

/// One node as last seen.
#[allow(clippy::struct_excessive_bools)] // each is an independent fact
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// The UID, because a later node may have the same name.
    pub uid: Uid,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// Whether it accepts new pods: it is not cordoned, and has no taint that excludes pods in general.
    pub takes_pods: bool,
    /// The keys of its taints. Values and effects do not matter.
    pub taints: Vec<Box<str>>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether its condition `Ready` is missing or not true.
    pub not_ready: bool,
    /// Whether its kubelet is shutting down.
    pub shuts_down: bool,
    /// Whether it has the annotation [`DETACHED_AT`].
    pub detached: bool,
}

/// Whether the pods of a node can still run there.
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
    /// The value of [`DETACHED_AT`]. `None`: removes the annotation.
    pub at: Option<WallTime>,
}
