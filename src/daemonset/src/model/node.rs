//! The pods of a set on one node, and what holds for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::model::{object::Uid, time::WallTime};

use super::{Amount, Revision, Strategy};

/// What a node is for a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is to have pods.
    Takes,
    /// It gets no new ones; those that run stay.
    Keeps,
    /// It is not for this set.
    Leaves,
    /// There is no such node any more.
    Gone,
}

/// How far a pod is. The order is that in which pods are taken when there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is being made.
    Making,
    /// It is not ready.
    Starting,
    /// It is ready, and not for long enough.
    Ready,
    /// It is available.
    Available,
    /// Its end is asked for, and nobody knows whether that is done.
    Ending,
    /// It is terminating.
    Leaving,
    /// It has ended by itself, and is no use.
    Finished,
}

impl State {
    /// Whether it is one of those that a node is to have.
    pub const fn stays(self) -> bool {
        matches!(self, Self::Making | Self::Starting | Self::Ready | Self::Available)
    }

    /// Whether it may be one of those that there are.
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Leaving | Self::Finished)
    }
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNow {
    /// Which one; `None`: it is being made.
    pub uid: Option<Uid>,
    /// What it was made from.
    pub revision: Revision,
    /// How far it is.
    pub state: State,
    /// When it was made.
    pub created: WallTime,
    /// It has a node.
    pub scheduled: bool,
}

/// What holds for the pods of a node.
#[derive(Clone, Debug)]
pub struct NodeTerms<'a> {
    /// So many pods are to be there.
    pub wanted: usize,
    /// How they come to be of a new revision.
    pub strategy: Strategy,
    /// What they are to become.
    pub update: &'a Revision,
    /// What they are until the turn of the node comes.
    pub current: &'a Revision,
    /// The node has its turn.
    pub in_turn: bool,
}

/// A node, and the pods of a set there.
#[derive(Clone, Debug)]
pub struct NodeNow<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its zone.
    pub zone: &'a str,
    /// What it is for the set.
    pub standing: Standing,
    /// It is ready.
    pub ready: bool,
    /// The pods.
    pub pods: Vec<PodNow>,
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All that it is to have is of the update and available, and nothing is left of older ones.
    Updated,
    /// Nothing is left of older ones, and less is available than should be.
    Degraded,
    /// Some is of the update, and some is older.
    Mixed,
    /// All is older.
    Outdated,
    /// There is nothing.
    Empty,
}

impl NodeNow<'_> {
    /// How far it is.
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

    /// Whether a turn can get anywhere.
    pub fn can_turn(&self) -> bool {
        self.standing == Standing::Takes && self.ready
    }

    /// Whether it has fewer available pods than it should.
    pub fn is_short(&self, wanted: usize) -> bool {
        self.pods.iter().filter(|pod| pod.state == State::Available).count() < wanted
    }

    /// Whether nothing there serves: not even one that is on its way out.
    pub fn is_down(&self) -> bool {
        self.pods.iter().all(|pod| matches!(pod.state, State::Making | State::Starting | State::Finished))
    }
}

/// What is asked of a roll.
#[derive(Clone, Copy, Debug)]
pub struct TurnTerms<'a> {
    /// What the nodes come to.
    pub update: &'a Revision,
    /// So many pods are wanted on each.
    pub wanted: usize,
    /// So many nodes have their turn at once.
    pub at_once: Amount,
    /// A turn that takes longer stops the roll.
    pub deadline: Duration,
    /// No node gets its turn.
    pub is_paused: bool,
    /// The update is what nodes get anyway: nothing is tried.
    pub is_settled: bool,
}

/// The turns as they are from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Who has one, and since when.
    pub have: BTreeMap<Arc<str>, WallTime>,
    /// Those whose turn takes too long.
    pub late: BTreeSet<Arc<str>>,
    /// When the first of the others is too late.
    pub due: Option<WallTime>,
}
