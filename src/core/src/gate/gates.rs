//! The pods whose gate is not as it should be, and what is written to them when.
//!
//! A pod enters when its gate is closed, or open for an IP that it has no more, and leaves when its status shows what
//! it should. It is judged again when something happens to it, to a target group it waits for or to a binding of its
//! namespace. What turns a gate is written at once; why it is still closed only after a moment, so that most pods are
//! written to once, and not for each word of the load balancer.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use super::{
    Bound, Case, Condition, Doubt, GateWrite, Verdict, judge,
    waiting::{Urgency, Waiting},
};
use crate::model::{
    Failure, FailureClass, Moment, ObjectKey, PodFacts, Reason, RequestId, Target, TargetGroupArn, Uid,
    gate::Shown,
};

/// So many conditions are written at once.
const WRITES: usize = 8;
/// A gate that has been closed for so long, though its pod has an IP, is told to the user.
const LONG: Duration = Duration::from_secs(5 * 60);

/// What has happened.
#[derive(Clone, Copy, Debug)]
pub enum Touched<'a> {
    /// Something about this pod.
    Pod(&'a ObjectKey),
    /// Something about this target group.
    Group(&'a TargetGroupArn),
    /// What binds the pods of this namespace was decided anew.
    Settled {
        /// The namespace.
        namespace: &'a Arc<str>,
        /// Whether anything is another than before.
        changed: bool,
    },
    /// The namespace has come to be selected, or is not selected any more.
    Selected {
        /// The namespace.
        namespace: &'a Arc<str>,
        /// Whether it is.
        selected: bool,
    },
}

/// What is known of a pod whose gate is judged, but for the gate itself.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The IP it has.
    pub ip: Option<IpAddr>,
    /// Its bindings, and how it stands there.
    pub bound: Vec<Bound>,
    /// The annotation of the pod.
    pub expected: Option<&'a str>,
    /// Something that may yet bind it.
    pub doubt: Option<Doubt>,
}

/// What follows from judging them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The target groups that a closed gate waits for, and how many others did when it was judged.
    pub waits_for: Vec<(BTreeSet<TargetGroupArn>, usize)>,
    /// The gates that have been closed for so long that the user should be told now.
    pub long: Vec<StillClosed>,
}

/// A gate that has been closed for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillClosed {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it.
    pub uid: Uid,
    /// For how long.
    pub waited: Duration,
    /// Why.
    pub message: String,
}

/// How a write has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// This life of the pod.
    pub uid: Uid,
    /// What was written.
    pub condition: Condition,
    /// If a gate was opened because its targets are healthy: how long after the read that said so.
    pub after_healthy: Option<Duration>,
    /// If a gate was opened of which the user was told that it waits: for how long it did.
    pub late: Option<Duration>,
}

/// All pods whose gate is not as it should be. See the module.
#[derive(Debug)]
pub struct Gates {
    waiting: BTreeMap<ObjectKey, Waiting>,
    by_group: BTreeMap<TargetGroupArn, BTreeSet<ObjectKey>>,
    /// To be judged now, and then.
    dirty: BTreeSet<ObjectKey>,
    agenda: BTreeSet<(Moment, ObjectKey)>,
    /// To be written.
    ready: BTreeSet<(Urgency, Moment, ObjectKey)>,
    /// How many are being written.
    in_flight: usize,
    /// Whether Kubernetes has refused a write, and none has succeeded since.
    refused: bool,
    /// When what binds the pods of each namespace has changed last.
    bindings_changed: BTreeMap<Arc<str>, Moment>,
    /// When every watch had listed.
    synced: Option<Moment>,
    /// How long the gate of a pod waits for a binding that is not there.
    patience: Duration,
    /// The targets that are put back and whose pods' gates are to be closed before.
    put_backs: BTreeSet<(TargetGroupArn, Target)>,
    seed: u64,
}

impl Gates {
    /// None. `patience`: for how long a gate waits for a binding that is not there; `seed` is for jitter.
    pub fn new(patience: Duration, seed: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            by_group: BTreeMap::new(),
            dirty: BTreeSet::new(),
            agenda: BTreeSet::new(),
            ready: BTreeSet::new(),
            in_flight: 0,
            refused: false,
            bindings_changed: BTreeMap::new(),
            synced: None,
            patience,
            put_backs: BTreeSet::new(),
            seed,
        }
    }

    /// A pod looks like this now; `before` is the IP that it had, `ours` whether its namespace is selected.
    pub fn saw(&mut self, pod: &PodFacts, before: Option<IpAddr>, ours: bool, now: Moment) {
        self.sees(pod, before, now);
        if let Some(waiting) = self.waiting.get_mut(&pod.key).filter(|_| ours) {
            waiting.ours = true;
        }
    }

    fn sees(&mut self, pod: &PodFacts, before: Option<IpAddr>, now: Moment) {
        let Some(gate) = pod.gate.as_deref().filter(|_| !pod.terminating && !pod.finished) else {
            self.forget(&pod.key);
            return;
        };
        let is_of_another = |waiting: &Waiting| waiting.uid != pod.uid;
        if self.waiting.get(&pod.key).is_some_and(is_of_another) {
            self.forget(&pod.key);
        }
        // Nobody says for which IP a gate is open that somebody else has opened, but for its change.
        let moved = before.is_some_and(|ip| pod.ips.first() != Some(&ip)) && gate.shown == Shown::Open(None);
        let right = !moved && gate.shown.is_open_for(&pod.ips);
        // What is being written is waited for: it may change what is shown here.
        let stays = |waiting: &Waiting| waiting.stays(gate.shown) || waiting.in_flight.is_some();
        if right && !self.waiting.get(&pod.key).is_some_and(stays) {
            self.forget(&pod.key);
            return;
        }
        let seed = self.seed;
        let waiting =
            self.waiting.entry(pod.key.clone()).or_insert_with(|| Waiting::new(pod.uid.clone(), now, seed));
        if waiting.shown != gate.shown && !waiting.is_to_close() {
            waiting.closing = None;
        }
        if moved {
            waiting.closing = Some(Reason::IpChanged);
        }
        (waiting.shown, waiting.ip, waiting.gone) = (gate.shown, pod.ips.first().copied(), false);
        waiting.see_closed();
        self.dirty.insert(pod.key.clone());
    }

    /// The pod is gone, or nothing is to be done about its gate any more.
    fn forget(&mut self, pod: &ObjectKey) {
        self.dirty.remove(pod);
        let Some(waiting) = self.waiting.remove(pod) else { return };
        if let Some(due) = waiting.agenda {
            self.agenda.remove(&(due, pod.clone()));
        }
        if let Some((urgency, since)) = waiting.ready {
            self.ready.remove(&(urgency, since, pod.clone()));
        }
        self.in_flight -= usize::from(waiting.in_flight.is_some());
        self.leave_groups(pod, &waiting.groups);
    }

    /// Forgets the pods that are not there any more: this one, or all.
    pub fn keep(&mut self, one: Option<&ObjectKey>, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        let is_gone = |(pod, waiting): &(&ObjectKey, &Waiting)| !is_there(pod, &waiting.uid);
        let gone: Vec<ObjectKey> = match one {
            Some(pod) => self
                .waiting
                .get_key_value(pod)
                .filter(is_gone)
                .map(|(pod, _)| pod.clone())
                .into_iter()
                .collect(),
            None => self.waiting.iter().filter(is_gone).map(|(pod, _)| pod.clone()).collect(),
        };
        for pod in gone {
            self.forget(&pod);
        }
    }

    /// A target of this pod was taken out from here and is to be registered again: if its gate is open, or about to be,
    /// it has to be closed before, and the pod to be healthy anew. `asked`: that was said already. Says whether it is
    /// (still) open.
    pub fn close(&mut self, pod: &PodFacts, asked: bool, now: Moment) -> bool {
        let gate = pod.gate.as_deref().filter(|_| !pod.terminating && !pod.finished);
        let Some(gate) = gate else { return false };
        let waiting = self.waiting.get(&pod.key).filter(|waiting| !waiting.gone);
        let is_open = matches!(gate.shown, Shown::Open(_)) || waiting.is_some_and(Waiting::may_be_opened);
        let is_closed = asked && waiting.is_some_and(Waiting::was_closed);
        if is_closed || !is_open {
            return false;
        }
        let seed = self.seed;
        let waiting =
            self.waiting.entry(pod.key.clone()).or_insert_with(|| Waiting::new(pod.uid.clone(), now, seed));
        waiting.ours = true;
        if waiting.closing != Some(Reason::RegisteredAgain) {
            (waiting.shown, waiting.ip) = (gate.shown, pod.ips.first().copied());
            // What was only explained while the gate opened says nothing.
            waiting.said.take_if(|(said, _)| !said.open);
            waiting.closing = Some(Reason::RegisteredAgain);
            self.dirty.insert(pod.key.clone());
        }
        true
    }

    /// These targets are put back: their pods have to be healthy anew, so their gates are closed before.
    pub fn put_back(&mut self, group: &TargetGroupArn, targets: impl IntoIterator<Item = Target>) {
        self.put_backs.extend(targets.into_iter().map(|target| (group.clone(), target)));
    }

    /// The targets that are put back. Those that still wait for their gates are to be given again.
    pub fn take_put_backs(&mut self) -> BTreeSet<(TargetGroupArn, Target)> {
        std::mem::take(&mut self.put_backs)
    }

    /// Something has happened that may matter.
    pub fn touch(&mut self, what: Touched<'_>, now: Moment) {
        match what {
            Touched::Pod(pod) if self.waiting.contains_key(pod) => _ = self.dirty.insert(pod.clone()),
            Touched::Pod(_) => {}
            Touched::Group(group) => {
                self.dirty.extend(self.by_group.get(group).into_iter().flatten().cloned());
            }
            Touched::Settled { namespace, changed } => {
                if changed {
                    self.bindings_changed.insert(namespace.clone(), now);
                }
                for pod in self.here(namespace) {
                    self.dirty.insert(pod);
                }
            }
            Touched::Selected { namespace, selected } => {
                self.bindings_changed.insert(namespace.clone(), now);
                for pod in self.here(namespace) {
                    if let Some(waiting) = self.waiting.get_mut(&pod).filter(|_| selected) {
                        waiting.ours = true;
                    }
                    self.dirty.insert(pod);
                }
            }
        }
    }

    /// The pods of a namespace that wait.
    fn here(&self, namespace: &str) -> Vec<ObjectKey> {
        let from = self.waiting.range(ObjectKey::new(namespace, "")..).map(|(pod, _)| pod);
        from.take_while(|pod| &*pod.namespace == namespace).cloned().collect()
    }

    /// Another replica leads from now on, or may: what was written is not known any more.
    pub fn stand_by(&mut self) {
        self.put_backs.clear();
        self.agenda.clear();
        self.ready.clear();
        self.in_flight = 0;
        self.by_group.clear();
        self.refused = false;
        for (pod, waiting) in &mut self.waiting {
            (waiting.agenda, waiting.ready, waiting.in_flight) = (None, None, None);
            (waiting.verdict, waiting.said, waiting.told, waiting.gone) = (None, None, false, false);
            waiting.groups.clear();
            waiting.closing.take_if(|reason| *reason == Reason::RegisteredAgain);
            waiting.backoff.succeeded();
            self.dirty.insert(pod.clone());
        }
    }

    /// The pods to be judged now.
    fn take_dirty(&mut self, now: Moment) -> Vec<ObjectKey> {
        while self.agenda.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, pod)) = self.agenda.pop_first() else { break };
            if let Some(waiting) = self.waiting.get_mut(&pod) {
                waiting.agenda = None;
            }
            self.dirty.insert(pod);
        }
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// What should be in the status of a pod, if its gate is not as it should be, and since when for that reason.
    pub fn should_show(&self, pod: &ObjectKey) -> Option<(Condition, Moment)> {
        self.waiting.get(pod)?.should_show()
    }

    /// Every watch has listed, perhaps since long.
    pub fn synced(&mut self, now: Moment) {
        self.synced.get_or_insert(now);
    }

    /// Judges the pods that something has happened to, by what is known of each; `None`: it is not there.
    pub fn judge<'a>(&mut self, facts: impl Fn(&ObjectKey) -> Option<Facts<'a>>, now: Moment) -> Judged {
        let mut judged = Judged::default();
        for pod in self.take_dirty(now) {
            let Some(waiting) = self.waiting.get(&pod) else { continue };
            let Some(facts) = facts(&pod) else {
                self.forget(&pod);
                continue;
            };
            if !waiting.ours {
                continue;
            }
            let changed = self.bindings_changed.get(&pod.namespace).copied();
            let settled = changed.into_iter().chain(self.synced).fold(waiting.since, Moment::max);
            let Facts { ip, bound, expected, doubt } = facts;
            let gives_up = settled + self.patience;
            let verdict = judge(&Case { ip, bound: &bound, expected, doubt, gives_up, now });
            let groups: BTreeSet<TargetGroupArn> = bound.into_iter().map(|bound| bound.group).collect();
            if !verdict.open {
                judged.waits_for.push((groups.clone(), self.by_group.len()));
            }
            let uid = waiting.uid.clone();
            if let Some((waited, message)) = self.judged(&pod, verdict, groups, now) {
                judged.long.push(StillClosed { pod, uid, waited, message });
            }
        }
        judged
    }

    /// The verdict on a pod, which waits for these target groups. Gives for how long its gate is closed and why, if the
    /// user should be told that now.
    fn judged(
        &mut self,
        pod: &ObjectKey,
        verdict: Verdict,
        groups: BTreeSet<TargetGroupArn>,
        now: Moment,
    ) -> Option<(Duration, String)> {
        let waiting = self.waiting.get_mut(pod)?;
        // What was to close it is over.
        waiting.closing.take_if(|reason| verdict.open && *reason == Reason::RegisteredAgain);
        // An open gate is not closed for what the load balancer says.
        let stays_open = waiting.closing.is_none();
        let right = waiting.is_open() && (verdict.open || stays_open);
        if right && waiting.in_flight.is_none() {
            self.forget(pod);
            return None;
        }
        let before = waiting.groups.clone();
        self.leave_groups(pod, &before);
        for group in &groups {
            self.by_group.entry(group.clone()).or_default().insert(pod.clone());
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
        let tell = !open && has_ip && !waiting.told && waited >= LONG;
        waiting.told |= tell;
        self.schedule(pod, now);
        tell.then_some((waited, message))
    }

    /// Puts down when the pod is to be looked at again, or that something is to be written.
    fn schedule(&mut self, pod: &ObjectKey, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(pod) else { return };
        if let Some(due) = waiting.agenda.take() {
            self.agenda.remove(&(due, pod.clone()));
        }
        if let Some((urgency, since)) = waiting.ready.take() {
            self.ready.remove(&(urgency, since, pod.clone()));
        }
        let look_again = waiting.verdict.as_ref().and_then(|(verdict, _)| verdict.look_again);
        let tells = (!waiting.told && waiting.ip.is_some()).then_some(waiting.since + LONG);
        let mut due = look_again.into_iter().chain(tells).filter(|due| *due > now).min();
        match waiting.next_write(now) {
            Some((at, urgency)) if at <= now => {
                let since = waiting.verdict.as_ref().map_or(waiting.since, |(_, since)| *since);
                waiting.ready = Some((urgency, since));
                self.ready.insert((urgency, since, pod.clone()));
            }
            Some((at, _)) => due = due.into_iter().chain([at]).min(),
            None => {}
        }
        if let Some(due) = due {
            waiting.agenda = Some(due);
            self.agenda.insert((due, pod.clone()));
        }
    }

    /// What is to be written now, if anything.
    pub fn write(&mut self, id: impl FnOnce() -> RequestId, now: Moment) -> Option<(RequestId, GateWrite)> {
        if self.in_flight >= WRITES {
            return None;
        }
        let (.., pod) = self.ready.pop_first()?;
        let waiting = self.waiting.get_mut(&pod)?;
        waiting.ready = None;
        let condition = waiting.condition()?;
        let id = id();
        waiting.in_flight = Some((id, condition.clone()));
        self.in_flight += 1;
        let since = waiting.verdict.as_ref().map_or(now, |(_, since)| *since);
        Some((id, GateWrite { pod, uid: waiting.uid.clone(), condition, since }))
    }

    /// A write to this pod has ended. Gives what it was if it succeeded, and otherwise, when that begins, why Kubernetes
    /// refuses it.
    pub fn written(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) -> Result<Option<Written>, (Uid, Box<str>)> {
        let Some(waiting) = self.waiting.get_mut(pod) else { return Ok(None) };
        let Some((_, condition)) = waiting.in_flight.take_if(|(own, _)| *own == id) else { return Ok(None) };
        self.in_flight -= 1;
        self.dirty.insert(pod.clone());
        let uid = waiting.uid.clone();
        match result {
            Ok(()) => {
                self.refused = false;
                waiting.backoff.succeeded();
                let opened = condition.open && condition.turns;
                let since = waiting.verdict.as_ref().map(|(_, since)| *since);
                let healthy = opened && condition.reason == Reason::TargetsHealthy;
                let after_healthy = since.filter(|_| healthy).map(|since| now.since(since));
                let late = (opened && waiting.told).then(|| now.since(waiting.since));
                // One that was sent before the gate was to be closed says nothing of what is there now.
                let is_of_before = waiting.closing == Some(Reason::RegisteredAgain)
                    && !condition.open
                    && condition.reason != Reason::RegisteredAgain;
                waiting.said = (!is_of_before).then(|| (condition.clone(), now));
                waiting.see_closed();
                Ok(Some(Written { uid, condition, after_healthy, late }))
            }
            Err(Failure { class: FailureClass::Gone, .. }) => {
                waiting.gone = true;
                Ok(None)
            }
            Err(failure) => {
                waiting.backoff.failed(now);
                waiting.see_closed();
                let begins = failure.is_lasting() && !std::mem::replace(&mut self.refused, true);
                if begins { Err((uid, failure.message)) } else { Ok(None) }
            }
        }
    }

    /// When a pod is to be judged again.
    pub fn next_due(&self) -> Option<Moment> {
        self.agenda.first().map(|(due, _)| *due)
    }

    fn leave_groups(&mut self, pod: &ObjectKey, groups: &BTreeSet<TargetGroupArn>) {
        for group in groups {
            if let Some(pods) = self.by_group.get_mut(group) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.by_group.remove(group);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
