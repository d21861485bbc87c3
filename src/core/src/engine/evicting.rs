//! Evictions: what a replica answers when one is asked for, and how the leader takes a pod out before.

use crate::{
    engine::{Effect, Engine, Span, sayings},
    input::{CallId, Change},
    leaving::{
        BoundTo, Case, Check, CheckFailure, Checked, Mark, MarkFailure, MarkWrite, Next, Request, Rules,
        Ruling, Verdict, propagation, rule,
    },
    notice::{About, Notice},
    object::ObjectKey,
    pod::PodFacts,
    reason::Reason,
    target::Target,
    target_group::TargetGroupArn,
    time::{Moment, WallTime},
};

impl Engine {
    /// What is answered when the eviction of a pod is asked for. Changes nothing.
    pub fn may_evict(&self, pod: &ObjectKey, request: &Request, now: Moment) -> Ruling {
        if !self.is_synced() {
            return Ruling::Pass(Reason::BindingsUnknown);
        }
        let is_meant = |facts: &&PodFacts| request.uid.as_ref().is_none_or(|uid| *uid == facts.uid);
        let Some(facts) = self.index.pod(pod).filter(is_meant) else {
            return Ruling::Pass(Reason::NotATarget);
        };
        let rules = Rules { limits: self.settings.leaving, bounds: self.settings.bounds };
        rule(facts, &self.bound_to(pod), request, &rules, self.wall(now))
    }

    fn wall(&self, now: Moment) -> WallTime {
        self.settings.started + now.elapsed()
    }

    /// Where a pod is a target, or should be.
    fn targets_of(&self, pod: &ObjectKey) -> Vec<(BoundTo, TargetGroupArn, Target)> {
        let bound = self.index.bound(pod).into_iter();
        let targets = bound.filter_map(|(binding, target)| {
            let group = &binding.key.group;
            let paused = self.groups.get(group).is_some_and(super::group::Group::is_paused);
            let (application, hold) = (binding.application, binding.policy.hold);
            Some((BoundTo { application, hold, paused }, group.clone(), target.ok()?))
        });
        targets.collect()
    }

    fn bound_to(&self, pod: &ObjectKey) -> Vec<BoundTo> {
        self.targets_of(pod).into_iter().map(|(bound, ..)| bound).collect()
    }

    /// The watch of pods says this.
    pub(super) fn departures_see(&mut self, change: &Change<PodFacts>, now: Moment) {
        let wall = self.wall(now);
        let pods = match change {
            Change::Applied(pod) => std::slice::from_ref(pod),
            Change::Relisted(_, pods) => &pods[..],
            Change::Deleted(_) => return,
        };
        for pod in pods {
            self.departures.saw(pod, now, wall);
        }
    }

    /// The index has taken it in.
    pub(super) fn departures_follow(&mut self) {
        if !self.departures.is_empty() {
            let index = &self.index;
            self.departures.keep(|pod, uid| index.pod(pod).is_some_and(|pod| pod.uid == *uid));
        }
    }

    /// Another replica leads from now on, or may: what was decided here and not written down is not in force.
    pub(super) fn departures_stand_by(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for pod in self.departures.stand_by() {
            let changes = self.index.let_leave(&pod, false, now);
            self.absorb(changes, now, effects);
        }
    }

    fn departure_case(&self, pod: &ObjectKey, now: Moment) -> Case {
        let is_out = |(arn, target): &(TargetGroupArn, Target)| {
            let uid = self.index.pod(pod).map(|facts| &facts.uid);
            self.groups.get(arn).zip(uid).is_none_or(|(group, uid)| group.registrations.is_out(target, uid))
        };
        let decided = self.departures.decided(pod);
        Case {
            is_target: decided.is_some() || self.bound_to(pod).iter().any(|bound| !bound.paused),
            is_gone: decided.is_some_and(|decision| decision.targets.iter().all(is_out)),
            node_goes: false,
            now,
            wall: self.wall(now),
        }
    }

    /// Does what is due about the pods that are asked to leave.
    pub(super) fn mind_departures(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if !self.acts() || self.settings.read_only || self.departures.next_due().is_none_or(|due| due > now) {
            return;
        }
        let limits = self.settings.leaving;
        for pod in self.departures.take_due() {
            let case = self.departure_case(&pod, now);
            let mark = match self.departures.next(&pod, &case, &limits) {
                Next::Wait(_) => continue,
                Next::Check => None,
                Next::Mark(mark) => Some(mark),
            };
            let id = self.next_id();
            let departing = self.departures.departing(&pod.namespace, &limits, case.wall);
            let Some((uid, labels)) = self.departures.begin(&pod, id, mark) else { continue };
            effects.push(match mark {
                Some(mark) => Effect::Mark(MarkWrite { id, pod, uid, mark }),
                None => Effect::CheckEviction(Check { id, pod, uid, labels, departing }),
            });
        }
    }

    pub(super) fn on_eviction_checked(
        &mut self,
        id: CallId,
        result: Result<Checked, CheckFailure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let limits = self.settings.leaving;
        let case = Case { is_target: true, is_gone: false, node_goes: false, now, wall: self.wall(now) };
        let index = &self.index;
        let is_ready = |pod: &ObjectKey| index.pod(pod).is_none_or(PodFacts::is_ready);
        match self.departures.checked(id, result, is_ready, &limits, &case) {
            None => {}
            Some(Verdict::Leaves(pod)) => self.take_out(&pod, now, effects),
            Some(Verdict::Waits { pod, reason, why }) => {
                self.tell_pod(&pod, reason, sayings::eviction_waits(reason, &why), effects);
            }
        }
    }

    /// The pod leaves its target groups.
    fn take_out(&mut self, pod: &ObjectKey, now: Moment, effects: &mut Vec<Effect>) {
        let Some(facts) = self.index.pod(pod) else { return };
        let all = self.targets_of(pod);
        let bound: Vec<BoundTo> = all.iter().map(|(bound, ..)| *bound).collect();
        let bound = propagation(facts, &bound, &self.settings.bounds).unwrap_or_default();
        let targets = all.into_iter().filter(|(bound, ..)| !bound.paused);
        let targets = targets.map(|(_, arn, target)| (arn, target)).collect();
        self.departures.decide(pod, targets, bound, now);
        let changes = self.index.let_leave(pod, true, now);
        self.absorb(changes, now, effects);
    }

    pub(super) fn on_mark_written(
        &mut self,
        id: CallId,
        result: Result<(), MarkFailure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let case = Case { is_target: true, is_gone: false, node_goes: false, now, wall: self.wall(now) };
        let Some(marked) = self.departures.marked(id, result, &case) else { return };
        let said = match marked.mark {
            None => Some((Reason::LeavingNotRecorded, sayings::leaving_refused(&marked.why))),
            Some(Mark::MayGo { reason, .. }) => {
                effects.push(Effect::Took(Span::Departure, marked.after));
                sayings::eviction_ends(reason, &marked.why, marked.after).map(|said| (reason, said))
            }
            Some(Mark::Undone) => {
                let reason = Reason::EvictionGivenUp;
                sayings::eviction_ends(reason, &marked.why, marked.after).map(|said| (reason, said))
            }
            Some(Mark::Asked { .. } | Mark::Waits { .. } | Mark::Deregistered { .. }) => None,
        };
        if let Some((reason, note)) = said {
            effects.push(Effect::Notice(Notice { about: About::Pod(marked.pod, marked.uid), reason, note }));
        }
    }

    fn tell_pod(&self, pod: &ObjectKey, reason: Reason, note: String, effects: &mut Vec<Effect>) {
        if let Some(facts) = self.index.pod(pod) {
            let about = About::Pod(pod.clone(), facts.uid.clone());
            effects.push(Effect::Notice(Notice { about, reason, note }));
        }
    }
}
