//! The pods whose gate is not in its desired state, and when to write what to each.
//!
//! A pod is added when its gate is closed, or open for an IP that the pod no longer has. It is removed when its status
//! shows the desired state. Headgate judges it again when something happens to it, to a target group that it waits for,
//! or to a binding of its namespace. Headgate opens or closes a gate at once. It explains why a gate is closed only
//! after a moment, so it writes to most pods once, and not for each health state.

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
/// If a gate has been closed for this long although its pod has an IP, Headgate reports it to the user.
const LONG: Duration = Duration::from_secs(5 * 60);

/// An event that may matter to gates.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Pod(&'a ObjectKey),
    Gone(&'a ObjectKey, &'a Uid),
    Group(&'a TargetGroupArn),
    /// An event about the bindings of the pods in a namespace.
    Namespace {
        name: &'a Arc<str>,
        /// Whether other bindings select them than before, or may.
        changed: bool,
        /// Whether the namespace has become selected.
        selected: bool,
    },
    /// Every watch has listed, now or earlier.
    Listed,
}

/// An action for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Read this target group soon: a gate waits for the result of the next read.
    Read(TargetGroupArn),
    /// Read it at growing intervals: a gate waits for a target that should become healthy at an unknown time.
    Expect(TargetGroupArn),
    /// Read it soon, and then less and less often: a gate has begun to wait for a target that cannot become healthy
    /// yet.
    Stir(TargetGroupArn),
    Write(RequestId, GateWrite),
    Tell(ObjectKey, Uid, News),
    /// Record the time from the read that showed the pod's targets healthy to the opening of its gate.
    Count(Duration),
}

/// A report to users about a gate, with the message of its condition, or why Kubernetes rejects the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The gate has been closed for this long.
    StillClosed(Duration, String),
    /// The gate has opened after this long, and Headgate had reported that it was closed.
    OpenedLate(Duration, String),
    /// The gate has opened although no binding selects the pod.
    WithoutBinding(String),
    /// The gate has opened although the health of its targets could not be read.
    Unreadable(String),
    /// Kubernetes rejects the write.
    Refused(Box<str>),
}

/// How a waiting gate wants the target group of a binding to be read. `runs`: the containers of its pod are ready.
/// `is_new`: the gate did not wait for this reason before.
fn read_for(bound: &Bound, runs: bool, is_new: bool) -> Option<Due> {
    let group = || bound.group.clone();
    match bound.stands {
        // This changes within minutes, without another event.
        Stands::Unread(_)
        | Stands::Read(Health { state: HealthState::Initial | HealthState::Draining, .. }) => {
            Some(Due::Read(group()))
        }
        // The gate waits for something other than a read, and a read follows. Or it does not wait.
        Stands::NoTarget(_)
        | Stands::Unregistered
        | Stands::LeftToItsNode
        | Stands::Paused
        | Stands::Read(Health { state: HealthState::Healthy | HealthState::ZonalShift, .. }) => None,
        Stands::Read(_) if runs => Some(Due::Expect(group())),
        Stands::Read(_) => is_new.then(|| Due::Stir(group())),
    }
}

/// All pods whose gate is not in its desired state. See the module.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    waiting: BTreeMap<ObjectKey, Waiting>,
    by_group: Multimap<TargetGroupArn, ObjectKey>,
    /// The pods to judge now. Those to judge later are in `agenda`.
    dirty: BTreeSet<ObjectKey>,
    agenda: Agenda,
    ready: Agenda<(Urgency, Moment)>,
    /// The number of writes in flight.
    in_flight: usize,
    /// Writes in flight to pods whose gates are not tracked any more. The pods may appear again.
    forgotten: BTreeMap<(ObjectKey, Uid), (RequestId, Condition)>,
    /// Whether Kubernetes has rejected a write, and accepted none since.
    refused: bool,
    /// When the bindings of the pods of each namespace have changed last.
    bindings_changed: BTreeMap<Arc<str>, Moment>,
    /// When every watch had listed.
    synced: Option<Moment>,
    /// How long the gate of a pod waits for a missing binding.
    patience: Duration,
    /// How long the health of registered targets must be unreadable before a gate opens for the first time without it.
    unread_for: Option<Duration>,
    seed: u64,
}

impl Gates {
    /// Starts without pods. `patience`: how long a gate waits for a missing binding. `unread_for`: how long it waits
    /// for health that cannot be read. `seed`: for jitter.
    pub fn new(patience: Duration, unread_for: Option<Duration>, seed: u64) -> Self {
        Self { patience, unread_for, seed, ..Self::default() }
    }

    /// Takes in the present state of a pod. `before`: its earlier state. `ours`: whether its namespace is selected.
    pub fn saw(&mut self, pod: &PodFacts, before: Option<&PodFacts>, ours: bool, now: Moment) {
        let Some(gate) = pod.gate.as_deref().filter(|_| pod.goes().is_none()) else {
            self.forget(&pod.key);
            return;
        };
        if self.waiting.get(&pod.key).is_some_and(|waiting| waiting.uid != pod.uid) {
            self.forget(&pod.key);
        }
        // If another program has opened a gate, only a change of the IP shows that it is open for another one.
        let ip_before = before.and_then(|before| before.ips.first());
        let moved =
            ip_before.is_some_and(|ip| pod.ips.first() != Some(ip)) && gate.shown == Shown::Open(None);
        let right = !moved && gate.shown.is_open_for(&pod.ips);
        // Wait for a write in flight: it may change what the status shows.
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

    /// The entry of a pod. Without one, the pod waits from now on.
    fn of(&mut self, pod: &PodFacts, now: Moment) -> &mut Waiting {
        let begin = || {
            let in_flight = self.forgotten.remove(&(pod.key.clone(), pod.uid.clone()));
            Waiting { in_flight, ..Waiting::new(pod.uid.clone(), now, self.seed) }
        };
        self.waiting.entry(pod.key.clone()).or_insert_with(begin)
    }

    /// Forgets a pod that was deleted, or whose gate needs nothing any more.
    fn forget(&mut self, pod: &ObjectKey) {
        self.dirty.remove(pod);
        self.agenda.put(pod, None);
        self.ready.put(pod, None);
        let Some(waiting) = self.waiting.remove(pod) else { return };
        self.leave_groups(pod, &waiting.groups);
        self.forgotten.extend(waiting.in_flight.map(|written| ((pod.clone(), waiting.uid), written)));
    }

    /// Headgate will deregister a target of this pod, which remains alive. If the gate is open, or about to open, it must
    /// be closed first. `asked`: the caller has asked for this before. Returns whether the gate is (still) open.
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
            // A write that only explained why the gate was closed does not show that it is closed now.
            waiting.said.take_if(|(said, _)| !said.open);
            waiting.closing = Some(Cause::RegisteredAgain);
            self.dirty.insert(pod.key.clone());
        }
        true
    }

    /// Takes in an event that may matter to gates.
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

    /// A copy for a leader whose term begins. The leader judges all pods.
    pub fn begin(&self) -> Self {
        Self { dirty: self.waiting.keys().cloned().collect(), ..self.clone() }
    }

    /// The pods to judge now.
    fn take_dirty(&mut self, now: Moment) -> Vec<ObjectKey> {
        while let Some(pod) = self.agenda.take(now) {
            self.dirty.insert(pod);
        }
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// The condition that the status of a pod should show, if its gate is not in its desired state, and since when it
    /// has this reason.
    pub fn should_show(&self, pod: &ObjectKey) -> Option<(Condition, Moment)> {
        self.waiting.get(pod)?.should_show()
    }

    /// Judges the pods that something has happened to, and returns what is due. `case` returns the facts about a pod,
    /// or `None` if the pod does not exist. Each write gets an `id`.
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
            // A gate that was open before was closed for a reason, and waits for the load balancer.
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

    /// Takes in the verdict on a pod, and the target groups that it waits for. Returns a report to the user if one is
    /// due.
    fn judged(
        &mut self,
        pod: &ObjectKey,
        verdict: Verdict,
        groups: BTreeSet<TargetGroupArn>,
        now: Moment,
    ) -> Option<News> {
        let waiting = self.waiting.get_mut(pod)?;
        // The reason to close the gate does not hold any more.
        waiting.closing.take_if(|reason| verdict.open && *reason == Cause::RegisteredAgain);
        // The health that the load balancer reports never closes an open gate.
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

    /// Schedules when to judge the pod again, or queues a write that is due.
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

    /// The next write, if one is due.
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

    /// A write to this pod has ended. Returns what is due.
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
                    tell(News::WithoutBinding(condition.message.clone()));
                }
                if let Some((_, since)) = &waiting.verdict
                    && opened
                    && condition.reason == Cause::TargetsHealthy
                {
                    due.push(Due::Count(now.since(*since)));
                }
                // A write that was sent before the gate had to be closed does not show that it is closed now.
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
                // Headgate reports rejections only when they begin.
                if failure.is_lasting() && !std::mem::replace(&mut self.refused, true) {
                    due.push(Due::Tell(pod.clone(), waiting.uid.clone(), News::Refused(failure.message)));
                }
            }
        }
        due
    }

    /// When a pod must be judged again.
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
