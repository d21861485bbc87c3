//! The readiness gates: which pods are judged when and on what, and what is written to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use crate::{
    engine::{Effect, Engine, Span, sayings},
    gate::{Bound, Case, Gates, Stands, Waiting, judge},
    index::Index,
    leadership::Role,
    ledger::PodMark,
    model::{
        object::ObjectKey,
        pod::PodFacts,
        reason::Reason,
        request::{Failure, RequestId},
        target::Target,
        target_group::TargetGroupArn,
        time::Moment,
        watch::Change,
    },
    notice::{About, Notice},
    planted::{Bug, planted},
    registration::Tombstone,
    requests::{Asker, Request},
    view::GateView,
};

/// While a pod waits for a target group, the group is read this often: most of the time from healthy to ready is spent
/// waiting for the next read.
const READ_FOR_GATES: Duration = Duration::from_secs(1);

/// The gates, and since when the bindings are what they are.
#[derive(Debug)]
pub struct Gating {
    gates: Gates,
    /// By namespace.
    bindings_changed: BTreeMap<Arc<str>, Moment>,
    /// When every watch had said all there is.
    synced: Option<Moment>,
    /// The targets that are put back and whose pods' gates are to be closed before.
    put_back: BTreeSet<(TargetGroupArn, Target)>,
}

impl Gating {
    pub fn new(seed: u64) -> Self {
        Self {
            gates: Gates::new(seed),
            bindings_changed: BTreeMap::new(),
            synced: None,
            put_back: BTreeSet::new(),
        }
    }

    /// These targets are put back, as the ledger says that they were taken out.
    pub fn are_put_back<'a>(&mut self, arn: &TargetGroupArn, targets: impl Iterator<Item = &'a Target>) {
        self.put_back.extend(targets.map(|target| (arn.clone(), *target)));
    }

    /// Another replica leads from now on, or may.
    pub fn stand_by(&mut self) {
        self.put_back.clear();
        self.gates.stand_by();
    }

    /// What a Service or TargetBinding of this namespace binds was decided anew.
    pub fn bindings_settled(&mut self, namespace: &Arc<str>, changed: bool, now: Moment) {
        if changed {
            self.bindings_changed.insert(namespace.clone(), now);
        }
        self.gates.touch_namespace(namespace);
    }

    /// The namespace has come to be selected, or is not selected any more.
    pub fn selection_changed(&mut self, namespace: &Arc<str>, selected: bool, now: Moment) {
        if selected {
            self.gates.serve_namespace(namespace);
        }
        self.bindings_settled(namespace, true, now);
    }

    /// When a binding that a pod misses is given up.
    fn gives_up(&self, pod: &ObjectKey, patience: Duration) -> Option<Moment> {
        let changed = self.bindings_changed.get(&pod.namespace).copied();
        let waiting = self.gates.get(pod)?;
        Some(changed.into_iter().chain(self.synced).fold(waiting.since, Moment::max) + patience)
    }
}

/// The pod from which a target was taken out, if it lives at the address.
pub fn living_owner<'a>(
    index: &'a Index,
    target: &Target,
    tombstone: &Tombstone<'_>,
) -> Option<&'a PodFacts> {
    let mark = tombstone.mark();
    let is_it = |pod: &&PodFacts| {
        let lives = !pod.terminating && !pod.finished && pod.ips.contains(&target.ip);
        lives && PodMark::of(&pod.uid) == mark
    };
    let last = tombstone.last;
    if PodMark::of(&last.uid) == mark { index.pod(&last.pod).filter(is_it) } else { index.pods().find(is_it) }
}

/// Whether what was taken out from here may be put back, and the gate of its pod would have to be closed then: the pod lives
/// at the address with an open gate.
pub fn may_be_put_back(
    index: &Index,
    group: &TargetGroupArn,
    target: &Target,
    tombstone: &Tombstone<'_>,
) -> bool {
    if tombstone.taken_from.is_none() || planted(Bug::PutBackIsForgotten) {
        return false;
    }
    let is_open = |pod: &PodFacts| pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips));
    let is_bound = index.bindings_of(group).next().is_some();
    is_bound && living_owner(index, target, tombstone).is_some_and(is_open)
}

impl Deref for Gating {
    type Target = Gates;

    fn deref(&self) -> &Gates {
        &self.gates
    }
}

impl DerefMut for Gating {
    fn deref_mut(&mut self) -> &mut Gates {
        &mut self.gates
    }
}

impl Engine {
    /// The watch of pods says this, and the index does not know it yet.
    pub(super) fn gates_see(&mut self, change: &Change<PodFacts>, now: Moment) {
        let pods = match change {
            Change::Applied(pod) => std::slice::from_ref(pod),
            Change::Relisted(_, pods) => &pods[..],
            Change::Deleted(_) => return,
        };
        for pod in pods {
            let before = self.index.pod(&pod.key).filter(|before| before.uid == pod.uid);
            if before.is_some_and(|before| GateView::of(before) != GateView::of(pod)) {
                for (binding, _) in self.index.bound(&pod.key) {
                    self.pictures.touch_binding(binding.key.clone());
                }
            }
            let before = before.and_then(|before| before.ips.first().copied());
            self.gating.saw(pod, before, now);
            if self.services.is_selected(&pod.key.namespace) {
                self.gating.serve(&pod.key);
            }
        }
    }

    /// The index has taken in what the watch of pods said.
    pub(super) fn gates_follow(&mut self) {
        let index = &self.index;
        self.gating.gates.keep(|pod, uid| index.pod(pod).is_some_and(|pod| pod.uid == *uid));
    }

    /// A target is wanted: if it is put back, its pod has to be healthy anew.
    pub(super) fn note_put_back(&mut self, arn: &TargetGroupArn, target: &Target) {
        if self.groups.get(arn).is_some_and(|group| group.registrations.put_back(target).is_some()) {
            self.gating.put_back.insert((arn.clone(), *target));
        }
    }

    /// Closes the gates of pods whose targets are put back. Those are registered when the gate is closed, or cannot be.
    pub(super) fn close_gates(&mut self, now: Moment) {
        for (arn, target) in std::mem::take(&mut self.gating.put_back) {
            let Some(group) = self.groups.get_mut(&arn) else { continue };
            let Some((owner, asked)) = group.registrations.put_back(&target) else { continue };
            let waits = if group.is_paused() {
                true
            } else {
                let pod = self.index.pod(&owner.pod).filter(|pod| pod.uid == owner.uid);
                let is_open = pod.is_some_and(|pod| self.gating.gates.close(pod, asked, now));
                is_open && group.registrations.wait_for_gate(&target, now)
            };
            if waits && !planted(Bug::PutBackGoesFirst) {
                self.gating.put_back.insert((arn, target));
            } else {
                group.registrations.gate_closed(&target);
            }
        }
    }

    /// Judges the gates of the pods that something has happened to, and writes what is due.
    pub(super) fn mind_gates(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.term.is_synced() {
            self.gating.synced.get_or_insert(now);
        }
        let early = self.term.role() == Role::Leading && planted(Bug::GateOpensBeforeSync);
        if self.settings.read_only || !(self.term.acts() || early) {
            return;
        }
        for pod in self.gating.to_judge(now) {
            self.judge_gate(&pod, now, effects);
        }
        let requests = &mut self.requests;
        while let Some((id, write)) = self.gating.gates.write(|| requests.next_id(), now) {
            requests.sent(id, Asker::Gate(write.pod.clone()));
            effects.push(Effect::Send { id, request: Request::Gate(write), waited: None });
        }
    }

    fn judge_gate(&mut self, pod: &ObjectKey, now: Moment, effects: &mut Vec<Effect>) {
        let Some(gives_up) = self.gating.gives_up(pod, self.settings.binding_patience) else { return };
        let Some(facts) = self.index.pod(pod) else { return self.gating.forget(pod) };
        if !self.gating.get(pod).is_some_and(Waiting::is_ours) {
            return;
        }
        let bound: Vec<Bound> = self
            .index
            .bound(pod)
            .into_iter()
            .map(|(binding, target)| Bound {
                group: binding.key.group.clone(),
                target: target.ok(),
                stands: self.stands(&binding.key.group, facts, target),
                when_unused: binding.policy.gate_when_unused,
            })
            .collect();
        let case = Case {
            ip: facts.ips.first().copied(),
            bound: &bound,
            expected: facts.gate.as_deref().and_then(|gate| gate.expected.as_deref()),
            doubt: self.services.doubt(&pod.namespace, &facts.labels),
            gives_up,
            now,
        };
        let verdict = judge(&case);
        let uid = facts.uid.clone();
        let groups: BTreeSet<TargetGroupArn> = bound.into_iter().map(|bound| bound.group).collect();
        if !verdict.open {
            // No more often than all groups that are waited for can be read.
            let period = READ_FOR_GATES.max(self.lanes.read_period(self.gating.groups()));
            for arn in &groups {
                if let Some(group) = self.groups.get_mut(arn) {
                    group.observation.within(now, period);
                }
            }
        }
        if let Some((waited, message)) = self.gating.judged(pod, verdict, groups, now) {
            let about = About::Pod(pod.clone(), uid);
            let note = sayings::gate_still_closed(waited, &message);
            effects.push(Effect::Notice(Notice { about, reason: Reason::GateStillClosed, note }));
        }
    }

    /// How a pod stands in a target group, where it claims this target, or none.
    fn stands(&self, arn: &TargetGroupArn, pod: &PodFacts, target: Result<Target, Reason>) -> Stands {
        let uid = &pod.uid;
        let target = match target {
            Ok(target) => target,
            Err(reason) => return Stands::NoTarget(reason),
        };
        let Some(group) = self.groups.get(arn) else { return Stands::Unregistered };
        match (group.registrations.owner(&target), group.observation.last_read()) {
            (Some(owner), _) if owner != uid && pod.host_network => {
                Stands::NoTarget(Reason::WaitsForHostNetworkPod)
            }
            // The pod that had the address before this one: what is written of it is on its way.
            (Some(owner), _) if owner != uid => Stands::Unregistered,
            (Some(_), Some(began)) if group.registrations.is_told_by(&target, uid, began) => {
                group.observation.health(&target).map_or(Stands::Unread, Stands::Read)
            }
            _ if group.registrations.is_registered(&target) => Stands::Unread,
            _ if group.is_paused() => Stands::Paused,
            _ => Stands::Unregistered,
        }
    }

    pub(super) fn on_gate_written(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let mut tell = |uid, reason, note| {
            effects.push(Effect::Notice(Notice { about: About::Pod(pod.clone(), uid), reason, note }));
        };
        match self.gating.written(pod, id, result, now) {
            Ok(None) => {}
            Ok(Some(written)) => {
                if let Some(late) = written.late {
                    let note = sayings::gate_opened_late(late, &written.condition.message);
                    tell(written.uid, Reason::GateOpenedLate, note);
                } else if written.condition.open && written.condition.reason == Reason::NothingBound {
                    let note = sayings::gate_without_binding(&written.condition.message);
                    tell(written.uid, Reason::NothingBound, note);
                }
                let took = written.after_healthy;
                effects.extend(took.map(|took| Effect::Took(Span::HealthyToGate, took)));
            }
            Err((uid, why)) => tell(uid, Reason::GateRefused, sayings::gate_refused(&why)),
        }
    }
}
