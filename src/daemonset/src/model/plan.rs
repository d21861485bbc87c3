//! The plan for a set, with reasons.

use std::sync::Arc;

use headgate_core::{
    model::{object::Uid, time::WallTime},
    words,
};

use super::{Revision, status::Status};

words! {
    /// Why a pod is deleted or evicted.
    Why {
        /// It has terminated on its own.
        Finished = "PodFinished",
        /// There are more pods than wanted.
        Surplus = "SurplusPod",
        /// It has an older revision.
        Outdated = "OutdatedPod",
        /// It is not scheduled, and its node no longer accepts pods.
        NodeTakesNone = "NodeTakesNoPods",
        /// The set no longer selects its node.
        NodeNotSelected = "NodeNotSelected",
        /// Its node was deleted.
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
    /// Evict a pod, so that budgets, the hold and the zone guard apply.
    Evict(Uid, Why),
}

/// The plan for a set.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The steps on each node.
    pub steps: Vec<(Arc<str>, Step)>,
    /// The status to write.
    pub status: Status,
    /// The `minAvailable` of its budget. `None`: it has none.
    pub budget: Option<usize>,
    /// When the next node will be late.
    pub due: Option<WallTime>,
}
