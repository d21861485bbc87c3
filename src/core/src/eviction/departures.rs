//! All pods that are asked to leave, and the requests about them that are under way.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Touched,
    departure::{AGAIN, Case, Departure, Next},
    stays_alive, these,
};
use crate::{
    agenda::Agenda,
    index::Index,
    model::{
        Cause, Failure, FailureClass, Moment, ObjectKey, PodFacts, RequestId, Signal, TargetGroupArn, Uid,
        WallTime,
        eviction::{Budget, Checked, Limits},
        leaving::Mark,
    },
    multimap::Multimap,
};

/// What follows from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A pod is to be taken out now.
    Leaves {
        pod: ObjectKey,
        /// If nobody has asked for its eviction: its node, which is about to go.
        node: Option<(Arc<str>, Signal)>,
    },
    /// The user is to be told.
    Tells {
        pod: ObjectKey,
        uid: Uid,
        cause: Cause,
        /// In the words of Kubernetes, or about the budget.
        why: Box<str>,
        /// So long after it was asked to leave for the first time.
        after: Duration,
        /// Whether its eviction is let through now.
        passes: bool,
    },
}

/// A request that is under way. Its answer may come when the pod has gone, or leaves no more, because of it.
#[derive(Clone, Debug)]
pub struct Open {
    pub(super) pod: ObjectKey,
    uid: Uid,
    /// What is written; `None`: it is a check.
    pub(super) mark: Option<Mark>,
    /// When it began, and since when the pod is asked to leave, as this replica has seen.
    begun: Moment,
    since: Moment,
    /// Nobody has asked for it then.
    early: bool,
    /// Why it is let through, if that is no word of its own.
    why: Box<str>,
}

/// All pods that are asked to leave. See the module above.
///
/// Each is looked at when something happens to it, to a target group of its, or when its time has come; so what happens
/// costs what those cost that it concerns.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    pub(super) pods: BTreeMap<ObjectKey, Departure>,
    open: BTreeMap<RequestId, Open>,
    pub(super) agenda: Agenda,
    by_group: Multimap<TargetGroupArn, ObjectKey>,
    checks: Checks,
}

impl Departures {
    /// A pod looks like this now.
    pub fn saw(&mut self, pod: &PodFacts, now: Moment, wall: WallTime) {
        let known = self.pods.get(&pod.key).is_some_and(|known| known.uid == pod.uid);
        let written = pod.leaving.as_deref().filter(|_| stays_alive(pod));
        if !known || written.is_none() {
            self.forget(&pod.key);
        }
        let Some(written) = written else { return };
        let departure = self.pods.entry(pod.key.clone()).or_insert_with(|| {
            // It was seen to be undone, and that has not been answered.
            let mut open = self.open.iter().filter(|(_, open)| open.uid == pod.uid);
            let busy = open.next().map(|(id, open)| (*id, open.mark));
            Departure::new(pod.uid.clone(), *written, now, busy)
        });
        departure.sees(*written, now, wall);
        self.touch(Touched::Pod(&pod.key), now);
    }

    /// The pod is gone, or does not leave any more.
    pub fn forget(&mut self, pod: &ObjectKey) {
        self.concern(pod, BTreeSet::new());
        self.agenda.put(pod, None);
        if self.pods.remove(pod).is_some() {
            self.checks.forget(pod);
        }
    }

    /// Forgets the pods, this one or all, that the index does not have any more.
    pub fn keep(&mut self, one: Option<&ObjectKey>, index: &Index) {
        for pod in these(&self.pods, one.map_or(Touched::All, Touched::Pod)) {
            let known = self.pods.get(&pod).map(|departure| &departure.uid);
            if index.pods().get(&pod).map(|facts| &facts.uid) != known {
                self.forget(&pod);
            }
        }
    }

    /// These target groups concern a pod, as it stands now.
    pub fn concern(&mut self, pod: &ObjectKey, groups: BTreeSet<TargetGroupArn>) {
        let Some(departure) = self.pods.get_mut(pod) else { return };
        for arn in &std::mem::replace(&mut departure.groups, groups) {
            self.by_group.take(arn, pod);
        }
        for arn in &departure.groups {
            self.by_group.put(arn, pod);
        }
    }

    /// Something has happened: those that it concerns are looked at.
    pub fn touch(&mut self, touched: Touched<'_>, now: Moment) {
        let pods = match touched {
            Touched::Group(arn) => self.by_group.of(arn).cloned().collect(),
            Touched::Removal(pod) => {
                let Some(departure) = self.pods.get_mut(pod).filter(|it| it.was_taken_out()) else { return };
                departure.back.get_or_insert(now);
                vec![pod.clone()]
            }
            touched => these(&self.pods, touched),
        };
        for pod in pods {
            self.agenda.hasten(&pod, now);
        }
    }

    /// Those that are looked at now: who was asked first goes first.
    pub fn take_due(&mut self, now: Moment) -> Vec<ObjectKey> {
        for pod in self.checks.take() {
            self.touch(Touched::Pod(&pod), now);
        }
        let mut due = Vec::new();
        while let Some(pod) = self.agenda.take(now) {
            due.extend(self.pods.get(&pod).map(|departure| (departure.facts.ask.since, pod)));
        }
        due.sort();
        due.into_iter().map(|(_, pod)| pod).collect()
    }

    pub fn next(&mut self, pod: &ObjectKey, case: &Case, limits: &Limits) -> Next {
        let Some(departure) = self.pods.get_mut(pod) else { return Next::Wait(None) };
        if case.is_gone
            && let Some(decision) = &mut departure.decision
        {
            decision.taken.get_or_insert(case.now);
        }
        if case.is_back && departure.facts.deregistered.is_some() {
            departure.back.get_or_insert(case.now);
        }
        match departure.next(case, limits) {
            Next::Check if self.checks.waits(pod, departure.facts.ask.since) => Next::Wait(None),
            Next::Wait(due) => {
                self.agenda.put(pod, due);
                Next::Wait(due)
            }
            next => next,
        }
    }

    /// A request about a pod begins: to write `mark`, or a check. Gives the life of the pod that is meant.
    pub fn begin(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        mark: Option<Mark>,
        begun: Moment,
    ) -> Option<Uid> {
        let departure = self.pods.get_mut(pod)?;
        departure.busy = Some((id, mark));
        if mark.is_none() {
            self.checks.begin(pod);
        }
        let (uid, since, early) =
            (departure.uid.clone(), departure.seen.since().seen(), departure.facts.ask.early);
        let why = departure.failing.as_ref().map(|(_, why)| why.clone()).unwrap_or_default();
        self.open.insert(id, Open { pod: pod.clone(), uid: uid.clone(), mark, begun, since, early, why });
        Some(uid)
    }

    /// A request is answered: this one. `None`: another one, or one of an earlier term.
    pub fn answered(&mut self, id: RequestId, now: Moment) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if open.mark.is_none() {
            // Its pod may be gone by now, and nothing else need happen for the next one to have its turn.
            if let Some(next) = self.checks.end(&open.pod).cloned() {
                self.touch(Touched::Pod(&next), now);
            }
        }
        self.touch(Touched::Pod(&open.pod), now);
        Some(open)
    }

    fn departure_of(&mut self, open: &Open) -> Option<&mut Departure> {
        self.pods.get_mut(&open.pod).filter(|departure| departure.uid == open.uid)
    }

    /// This was written, or could not be.
    pub fn marked(
        &mut self,
        open: Open,
        mark: Mark,
        result: Result<(), Failure>,
        now: Moment,
    ) -> Option<Outcome> {
        let departure = self.departure_of(&open);
        let Err(failure) = result else {
            if let Some(departure) = departure {
                departure.written(mark, open.begun, now);
            }
            return match mark {
                Mark::MayGo { reason, .. } if !open.early => Some(open.passes(reason, now)),
                Mark::Undone => Some(open.tells(Cause::EvictionGivenUp, now)),
                Mark::Disbelieved => Some(open.tells(Cause::LeavingNotCredible, now)),
                _ => None,
            };
        };
        let departure = departure?;
        (departure.busy, departure.again) = (None, now + AGAIN);
        let is_new = failure.is_lasting() && departure.told.insert(Cause::LeavingNotRecorded);
        is_new.then(|| Open { why: failure.message, ..open }.tells(Cause::LeavingNotRecorded, now))
    }

    /// What the API server says of the budgets of a pod, which `is_ready`, or not.
    pub fn checked(
        &mut self,
        open: Open,
        result: Result<Checked, Failure>,
        is_ready: bool,
        limits: &Limits,
        now: Moment,
    ) -> Option<Outcome> {
        let departure = self.departure_of(&open)?;
        departure.busy = None;
        let (cause, why) = match result.map(|checked| refusal(checked, is_ready)) {
            Ok(Some(refusal)) => refusal,
            Ok(None) => {
                (departure.failing, departure.waits) = (None, None);
                return Some(Outcome::Leaves { pod: open.pod, node: None });
            }
            Err(failure) => {
                departure.again = now + AGAIN;
                if failure.class != FailureClass::Gone {
                    let since = departure.failing.as_ref().map_or(now, |(since, _)| *since);
                    departure.failing = Some((since, failure.message));
                }
                return None;
            }
        };
        departure.failing = None;
        let written =
            departure.facts.waits.is_some_and(|(_, is)| is == cause) && !departure.is_old(now, limits);
        departure.waits = (!written).then_some(cause);
        departure.again = if departure.waits.is_some() { now } else { now + AGAIN };
        let long = departure.is_asked() && departure.seen.waited(now) >= limits.patience;
        let tells = long && departure.told.insert(cause);
        tells.then(|| Open { why, ..open }.tells(cause, now))
    }
}

/// Which pods are checked, and which wait for that: one at a time of each namespace. Two that are answered side by side
/// would both be allowed.
#[derive(Clone, Debug, Default)]
struct Checks {
    /// The namespaces in which one is under way.
    open: BTreeSet<Arc<str>>,
    /// Those that wait for it to end, by namespace: who was asked to leave first is first.
    queues: BTreeMap<Arc<str>, BTreeSet<(WallTime, ObjectKey)>>,
}

impl Checks {
    /// Whether another check of the namespace of this pod is under way. Then the pod, which is asked to leave since then,
    /// has its turn later.
    fn waits(&mut self, pod: &ObjectKey, since: WallTime) -> bool {
        let waits = self.open.contains(&pod.namespace);
        if waits {
            self.queues.entry(pod.namespace.clone()).or_default().insert((since, pod.clone()));
        }
        waits
    }

    /// A pod is checked.
    fn begin(&mut self, pod: &ObjectKey) {
        self.open.insert(pod.namespace.clone());
    }

    /// That has ended. Gives whose turn it is then.
    fn end(&mut self, pod: &ObjectKey) -> Option<&ObjectKey> {
        self.open.remove(&pod.namespace);
        Some(&self.queues.get(&pod.namespace)?.first()?.1)
    }

    /// A pod does not leave any more.
    fn forget(&mut self, pod: &ObjectKey) {
        if let Some(queue) = self.queues.get_mut(&pod.namespace) {
            queue.retain(|(_, waits)| waits != pod);
        }
    }

    /// Those that have their turn now. If one does not check after all, the next one may.
    fn take(&mut self) -> Vec<ObjectKey> {
        let mut turns = Vec::new();
        self.queues.retain(|namespace, queue| {
            if !self.open.contains(namespace) {
                turns.extend(queue.pop_first().map(|(_, pod)| pod));
            }
            !queue.is_empty()
        });
        turns
    }
}

/// Why a pod may not be evicted for now, and in which words.
fn refusal(Checked { refused, budgets }: Checked, is_ready: bool) -> Option<(Cause, Box<str>)> {
    if let Some(why) = refused {
        return Some((Cause::EvictionWaitsForBudget, why));
    }
    // A pod that is not ready takes nothing of a budget, as Kubernetes sees it.
    let full = budgets.iter().find(|budget| is_ready && budget.allowed <= budget.departing);
    let Budget { name, allowed, departing } = full?;
    let why = format!(
        "PodDisruptionBudget {name} allows {allowed}, and {departing} of its pods are on their way out"
    );
    Some((Cause::EvictionWaitsForDeparture, why.into()))
}

impl Open {
    /// It waits, or stays.
    fn tells(self, cause: Cause, now: Moment) -> Outcome {
        let Self { pod, uid, why, since, .. } = self;
        Outcome::Tells { pod, uid, cause, why, after: now.since(since), passes: false }
    }

    /// It is let through.
    fn passes(self, cause: Cause, now: Moment) -> Outcome {
        let Self { pod, uid, why, since, .. } = self;
        Outcome::Tells { pod, uid, cause, why, after: now.since(since), passes: true }
    }
}

#[cfg(test)]
mod tests;
