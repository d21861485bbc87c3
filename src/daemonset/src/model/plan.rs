//! What is to be done about a set, and why.

use std::sync::Arc;

use headgate_core::{
    model::{object::Uid, time::WallTime},
    words,
};

use super::{Revision, status::Status};

words! {
    /// Why a pod is deleted or evicted.
    Why {
        /// It has ended by itself.
        Finished = "PodFinished",
        /// There are more than there should be.
        Surplus = "SurplusPod",
        /// It is of an older revision.
        Outdated = "OutdatedPod",
        /// It has no node yet, and the one that it was made for takes none any more.
        NodeTakesNone = "NodeTakesNoPods",
        /// Its node is not for this set any more.
        NodeNotSelected = "NodeNotSelected",
        /// Its node is gone.
        NodeDeleted = "NodeDeleted",
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A pod of this revision is made.
    Make(Revision),
    /// A pod is deleted.
    Delete(Uid, Why),
    /// A pod is evicted: budgets, hold and zone guard have their say.
    Evict(Uid, Why),
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// On each node.
    pub steps: Vec<(Arc<str>, Step)>,
    /// How far everything is.
    pub status: Status,
    /// The `minAvailable` of its budget; `None`: it has none.
    pub budget: Option<usize>,
    /// When a node is late.
    pub due: Option<WallTime>,
}
