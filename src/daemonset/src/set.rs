//! Executes the plan of one set as fast as the API server allows, and writes the status of the set.
//!
//! * **Owns** the requests that were sent, and the last written status.
//! * **Guarantees.** A request is not repeated before its effect is visible or can no longer occur. Counts in the
//!   status are written at most once per second. Changes that node updates depend on are written immediately.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::model::{Moment, Uid, WallTime};

use super::{
    asks::Asks,
    belongings,
    handshake::{Handshakes, told},
    pace::Pace,
    placement::standing,
    plan::{plan, too_large},
    seen::Seen,
};
use crate::model::{
    Revision, SetFacts, SetPod,
    ask::{Ask, Outcome},
    node::{PodNow, Standing, State},
    plan::{Plan, Step, Why},
    status::Status,
};

/// The delay after which a request without a visible effect is sent again.
const AGAIN: Duration = Duration::from_secs(5);
/// The maximum time until an answer arrives.
const LOST: Duration = Duration::from_secs(60);
/// The minimum interval between two writes of counts.
const PACE: Duration = Duration::from_secs(1);
/// The written status of a set.
#[derive(Debug, Default)]
struct Written {
    /// The last status that was written or is being written.
    status: Option<Status>,
    /// The deadline of a status write in flight. No other status is written before the watch shows the write, or before
    /// the deadline. `None`: no write is in flight.
    awaited: Option<Moment>,
    /// The time at which counts may be written again.
    next: Moment,
}

/// The state of one set.
#[derive(Debug, Default)]
pub struct Set {
    uid: Uid,
    /// The requests for pods whose effect is not visible yet.
    asks: Asks,
    pace: Pace,
    /// The sent requests that `asks` does not contain. A request is not sent again before this time.
    sent: Vec<(Ask, Moment)>,
    written: Written,
    status: Option<Status>,
    refused: Option<Box<str>>,
    /// The pods that the watch no longer shows, although the pods were not terminating.
    unseen: Vec<(Arc<str>, Uid)>,
    handshakes: Handshakes,
    due: (Option<Moment>, Option<WallTime>),
}

impl Set {
    pub const fn uid(&self) -> &Uid {
        &self.uid
    }

    pub fn is(&self, uid: &Uid) -> bool {
        self.uid == *uid
    }

    pub fn status(&self) -> Option<(&Uid, &Status)> {
        Some((&self.uid, self.status.as_ref()?))
    }

    /// Returns the time at which the set must be planned again.
    pub const fn due(&self) -> (Option<Moment>, Option<WallTime>) {
        self.due
    }

    /// Returns whether the set must be planned now.
    pub fn is_due(&self, now: Moment, wall: WallTime) -> bool {
        self.due.0.is_some_and(|at| at <= now) || self.due.1.is_some_and(|at| at <= wall)
    }

    /// Records that the watch shows a pod of the set.
    pub fn shows_pod(&mut self, pod: &SetPod) {
        self.asks.shows(pod);
    }

    /// Records that the watch no longer shows a pod of the set.
    pub fn lost_pod(&mut self, pod: &SetPod) {
        // The watch covers only pods with the label. If a pod loses the label, the watch reports the pod as deleted.
        let is_own = pod.controller.as_ref().is_some_and(|owner| owner.uid == self.uid);
        if is_own && !pod.terminating && self.asks.may_end(&pod.uid) {
            self.unseen.push((pod.key.name.clone(), pod.uid.clone()));
        }
        self.asks.gone(pod);
    }

    /// Records that the watch shows the set with the written status.
    pub fn shown(&mut self, facts: Option<&SetFacts>) {
        if facts.is_none_or(|facts| facts.uid == self.uid) {
            self.written.awaited = None;
        }
    }

    /// Records the result of a request.
    pub fn answered(&mut self, ask: &Ask, outcome: &Outcome, now: Moment) {
        match ask {
            Ask::Make { name, .. } => {
                if self.asks.made(name, outcome, now) {
                    self.pace.made();
                    self.refused = None;
                } else if let Outcome::Refused(why) | Outcome::NotNow(why) = outcome {
                    self.pace.refused(now);
                    self.refused = Some(why.clone());
                }
            }
            Ask::Delete { uid, .. } | Ask::Evict { uid, .. } => self.asks.ended(uid, outcome, now),
            // The released pod keeps running and keeps its name.
            Ask::Release { name, .. } if matches!(outcome, Outcome::Done(_)) => {
                self.asks.note_foreign(name, now);
            }
            Ask::Write { .. } => {
                let again = match outcome {
                    Outcome::Done(_) => now + LOST,
                    _ => now + PACE,
                };
                if !matches!(outcome, Outcome::Done(_)) {
                    self.written.status = None;
                }
                // The watch may show the write before the answer arrives.
                self.written.awaited = self.written.awaited.map(|_| again);
            }
            other => {
                for (_, until) in self.sent.iter_mut().filter(|(sent, _)| sent == other) {
                    *until = now + AGAIN;
                }
            }
        }
    }

    /// Returns the requests to send now.
    pub fn plan(&mut self, facts: &SetFacts, seen: &Seen, now: Moment, wall: WallTime) -> Vec<Ask> {
        if self.uid != facts.uid {
            let asks = std::mem::take(&mut self.asks);
            *self = Self { uid: facts.uid.clone(), asks, ..Self::default() };
        }
        self.due = (None, None);
        if facts.deleting {
            self.sent.retain(|(_, until)| *until > now);
            let mut asks = Vec::new();
            self.ask(self.leave_nodes(seen), now, &mut asks);
            return asks;
        }
        if let Some(excess) = facts.beyond {
            let status = too_large(facts, excess);
            let asks = self.write(facts, &status, now).into_iter().collect();
            self.status = Some(status);
            return asks;
        }
        let pods: Vec<&SetPod> = seen.pods_of(&facts.key).collect();
        let is_own = |pod: &SetPod| belongings::is_own(pod, facts);
        self.asks.pass(now, |uid| pods.iter().any(|pod| pod.uid == *uid && !pod.terminating));
        self.sent.retain(|(_, until)| *until > now);
        let mut asks = self.asks.end_again(now, facts.generation);
        asks.extend(
            std::mem::take(&mut self.unseen).into_iter().map(|(name, uid)| Ask::Release { name, uid }),
        );
        let mut wants = Vec::new();
        belongings::pods(facts, &pods, &mut wants);
        let kept: BTreeSet<Revision> = belongings::revisions(facts, seen, &pods, &self.asks, &mut wants);
        // Pods that will be adopted count as own pods. Before the adoption of a pod, the controller changes nothing on
        // the pod's node.
        let is_orphan = |pod: &SetPod| belongings::may_adopt(pod, facts);
        let here =
            self.pods_now(facts, pods.iter().copied().filter(|pod| is_own(pod) || is_orphan(pod)), wall);
        let held: BTreeSet<Arc<str>> =
            pods.iter().filter(|pod| is_orphan(pod)).map(|pod| pod.node.clone()).collect();
        let most = |node: &Arc<str>| {
            let in_turn = facts.remembered.turns.contains_key(node);
            facts.spec.pods_per_node + if in_turn { facts.spec.strategy.surge() } else { 0 }
        };
        let has_room: BTreeSet<Arc<str>> = here
            .iter()
            .filter(|(node, pods)| pods.iter().filter(|pod| pod.state.is_live()).count() <= most(node))
            .map(|(node, _)| node.clone())
            .collect();
        let told = told(facts, seen.all_nodes(), wall);
        wants.extend(told.wants);
        wants.extend(self.handshakes.changed(facts.spec.handshake.as_ref(), seen.all_nodes()));
        let Plan { mut steps, mut status, budget, due } =
            plan(facts, seen.all_nodes(), here, &kept, &told.closed, wall);
        self.due.1 = self.due.1.into_iter().chain(due).chain(told.due).min();
        let makes_none = !steps.iter().any(|(_, step)| matches!(step, Step::Make(_)));
        if makes_none && self.asks.making().next().is_none() {
            // Clear earlier rejections.
            self.refused = None;
        }
        steps.retain(|(node, _)| !held.contains(node));
        belongings::budgets(facts, seen, budget, &mut wants);

        let takes = |node: &str| {
            let node = seen.all_nodes().get(node);
            node.is_some_and(|node| standing(node, &facts.spec.placement) == Standing::Takes)
        };
        for (name, making) in self.asks.again(now, |node| takes(node) && has_room.contains(node)) {
            asks.push(Ask::Make { name, node: making.node().clone(), revision: making.revision().clone() });
        }
        self.carry_out(facts, seen, steps, &kept, now, &mut asks);
        self.ask(wants, now, &mut asks);
        status.refused.clone_from(&self.refused);
        status.beyond = belongings::too_large(facts, seen);
        asks.extend(self.write(facts, &status, now));
        self.status = Some(status);
        self.due_at(self.asks.due());
        self.due_at(self.sent.iter().map(|(_, until)| *until).min());
        asks
    }

    /// Sends the requests, except requests that were sent recently.
    fn ask(&mut self, wants: Vec<Ask>, now: Moment, asks: &mut Vec<Ask>) {
        for want in wants {
            if !self.sent.iter().any(|(sent, _)| *sent == want) {
                self.sent.push((want.clone(), now + LOST));
                asks.push(want);
            }
        }
    }

    /// Returns the requests that remove all annotations of this set from nodes.
    pub fn leave_nodes(&self, seen: &Seen) -> Vec<Ask> {
        self.handshakes.left(seen.all_nodes())
    }

    fn due_at(&mut self, at: Option<Moment>) {
        self.due.0 = self.due.0.into_iter().chain(at).min();
    }

    /// Returns the pods by node. The state of each pod includes the effects of requests in flight.
    fn pods_now<'a>(
        &mut self,
        facts: &SetFacts,
        pods: impl Iterator<Item = &'a SetPod>,
        wall: WallTime,
    ) -> BTreeMap<Arc<str>, Vec<PodNow>> {
        let mut by_node: BTreeMap<Arc<str>, Vec<PodNow>> = BTreeMap::new();
        for pod in pods {
            let state = match (self.asks.state(&pod.uid), pod.ready) {
                _ if pod.terminating => State::Leaving,
                (Some(asked), _) => asked,
                _ if pod.finished => State::Finished,
                (None, None) => State::Starting,
                (None, Some(since)) if since + facts.spec.min_ready <= wall => State::Available,
                (None, Some(since)) => {
                    let at = since + facts.spec.min_ready;
                    self.due.1 = Some(self.due.1.map_or(at, |first| first.min(at)));
                    State::Ready
                }
            };
            if state == State::Available {
                self.pace.serves(&pod.node);
            }
            by_node.entry(pod.node.clone()).or_default().push(PodNow {
                uid: Some(pod.uid.clone()),
                revision: pod.revision.clone(),
                state,
                created: pod.created,
                scheduled: pod.scheduled,
            });
        }
        for making in self.asks.making() {
            by_node.entry(making.node().clone()).or_default().push(PodNow {
                uid: None,
                revision: making.revision().clone(),
                state: State::Making,
                created: wall,
                scheduled: false,
            });
        }
        by_node
    }

    fn carry_out(
        &mut self,
        facts: &SetFacts,
        seen: &Seen,
        steps: Vec<(Arc<str>, Step)>,
        kept: &BTreeSet<Revision>,
        now: Moment,
        asks: &mut Vec<Ask>,
    ) {
        let name_of: BTreeMap<&Uid, &Arc<str>> =
            seen.pods_of(&facts.key).map(|pod| (&pod.uid, &pod.key.name)).collect();
        for (node, step) in steps {
            match step {
                Step::Make(revision) => {
                    let from = self.pace.from(&node, &revision);
                    if from > now {
                        self.due_at(Some(from));
                    } else if kept.contains(&revision) && self.asks.in_flight() < self.pace.at_once() {
                        let name = self.name(facts, seen, &node);
                        self.asks.make(name.clone(), node.clone(), revision.clone());
                        asks.push(Ask::Make { name, node, revision });
                    }
                }
                Step::Delete(uid, why) => {
                    let Some(name) = name_of.get(&uid).filter(|_| self.asks.may_end(&uid)) else {
                        continue;
                    };
                    let pod = seen.pod(&facts.key, name);
                    if let (Why::Finished, Some(pod)) = (why, pod) {
                        self.pace.ended(&node, pod.revision.clone(), now);
                    }
                    let serves = pod.is_none_or(|pod| pod.ready.is_some());
                    let version = pod.filter(|_| !serves).map(|pod| pod.version.clone());
                    let ask = Ask::Delete { name: (*name).clone(), uid: uid.clone(), version, why };
                    self.asks.end(uid, ask.clone(), facts.generation);
                    asks.push(ask);
                }
                Step::Evict(uid, why) => {
                    let Some(name) = name_of.get(&uid).filter(|_| self.asks.may_end(&uid)) else {
                        continue;
                    };
                    let ask = Ask::Evict { name: (*name).clone(), uid: uid.clone(), why };
                    self.asks.end(uid, ask.clone(), facts.generation);
                    asks.push(ask);
                }
            }
        }
    }

    /// Returns the lowest free name on a node. If another replica creates a pod on the same node, it chooses the same
    /// name, and the API server rejects one creation.
    fn name(&self, facts: &SetFacts, seen: &Seen, node: &str) -> Arc<str> {
        let (set, node) = (&facts.key.name, short(node));
        let names = (0_u32..).map(|number| format!("{set}-{node}-{number}"));
        let is_free = |name: &String| !self.asks.is_taken(name) && seen.pod(&facts.key, name).is_none();
        names.into_iter().find(is_free).unwrap_or_default().into()
    }

    fn write(&mut self, facts: &SetFacts, status: &Status, now: Moment) -> Option<Ask> {
        if let Some(until) = self.written.awaited {
            if until > now {
                self.due_at(Some(until));
                return None;
            }
            self.written.status = None;
        }
        let before = self.written.status.as_ref();
        let is_urgent = facts.remembered != status.remembered
            || before.is_none_or(|before| {
                (before.generation, before.roll, &before.late, &before.refused, &before.beyond)
                    != (status.generation, status.roll, &status.late, &status.refused, &status.beyond)
            });
        if before == Some(status) && !is_urgent {
            return None;
        }
        if !is_urgent && self.written.next > now {
            self.due_at(Some(self.written.next));
            return None;
        }
        self.written = Written { status: Some(status.clone()), awaited: Some(now + LOST), next: now + PACE };
        Some(Ask::Write { version: facts.version.clone(), status: Box::new(status.clone()) })
    }
}

/// Returns a short hash (FNV-1a) of a node's name. Each character of the hash is valid in object names.
fn short(node: &str) -> String {
    let hash =
        node.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let letters = b"0123456789abcdefghijklmnopqrstuv";
    (0..6).map(|at| letters[(hash >> (5 * at)) as usize % 32] as char).collect()
}
