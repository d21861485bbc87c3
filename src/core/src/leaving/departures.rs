//! The pods that are asked to leave, and what the leader does about each next.

use std::collections::{BTreeMap, BTreeSet};

use super::{LeavingFacts, Limits, Mark, MarkFailure};
use crate::{
    input::CallId,
    object::{Labels, ObjectKey, Uid},
    pod::PodFacts,
    reason::Reason,
    target::Target,
    target_group::TargetGroupArn,
    time::{Moment, WallTime},
};
use std::time::Duration;

/// A pod that has to wait is looked at again, and what has failed is tried again, after so long.
const AGAIN: Duration = Duration::from_secs(2);
/// And so are its zones, which cost no request.
const ZONE_AGAIN: Duration = Duration::from_secs(1);
/// The watch shows what was written sooner than this. What it has not shown by then somebody has taken away.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// What a PodDisruptionBudget that is about the pod says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: Box<str>,
    /// `status.disruptionsAllowed`.
    pub allowed: usize,
    /// How many of the pods that are on their way out already it is about, too.
    pub departing: usize,
}

/// What the API server says about an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// A dry run of it is refused for now, as by a budget: in these words.
    pub refused: Option<Box<str>>,
    /// The budgets that are about the pod.
    pub budgets: Vec<Budget>,
}

/// Why it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckFailure {
    /// The pod is gone, or another one has its name.
    Gone,
    /// It refuses to, or does not answer.
    Unavailable(Box<str>),
}

/// A pod that the leader takes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Since when.
    since: Moment,
    /// The targets that are to be removed.
    pub targets: Vec<(TargetGroupArn, Target)>,
    /// For how long the load balancers may go on sending after that.
    bound: Duration,
    /// When AWS had taken the removal of all.
    taken: Option<WallTime>,
}

/// One pod.
#[derive(Debug)]
struct Departure {
    uid: Uid,
    labels: Labels,
    facts: LeavingFacts,
    decision: Option<Decision>,
    /// Since when AWS was seen to have a target of it again, until that is written.
    back: Option<Moment>,
    /// A request is under way.
    busy: Option<(CallId, Option<Mark>)>,
    /// What was written and when, that the watch has not shown yet.
    unseen: Vec<(Mark, Moment)>,
    /// Why it has to wait, to be written.
    waits: Option<Reason>,
    /// Not before.
    again: Moment,
    /// Since when the API server does not say what the budgets allow, and in which words.
    failing: Option<(Moment, Box<str>)>,
    /// What the user has been told.
    told: BTreeSet<Reason>,
}

/// What else counts for the next step of a pod.
#[allow(clippy::struct_excessive_bools)] // each is one thing that is the case
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Whether its zones allow that it leaves, or why not.
    pub zones: Result<Reason, Reason>,
    /// Whether it is a target of a group that may be written to, or should be.
    pub is_target: bool,
    /// Whether AWS may have a target of the pod, although its removal was written down.
    pub is_back: bool,
    /// Whether AWS has taken the removal of all that was decided.
    pub is_gone: bool,
    /// Whether its node goes, or takes no pods: nobody has thought better of it.
    pub node_goes: bool,
    /// Whether its node is known to stay: what was done early is undone.
    pub node_stays: bool,
    /// The time.
    pub now: Moment,
    /// The time as it is written down.
    pub wall: WallTime,
}

/// What is to be done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing before then.
    Wait(Option<Moment>),
    /// Ask what its budgets allow.
    Check,
    /// Write this.
    Mark(Mark),
}

/// What follows from a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod may be taken out now.
    Leaves(ObjectKey),
    /// It has to wait, for so long already that the user is told.
    Waits {
        /// The pod.
        pod: ObjectKey,
        /// Why.
        reason: Reason,
        /// In the words of Kubernetes, or about the budget.
        why: Box<str>,
    },
}

/// What has been written, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it.
    pub uid: Uid,
    /// What was written; `None`: Kubernetes does not allow it, in the words of `why`.
    pub mark: Option<Mark>,
    /// Whether nobody had asked for its eviction.
    pub early: bool,
    /// Why it was let through, or could not be written.
    pub why: Box<str>,
    /// How long ago it was asked to leave for the first time.
    pub after: Duration,
}

/// A request that is under way. Its answer may come when the pod has gone, or leaves no more, because of it.
#[derive(Clone, Debug)]
struct Request {
    pod: ObjectKey,
    uid: Uid,
    /// What is written; `None`: it is a check.
    mark: Option<Mark>,
    since: WallTime,
    /// Nobody has asked for it then.
    early: bool,
    /// Why it is let through, if that is no word of its own.
    why: Box<str>,
}

/// All pods that are asked to leave. See the module above.
#[derive(Debug, Default)]
pub struct Departures {
    pods: BTreeMap<ObjectKey, Departure>,
    requests: BTreeMap<CallId, Request>,
    /// When the next step is due, if nothing happens before.
    due: Option<Moment>,
}

impl Departure {
    fn next(&self, case: &Case, limits: &Limits) -> Next {
        if self.busy.is_some() {
            return Next::Wait(None);
        }
        if self.again > case.now {
            return Next::Wait(Some(self.again));
        }
        let at = |due: WallTime| case.now + due.since(case.wall);
        if self.facts.early && case.node_stays {
            return Next::Mark(Mark::Stays);
        }
        let given_up = self.facts.asked + limits.given_up_after;
        if case.wall >= given_up && !case.node_goes {
            return Next::Mark(Mark::Undone);
        }
        // A node that goes may come back.
        let undo = if case.wall >= given_up { case.now + limits.refresh() } else { at(given_up) };
        let go = |reason| Next::Mark(Mark::MayGo { at: case.wall, reason });
        if self.facts.let_go().is_some() {
            return Next::Wait(Some(undo));
        }
        if let (Some((_, bound)), Some(since)) = (self.facts.deregistered, self.back) {
            let late = since + limits.patience;
            return match case.is_back {
                false => Next::Mark(Mark::Deregistered { at: case.wall, bound }),
                true if case.now >= late && self.is_asked() => go(Reason::DeregistrationTooSlow),
                true => Next::Wait(Some(late)),
            };
        }
        if let Some((taken, bound)) = self.facts.deregistered {
            let over = taken + bound;
            return if case.wall >= over {
                go(Reason::EvictionAllowed)
            } else {
                Next::Wait(Some(undo.min(at(over))))
            };
        }
        if let Some(decision) = &self.decision {
            if let Some(taken) = decision.taken {
                return Next::Mark(Mark::Deregistered { at: taken, bound: decision.bound });
            }
            let late = decision.since + limits.patience;
            return if case.now >= late && self.is_asked() {
                go(Reason::DeregistrationTooSlow)
            } else {
                Next::Wait(Some(late.max(case.now + AGAIN)))
            };
        }
        if !case.is_target {
            return go(Reason::NotATarget);
        }
        let waits = |reason| match self.facts.waits {
            Some((at, said)) if said == reason && case.wall.since(at) < limits.refresh() => {
                Next::Wait(Some(case.now + ZONE_AGAIN))
            }
            _ => Next::Mark(Mark::Waits { at: case.wall, reason }),
        };
        match case.zones {
            Err(reason) => return waits(reason),
            Ok(reason) if self.facts.held => return go(reason),
            Ok(_) => {}
        }
        let fails_since = self.failing.as_ref().filter(|_| self.is_asked()).map(|(since, _)| *since);
        if fails_since.is_some_and(|since| case.now.since(since) >= limits.patience) {
            return go(Reason::EvictionUncheckable);
        }
        if let Some(reason) = self.waits {
            return Next::Mark(Mark::Waits { at: case.wall, reason });
        }
        Next::Check
    }

    /// Whether somebody waits for it. Nothing that is done early is done badly for being late.
    const fn is_asked(&self) -> bool {
        !self.facts.early
    }

    /// This is written on the pod, though the watch may not say so yet.
    fn written(&mut self, mark: Mark, now: Moment) {
        (self.busy, self.waits) = (None, None);
        self.back.take_if(|_| matches!(mark, Mark::Deregistered { .. }));
        // That it is undone is known when the watch says so as well.
        self.facts = self.facts.with(mark).unwrap_or(self.facts);
        if matches!(mark, Mark::Deregistered { .. } | Mark::MayGo { .. }) {
            self.unseen.push((mark, now));
        }
        if matches!(mark, Mark::Waits { .. } | Mark::Undone | Mark::Stays) {
            self.again = now + AGAIN;
        }
    }

    /// Whether it counts as on its way out: not if it has been given up.
    fn departs(&self, limits: &Limits, wall: WallTime) -> bool {
        let out = self.decision.is_some() || self.facts.is_out() || self.facts.let_go().is_some();
        out && (self.facts.early || wall.since(self.facts.asked) < limits.given_up_after)
    }
}

impl Departures {
    /// A pod looks like this now.
    pub fn saw(&mut self, pod: &PodFacts, now: Moment, wall: WallTime) {
        let Some(mut facts) = pod.leaving.as_deref().copied().filter(|_| !pod.terminating && !pod.finished)
        else {
            self.forget(&pod.key);
            return;
        };
        // The clock of whoever wrote it may be ahead.
        (facts.since, facts.asked) = (facts.since.min(wall), facts.asked.min(wall));
        facts.deregistered = facts.deregistered.map(|(at, bound)| (at.min(wall), bound));
        if self.pods.get(&pod.key).is_some_and(|known| known.uid != pod.uid) {
            self.forget(&pod.key);
        }
        let departure = self.pods.entry(pod.key.clone()).or_insert_with(|| Departure {
            uid: pod.uid.clone(),
            labels: pod.labels.clone(),
            facts,
            decision: None,
            back: None,
            busy: None,
            unseen: Vec::new(),
            waits: None,
            again: Moment::START,
            failing: None,
            told: BTreeSet::new(),
        });
        if departure.facts.early && !facts.early {
            // Whoever asks now waits from now on.
            let since = |it: &mut Moment| *it = now;
            departure.decision.iter_mut().for_each(|decision| since(&mut decision.since));
            departure.failing.iter_mut().for_each(|(failing, _)| since(failing));
            departure.back.iter_mut().for_each(since);
        }
        departure.unseen.retain(|(mark, at)| !facts.shows(*mark) && now.since(*at) < SHOWN_WITHIN);
        // An older state of the pod takes nothing of that back.
        departure.facts =
            departure.unseen.iter().fold(facts, |facts, (mark, _)| facts.with(*mark).unwrap_or(facts));
        departure.labels = pod.labels.clone();
        self.due = Some(now);
    }

    /// The pod is gone, or does not leave any more.
    pub fn forget(&mut self, pod: &ObjectKey) {
        self.pods.remove(pod);
    }

    /// Forgets the pods that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        let gone = self.pods.iter().filter(|(pod, departure)| !is_there(pod, &departure.uid));
        let gone: Vec<ObjectKey> = gone.map(|(pod, _)| pod.clone()).collect();
        for pod in gone {
            self.forget(&pod);
        }
    }

    /// Another replica leads from now on, or may. Gives the pods whose removal was decided here and is not written down.
    pub fn stand_by(&mut self) -> Vec<ObjectKey> {
        self.requests.clear();
        self.due = Some(Moment::START);
        let mut undecided = Vec::new();
        for (pod, departure) in &mut self.pods {
            (departure.busy, departure.waits, departure.failing) = (None, None, None);
            departure.again = Moment::START;
            departure.told.clear();
            undecided.extend(departure.decision.take().map(|_| pod.clone()));
        }
        undecided
    }

    /// Something has happened that matters to them.
    pub const fn touch(&mut self, now: Moment) {
        self.due = Some(now);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// When something is to be done.
    pub const fn next_due(&self) -> Option<Moment> {
        self.due
    }

    /// What is to be done at a time goes first for whoever was asked first; gives all, and begins anew to count when
    /// something is due.
    pub fn take_due(&mut self) -> Vec<ObjectKey> {
        self.due = None;
        let mut pods: Vec<(WallTime, &ObjectKey)> =
            self.pods.iter().map(|(pod, departure)| (departure.facts.since, pod)).collect();
        pods.sort();
        pods.into_iter().map(|(_, pod)| pod.clone()).collect()
    }

    /// The next step of a pod. A check waits while another one of its namespace is under way: two that are answered side
    /// by side would both be allowed.
    pub fn next(&mut self, pod: &ObjectKey, case: &Case, limits: &Limits) -> Next {
        let Some(departure) = self.pods.get_mut(pod) else { return Next::Wait(None) };
        if case.is_gone
            && let Some(decision) = &mut departure.decision
        {
            decision.taken.get_or_insert(case.wall);
        }
        if case.is_back && departure.facts.deregistered.is_some() {
            departure.back.get_or_insert(case.now);
        }
        let next = departure.next(case, limits);
        let next = match next {
            Next::Check if self.checks(&pod.namespace) => Next::Wait(None),
            next => next,
        };
        if let Next::Wait(Some(due)) = next {
            self.due = self.due.into_iter().chain([due]).min();
        }
        next
    }

    fn checks(&self, namespace: &str) -> bool {
        let mut requests = self.requests.values();
        requests.any(|request| request.mark.is_none() && &*request.pod.namespace == namespace)
    }

    /// The targets whose removal was decided.
    pub fn decided(&self, pod: &ObjectKey) -> Option<&Decision> {
        self.pods.get(pod)?.decision.as_ref()
    }

    /// The labels of the pods of a namespace that are on their way out.
    pub fn departing(&self, namespace: &str, limits: &Limits, wall: WallTime) -> Vec<Labels> {
        let here = self.pods.iter().filter(|(pod, _)| &*pod.namespace == namespace);
        here.filter(|(_, departure)| departure.departs(limits, wall))
            .map(|(_, departure)| departure.labels.clone())
            .collect()
    }

    /// Whether a pod counts as on its way out.
    pub fn departs(&self, pod: &ObjectKey, limits: &Limits, wall: WallTime) -> bool {
        self.pods.get(pod).is_some_and(|departure| departure.departs(limits, wall))
    }

    /// Whether a pod was taken out, or is being.
    pub fn is_out(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|departure| departure.decision.is_some() || departure.facts.is_out())
    }

    /// Whether a pod counts as gone from its zones.
    pub fn leaves_zone(&self, pod: &ObjectKey, limits: &Limits, wall: WallTime) -> bool {
        self.pods.get(pod).is_some_and(|departure| {
            departure.departs(limits, wall) || matches!(departure.busy, Some((_, Some(Mark::MayGo { .. }))))
        })
    }

    /// Whether a pod leaves, or is to, though nobody has asked for its eviction.
    pub fn is_early(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|departure| departure.facts.early)
    }

    /// Whether it is still to be decided that a pod leaves.
    pub fn is_undecided(&self, pod: &ObjectKey) -> bool {
        let undecided =
            |it: &Departure| !it.facts.held && it.decision.is_none() && it.facts.deregistered.is_none();
        self.pods.get(pod).is_some_and(undecided)
    }

    /// Since when a pod is asked to leave.
    pub fn since(&self, pod: &ObjectKey) -> Option<WallTime> {
        Some(self.pods.get(pod)?.facts.since)
    }

    /// A request about a pod begins: to write `mark`, or a check.
    pub fn begin(&mut self, pod: &ObjectKey, id: CallId, mark: Option<Mark>) -> Option<(Uid, Labels)> {
        let departure = self.pods.get_mut(pod)?;
        departure.busy = Some((id, mark));
        let (uid, since, early) = (departure.uid.clone(), departure.facts.since, departure.facts.early);
        let why = departure.failing.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        self.requests.insert(id, Request { pod: pod.clone(), uid, mark, since, early, why });
        Some((departure.uid.clone(), departure.labels.clone()))
    }

    /// Something was written, or could not be. Gives what the user should be told.
    pub fn marked(&mut self, id: CallId, result: Result<(), MarkFailure>, case: &Case) -> Option<Marked> {
        let Request { pod, uid, mark, since, early, why } = self.requests.remove(&id)?;
        let mark = mark?;
        self.due = Some(case.now);
        let after = case.wall.since(since);
        let departure = self.pods.get_mut(&pod).filter(|departure| departure.uid == uid);
        let say = |mark, why| Some(Marked { pod: pod.clone(), uid: uid.clone(), mark, early, why, after });
        if result.is_ok() {
            if let Some(departure) = departure {
                departure.written(mark, case.now);
            }
            return say(Some(mark), why);
        }
        let departure = departure?;
        departure.busy = None;
        departure.again = case.now + AGAIN;
        match result {
            Err(MarkFailure::Denied(why)) if departure.told.insert(Reason::LeavingNotRecorded) => {
                say(None, why)
            }
            _ => None,
        }
    }

    /// What the API server says of the budgets of a pod, which `is_ready`, or not. Gives what follows, if anything.
    pub fn checked(
        &mut self,
        id: CallId,
        result: Result<Checked, CheckFailure>,
        is_ready: impl Fn(&ObjectKey) -> bool,
        limits: &Limits,
        case: &Case,
    ) -> Option<Verdict> {
        let Request { pod, uid, .. } = self.requests.remove(&id)?;
        self.due = Some(case.now);
        let departure = self.pods.get_mut(&pod).filter(|departure| departure.uid == uid)?;
        departure.busy = None;
        let (reason, why): (_, Box<str>) = match result {
            Err(CheckFailure::Gone) => {
                departure.again = case.now + AGAIN;
                return None;
            }
            Err(CheckFailure::Unavailable(why)) => {
                departure.again = case.now + AGAIN;
                let since = departure.failing.as_ref().map_or(case.now, |(since, _)| *since);
                departure.failing = Some((since, why));
                return None;
            }
            Ok(Checked { refused: Some(why), .. }) => (Reason::EvictionWaitsForBudget, why),
            Ok(Checked { refused: None, budgets }) => {
                // A pod that is not ready takes nothing of a budget, as Kubernetes sees it.
                let full = budgets.iter().find(|budget| budget.allowed <= budget.departing);
                match full.filter(|_| is_ready(&pod)) {
                    None => {
                        (departure.failing, departure.waits) = (None, None);
                        return Some(Verdict::Leaves(pod));
                    }
                    Some(Budget { name, allowed, departing }) => (
                        Reason::EvictionWaitsForDeparture,
                        format!(
                            "PodDisruptionBudget {name} allows {allowed}, and {departing} of its pods are on their way out"
                        )
                        .into(),
                    ),
                }
            }
        };
        (departure.failing, departure.again) = (None, case.now + AGAIN);
        let said = departure
            .facts
            .waits
            .filter(|(at, said)| *said == reason && case.wall.since(*at) < limits.refresh());
        departure.waits = said.is_none().then_some(reason);
        if departure.waits.is_some() {
            departure.again = case.now;
        }
        let long = departure.is_asked() && case.wall.since(departure.facts.since) >= limits.patience;
        (long && departure.told.insert(reason)).then_some(Verdict::Waits { pod, reason, why })
    }

    /// The leader takes the pod out: these targets.
    pub fn decide(
        &mut self,
        pod: &ObjectKey,
        targets: Vec<(TargetGroupArn, Target)>,
        bound: Duration,
        now: Moment,
    ) {
        if let Some(departure) = self.pods.get_mut(pod) {
            departure.decision = Some(Decision { since: now, targets, bound, taken: None });
        }
    }
}
