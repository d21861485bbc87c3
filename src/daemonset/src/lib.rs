//! The controller of IngressDaemonSets: runs N pods per node, updates them node by node, and evicts them like other pods.
//!
//! The crate shares types with the core (`headgate-core`). It is independent of the engine, because the controller runs as
//! a separate program with other permissions.
//!
//! ```text
//!   watches ──► Daemonsets::step ──► seen ──► plan ──► asks ──► API server
//!   (Input)      sets, pods, nodes,           │  which nodes are updated now (turns), the steps on a node (node),
//!                revisions, budgets           │  where pods may run (placement), how many may stop (budget),
//!                                              │  whether another system must detach the node first (handshake)
//!                      ▲                      └──► status, written before a node update begins
//!                      └───────────────── Input::Answered ◄──────────────────────────┘
//! ```
//!
//! * **Owns** the sets and their objects as last seen, and the requests whose effect the watch does not show yet ([`asks`]).
//! * **Guarantees.** The name of a pod consists of its node and the lowest free number there, so a repeated request creates
//!   only one pod. Only the status of a set remembers node updates, and it is written before they begin. If most nodes
//!   are reported as deleted, that counts only after it is confirmed.
//! * **Assumes** that a new leader begins with consistent reads, after no request of the last leader can take effect.

mod asks;
mod belongings;
mod budget;
mod handshake;
pub mod model;
mod node;
mod pace;
pub mod placement;
mod plan;
mod seen;
mod set;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::model::{Change, Moment, ObjectKey, RequestId, Scope, Uid, WallTime};

use self::{seen::Seen, set::Set};
use crate::model::{
    BudgetFacts, RevisionFacts, SetFacts, SetNode, SetPod,
    ask::{Ask, Asked, Outcome},
    status::Status,
};

/// Input of the controller.
#[derive(Clone, Debug)]
pub enum Input {
    /// News of IngressDaemonSets.
    Set(Change<SetFacts>),
    /// News of the pods with the label of a set that have no other controller.
    Pod(Change<SetPod>),
    /// News of nodes.
    Node(Change<SetNode>),
    /// News of the ControllerRevisions with the label of a set.
    Revision(Change<RevisionFacts>),
    /// News of the PodDisruptionBudgets.
    Budget(Change<BudgetFacts>),
    /// The result of a request.
    Answered(RequestId, Outcome),
    /// Time has passed.
    Passed,
}

/// A request in flight, and the set that gets the answer.
#[derive(Clone, Debug)]
struct InFlight {
    set: ObjectKey,
    uid: Uid,
    ask: Ask,
}

/// All sets of this controller.
#[derive(Debug, Default)]
pub struct Daemonsets {
    seen: Seen,
    sets: BTreeMap<ObjectKey, Set>,
    in_flight: BTreeMap<RequestId, InFlight>,
    last_id: u64,
    touched: BTreeSet<ObjectKey>,
}

impl Daemonsets {
    /// An empty state. The controller does nothing before all these scopes were listed.
    pub fn new(scopes: &[Scope]) -> Self {
        Self { seen: Seen::new(scopes), ..Self::default() }
    }

    /// Takes input. Returns the requests to send.
    pub fn step(&mut self, input: Input, now: Moment, wall: WallTime) -> Vec<Asked> {
        match input {
            Input::Set(change) => {
                let keys = self.seen.sets(change);
                for key in &keys {
                    if let Some(set) = self.sets.get_mut(key) {
                        set.shown(self.seen.set(key));
                    }
                }
                self.touched.extend(keys);
            }
            Input::Pod(change) => {
                for (key, pod, is_there) in self.seen.pods(change) {
                    let set = self.sets.entry(key.clone()).or_default();
                    if is_there {
                        set.shows_pod(&pod);
                    } else {
                        set.lost_pod(&pod);
                    }
                    self.touched.insert(key);
                }
            }
            Input::Node(change) => {
                if self.seen.nodes(change, now) {
                    self.touched.extend(self.seen.set_keys());
                }
            }
            Input::Revision(change) => self.touched.extend(self.seen.revisions(change)),
            Input::Budget(change) => self.touched.extend(self.seen.budgets(change)),
            Input::Answered(id, outcome) => self.answered(id, &outcome, now),
            Input::Passed => {
                if self.seen.pass(now) {
                    self.touched.extend(self.seen.set_keys());
                }
                let due = self.sets.iter().filter(|(_, set)| set.is_due(now, wall));
                self.touched.extend(due.map(|(key, _)| key.clone()));
            }
        }
        if self.seen.has_listed() { self.plan(now, wall) } else { Vec::new() }
    }

    /// Whether everything was listed once. The controller does nothing before that.
    pub fn is_synced(&self) -> bool {
        self.seen.has_listed()
    }

    /// The number of pods of all sets.
    pub fn pod_count(&self) -> usize {
        self.seen.pod_count()
    }

    /// Whether nodes must be listed once more, because most are reported as deleted. Returns true once.
    pub fn take_relist(&mut self) -> bool {
        self.seen.take_relist()
    }

    /// When [`Input::Passed`] next has something to do, on both clocks.
    pub fn due(&self) -> (Option<Moment>, Option<WallTime>) {
        let sets = self.sets.values().map(Set::due);
        let first = |(moment, wall): (Option<Moment>, Option<WallTime>), (other, at)| {
            let min = |a: Option<_>, b: Option<_>| a.into_iter().chain(b).min();
            (min(moment, other), wall.into_iter().chain(at).min())
        };
        sets.fold((self.seen.due(), None), first)
    }

    /// The status of each set, as written or about to be written.
    pub fn statuses(&self) -> impl Iterator<Item = (&ObjectKey, &Uid, &Status)> {
        self.sets.iter().filter_map(|(key, set)| {
            let (uid, status) = set.status()?;
            Some((key, uid, status))
        })
    }

    fn answered(&mut self, id: RequestId, outcome: &Outcome, now: Moment) {
        let Some(InFlight { set: key, uid, ask }) = self.in_flight.remove(&id) else { return };
        if let Some(set) = self.sets.get_mut(&key).filter(|set| set.is(&uid)) {
            set.answered(&ask, outcome, now);
            self.touched.insert(key);
        }
    }

    fn plan(&mut self, now: Moment, wall: WallTime) -> Vec<Asked> {
        let mut asked = Vec::new();
        for key in std::mem::take(&mut self.touched) {
            let (uid, asks) = if let Some(facts) = self.seen.set(&key) {
                let set = self.sets.entry(key.clone()).or_default();
                (facts.uid.clone(), set.plan(facts, &self.seen, now, wall))
            } else {
                let Some(set) = self.sets.remove(&key) else { continue };
                (set.uid().clone(), set.leave_nodes(&self.seen))
            };
            for ask in asks {
                self.last_id += 1;
                let id = RequestId(self.last_id);
                let uid = uid.clone();
                self.in_flight.insert(id, InFlight { set: key.clone(), uid: uid.clone(), ask: ask.clone() });
                asked.push(Asked { id, set: key.clone(), uid, ask });
            }
        }
        asked
    }
}
