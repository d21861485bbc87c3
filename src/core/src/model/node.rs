//! What Headgate needs to know of a node.

use std::sync::Arc;

/// One node as last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// Whether it takes new pods: it is not cordoned, and no taint keeps pods in general away.
    pub takes_pods: bool,
    /// The keys of its taints, whatever their values and effects.
    pub taints: Vec<Box<str>>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Its kubelet says that it shuts down.
    pub shuts_down: bool,
}
