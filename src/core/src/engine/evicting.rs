//! Evictions: what a replica answers when one is asked for, and how the leader takes a pod out before.

use std::{sync::Arc, time::Duration};

use crate::{
    binding::Binding,
    engine::{Effect, Engine, Span, sayings},
    leaving::{
        self, BoundTo, Case, Check, Checked, Concerns, MarkWrite, Next, Request, Rules, Ruling, Verdict,
        Zone, has_hold, may_leave, propagation, rule,
    },
    model::{
        health::HealthState,
        hold::{AskedHold, Hold},
        leaving::Mark,
        load_balancer::LoadBalancerType,
        object::ObjectKey,
        pod::PodFacts,
        reason::Reason,
        request::{Failure, RequestId},
        target::Target,
        target_group::TargetGroupArn,
        time::{Moment, WallTime},
        watch::Change,
    },
    notice::{About, Notice},
    planted::{Bug, planted},
    requests::{Asker, Request as Asks},
};

impl Engine {
    /// What is answered when the eviction of a pod is asked for. Changes nothing.
    pub fn may_evict(&self, pod: &ObjectKey, request: &Request, now: Moment) -> Ruling {
        if !self.term.is_synced() {
            return Ruling::Pass(Reason::BindingsUnknown);
        }
        if !self.services.is_selected(&pod.namespace) {
            return Ruling::Pass(Reason::NamespaceNotServed);
        }
        let is_meant = |facts: &&PodFacts| request.uid.as_ref().is_none_or(|uid| *uid == facts.uid);
        let Some(facts) = self.index.pod(pod).filter(is_meant) else {
            return Ruling::Pass(Reason::NotATarget);
        };
        let rules = Rules { limits: self.settings.leaving, bounds: self.settings.bounds };
        let is_guarded = self.zones(pod, now, |_| true).iter().any(Zone::is_guarded);
        let mut bound: Vec<BoundTo> = if self.index.goes_with_its_node(pod) {
            // It may have been taken out a moment ago, and the load balancer go on sending.
            self.bound_but_for_its_node(pod).into_iter().map(|(bound, ..)| bound).collect()
        } else {
            self.bound_to(pod)
        };
        if let (true, Some(hold)) = (bound.is_empty(), self.may_be_sent_to(facts, now)) {
            // The leader knows. It is an NLB at worst.
            bound.push(BoundTo { balancer: LoadBalancerType::Network, hold, paused: false });
        }
        rule(facts, &bound, is_guarded, request, &rules, self.wall(now))
    }

    pub(super) fn wall(&self, now: Moment) -> WallTime {
        self.settings.started + now.elapsed()
    }

    /// Where a pod is a target, or should be.
    pub(super) fn targets_of(&self, pod: &ObjectKey) -> Vec<(BoundTo, TargetGroupArn, Target)> {
        let bound = self.index.bound(pod).into_iter();
        let targets = bound.filter_map(|(binding, target)| {
            let group = &binding.key.group;
            let paused = self.groups.get(group).is_some_and(super::group::Group::is_paused);
            let (balancer, hold) = (binding.balancer, binding.policy.hold);
            Some((BoundTo { balancer, hold, paused }, group.clone(), target.ok()?))
        });
        targets.collect()
    }

    fn bound_to(&self, pod: &ObjectKey) -> Vec<BoundTo> {
        self.targets_of(pod).into_iter().map(|(bound, ..)| bound).collect()
    }

    /// The hold that is asked for by something which may turn out to bind a pod, when its target group has been looked
    /// up.
    fn may_yet_bind(&self, pod: &PodFacts) -> Option<Hold> {
        let hold = self.services.pending(&pod.key.namespace, &pod.labels);
        hold.filter(|_| !planted(Bug::UnknownIsNoTarget))
    }

    /// The hold that counts for a pod which is bound to nothing, if a load balancer may send to it all the same.
    fn may_be_sent_to(&self, pod: &PodFacts, now: Moment) -> Option<Hold> {
        let left = self.index.left_at(&pod.key).filter(|_| !planted(Bug::OtherRemovalsAreNotWaitedFor));
        let left = left.is_some_and(|left| now.since(left) < self.settings.bounds.network);
        let mut bound = self.index.bound(&pod.key).into_iter();
        // It may have been readier before this replica has seen it; or the leader has not seen it ready, or keeps it for its
        // zones, and so has not taken it out.
        let is_unready =
            |target: &Result<Target, Reason>| matches!(target, Err(Reason::NotReadyYet | Reason::NotReady));
        let unready = bound.find(|(_, target)| is_unready(target));
        let unready = unready.filter(|_| !planted(Bug::UnreadyIsNoTarget));
        let known = unready.map(|(binding, _)| binding.policy.hold).or_else(|| left.then(Hold::default));
        known.or_else(|| self.may_yet_bind(pod))
    }

    /// For how long load balancers may still send to a pod for what was taken out before.
    pub(super) fn lingering(&self, pod: &ObjectKey, now: Moment) -> Duration {
        let pod = self.index.pod(pod).filter(|_| !planted(Bug::OtherRemovalsAreNotWaitedFor));
        let Some(pod) = pod else { return Duration::ZERO };
        let wall = self.wall(now);
        let groups = self.groups.with_pod(&pod.uid).filter(|(_, group)| !group.is_paused());
        let left = groups.filter_map(|(_, group)| {
            let bound = group.governed.asked.bound(pod.hold, &self.settings.bounds)?;
            let out = group.registrations.out_of(&pod.uid);
            out.map(|since| (since.min(wall) + bound).since(wall)).max()
        });
        left.max().unwrap_or_default()
    }

    /// Where AWS may have a target of a pod besides, for which it is not bound any more: its removal is under way, for
    /// whatever reason.
    fn left_of(&self, pod: &ObjectKey) -> Vec<(BoundTo, TargetGroupArn, Target)> {
        let Some(facts) = self.index.pod(pod).filter(|_| !planted(Bug::OtherRemovalsAreNotWaitedFor)) else {
            return Vec::new();
        };
        let written = self.groups.with_pod(&facts.uid).filter(|(_, group)| !group.is_paused());
        let targets = written.flat_map(|(arn, group)| {
            let AskedHold { balancer, hold } = group.governed.asked;
            let bound = BoundTo { balancer, hold, paused: false };
            group.registrations.all_of(&facts.uid).map(move |target| (bound, arn.clone(), *target))
        });
        targets.collect()
    }

    /// Where a pod is a target, or should be, or was.
    pub(super) fn all_targets_of(
        &self,
        pod: &ObjectKey,
        mut now: Vec<(BoundTo, TargetGroupArn, Target)>,
    ) -> Vec<(BoundTo, TargetGroupArn, Target)> {
        for (bound, arn, target) in self.left_of(pod) {
            if !now.iter().any(|(_, other, there)| *other == arn && *there == target) {
                now.push((bound, arn, target));
            }
        }
        now
    }

    /// Something has happened that matters to pods that leave, or may.
    pub(super) fn touch_leaving(&mut self, touched: leaving::Touched<'_>, now: Moment) {
        self.departures.touch(touched, now);
        self.early.touch(touched, now);
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

    /// The index has taken in what the watch of pods said about this one, or about any.
    pub(super) fn departures_follow(&mut self, one: Option<&ObjectKey>) {
        let index = &self.index;
        self.departures.keep(one, |pod, uid| index.pod(pod).is_some_and(|pod| pod.uid == *uid));
    }

    /// Another replica leads from now on, or may: what was decided here and not written down is not in force.
    pub(super) fn departures_stand_by(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        for pod in self.departures.stand_by() {
            let changes = self.index.let_leave(&pod, false, now);
            self.absorb(changes, now, effects);
        }
    }

    /// How a pod stands in its zone of each target group that it `leaves`.
    pub(super) fn zones(&self, pod: &ObjectKey, now: Moment, leaves: impl Fn(&Binding) -> bool) -> Vec<Zone> {
        let Some(facts) = self.index.pod(pod) else { return Vec::new() };
        let Some(zone) = self.nodes.zone(facts.node.as_ref()) else { return Vec::new() };
        let has_room = self.nodes.has_room(zone);
        let bound = self.index.bound(pod).into_iter().filter(|(binding, _)| leaves(binding));
        let claimed = bound.filter_map(|(binding, target)| Some((binding, target.ok()?)));
        let zones = claimed.filter_map(|(binding, target)| {
            let least = usize::from(binding.policy.min_healthy_per_zone.0);
            let group =
                self.groups.get(&binding.key.group).filter(|group| least > 0 && !group.is_paused())?;
            let state = |target: &Target| group.observation.state(target);
            // A new leader has not read it yet: it might be.
            let unread = group.observation.last_read().is_none();
            let (limits, wall) = (&self.settings.leaving, self.wall(now));
            let is_here = |pod: &ObjectKey| {
                let node = self.index.pod(pod).and_then(|pod| pod.node.as_ref());
                self.nodes.zone(node) == Some(zone)
            };
            let counts = |(other, owner): &(&Target, &ObjectKey)| {
                *owner != pod
                    && state(other) == Some(HealthState::Healthy)
                    && is_here(owner)
                    && (!self.departures.departs(owner, limits, wall) || planted(Bug::ZoneCountsTheLeaving))
            };
            Some(Zone {
                is_healthy: unread || state(&target) == Some(HealthState::Healthy),
                least,
                healthy: self.index.targets_of(&binding.key).filter(counts).count(),
                others: self.others_in(zone, binding, pod),
                has_room,
            })
        });
        zones.collect()
    }

    /// How many other pods that `binding` selects there are in a zone, or may come to be: also those that are starting or not
    /// scheduled yet, and those that go, since others come for them.
    fn others_in(&self, zone: &Arc<str>, binding: &Binding, pod: &ObjectKey) -> usize {
        let here = self.index.pods_of(&pod.namespace).filter(|other| {
            other.key != *pod
                && !other.finished
                && binding.selector.selects(&other.labels)
                && (other.node.is_none() || self.nodes.zone(other.node.as_ref()) == Some(zone))
        });
        here.count()
    }

    fn zones_allow(&self, pod: &ObjectKey, now: Moment) -> Result<Reason, Reason> {
        let may_be_last = self.departures.is_early(pod) && !planted(Bug::LastHealthyLeavesEarly);
        if may_be_last && self.is_last_healthy(pod, now) {
            return Err(Reason::LastHealthyTarget);
        }
        let waited = self.departures.since(pod).map(|since| self.wall(now).since(since)).unwrap_or_default();
        may_leave(&self.zones(pod, now, |_| true), waited, self.settings.leaving.patience)
    }

    /// Whether a pod is the only healthy target of a group. Nobody waits for one that would leave early; taken out, it
    /// would be missed until its eviction lets another one come.
    fn is_last_healthy(&self, pod: &ObjectKey, now: Moment) -> bool {
        let (limits, wall) = (&self.settings.leaving, self.wall(now));
        self.targets_of(pod).iter().any(|(bound, arn, target)| {
            let Some(group) = self.groups.get(arn).filter(|_| !bound.paused) else { return false };
            let is_healthy = |target: &Target| group.observation.state(target) == Some(HealthState::Healthy);
            let others = self.index.bindings_of(arn).flat_map(|binding| self.index.targets_of(&binding.key));
            let mut others = others.filter(|(other, owner)| {
                *owner != pod && is_healthy(other) && !self.departures.departs(owner, limits, wall)
            });
            let unread = group.observation.last_read().is_none();
            unread || (is_healthy(target) && others.next().is_none())
        })
    }

    /// Whether the node of a pod takes no pods, or is about to go: then nobody need believe the request alone.
    fn is_backed_by_its_node(&self, pod: &ObjectKey) -> bool {
        let node = self.index.pod(pod).and_then(|facts| facts.node.as_ref());
        self.nodes.is_closed(node) || self.early.signal(pod).is_some()
    }

    /// What a pod that leaves has to do with.
    fn concerns_of(&self, pod: &ObjectKey) -> Concerns {
        let decided = self.departures.decided(pod).into_iter().flat_map(|decision| &decision.targets);
        let facts = self.index.pod(pod).into_iter();
        let selecting = facts.flat_map(|facts| self.index.selecting(&facts.key.namespace, &facts.labels));
        let bound = selecting.map(|binding| binding.key.group.clone());
        let left = self.left_of(pod).into_iter().map(|(_, arn, _)| arn);
        Concerns {
            groups: decided.map(|(arn, _)| arn.clone()).chain(bound).chain(left).collect(),
            is_backed: self.is_backed_by_its_node(pod),
        }
    }

    /// Where a zone has to become healthier before a pod may leave, that is looked at closely.
    fn look_closely(&mut self, pod: &ObjectKey, now: Moment) {
        for (_, arn, _) in self.targets_of(pod) {
            if let Some(group) = self.groups.get_mut(&arn) {
                group.look_closely(now);
            }
        }
    }

    /// Whether a pod that is `bound` like this keeps itself alive for long enough, as far as is known here.
    fn has_its_hold(&self, pod: &ObjectKey, bound: &[BoundTo]) -> bool {
        let facts = self.index.pod(pod).filter(|_| !planted(Bug::RequestsAreProof));
        facts.is_some_and(|facts| has_hold(facts, bound))
    }

    fn departure_case(&self, pod: &ObjectKey, now: Moment) -> Case {
        let is_out = |(arn, target): &(TargetGroupArn, Target)| {
            let uid = self.index.pod(pod).map(|facts| &facts.uid);
            self.groups.get(arn).zip(uid).is_none_or(|(group, uid)| group.registrations.is_out(target, uid))
        };
        let decided = self.departures.decided(pod);
        let node = self.index.pod(pod).and_then(|facts| facts.node.as_ref());
        let is_unknown = self.index.pod(pod).is_some_and(|facts| self.may_yet_bind(facts).is_some());
        let asks_zones = self.departures.asks_zones(pod);
        let zones = if asks_zones { self.zones_allow(pod, now) } else { Ok(Reason::ZoneAllows) };
        let (bound, lingers) = (self.bound_to(pod), self.lingering(pod, now));
        Case {
            zones,
            has_hold: self.has_its_hold(pod, &bound),
            waits_for_turn: self.departures.waits_for_turn(pod),
            is_target: decided.is_some()
                || bound.iter().any(|bound| !bound.paused)
                || is_unknown
                || self.is_back(pod)
                || !lingers.is_zero(),
            lingers,
            is_back: self.is_back(pod),
            is_gone: decided.is_some_and(|decision| decision.targets.iter().all(is_out)),
            is_unknown,
            node_goes: self.is_backed_by_its_node(pod),
            node_stays: self.nodes.stays(node),
            now,
            wall: self.wall(now),
        }
    }

    /// Whether AWS may have a target of a pod: as of one that another leader has registered again before it saw that the
    /// pod leaves.
    fn is_back(&self, pod: &ObjectKey) -> bool {
        !self.left_of(pod).is_empty()
    }

    /// When nothing counts but the time.
    fn bare_case(&self, now: Moment) -> Case {
        let zones = Ok(Reason::ZoneAllows);
        Case {
            zones,
            has_hold: false,
            waits_for_turn: false,
            is_target: true,
            lingers: Duration::ZERO,
            is_back: false,
            is_gone: false,
            is_unknown: false,
            node_goes: false,
            node_stays: false,
            now,
            wall: self.wall(now),
        }
    }

    /// Does what is due about the pods that are asked to leave.
    pub(super) fn mind_departures(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if !self.term.acts()
            || self.settings.read_only
            || self.departures.next_due().is_none_or(|due| due > now)
        {
            return;
        }
        loop {
            let due = self.departures.take_due(now);
            if due.is_empty() {
                return;
            }
            for pod in &due {
                let concerns = self.concerns_of(pod);
                self.departures.concern(pod, concerns);
            }
            // Of other namespaces another installation looks after.
            for pod in
                due.into_iter().filter(|pod| self.services.is_selected(&pod.namespace)).collect::<Vec<_>>()
            {
                self.mind_departure(pod, now, effects);
            }
        }
    }

    fn mind_departure(&mut self, pod: ObjectKey, now: Moment, effects: &mut Vec<Effect>) {
        self.decide_with_its_node(&pod, now);
        self.decide_what_was_paused(&pod);
        let case = self.departure_case(&pod, now);
        if case.zones == Err(Reason::EvictionWaitsForZone) {
            self.look_closely(&pod, now);
        }
        let mark = match self.departures.next(&pod, &case, &self.settings.leaving) {
            Next::Wait(_) => return,
            Next::Check => None,
            Next::Mark(mark) => Some(mark),
        };
        let id = self.requests.next_id();
        let Some((uid, labels)) = self.departures.begin(&pod, id, mark) else { return };
        let (asker, request) = match mark {
            Some(mark) => (Asker::Mark, Asks::Mark(MarkWrite { pod, uid, mark })),
            None => {
                let departing = self.departing(&pod.namespace, case.wall);
                (Asker::Check, Asks::Check(Check { pod, uid, labels, departing }))
            }
        };
        self.ask(id, asker, request, effects);
    }

    pub(super) fn on_eviction_checked(
        &mut self,
        id: RequestId,
        result: Result<Checked, Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let limits = self.settings.leaving;
        let case = self.bare_case(now);
        let index = &self.index;
        let is_ready = |pod: &ObjectKey| index.pod(pod).is_none_or(PodFacts::is_ready);
        match self.departures.checked(id, result, is_ready, &limits, &case) {
            None => {}
            // Meanwhile others may have left its zones, or it may have come to have its hold: then it is looked at again.
            Some(Verdict::Leaves(pod)) if self.zones_allow(&pod, now).is_err() => {}
            Some(Verdict::Leaves(pod)) if self.has_its_hold(&pod, &self.bound_to(&pod)) => {}
            Some(Verdict::Leaves(pod)) if self.departures.waits_for_turn(&pod) => {}
            Some(Verdict::Leaves(pod)) => {
                if self.departures.is_early(&pod) {
                    self.tell_early(&pod, effects);
                }
                self.take_out(&pod, now, effects);
            }
            Some(Verdict::Waits { pod, reason, why }) => {
                self.tell_pod(&pod, reason, sayings::eviction_waits(reason, &why), effects);
            }
        }
    }

    /// The pod leaves its target groups.
    fn take_out(&mut self, pod: &ObjectKey, now: Moment, effects: &mut Vec<Effect>) {
        let Some(facts) = self.index.pod(pod) else { return };
        let all = self.all_targets_of(pod, self.targets_of(pod));
        let bound: Vec<BoundTo> = all.iter().map(|(bound, ..)| *bound).collect();
        let bound = propagation(facts, &bound, &self.settings.bounds).unwrap_or_default();
        let bound = bound.max(self.lingering(pod, now));
        let targets = all.into_iter().filter(|(bound, ..)| !bound.paused);
        let targets = targets.map(|(_, arn, target)| (arn, target)).collect();
        self.departures.decide(pod, targets, bound, now);
        self.held_of_pod_goes(pod, Reason::PodEvicting, now);
        let changes = self.index.let_leave(pod, true, now);
        self.absorb(changes, now, effects);
    }

    /// What could not be removed when it was decided that a pod leaves may be since, as when a pause has ended: that is
    /// waited for as well.
    fn decide_what_was_paused(&mut self, pod: &ObjectKey) {
        let (Some(decision), Some(facts)) = (self.departures.decided(pod), self.index.pod(pod)) else {
            return;
        };
        let left = self.left_of(pod).into_iter().map(|(bound, arn, target)| (bound, (arn, target)));
        let more = left.filter(|(_, target)| !decision.targets.contains(target));
        let (bound, targets): (Vec<BoundTo>, Vec<_>) = more.unzip();
        if !targets.is_empty() {
            let bound = propagation(facts, &bound, &self.settings.bounds).unwrap_or_default();
            self.departures.decide_more(pod, targets, bound);
        }
    }

    pub(super) fn on_mark_written(
        &mut self,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let case = self.bare_case(now);
        let Some(marked) = self.departures.marked(id, result, &case) else { return };
        let said = match marked.mark {
            None => Some((Reason::LeavingNotRecorded, sayings::leaving_refused(&marked.why))),
            Some(Mark::MayGo { .. } | Mark::Stays) if marked.early => None,
            Some(Mark::MayGo { reason, .. }) => {
                effects.push(Effect::Took(Span::Departure, marked.after));
                sayings::eviction_ends(reason, &marked.why, marked.after).map(|said| (reason, said))
            }
            Some(Mark::Disbelieved) => Some((Reason::LeavingNotCredible, sayings::leaving_not_credible())),
            Some(Mark::Undone) => {
                let reason = Reason::EvictionGivenUp;
                sayings::eviction_ends(reason, &marked.why, marked.after).map(|said| (reason, said))
            }
            Some(_) => None,
        };
        if let Some((reason, note)) = said {
            effects.push(Effect::Notice(Notice { about: About::Pod(marked.pod, marked.uid), reason, note }));
        }
    }

    pub(super) fn tell_pod(&self, pod: &ObjectKey, reason: Reason, note: String, effects: &mut Vec<Effect>) {
        if let Some(facts) = self.index.pod(pod) {
            let about = About::Pod(pod.clone(), facts.uid.clone());
            effects.push(Effect::Notice(Notice { about, reason, note }));
        }
    }
}
