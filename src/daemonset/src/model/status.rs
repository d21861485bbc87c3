//! How far a set is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headgate_core::words;

use super::Remembered;

words! {
    /// What a node in its turn waits for.
    Waits {
        /// Its turn is only written down yet.
        Begins = "TurnBegins",
        /// Somebody else is to detach the node first.
        Detachment = "NodeNotDetached",
        /// New pods are not ready.
        NotReady = "PodsNotReadyYet",
        /// New pods are ready, and not for long enough.
        NotAvailable = "PodsNotAvailableYet",
        /// Old pods are on their way out.
        OldPods = "OldPodsLeave",
    }
}

words! {
    /// How the roll is.
    Roll {
        /// All nodes are updated.
        Done = "AsExpected",
        /// Nodes have their turns.
        GoesOn = "NodesInTurn",
        /// A node takes longer than the deadline.
        Stopped = "ProgressDeadlineExceeded",
        /// The set is paused.
        Paused = "RollPaused",
        /// Old pods stay until somebody deletes them.
        OnDelete = "WaitsForDeletion",
        /// What was updated is not available.
        Degraded = "WaitsForDegradedNodes",
        /// The nodes that are left take no pods, or are not ready.
        NodesNotReady = "WaitsForNodes",
        /// The template exceeds a limit: nothing is done.
        TooLarge = "LimitExceeded",
    }
}

/// How far a set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Of which generation of the set this is said.
    pub generation: i64,
    /// What is to be remembered.
    pub remembered: Remembered,
    /// How the roll is.
    pub roll: Roll,
    /// The nodes in their turn that are late.
    pub late: BTreeSet<Arc<str>>,
    /// What nodes in their turn wait for.
    pub waits: BTreeMap<Arc<str>, Waits>,
    /// So many nodes are to have pods.
    pub nodes: usize,
    /// So many of them are updated.
    pub updated_nodes: usize,
    /// Those of them that have fewer available pods than they should.
    pub degraded: BTreeSet<Arc<str>>,
    /// So many pods are wanted on them.
    pub wanted: usize,
    /// So many live pods there are, wherever they are.
    pub pods: usize,
    /// So many are of the update.
    pub updated: usize,
    /// So many are ready.
    pub ready: usize,
    /// So many are available.
    pub available: usize,
    /// Why the API server makes no pod, in its words.
    pub refused: Option<Box<str>>,
    /// What exceeds a limit, of the set or of budgets in its namespace, in sentences.
    pub beyond: Vec<Box<str>>,
}
