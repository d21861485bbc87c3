//! The pods of a set on one node, and the rules for them.

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
    /// It should have pods.
    Takes,
    /// It gets no new pods. Running ones remain.
    Keeps,
    /// It should have no pods of this set.
    Leaves,
    /// The node was deleted.
    Gone,
}

/// The state of a pod. Surplus pods are deleted in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is being created.
    Making,
    /// It is not ready.
    Starting,
    /// It is ready, but has not been for the required time.
    Ready,
    /// It is available.
    Available,
    /// Its end was requested, and the result is unknown.
    Ending,
    /// It is terminating.
    Leaving,
    /// It has terminated on its own.
    Finished,
}

impl State {
    /// Whether it counts as one of the wanted pods.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Making | Self::Starting | Self::Ready | Self::Available)
    }

    /// Whether it may still be running.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Leaving | Self::Finished)
    }
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNow {
    /// Its UID. `None`: it is being created.
    pub uid: Option<Uid>,
    /// Its revision.
    pub revision: Revision,
    /// Its state.
    pub state: State,
    /// When it was created.
    pub created: WallTime,
    /// Whether it is scheduled.
    pub scheduled: bool,
}

/// The rules for the pods of a node.
#[derive(Clone, Debug)]
pub struct NodeTerms<'a> {
    /// The wanted number of pods.
    pub wanted: usize,
    /// How pods are replaced by those of a new revision.
    pub strategy: Strategy,
    /// The revision to update to.
    pub update: &'a Revision,
    /// The revision before the update.
    pub current: &'a Revision,
    /// Whether the node is being updated.
    pub in_turn: bool,
}

/// A node, and its pods of a set.
#[derive(Clone, Debug)]
pub struct NodeNow<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its zone.
    pub zone: &'a str,
    /// Whether it accepts or keeps pods of the set.
    pub standing: Standing,
    /// Whether it is ready.
    pub ready: bool,
    /// The pods.
    pub pods: Vec<PodNow>,
}

/// The progress of a node's update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All wanted pods are updated and available, and there are no older pods.
    Updated,
    /// There are no older pods, and some wanted pods are not available.
    Degraded,
    /// Some pods are updated, and some are older.
    Mixed,
    /// All pods are older.
    Outdated,
    /// There are no pods.
    Empty,
}

impl NodeNow<'_> {
    /// The progress of the node.
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

    /// Whether the node can be updated now.
    pub fn can_turn(&self) -> bool {
        self.standing == Standing::Takes && self.ready
    }

    /// Whether it has fewer available pods than wanted.
    pub fn is_short(&self, wanted: usize) -> bool {
        self.pods.iter().filter(|pod| pod.state == State::Available).count() < wanted
    }

    /// Whether no pod serves there, not even a terminating one.
    pub fn is_down(&self) -> bool {
        self.pods.iter().all(|pod| matches!(pod.state, State::Making | State::Starting | State::Finished))
    }
}

/// The rules of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct TurnTerms<'a> {
    /// The revision to update to.
    pub update: &'a Revision,
    /// The wanted number of pods per node.
    pub wanted: usize,
    /// How many nodes are updated at once.
    pub at_once: Amount,
    /// A node update that takes longer stops the rollout.
    pub deadline: Duration,
    /// Whether the rollout is paused.
    pub is_paused: bool,
    /// Whether the update is already the current revision.
    pub is_settled: bool,
}

/// The node updates from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// The nodes that are being updated, and since when.
    pub have: BTreeMap<Arc<str>, WallTime>,
    /// The nodes whose update takes too long.
    pub late: BTreeSet<Arc<str>>,
    /// When the next node will be late.
    pub due: Option<WallTime>,
}
