//! One set: carries out its plan as fast as the API server takes it, and writes down how far it is.
//!
//! * **Owns** what was asked for, and what was written last.
//! * **Guarantees.** What was asked for is not asked for again before it is seen, or can no longer come. Counts are written once
//!   a second at most; what a turn hangs on at once.

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

/// After so long what was asked for, and is not seen, is asked for again.
const AGAIN: Duration = Duration::from_secs(5);
/// An answer that has not come by then will not.
const LOST: Duration = Duration::from_secs(60);
/// Counts are written after so long at the earliest.
const PACE: Duration = Duration::from_secs(1);
/// What is written of a set.
#[derive(Debug, Default)]
struct Written {
    /// What was written last, or is being written.
    status: Option<Status>,
    /// It is on its way, or the watch has not shown it: nothing is written before that, or then.
    awaited: Option<Moment>,
    /// When counts may be written again.
    next: Moment,
}

/// One set.
#[derive(Debug, Default)]
pub struct Set {
    uid: Uid,
    /// What was asked for and is not seen.
    asks: Asks,
    pace: Pace,
    /// What else was asked for, and is not asked for again before then.
    sent: Vec<(Ask, Moment)>,
    written: Written,
    status: Option<Status>,
    refused: Option<Box<str>>,
    /// Pods that the watch says are gone, and that were not on their way out.
    unseen: Vec<(Arc<str>, Uid)>,
    handshakes: Handshakes,
    due: (Option<Moment>, Option<WallTime>),
}

impl Set {
    /// Which life of its name it is.
    pub const fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Whether it is this life of its name.
    pub fn is(&self, uid: &Uid) -> bool {
        self.uid == *uid
    }

    /// How far it is.
    pub fn status(&self) -> Option<(&Uid, &Status)> {
        Some((&self.uid, self.status.as_ref()?))
    }

    /// When there is something to do.
    pub const fn due(&self) -> (Option<Moment>, Option<WallTime>) {
        self.due
    }

    /// Whether there is.
    pub fn is_due(&self, now: Moment, wall: WallTime) -> bool {
        self.due.0.is_some_and(|at| at <= now) || self.due.1.is_some_and(|at| at <= wall)
    }

    /// The watch shows a pod of it.
    pub fn shows_pod(&mut self, pod: &SetPod) {
        self.asks.shows(pod);
    }

    /// The watch says that a pod of it is gone.
    pub fn lost_pod(&mut self, pod: &SetPod) {
        // The watch is of those that have the label: one that has lost it looks as if it were gone.
        let is_own = pod.controller.as_ref().is_some_and(|owner| owner.uid == self.uid);
        if is_own && !pod.terminating && self.asks.may_end(&pod.uid) {
            self.unseen.push((pod.key.name.clone(), pod.uid.clone()));
        }
        self.asks.gone(pod);
    }

    /// The watch shows the set: what was written is seen.
    pub fn shown(&mut self, facts: Option<&SetFacts>) {
        if facts.is_none_or(|facts| facts.uid == self.uid) {
            self.written.awaited = None;
        }
    }

    /// What became of something.
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
            // It goes on, and has its name.
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
                // Unless the watch was faster than the answer.
                self.written.awaited = self.written.awaited.map(|_| again);
            }
            other => {
                for (_, until) in self.sent.iter_mut().filter(|(sent, _)| sent == other) {
                    *until = now + AGAIN;
                }
            }
        }
    }

    /// What is to be asked now.
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
        // Those that are to be taken over count as its own, and nothing is done where they are before they are.
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
            // What was refused is not asked for any more.
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

    /// Asks for what is wanted, unless that was asked for a moment ago.
    fn ask(&mut self, wants: Vec<Ask>, now: Moment, asks: &mut Vec<Ask>) {
        for want in wants {
            if !self.sent.iter().any(|(sent, _)| *sent == want) {
                self.sent.push((want.clone(), now + LOST));
                asks.push(want);
            }
        }
    }

    /// Nobody is to detach nodes for this set any more.
    pub fn leave_nodes(&self, seen: &Seen) -> Vec<Ask> {
        self.handshakes.left(seen.all_nodes())
    }

    fn due_at(&mut self, at: Option<Moment>) {
        self.due.0 = self.due.0.into_iter().chain(at).min();
    }

    /// The pods by node, as they are, with what was asked for.
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

    /// The lowest free name of a node. Whoever else makes a pod there chooses the same, and one of them is refused.
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

/// Short for the name of a node, in letters that every name may have: FNV-1a.
fn short(node: &str) -> String {
    let hash =
        node.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let letters = b"0123456789abcdefghijklmnopqrstuv";
    (0..6).map(|at| letters[(hash >> (5 * at)) as usize % 32] as char).collect()
}
