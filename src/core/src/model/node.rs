//! What Headgate needs to know of a node.

use std::sync::Arc;

use super::{object::Uid, time::WallTime};

/// The annotation of a Node that is about to be removed: since when no load balancer sends to a pod there.
pub const DETACHED_AT: &str = "headgate.dev/detached-at";

/// One node as last seen.
#[allow(clippy::struct_excessive_bools)] // each is one thing that is the case
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Which life of it: another node may get its name.
    pub uid: Uid,
    /// `metadata.creationTimestamp` in seconds since 1970.
    pub created: i64,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// Whether it takes new pods: it is not cordoned, and no taint keeps pods in general away.
    pub takes_pods: bool,
    /// The keys of its taints, with any value and effect.
    pub taints: Vec<Box<str>>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Its condition `Ready` is not true, or missing.
    pub not_ready: bool,
    /// Its kubelet is shutting down.
    pub shuts_down: bool,
    /// [`DETACHED_AT`] is written on it.
    pub detached: bool,
}

/// Whether the pods of a node can be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is ready.
    Well,
    /// It has not been ready for a while.
    Lost,
    /// There is no such node any more.
    Gone,
}

/// What to write on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedWrite {
    /// Its name.
    pub node: Arc<str>,
    /// Which life of it.
    pub uid: Uid,
    /// [`DETACHED_AT`]; `None`: not any more.
    pub at: Option<WallTime>,
}
