//! The pods whose gate is not as it should be, and what is written to them when.
//!
//! A pod enters when its gate is closed, or open for an IP that it has no more, and leaves when its status shows what
//! it should. It is judged again when something happens to it, to a target group it waits for or to a binding of its
//! namespace. What turns a gate is written at once; why it is still closed only after a moment, so that most pods are
//! written to once, and not for each word of the load balancer.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use super::{Condition, GateWrite, Verdict};
use crate::{
    model::{
        gate::{Shown, ip_in},
        object::{ObjectKey, Uid},
        pod::PodFacts,
        reason::Reason,
        request::{Failure, FailureClass, RequestId},
        target_group::TargetGroupArn,
        time::Moment,
    },
    planted::{Bug, planted},
    rate_limit::backoff::Backoff,
};

/// So many conditions are written at once.
const WRITES: usize = 8;
/// Why a gate is closed is said when it has been for so long, and again at most this often.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
const EXPLAIN_EVERY: Duration = Duration::from_secs(10);
/// What was written should be seen by then; otherwise it is written again.
const SEEN_WITHIN: Duration = Duration::from_secs(5);
/// A gate that has been closed for so long, though its pod has an IP, is told to the user.
const LONG: Duration = Duration::from_secs(5 * 60);

/// One pod whose gate is not as it should be.
#[derive(Debug)]
pub struct Waiting {
    /// This life of the pod.
    pub uid: Uid,
    shown: Shown,
    ip: Option<IpAddr>,
    /// Whether its namespace was selected while it waited; one that never was is another installation's to judge.
    ours: bool,
    /// When it was first seen like that.
    pub since: Moment,
    /// Why a gate that is open for the IP it has is to be closed.
    closing: Option<Reason>,
    /// The last verdict, and since when its reason is that.
    verdict: Option<(Verdict, Moment)>,
    /// What was written last in this reign, and when.
    said: Option<(Condition, Moment)>,
    in_flight: Option<(RequestId, Condition)>,
    /// The pod is gone, by the word of the API server; the watch will say so.
    gone: bool,
    /// That it waits for long has been told.
    told: bool,
    backoff: Backoff,
    groups: BTreeSet<TargetGroupArn>,
    agenda: Option<Moment>,
    ready: Option<(Urgency, Moment)>,
}

/// What is written first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Urgency {
    /// It turns the gate.
    Turn,
    /// It only says why it is closed.
    Explain,
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
    seed: u64,
}

impl Gates {
    /// None; `seed` is for jitter.
    pub fn new(seed: u64) -> Self {
        Self {
            waiting: BTreeMap::new(),
            by_group: BTreeMap::new(),
            dirty: BTreeSet::new(),
            agenda: BTreeSet::new(),
            ready: BTreeSet::new(),
            in_flight: 0,
            refused: false,
            seed,
        }
    }

    /// A pod looks like this now; `before` is the IP that it had.
    pub fn saw(&mut self, pod: &PodFacts, before: Option<IpAddr>, now: Moment) {
        let Some(gate) = pod.gate.as_deref().filter(|_| !pod.terminating && !pod.finished) else {
            self.forget(&pod.key);
            return;
        };
        let is_of_another = |waiting: &Waiting| waiting.uid != pod.uid && !planted(Bug::GateOutlivesThePod);
        if self.waiting.get(&pod.key).is_some_and(is_of_another) {
            self.forget(&pod.key);
        }
        // Nobody says for which IP a gate is open that somebody else has opened, but for its change.
        let moved = before.is_some_and(|ip| pod.ips.first() != Some(&ip)) && gate.shown == Shown::Open(None);
        let right = !moved && (gate.shown.is_open_for(&pod.ips) || kept(gate.shown));
        let right = right && !planted(Bug::GateFollowsTheLoadBalancer);
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
    pub fn forget(&mut self, pod: &ObjectKey) {
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

    /// Forgets the pods that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&ObjectKey, &Uid) -> bool) {
        let stays = |(pod, waiting): &(&ObjectKey, &Waiting)| {
            is_there(pod, &waiting.uid) || planted(Bug::GateOutlivesThePod)
        };
        let gone = self.waiting.iter().filter(|waiting| !stays(waiting));
        let gone: Vec<ObjectKey> = gone.map(|(pod, _)| pod.clone()).collect();
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

    /// Something has happened to a target group.
    pub fn touch_group(&mut self, group: &TargetGroupArn) {
        self.dirty.extend(self.by_group.get(group).into_iter().flatten().cloned());
    }

    /// Something has happened to a pod.
    pub fn touch(&mut self, pod: &ObjectKey) {
        if self.waiting.contains_key(pod) {
            self.dirty.insert(pod.clone());
        }
    }

    /// Something has happened to the bindings of a namespace.
    pub fn touch_namespace(&mut self, namespace: &str) {
        let here = self.waiting.range(ObjectKey::new(namespace, "")..).map(|(pod, _)| pod);
        self.dirty.extend(here.take_while(|pod| &*pod.namespace == namespace).cloned());
    }

    /// The namespace of a pod is selected.
    pub fn serve(&mut self, pod: &ObjectKey) {
        if let Some(waiting) = self.waiting.get_mut(pod) {
            waiting.ours = true;
        }
    }

    /// The namespace has come to be selected.
    pub fn serve_namespace(&mut self, namespace: &str) {
        let here = self.waiting.range_mut(ObjectKey::new(namespace, "")..);
        for (_, waiting) in here.take_while(|(pod, _)| &*pod.namespace == namespace) {
            waiting.ours = true;
        }
    }

    /// Another replica leads from now on, or may: what was written is not known any more.
    pub fn stand_by(&mut self) {
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
    pub fn to_judge(&mut self, now: Moment) -> Vec<ObjectKey> {
        while self.agenda.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, pod)) = self.agenda.pop_first() else { break };
            if let Some(waiting) = self.waiting.get_mut(&pod) {
                waiting.agenda = None;
            }
            self.dirty.insert(pod);
        }
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// A pod that waits.
    pub fn get(&self, pod: &ObjectKey) -> Option<&Waiting> {
        self.waiting.get(pod)
    }

    /// How many target groups are waited for.
    pub fn groups(&self) -> usize {
        self.by_group.len()
    }

    /// The verdict on a pod, which waits for these target groups. Gives for how long its gate is closed and why, if the
    /// user should be told that now.
    pub fn judged(
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
        let stays_open = waiting.closing.is_none() && !planted(Bug::GateFollowsTheLoadBalancer);
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

/// The bug of that name: an open gate is never closed, whatever IP it is for.
fn kept(shown: Shown) -> bool {
    planted(Bug::GateKeptThroughIpChange) && matches!(shown, Shown::Open(_))
}

impl Waiting {
    fn new(uid: Uid, now: Moment, seed: u64) -> Self {
        Self {
            uid,
            shown: Shown::Missing,
            ip: None,
            ours: false,
            since: now,
            closing: None,
            verdict: None,
            said: None,
            in_flight: None,
            gone: false,
            told: false,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(5), seed),
            groups: BTreeSet::new(),
            agenda: None,
            ready: None,
        }
    }

    /// Whether there is something to do though the condition is open for the pod's IP: it is still to be closed, or shows
    /// what it showed when it was found that it has to be.
    fn stays(&self, shown: Shown) -> bool {
        self.closing.is_some() && (self.shown == shown || self.is_to_close())
    }

    /// Whether it is to be closed because a target is put back, and has not been.
    fn is_to_close(&self) -> bool {
        self.closing == Some(Reason::RegisteredAgain) && !self.was_closed()
    }

    /// Whether a write has closed it, or said that it is, after all others.
    fn was_closed(&self) -> bool {
        let opens = self.in_flight.as_ref().is_some_and(|(_, condition)| condition.open);
        !opens && self.said.as_ref().is_some_and(|(said, _)| !said.open)
    }

    /// Whether a write has opened it, or may, though the watch does not show it yet.
    fn may_be_opened(&self) -> bool {
        let writes = self.in_flight.as_ref().map(|(_, condition)| condition);
        writes.into_iter().chain(self.said.as_ref().map(|(said, _)| said)).any(|condition| condition.open)
    }

    /// If it was to be closed because a target is put back, and is by now, that is done.
    fn see_closed(&mut self) {
        let may_be_open = matches!(self.shown, Shown::Open(_)) || self.may_be_opened();
        self.closing.take_if(|reason| *reason == Reason::RegisteredAgain && !may_be_open);
    }

    /// Whether it is open for the IP that the pod has, as far as is known. If it was not to be closed, what the watch
    /// shows counts: a write that had been given up may have opened it, after another had only said why it is closed.
    fn is_open(&self) -> bool {
        let shown = self.shown.is_open_for(self.ip.as_slice());
        shown && (self.closing.is_none() || self.said.as_ref().is_none_or(|(said, _)| said.open))
    }

    /// Whether its namespace is selected, or was while it waited.
    pub fn is_ours(&self) -> bool {
        self.ours
    }

    /// What should be in the pod's status, and since when its reason is that.
    pub fn should_show(&self) -> Option<(Condition, Moment)> {
        let (_, since) = self.verdict.as_ref()?;
        Some((self.condition()?, *since))
    }

    /// What should be in the pod's status.
    fn condition(&self) -> Option<Condition> {
        let (verdict, _) = self.verdict.as_ref()?;
        let shown = matches!(self.shown, Shown::Open(_));
        let is_open = self.said.as_ref().map_or(shown, |(said, _)| said.open);
        let closes = self.closing.or(shown.then_some(Reason::IpChanged)).filter(|_| !verdict.open);
        let (reason, message) = match closes {
            Some(reason) => (reason, format!("{}; {}", closed_because(reason), verdict.message)),
            None => (verdict.reason, verdict.message.clone()),
        };
        Some(Condition { open: verdict.open, turns: verdict.open != is_open, reason, message })
    }

    /// When something is to be written, and how urgent it is.
    fn next_write(&self, now: Moment) -> Option<(Moment, Urgency)> {
        if self.in_flight.is_some() || self.gone {
            return None;
        }
        let (verdict, since) = self.verdict.as_ref()?;
        let is_open = matches!(self.shown, Shown::Open(_));
        let not_before = self.backoff.until();
        let said = self.said.as_ref();
        let opened = said.filter(|(said, _)| said.open);
        let opened_for = opened.map(|(said, _)| ip_in(&said.message));
        if let Some((_, at)) = opened.filter(|_| opened_for == Some(self.ip))
            && !verdict.open
            && self.closing.is_none()
        {
            // Open, though the watch does not show it yet; unless an older write has landed over ours.
            let is_anothers = matches!(self.shown, Shown::Open(Some(ip)) if Some(ip) != self.ip);
            return is_anothers.then(|| ((*at + SEEN_WITHIN).max(not_before), Urgency::Turn));
        }
        // Open for another IP is not what it should be either.
        if verdict.open || is_open || opened_for.is_some() {
            let same = said.filter(|(said, _)| {
                said.open == verdict.open
                    && (!verdict.open || ip_in(&said.message) == ip_in(&verdict.message))
            });
            if same.is_some() && planted(Bug::GateIsWrittenOnce) {
                return None;
            }
            let at = same.map_or(now, |(_, at)| *at + SEEN_WITHIN);
            return Some((at.max(not_before), Urgency::Turn));
        }
        let at = match said {
            Some((said, _)) if said.reason == verdict.reason => return None,
            Some((_, at)) => (*since + EXPLAIN_AFTER).max(*at + EXPLAIN_EVERY),
            None => *since + EXPLAIN_AFTER,
        };
        Some((at.max(not_before), Urgency::Explain))
    }
}

fn closed_because(reason: Reason) -> &'static str {
    match reason {
        Reason::RegisteredAgain => {
            "closed again: the target was taken out by Headgate, and is registered again"
        }
        _ => "closed again: the pod has another IP",
    }
}

#[cfg(test)]
mod tests;
