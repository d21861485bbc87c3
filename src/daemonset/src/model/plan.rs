//! The plan for a set, with the reason for each deletion and eviction.

use std::sync::Arc;

use headgate_core::{
    model::{object::Uid, time::WallTime},
    words,
};

use super::{Revision, status::Status};

words! {
    /// Why a pod is deleted or evicted.
    Why {
        /// The pod has terminated on its own.
        Finished = "PodFinished",
        /// The node has more pods than wanted.
        Surplus = "SurplusPod",
        /// The pod has an older revision.
        Outdated = "OutdatedPod",
        /// The pod is not scheduled, and its node no longer accepts pods.
        NodeTakesNone = "NodeTakesNoPods",
        /// The set no longer selects the node of the pod.
        NodeNotSelected = "NodeNotSelected",
        /// The node of the pod was deleted.
        NodeDeleted = "NodeDeleted",
    }
}

/// A step on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create a pod of this revision.
    Make(Revision),
    /// Delete a pod.
    Delete(Uid, Why),
    /// Evict a pod. PodDisruptionBudgets, the hold and the zone guard apply to the eviction.
    Evict(Uid, Why),
}

/// The plan for a set.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps on each node.
    pub steps: Vec<(Arc<str>, Step)>,
    /// The status to write.
    pub status: Status,
    /// The desired `minAvailable` of the PodDisruptionBudget. `None`: the set should have no PodDisruptionBudget.
    pub budget: Option<usize>,
    /// The time at which the next node will miss the deadline.
    pub due: Option<WallTime>,
}
