//! The controller of IngressDaemonSets. The controller runs N pods per node, and updates the pods node by node. The
//! hold and the zone guard apply to the pods.
//!
//! The crate shares types with the core (`headgate-core`). The crate does not depend on the engine, because the
//! controller is a separate program with other permissions.
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
//! * **Owns** the sets and their objects, as the watches last reported them, and the requests whose effect the watch
//!   does not show yet ([`asks`]).
//! * **Guarantees.** The name of a pod consists of the node and the lowest free number on the node. A repeated request
//!   therefore creates only one pod. The status of the set is the only record of node updates, and is written before an
//!   update begins. If a watch reports most nodes as deleted, the controller acts only after a confirmation.
//! * **Assumes** that a new leader begins with consistent reads, after all requests of the previous leader have
//!   completed or expired.

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

/// An input of the controller.
#[derive(Clone, Debug)]
pub enum Input {
    /// A change of an IngressDaemonSet.
    Set(Change<SetFacts>),
    /// A change of a pod that has the label of a set, unless another controller owns the pod.
    Pod(Change<SetPod>),
    /// A change of a node.
    Node(Change<SetNode>),
    /// A change of a ControllerRevision that has the label of a set.
    Revision(Change<RevisionFacts>),
    /// A change of a PodDisruptionBudget.
    Budget(Change<BudgetFacts>),
    /// The result of a request.
    Answered(RequestId, Outcome),
    /// Time has passed.
    Passed,
}

/// A request in flight, and the set that receives the answer.
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
    /// Creates an empty state. The controller does nothing before the initial lists of all scopes.
    pub fn new(scopes: &[Scope]) -> Self {
        Self { seen: Seen::new(scopes), ..Self::default() }
    }

    /// Processes an input. Returns the requests to send.
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

    /// Returns whether the initial sync is complete. The controller does nothing before the initial sync.
    pub fn is_synced(&self) -> bool {
        self.seen.has_listed()
    }

    /// Returns the number of pods of all sets.
    pub fn pod_count(&self) -> usize {
        self.seen.pod_count()
    }

    /// Returns whether the caller must list all nodes again, because a watch reported most nodes as deleted. Returns
    /// `true` only once.
    pub fn take_relist(&mut self) -> bool {
        self.seen.take_relist()
    }

    /// Returns when the next [`Input::Passed`] is due, on both clocks.
    pub fn due(&self) -> (Option<Moment>, Option<WallTime>) {
        let sets = self.sets.values().map(Set::due);
        let first = |(moment, wall): (Option<Moment>, Option<WallTime>), (other, at)| {
            let min = |a: Option<_>, b: Option<_>| a.into_iter().chain(b).min();
            (min(moment, other), wall.into_iter().chain(at).min())
        };
        sets.fold((self.seen.due(), None), first)
    }

    /// Returns the status of each set, including a status that is not written yet.
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
