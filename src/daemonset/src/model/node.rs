//! The pods of a set on one node, and the rules for these pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::model::{object::Uid, time::WallTime};

use super::{Amount, Revision, Strategy};

/// Whether a node accepts or keeps the pods of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The node should have pods.
    Takes,
    /// The node gets no new pods, but running pods remain.
    Keeps,
    /// The node should have no pods of this set.
    Leaves,
    /// The node was deleted.
    Gone,
}

/// The state of a pod. The controller deletes surplus pods in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The pod is being created.
    Making,
    /// The pod is not ready.
    Starting,
    /// The pod is ready, but not yet for `minReadySeconds`.
    Ready,
    /// The pod is available.
    Available,
    /// The controller has requested a deletion or eviction, and the result is unknown.
    Ending,
    /// The pod is terminating.
    Leaving,
    /// The pod has terminated on its own.
    Finished,
}

impl State {
    /// Returns whether the pod counts as one of the wanted pods.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Making | Self::Starting | Self::Ready | Self::Available)
    }

    /// Returns whether the pod may still run and is not terminating.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Leaving | Self::Finished)
    }
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNow {
    /// The UID of the pod. `None`: the pod is being created.
    pub uid: Option<Uid>,
    /// The revision of the pod.
    pub revision: Revision,
    /// The state of the pod.
    pub state: State,
    /// The creation time of the pod.
    pub created: WallTime,
    /// Whether the pod is scheduled.
    pub scheduled: bool,
}

/// The rules for the pods of a node.
#[derive(Clone, Debug)]
pub struct NodeTerms<'a> {
    /// The wanted number of pods.
    pub wanted: usize,
    /// The strategy that replaces pods of an old revision.
    pub strategy: Strategy,
    /// The revision that nodes are updated to.
    pub update: &'a Revision,
    /// The revision of nodes that are not updated yet.
    pub current: &'a Revision,
    /// Whether the node is being updated.
    pub in_turn: bool,
}

/// A node, and its pods of a set.
#[derive(Clone, Debug)]
pub struct NodeNow<'a> {
    /// The name of the node.
    pub name: &'a Arc<str>,
    /// The zone of the node.
    pub zone: &'a str,
    /// Whether the node accepts or keeps pods of the set.
    pub standing: Standing,
    /// Whether the node is ready.
    pub ready: bool,
    /// The pods of the set on the node.
    pub pods: Vec<PodNow>,
}

/// The progress of a node's update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All wanted pods are updated and available, and the node has no older pods.
    Updated,
    /// The node has no older pods, but some wanted pods are not available.
    Degraded,
    /// Some pods are updated, and some pods are older.
    Mixed,
    /// All pods are older.
    Outdated,
    /// The node has no pods.
    Empty,
}

impl NodeNow<'_> {
    /// Returns the progress of the node's update.
    pub fn progress(&self, update: &Revision, wanted: usize) -> Progress {
        let live = || self.pods.iter().filter(|pod| pod.state.stays());
        let updated = live().filter(|pod| pod.revision == *update);
        match (updated.clone().count(), live().count()) {
            (0, 0) => Progress::Empty,
            (0, _) => Progress::Outdated,
            (updated, live) if updated < live => Progress::Mixed,
            _ if updated.filter(|pod| pod.state == State::Available).count() < wanted => Progress::Degraded,
            _ => Progress::Updated,
        }
    }

    /// Returns whether the node can be updated now.
    pub fn can_turn(&self) -> bool {
        self.standing == Standing::Takes && self.ready
    }

    /// Returns whether the node has fewer available pods than wanted.
    pub fn is_short(&self, wanted: usize) -> bool {
        self.pods.iter().filter(|pod| pod.state == State::Available).count() < wanted
    }

    /// Returns whether the node has no pod that serves, not even a terminating pod.
    pub fn is_down(&self) -> bool {
        self.pods.iter().all(|pod| matches!(pod.state, State::Making | State::Starting | State::Finished))
    }
}

/// The rules of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct TurnTerms<'a> {
    /// The revision that nodes are updated to.
    pub update: &'a Revision,
    /// The wanted number of pods per node.
    pub wanted: usize,
    /// The maximum number of nodes that are updated simultaneously.
    pub at_once: Amount,
    /// The deadline of a node's update. A missed deadline stops the rollout.
    pub deadline: Duration,
    /// Whether the rollout is paused.
    pub is_paused: bool,
    /// Whether the rollout to this revision was already completed.
    pub is_settled: bool,
}

/// The node updates in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The nodes that are being updated, and the start of each update.
    pub have: BTreeMap<Arc<str>, WallTime>,
    /// The nodes that missed the deadline.
    pub late: BTreeSet<Arc<str>>,
    /// The time at which the next node will miss the deadline.
    pub due: Option<WallTime>,
}
