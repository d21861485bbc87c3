//! The status of a set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headgate_core::words;

use super::Remembered;

words! {
    /// The reason why an updating node waits.
    Waits {
        /// The stored status does not contain the start of the update yet.
        Begins = "TurnBegins",
        /// Another system must detach the node first.
        Detachment = "NodeNotDetached",
        /// New pods are not ready.
        NotReady = "PodsNotReadyYet",
        /// New pods are ready, but not yet for `minReadySeconds`.
        NotAvailable = "PodsNotAvailableYet",
        /// Old pods are terminating.
        OldPods = "OldPodsLeave",
    }
}

words! {
    /// The state of a rollout.
    Roll {
        /// All nodes are updated.
        Done = "AsExpected",
        /// At least one node is being updated.
        GoesOn = "NodesInTurn",
        /// A node has missed the deadline of its update.
        Stopped = "ProgressDeadlineExceeded",
        /// The set is paused.
        Paused = "RollPaused",
        /// Old pods remain until a user deletes them.
        OnDelete = "WaitsForDeletion",
        /// Updated pods are not available.
        Degraded = "WaitsForDegradedNodes",
        /// The remaining nodes accept no pods or are not ready.
        NodesNotReady = "WaitsForNodes",
        /// The template exceeds a limit, and the controller does nothing for the set.
        TooLarge = "LimitExceeded",
    }
}

/// The status of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The generation of the set that the status describes.
    pub generation: i64,
    /// The part of the status that the controller reads back.
    pub remembered: Remembered,
    /// The state of the rollout.
    pub roll: Roll,
    /// The updating nodes that missed the deadline.
    pub late: BTreeSet<Arc<str>>,
    /// The reason why each updating node waits.
    pub waits: BTreeMap<Arc<str>, Waits>,
    /// The number of nodes that should have pods.
    pub nodes: usize,
    /// The number of updated nodes.
    pub updated_nodes: usize,
    /// The nodes with fewer available pods than wanted.
    pub degraded: BTreeSet<Arc<str>>,
    /// The wanted number of pods on all nodes.
    pub wanted: usize,
    /// The number of live pods on all nodes.
    pub pods: usize,
    /// The number of updated pods.
    pub updated: usize,
    /// The number of ready pods.
    pub ready: usize,
    /// The number of available pods.
    pub available: usize,
    /// The error with which the API server rejects pods. `None`: the API server accepts pods.
    pub refused: Option<Box<str>>,
    /// The messages about parts of the set, or of PodDisruptionBudgets in the namespace, that exceed a limit.
    pub beyond: Vec<Box<str>>,
}
