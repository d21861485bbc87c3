//! The pods whose gate is not in its desired state, and the writes that each of these pods needs.
//!
//! Headgate starts to track a pod when its gate is closed, or is open for an IP that the pod no longer has. Headgate
//! stops tracking the pod when its status shows the desired state. Events about the pod, its target groups or the
//! bindings of its namespace trigger a new evaluation of the gate.
//!
//! Headgate opens or closes a gate immediately. Headgate waits a few seconds before it writes why a gate is closed.
//! Most pods therefore need only one write.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    judge,
    waiting::{Urgency, Waiting},
};
use crate::{
    agenda::Agenda,
    model::{
        Cause, Failure, FailureClass, Health, HealthState, Moment, ObjectKey, PodFacts, RequestId,
        TargetGroupArn, Uid,
        gate::{Bound, Case, Condition, GateWrite, Shown, Stands, Terms, Verdict},
    },
    multimap::Multimap,
};

/// The maximum number of concurrent writes.
const WRITES: usize = 8;
/// The time after which Headgate reports a closed gate to the user, if the pod has an IP.
const LONG: Duration = Duration::from_secs(5 * 60);

/// An event that can change the desired state of gates.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Pod(&'a ObjectKey),
    Gone(&'a ObjectKey, &'a Uid),
    Group(&'a TargetGroupArn),
    /// A change of the namespace or of the bindings of its pods.
    Namespace {
        name: &'a Arc<str>,
        /// Whether the bindings of the pods may have changed.
        changed: bool,
        /// Whether the namespace is selected now and was not selected before.
        selected: bool,
    },
    /// Every watch has completed its initial list.
    Listed,
}

/// An action for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Reads this target group soon: a gate waits for the next health of a target.
    Read(TargetGroupArn),
    /// Reads this target group at growing intervals: a gate waits for a target that will become healthy at an unknown
    /// time.
    Expect(TargetGroupArn),
    /// Reads this target group soon, and then at growing intervals. A gate has started to wait for a target of a pod
    /// whose containers are not ready yet.
    Stir(TargetGroupArn),
    Write(RequestId, GateWrite),
    Tell(ObjectKey, Uid, News),
    /// Records how long the gate took to open after `DescribeTargetHealth` listed all targets of the pod as healthy.
    Count(Duration),
}

/// A report to users about a gate. The text is the message of the gate's condition, or the reason why Kubernetes
/// rejected the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The gate is still closed after this time.
    StillClosed(Duration, String),
    /// The gate has opened after this time. Headgate reported before that the gate was still closed.
    OpenedLate(Duration, String),
    /// The gate has opened although no binding selects the pod.
    WithoutBinding,
    /// The gate has opened although Headgate could not read the health of its targets.
    Unreadable(String),
    /// Kubernetes rejected the write.
    Refused(Box<str>),
}

/// Decides when to read the target group of a binding for a closed gate. `runs`: the pod's containers are ready.
/// `is_new`: the gate has not waited for this reason before.
fn read_for(bound: &Bound, runs: bool, is_new: bool) -> Option<Due> {
    let group = || bound.group.clone();
    match bound.stands {
        // The health changes within minutes, and no other event reports the change.
        Stands::Unread(_)
        | Stands::Read(Health { state: HealthState::Initial | HealthState::Draining, .. }) => {
            Some(Due::Read(group()))
        }
        // Each of these gates is open, or waits for something other than the health of a target.
        Stands::NoTarget(_)
        | Stands::Unregistered
        | Stands::LeftToItsNode
        | Stands::Paused
        | Stands::Read(Health { state: HealthState::Healthy | HealthState::ZonalShift, .. }) => None,
        Stands::Read(_) if runs => Some(Due::Expect(group())),
        Stands::Read(_) => is_new.then(|| Due::Stir(group())),
    }
}

/// All pods whose gate is not in its desired state. See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    waiting: BTreeMap<ObjectKey, Waiting>,
    by_group: Multimap<TargetGroupArn, ObjectKey>,
    /// The pods to evaluate now. `agenda` holds the pods to evaluate later.
    dirty: BTreeSet<ObjectKey>,
    agenda: Agenda,
    ready: Agenda<(Urgency, Moment)>,
    in_flight: usize,
    /// Writes in flight to pods whose gates Headgate no longer tracks, but may track again.
    forgotten: BTreeMap<(ObjectKey, Uid), (RequestId, Condition)>,
    /// Whether Kubernetes rejected a write and has accepted no write since.
    refused: bool,
    /// The time of the last change of the bindings of each namespace.
    bindings_changed: BTreeMap<Arc<str>, Moment>,
    /// The time at which every watch had completed its initial list.
    synced: Option<Moment>,
    /// How long the gate of a pod waits for a missing binding.
    patience: Duration,
    /// The time after which a gate may open for the first time although the health of its targets is unreadable.
    unread_for: Option<Duration>,
    seed: u64,
}

impl Gates {
    /// Creates a value without pods. `patience`: how long a gate waits for a missing binding. `unread_for`: how long a
    /// gate waits while the health of its targets is unreadable. `seed`: the seed of the jitter.
    pub fn new(patience: Duration, unread_for: Option<Duration>, seed: u64) -> Self {
        Self { patience, unread_for, seed, ..Self::default() }
    }

    /// Records the present state of a pod. `before`: the previous state of the pod. `ours`: whether the namespace is
    /// selected.
    pub fn saw(&mut self, pod: &PodFacts, before: Option<&PodFacts>, ours: bool, now: Moment) {
        let Some(gate) = pod.gate.as_deref().filter(|_| pod.goes().is_none()) else {
            self.forget(&pod.key);
            return;
        };
        if self.waiting.get(&pod.key).is_some_and(|waiting| waiting.uid != pod.uid) {
            self.forget(&pod.key);
        }
        // If another program opened the gate, the condition does not name an IP. Only a change of the pod's IP then
        // shows that the gate is open for the wrong IP.
        let ip_before = before.and_then(|before| before.ips.first());
        let moved =
            ip_before.is_some_and(|ip| pod.ips.first() != Some(ip)) && gate.shown == Shown::Open(None);
        let right = !moved && gate.shown.is_open_for(&pod.ips);
        // Keep the pod during a write in flight, because the write may change the status.
        let stays = |waiting: &Waiting| waiting.stays(gate.shown) || waiting.in_flight.is_some();
        if right && !gate.unread && !self.waiting.get(&pod.key).is_some_and(stays) {
            self.forget(&pod.key);
            return;
        }
        let waiting = self.of(pod, now);
        if waiting.shown != gate.shown && !waiting.is_to_close() {
            waiting.closing = None;
        }
        if moved {
            waiting.closing = Some(Cause::IpChanged);
        }
        let ip = pod.ips.first().copied();
        let has_been_open = |shown: Shown| matches!(shown, Shown::Open(_) | Shown::ClosedAgain);
        let before = before.and_then(|before| before.gate.as_deref());
        waiting.open.before |= has_been_open(gate.shown)
            || before.is_some_and(|before| has_been_open(before.shown))
            || (waiting.ip != ip && waiting.may_be_opened());
        (waiting.shown, waiting.open.unread) = (gate.shown, gate.unread);
        (waiting.ip, waiting.gone) = (ip, false);
        waiting.ours |= ours;
        waiting.see_closed();
        self.dirty.insert(pod.key.clone());
    }

    /// Returns the entry of a pod. If the pod has no entry, creates a new entry.
    fn of(&mut self, pod: &PodFacts, now: Moment) -> &mut Waiting {
        let begin = || {
            let in_flight = self.forgotten.remove(&(pod.key.clone(), pod.uid.clone()));
            Waiting { in_flight, ..Waiting::new(pod.uid.clone(), now, self.seed) }
        };
        self.waiting.entry(pod.key.clone()).or_insert_with(begin)
    }

    /// Removes the entry of a pod that was deleted, or whose gate is in its desired state.
    fn forget(&mut self, pod: &ObjectKey) {
        self.dirty.remove(pod);
        self.agenda.put(pod, None);
        self.ready.put(pod, None);
        let Some(waiting) = self.waiting.remove(pod) else { return };
        self.leave_groups(pod, &waiting.groups);
        self.forgotten.extend(waiting.in_flight.map(|written| ((pod.clone(), waiting.uid), written)));
    }

    /// Closes the gate before Headgate deregisters a target of this pod, which remains alive. `asked`: whether the caller
    /// has already requested to close the gate. Returns whether the caller must still wait until the gate is closed.
    pub fn close(&mut self, pod: &PodFacts, asked: bool, now: Moment) -> bool {
        let gate = pod.gate.as_deref().filter(|_| pod.goes().is_none());
        let Some(gate) = gate else { return false };
        let waiting = self.waiting.get(&pod.key).filter(|waiting| !waiting.gone);
        let is_open = matches!(gate.shown, Shown::Open(_)) || waiting.is_some_and(Waiting::may_be_opened);
        // The gate was judged since, and remains open for the other targets of the pod, or without a target.
        let stays_open = asked && waiting.is_none_or(|waiting| waiting.closing.is_none());
        let is_closed = stays_open || (asked && waiting.is_some_and(Waiting::was_closed));
        if is_closed || !is_open {
            return false;
        }
        let waiting = self.of(pod, now);
        (waiting.ours, waiting.open.before) = (true, true);
        if waiting.closing != Some(Cause::RegisteredAgain) {
            (waiting.shown, waiting.open.unread) = (gate.shown, gate.unread);
            waiting.ip = pod.ips.first().copied();
            // A write that only explained why the gate was closed does not prove that the gate is closed now.
            waiting.said.take_if(|(said, _)| !said.open);
            waiting.closing = Some(Cause::RegisteredAgain);
            self.dirty.insert(pod.key.clone());
        }
        true
    }

    /// Handles an event that can change the desired state of gates.
    pub fn touch(&mut self, what: Touched<'_>, now: Moment) {
        match what {
            Touched::Pod(pod) if self.waiting.contains_key(pod) => _ = self.dirty.insert(pod.clone()),
            Touched::Pod(_) => {}
            Touched::Gone(pod, uid) => {
                if self.waiting.get(pod).is_some_and(|waiting| waiting.uid == *uid) {
                    self.forget(pod);
                }
            }
            Touched::Group(group) => {
                self.dirty.extend(self.by_group.of(group).cloned());
            }
            Touched::Namespace { name, changed, selected } => {
                if changed {
                    self.bindings_changed.insert(name.clone(), now);
                }
                let from = self.waiting.range_mut(ObjectKey::new(name.clone(), "")..);
                for (pod, waiting) in from.take_while(|(pod, _)| pod.namespace == *name) {
                    waiting.ours |= selected;
                    self.dirty.insert(pod.clone());
                }
            }
            Touched::Listed => _ = self.synced.get_or_insert(now),
        }
    }

    /// Creates a copy for a leader whose term starts. The new leader evaluates all pods.
    pub fn begin(&self) -> Self {
        Self { dirty: self.waiting.keys().cloned().collect(), ..self.clone() }
    }

    /// Returns the pods to evaluate now.
    fn take_dirty(&mut self, now: Moment) -> Vec<ObjectKey> {
        while let Some(pod) = self.agenda.take(now) {
            self.dirty.insert(pod);
        }
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// Returns the condition that the pod's status should contain, and the time at which its reason began to apply.
    /// `None`: the gate is in its desired state.
    pub fn should_show(&self, pod: &ObjectKey) -> Option<(Condition, Moment)> {
        self.waiting.get(pod)?.should_show()
    }

    /// Evaluates the gates of all pods with an event, and returns the resulting actions. `case` returns the facts about
    /// a pod, or `None` if the pod does not exist. Each write gets an `id`.
    pub fn judge<'a>(
        &mut self,
        case: impl Fn(&ObjectKey) -> Option<Case<'a>>,
        mut id: impl FnMut() -> RequestId,
        now: Moment,
    ) -> Vec<Due> {
        let mut due = Vec::new();
        for pod in self.take_dirty(now) {
            let Some(waiting) = self.waiting.get(&pod) else { continue };
            let Some(case) = case(&pod) else {
                self.forget(&pod);
                continue;
            };
            if !waiting.ours {
                continue;
            }
            let changed = self.bindings_changed.get(&pod.namespace).copied();
            let settled = changed.into_iter().chain(self.synced).fold(waiting.since, Moment::max);
            // A gate that was open before was closed for a reason, so it waits until the load balancer reports its
            // targets healthy.
            let unread_for = self.unread_for.filter(|_| !waiting.open.before);
            let terms = Terms { gives_up: settled + self.patience, unread_for };
            let verdict = judge(&case, &terms, now);
            if !verdict.open && !waiting.is_unread() {
                let is_new =
                    waiting.verdict.as_ref().is_none_or(|(before, _)| before.reason != verdict.reason);
                due.extend(case.bound.iter().filter_map(|bound| read_for(bound, case.runs, is_new)));
            }
            let groups: BTreeSet<TargetGroupArn> = case.bound.into_iter().map(|bound| bound.group).collect();
            let uid = waiting.uid.clone();
            due.extend(self.judged(&pod, verdict, groups, now).map(|news| Due::Tell(pod, uid, news)));
        }
        due.extend(std::iter::from_fn(|| self.write(&mut id)));
        due
    }

    /// Records the verdict on a pod, and the target groups that its gate waits for. Returns a report to the user if the
    /// report is due.
    fn judged(
        &mut self,
        pod: &ObjectKey,
        verdict: Verdict,
        groups: BTreeSet<TargetGroupArn>,
        now: Moment,
    ) -> Option<News> {
        let waiting = self.waiting.get_mut(pod)?;
        // The reason to close the gate no longer applies.
        waiting.closing.take_if(|reason| verdict.open && *reason == Cause::RegisteredAgain);
        // An unhealthy target never closes an open gate.
        let stays_open = waiting.closing.is_none();
        let is_as_it_should_be = waiting.is_open() && (verdict.open || stays_open) && !waiting.is_unread();
        if is_as_it_should_be && waiting.in_flight.is_none() {
            self.forget(pod);
            return None;
        }
        let before = std::mem::take(&mut waiting.groups);
        self.leave_groups(pod, &before);
        for group in &groups {
            self.by_group.put(group, pod);
        }
        let waiting = self.waiting.get_mut(pod)?;
        waiting.groups = groups;
        let since = match &waiting.verdict {
            Some((before, since)) if before.reason == verdict.reason => *since,
            _ => now,
        };
        let (open, message, has_ip) = (verdict.open, verdict.message.clone(), waiting.ip.is_some());
        waiting.verdict = Some((verdict, since));
        let waited = now.since(waiting.since);
        let tell = !open && has_ip && !waiting.told && !waiting.is_unread() && waited >= LONG;
        waiting.told |= tell;
        self.schedule(pod, now);
        tell.then_some(News::StillClosed(waited, message))
    }

    /// Schedules the next evaluation of the pod, or queues a write that is due.
    fn schedule(&mut self, pod: &ObjectKey, now: Moment) {
        let Some(waiting) = self.waiting.get(pod) else { return };
        let look_again = waiting.verdict.as_ref().and_then(|(verdict, _)| verdict.look_again);
        let may_tell = !waiting.told && !waiting.is_unread() && waiting.ip.is_some();
        let tells = may_tell.then_some(waiting.since + LONG);
        let mut due = look_again.into_iter().chain(tells).filter(|due| *due > now).min();
        let mut ready = None;
        match waiting.next_write(now) {
            Some((at, urgency)) if at <= now => {
                ready = Some((urgency, waiting.verdict.as_ref().map_or(waiting.since, |(_, since)| *since)));
            }
            Some((at, _)) => due = due.into_iter().chain([at]).min(),
            None => {}
        }
        self.agenda.put(pod, due);
        self.ready.put(pod, ready);
    }

    /// Returns the next write that is due.
    fn write(&mut self, id: impl FnOnce() -> RequestId) -> Option<Due> {
        if self.in_flight >= WRITES {
            return None;
        }
        let pod = self.ready.pop()?;
        let waiting = self.waiting.get_mut(&pod)?;
        let (condition, since) = waiting.should_show()?;
        let id = id();
        waiting.in_flight = Some((id, condition.clone()));
        self.in_flight += 1;
        Some(Due::Write(id, GateWrite { pod, uid: waiting.uid.clone(), condition, since }))
    }

    /// Handles the result of a write to this pod. Returns the resulting actions.
    pub fn written(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) -> Vec<Due> {
        let mut due = Vec::new();
        let forgotten = self.forgotten.extract_if(.., |_, (own, _)| *own == id).count();
        self.in_flight -= forgotten;
        let Some(waiting) = self.waiting.get_mut(pod) else { return due };
        let Some((_, condition)) = waiting.in_flight.take_if(|(own, _)| *own == id) else { return due };
        self.in_flight -= 1;
        self.dirty.insert(pod.clone());
        let mut tell = |news| due.push(Due::Tell(pod.clone(), waiting.uid.clone(), news));
        match result {
            Ok(()) => {
                self.refused = false;
                waiting.backoff.succeeded();
                let opened = condition.open && condition.turns;
                if opened && condition.reason == Cause::HealthUnreadable {
                    tell(News::Unreadable(condition.message.clone()));
                } else if opened && waiting.told {
                    tell(News::OpenedLate(now.since(waiting.since), condition.message.clone()));
                } else if condition.open && condition.reason == Cause::NothingBound {
                    tell(News::WithoutBinding);
                }
                if let Some((_, since)) = &waiting.verdict
                    && opened
                    && condition.reason == Cause::TargetsHealthy
                {
                    due.push(Due::Count(now.since(*since)));
                }
                // A write from before the request to close the gate does not prove that the gate is closed now.
                let is_of_before = waiting.closing == Some(Cause::RegisteredAgain)
                    && !condition.open
                    && condition.reason != Cause::RegisteredAgain;
                waiting.said = (!is_of_before).then_some((condition, now));
                waiting.see_closed();
            }
            Err(Failure { class: FailureClass::Gone, .. }) => waiting.gone = true,
            Err(failure) => {
                waiting.backoff.failed(now);
                waiting.see_closed();
                // Headgate reports only the first of several rejections in a row.
                if failure.is_lasting() && !std::mem::replace(&mut self.refused, true) {
                    due.push(Due::Tell(pod.clone(), waiting.uid.clone(), News::Refused(failure.message)));
                }
            }
        }
        due
    }

    /// The time of the next evaluation of a pod.
    pub fn next_due(&self) -> Option<Moment> {
        self.agenda.next_due()
    }

    fn leave_groups(&mut self, pod: &ObjectKey, groups: &BTreeSet<TargetGroupArn>) {
        for group in groups {
            self.by_group.take(group, pod);
        }
    }
}

#[cfg(test)]
mod tests;
