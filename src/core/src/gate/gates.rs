//! The pods whose gate is not as it should be, and what is written to them when.
//!
//! A pod enters when its gate is closed, or open for an IP that it has no more, and leaves when its status shows what
//! it should. It is judged again when something happens to it, to a target group it waits for or to a binding of its
//! namespace. What turns a gate is written at once; why it is still closed only after a moment, so that most pods are
//! written to once, and not for each word of the load balancer.

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

/// So many conditions are written at once.
const WRITES: usize = 8;
/// A gate that has been closed for so long, though its pod has an IP, is told to the user.
const LONG: Duration = Duration::from_secs(5 * 60);

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    Pod(&'a ObjectKey),
    Gone(&'a ObjectKey, &'a Uid),
    Group(&'a TargetGroupArn),
    /// Something about what binds the pods of a namespace.
    Namespace {
        name: &'a Arc<str>,
        /// Whether other things bind them than before, or may.
        changed: bool,
        /// Whether the namespace has come to be selected.
        selected: bool,
    },
    /// Every watch has listed, perhaps since long.
    Listed,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Read this target group soon: a gate waits for what the next read shows.
    Read(TargetGroupArn),
    /// Read it less and less soon: a gate waits for a target that should become healthy, and nobody knows when.
    Expect(TargetGroupArn),
    /// Read it once and again, and then less and less often: a gate has come to wait for a target that cannot become
    /// healthy yet.
    Stir(TargetGroupArn),
    Write(RequestId, GateWrite),
    Tell(ObjectKey, Uid, News),
    /// Count how long after the read that called its targets healthy a gate was opened.
    Count(Duration),
}

/// What users are told of a gate; with the message of its condition, or why Kubernetes refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It has been closed for so long.
    StillClosed(Duration, String),
    /// It has opened after so long, and that it was closed was told.
    OpenedLate(Duration, String),
    /// It has opened though nothing binds the pod.
    WithoutBinding(String),
    /// It has opened though the health of its targets could not be read.
    Unreadable(String),
    /// Kubernetes refuses to have it written.
    Refused(Box<str>),
}

/// How a gate that waits wants the target group of a binding to be read; `runs`: the containers of its pod are ready;
/// `is_new`: it did not wait for that before.
fn read_for(bound: &Bound, runs: bool, is_new: bool) -> Option<Due> {
    let group = || bound.group.clone();
    match bound.stands {
        // It will be another by itself, within minutes.
        Stands::Unread(_)
        | Stands::Read(Health { state: HealthState::Initial | HealthState::Draining, .. }) => {
            Some(Due::Read(group()))
        }
        // What it waits for is no read, and one follows; or it does not wait.
        Stands::NoTarget(_)
        | Stands::Unregistered
        | Stands::LeftToItsNode
        | Stands::Paused
        | Stands::Read(Health { state: HealthState::Healthy | HealthState::ZonalShift, .. }) => None,
        Stands::Read(_) if runs => Some(Due::Expect(group())),
        Stands::Read(_) => is_new.then(|| Due::Stir(group())),
    }
}

/// All pods whose gate is not as it should be. See the module.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    waiting: BTreeMap<ObjectKey, Waiting>,
    by_group: Multimap<TargetGroupArn, ObjectKey>,
    /// To be judged now, and then.
    dirty: BTreeSet<ObjectKey>,
    agenda: Agenda,
    ready: Agenda<(Urgency, Moment)>,
    /// How many are being written.
    in_flight: usize,
    /// What is being written to the gates of pods that nothing is known of meanwhile: they may come again.
    forgotten: BTreeMap<(ObjectKey, Uid), (RequestId, Condition)>,
    /// Whether Kubernetes has refused a write, and none has succeeded since.
    refused: bool,
    /// When what binds the pods of each namespace has changed last.
    bindings_changed: BTreeMap<Arc<str>, Moment>,
    /// When every watch had listed.
    synced: Option<Moment>,
    /// How long the gate of a pod waits for a binding that is not there.
    patience: Duration,
    /// For how long the health of registered targets must have been unreadable for a first opening without it.
    unread_for: Option<Duration>,
    seed: u64,
}

impl Gates {
    /// None. `patience`: for how long a gate waits for a binding that is not there; `unread_for`: for health that cannot
    /// be read; `seed` is for jitter.
    pub fn new(patience: Duration, unread_for: Option<Duration>, seed: u64) -> Self {
        Self { patience, unread_for, seed, ..Self::default() }
    }

    /// A pod looks like this now; `before` is what it looked like, `ours` whether its namespace is selected.
    pub fn saw(&mut self, pod: &PodFacts, before: Option<&PodFacts>, ours: bool, now: Moment) {
        let Some(gate) = pod.gate.as_deref().filter(|_| pod.goes().is_none()) else {
            self.forget(&pod.key);
            return;
        };
        if self.waiting.get(&pod.key).is_some_and(|waiting| waiting.uid != pod.uid) {
            self.forget(&pod.key);
        }
        // Nobody says for which IP a gate is open that somebody else has opened, but for its change.
        let ip_before = before.and_then(|before| before.ips.first());
        let moved =
            ip_before.is_some_and(|ip| pod.ips.first() != Some(ip)) && gate.shown == Shown::Open(None);
        let right = !moved && gate.shown.is_open_for(&pod.ips);
        // What is being written is waited for: it may change what is shown here.
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

    /// What is known of the gate of a pod that waits from now on, if it did not before.
    fn of(&mut self, pod: &PodFacts, now: Moment) -> &mut Waiting {
        let begin = || {
            let in_flight = self.forgotten.remove(&(pod.key.clone(), pod.uid.clone()));
            Waiting { in_flight, ..Waiting::new(pod.uid.clone(), now, self.seed) }
        };
        self.waiting.entry(pod.key.clone()).or_insert_with(begin)
    }

    /// The pod is gone, or nothing is to be done about its gate any more.
    fn forget(&mut self, pod: &ObjectKey) {
        self.dirty.remove(pod);
        self.agenda.put(pod, None);
        self.ready.put(pod, None);
        let Some(waiting) = self.waiting.remove(pod) else { return };
        self.leave_groups(pod, &waiting.groups);
        self.forgotten.extend(waiting.in_flight.map(|written| ((pod.clone(), waiting.uid), written)));
    }

    /// A target of this pod was taken out from here and is to be registered again: if its gate is open, or about to be,
    /// it has to be closed before, and the pod to be healthy anew. `asked`: that was said already. Says whether it is
    /// (still) open.
    pub fn close(&mut self, pod: &PodFacts, asked: bool, now: Moment) -> bool {
        let gate = pod.gate.as_deref().filter(|_| pod.goes().is_none());
        let Some(gate) = gate else { return false };
        let waiting = self.waiting.get(&pod.key).filter(|waiting| !waiting.gone);
        let is_open = matches!(gate.shown, Shown::Open(_)) || waiting.is_some_and(Waiting::may_be_opened);
        // It was judged since, and stays open for the other targets of the pod, or for none.
        let stays_open =
            cfg!(feature = "claims") && asked && waiting.is_none_or(|waiting| waiting.closing.is_none());
        let is_closed = stays_open || (asked && waiting.is_some_and(Waiting::was_closed));
        if is_closed || !is_open {
            return false;
        }
        let waiting = self.of(pod, now);
        (waiting.ours, waiting.open.before) = (true, true);
        if waiting.closing != Some(Cause::RegisteredAgain) {
            (waiting.shown, waiting.open.unread) = (gate.shown, gate.unread);
            waiting.ip = pod.ips.first().copied();
            // What was only explained while the gate opened says nothing.
            waiting.said.take_if(|(said, _)| !said.open);
            waiting.closing = Some(Cause::RegisteredAgain);
            self.dirty.insert(pod.key.clone());
        }
        true
    }

    /// Something has happened that may matter.
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

    /// The same of a leader, whose term begins: all are judged.
    pub fn begin(&self) -> Self {
        Self { dirty: self.waiting.keys().cloned().collect(), ..self.clone() }
    }

    /// The pods to be judged now.
    fn take_dirty(&mut self, now: Moment) -> Vec<ObjectKey> {
        while let Some(pod) = self.agenda.take(now) {
            self.dirty.insert(pod);
        }
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// What should be in the status of a pod, if its gate is not as it should be, and since when for that reason.
    pub fn should_show(&self, pod: &ObjectKey) -> Option<(Condition, Moment)> {
        self.waiting.get(pod)?.should_show()
    }

    /// Judges the pods that something has happened to, by what is known of each (`None`: it is not there), and says what
    /// is to be done; each write has an `id`.
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
            // One that was open before is closed for a reason, and waits for the load balancer's word.
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

    /// The verdict on a pod, which waits for these target groups. Gives what the user should be told now.
    fn judged(
        &mut self,
        pod: &ObjectKey,
        verdict: Verdict,
        groups: BTreeSet<TargetGroupArn>,
        now: Moment,
    ) -> Option<News> {
        let waiting = self.waiting.get_mut(pod)?;
        // What was to close it is over.
        waiting.closing.take_if(|reason| verdict.open && *reason == Cause::RegisteredAgain);
        // An open gate is not closed for what the load balancer says.
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

    /// Puts down when the pod is to be looked at again, or that something is to be written.
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

    /// What is to be written now, if anything.
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

    /// A write to this pod has ended. Gives what is to be done.
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
                // One that was sent before the gate was to be closed says nothing of what is there now.
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
                // It is told when that begins.
                if failure.is_lasting() && !std::mem::replace(&mut self.refused, true) {
                    due.push(Due::Tell(pod.clone(), waiting.uid.clone(), News::Refused(failure.message)));
                }
            }
        }
        due
    }

    /// When a pod is to be judged again.
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
