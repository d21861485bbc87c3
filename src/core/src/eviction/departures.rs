//! All pods that should be evicted, and the requests in flight about these pods.

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

/// The action that follows from an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The leader must deregister the pod now.
    Leaves {
        pod: ObjectKey,
        /// The node of the pod, if the node will be removed and no client has requested the eviction.
        node: Option<(Arc<str>, Signal)>,
    },
    /// An Event for the user.
    Tells {
        pod: ObjectKey,
        uid: Uid,
        cause: Cause,
        /// The message from Kubernetes, or a message about the budget.
        why: Box<str>,
        /// The time since Headgate first knew that the pod should be evicted.
        after: Duration,
        /// Whether the eviction is allowed now.
        passes: bool,
    },
}

/// A request in flight. The pod may be deleted, or its eviction undone, before the answer arrives.
#[derive(Clone, Debug)]
pub struct Open {
    pub(super) pod: ObjectKey,
    uid: Uid,
    /// The annotation to write. `None`: the request is a check.
    pub(super) mark: Option<Mark>,
    /// The time at which the request started, and the time at which this replica first saw that the pod should be
    /// evicted.
    begun: Moment,
    since: Moment,
    /// Whether no client had requested the eviction when the request started.
    early: bool,
    /// The message for the reason why the eviction is allowed, if the reason needs a message.
    why: Box<str>,
}

/// All pods that should be evicted. See the module docs.
///
/// The leader checks a pod after an event about the pod or one of its target groups, or when its next check is due. The
/// cost of an event therefore depends only on the affected pods.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    pub(super) pods: BTreeMap<ObjectKey, Departure>,
    open: BTreeMap<RequestId, Open>,
    pub(super) agenda: Agenda,
    by_group: Multimap<TargetGroupArn, ObjectKey>,
    checks: Checks,
}

impl Departures {
    /// Records the state of a pod.
    pub fn saw(&mut self, pod: &PodFacts, now: Moment, wall: WallTime) {
        let known = self.pods.get(&pod.key).is_some_and(|known| known.uid == pod.uid);
        let written = pod.leaving.as_deref().filter(|_| stays_alive(pod));
        if !known || written.is_none() {
            self.forget(&pod.key);
        }
        let Some(written) = written else { return };
        let departure = self.pods.entry(pod.key.clone()).or_insert_with(|| {
            // The annotations of the pod were removed, and a request about the pod is still in flight.
            let mut open = self.open.iter().filter(|(_, open)| open.uid == pod.uid);
            let busy = open.next().map(|(id, open)| (*id, open.mark));
            Departure::new(pod.uid.clone(), *written, now, busy)
        });
        departure.sees(*written, now, wall);
        self.touch(Touched::Pod(&pod.key), now);
    }

    /// Removes a pod that is deleted or should no longer be evicted.
    pub fn forget(&mut self, pod: &ObjectKey) {
        self.concern(pod, BTreeSet::new());
        self.agenda.put(pod, None);
        if self.pods.remove(pod).is_some() {
            self.checks.forget(pod);
        }
    }

    /// Removes `one` pod if the index no longer contains the pod. `None`: checks all pods.
    pub fn keep(&mut self, one: Option<&ObjectKey>, index: &Index) {
        for pod in these(&self.pods, one.map_or(Touched::All, Touched::Pod)) {
            let known = self.pods.get(&pod).map(|departure| &departure.uid);
            if index.pods().get(&pod).map(|facts| &facts.uid) != known {
                self.forget(&pod);
            }
        }
    }

    /// Sets the target groups whose events affect the pod.
    pub fn concern(&mut self, pod: &ObjectKey, groups: BTreeSet<TargetGroupArn>) {
        let Some(departure) = self.pods.get_mut(pod) else { return };
        for arn in &std::mem::replace(&mut departure.groups, groups) {
            self.by_group.take(arn, pod);
        }
        for arn in &departure.groups {
            self.by_group.put(arn, pod);
        }
    }

    /// Schedules a check of the pods that an event affects.
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

    /// Returns the pods to check now, ordered by their first request.
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

    /// Records the start of a request about a pod: a write of `mark`, or a check if `None`. Returns the UID of the pod.
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

    /// Removes an answered request from the requests in flight. `None`: another module sent the request, or the request
    /// is from an earlier term.
    pub fn answered(&mut self, id: RequestId, now: Moment) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if open.mark.is_none() {
            // Start the next check here, because no other event would start the next check if the pod was deleted.
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

    /// Handles the result of a write.
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

    /// Handles the API server's answer about the budgets of a pod. `is_ready`: whether the pod is ready.
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

/// The checks in flight and the waiting checks. Each namespace has at most one check in flight, because two concurrent
/// checks could both succeed although the budget allows only one eviction.
#[derive(Clone, Debug, Default)]
struct Checks {
    /// The namespaces with a check in flight.
    open: BTreeSet<Arc<str>>,
    /// The waiting pods by namespace, ordered by their first request.
    queues: BTreeMap<Arc<str>, BTreeSet<(WallTime, ObjectKey)>>,
}

impl Checks {
    /// Whether another check is in flight in the namespace of the pod. If another check is in flight, adds the pod to
    /// the queue, ordered by the time of its first request, `since`.
    fn waits(&mut self, pod: &ObjectKey, since: WallTime) -> bool {
        let waits = self.open.contains(&pod.namespace);
        if waits {
            self.queues.entry(pod.namespace.clone()).or_default().insert((since, pod.clone()));
        }
        waits
    }

    /// Records that the check of a pod starts.
    fn begin(&mut self, pod: &ObjectKey) {
        self.open.insert(pod.namespace.clone());
    }

    /// Records that the check has ended. Returns the next pod in the queue.
    fn end(&mut self, pod: &ObjectKey) -> Option<&ObjectKey> {
        self.open.remove(&pod.namespace);
        Some(&self.queues.get(&pod.namespace)?.first()?.1)
    }

    /// Removes a pod that should no longer be evicted from the queue.
    fn forget(&mut self, pod: &ObjectKey) {
        if let Some(queue) = self.queues.get_mut(&pod.namespace) {
            queue.retain(|(_, waits)| waits != pod);
        }
    }

    /// Takes the next pod of each namespace without a check in flight. If the pod needs no check, a later call returns
    /// the next pod.
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

/// Why a pod may not be evicted for now, and the message. `None`: the pod may be evicted.
fn refusal(Checked { refused, budgets }: Checked, is_ready: bool) -> Option<(Cause, Box<str>)> {
    if let Some(why) = refused {
        return Some((Cause::EvictionWaitsForBudget, why));
    }
    // Kubernetes does not count an unready pod against a budget.
    let full = budgets.iter().find(|budget| is_ready && budget.allowed <= budget.departing);
    let Budget { name, allowed, departing } = full?;
    let why = format!(
        "PodDisruptionBudget {name} allows {allowed}, and {departing} of its pods are on their way out"
    );
    Some((Cause::EvictionWaitsForDeparture, why.into()))
}

impl Open {
    /// Creates the outcome for an eviction that waits or is undone.
    fn tells(self, cause: Cause, now: Moment) -> Outcome {
        let Self { pod, uid, why, since, .. } = self;
        Outcome::Tells { pod, uid, cause, why, after: now.since(since), passes: false }
    }

    /// Creates the outcome for an eviction that is allowed.
    fn passes(self, cause: Cause, now: Moment) -> Outcome {
        let Self { pod, uid, why, since, .. } = self;
        Outcome::Tells { pod, uid, cause, why, after: now.since(since), passes: true }
    }
}

#[cfg(test)]
mod tests;
