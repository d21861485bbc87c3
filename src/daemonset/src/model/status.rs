//! The status of a set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headgate_core::words;

use super::Remembered;

words! {
    /// What an updating node waits for.
    Waits {
        /// The beginning of the update is not in the stored status yet.
        Begins = "TurnBegins",
        /// Another system must detach the node first.
        Detachment = "NodeNotDetached",
        /// New pods are not ready.
        NotReady = "PodsNotReadyYet",
        /// New pods are ready, but have not been for the required time.
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
        /// Nodes are being updated.
        GoesOn = "NodesInTurn",
        /// A node update takes longer than the deadline.
        Stopped = "ProgressDeadlineExceeded",
        /// The set is paused.
        Paused = "RollPaused",
        /// Old pods remain until a user deletes them.
        OnDelete = "WaitsForDeletion",
        /// Updated pods are not available.
        Degraded = "WaitsForDegradedNodes",
        /// The remaining nodes accept no pods, or are not ready.
        NodesNotReady = "WaitsForNodes",
        /// The template exceeds a limit, so nothing is done.
        TooLarge = "LimitExceeded",
    }
}

/// The status of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The generation of the set that it describes.
    pub generation: i64,
    /// The part that the controller remembers.
    pub remembered: Remembered,
    /// The state of the rollout.
    pub roll: Roll,
    /// The updating nodes that are late.
    pub late: BTreeSet<Arc<str>>,
    /// What each updating node waits for.
    pub waits: BTreeMap<Arc<str>, Waits>,
    /// The number of nodes that should have pods.
    pub nodes: usize,
    /// The number of updated nodes.
    pub updated_nodes: usize,
    /// The nodes with fewer available pods than wanted.
    pub degraded: BTreeSet<Arc<str>>,
    /// The wanted number of pods on all nodes.
    pub wanted: usize,
    /// The number of live pods on any node.
    pub pods: usize,
    /// The number of updated pods.
    pub updated: usize,
    /// The number of ready pods.
    pub ready: usize,
    /// The number of available pods.
    pub available: usize,
    /// Why the API server rejects pods, in its words.
    pub refused: Option<Box<str>>,
    /// The parts of the set or of budgets in its namespace that exceed a limit, as sentences.
    pub beyond: Vec<Box<str>>,
}
