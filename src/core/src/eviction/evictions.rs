//! The machine: who is asked to leave, whose turn it is, what is written on whom. It asks the
//! [`Surroundings`] and changes nothing but itself.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    BoundTo, Case, Check, Checked, MarkWrite, Next, Request, Rules, Ruling, Zone,
    departure::Concerns,
    departures::{Departures, Marked, Touched, Verdict},
    early::Early,
    leaves_early, may_leave, rule,
    surroundings::{Surroundings, bound},
};
use crate::{
    binding::Binding,
    index::Index,
    model::{
        Change, Failure, Labels, LoadBalancerType, Moment, ObjectKey, PodFacts, Reason, RequestId, Target,
        TargetGroupArn, Uid,
        leaving::{Asked, Mark},
    },
    nodes::{Fate, Signal},
};

/// Something that is to be asked of Kubernetes.
#[derive(Clone, Debug)]
pub enum Ask {
    /// Write what a departure has come to.
    Mark(MarkWrite),
    /// Write that a pod is to leave, though nobody has asked for its eviction.
    Early(MarkWrite),
    /// What its budgets allow.
    Check(Check),
}

/// What is to be done now.
#[derive(Debug, Default)]
pub struct Due {
    /// Requests, with their ids.
    pub asks: Vec<(RequestId, Ask)>,
    /// Target groups that have to become healthier before a pod may leave its zone.
    pub closely: BTreeSet<TargetGroupArn>,
}

/// All evictions. See the module above.
#[derive(Debug, Default)]
pub struct Evictions {
    departures: Departures,
    early: Early,
}

const fn stays_alive(pod: &PodFacts) -> bool {
    !pod.terminating && !pod.finished
}

/// What is asked at the webhook, by anybody.
impl Evictions {
    /// What is answered when the eviction of a pod is asked for, which is there like this. Changes nothing.
    pub fn rule(&self, facts: &PodFacts, request: &Request, around: &Surroundings<'_>) -> Ruling {
        let pod = &facts.key;
        let rules = Rules { limits: *around.limits, bounds: *around.bounds };
        let is_guarded = self.zones(pod, |_| true, around).iter().any(Zone::is_guarded);
        let places = if around.index.pods().goes_with_its_node(pod) {
            // It may have been taken out a moment ago, and the load balancer go on sending.
            around.bound_but_for_leaving(pod)
        } else {
            around.targets_of(pod)
        };
        let mut bound: Vec<BoundTo> = bound(&places);
        if let (true, Some(hold)) = (bound.is_empty(), around.may_be_sent_to(facts)) {
            // The leader knows. It is an NLB at worst.
            bound.push(BoundTo { balancer: LoadBalancerType::Network, hold, paused: false });
        }
        rule(facts, &bound, is_guarded, request, &rules, around.wall)
    }

    /// How a pod stands in its zone of each target group that it `leaves`.
    pub fn zones(
        &self,
        pod: &ObjectKey,
        leaves: impl Fn(&Binding) -> bool,
        around: &Surroundings<'_>,
    ) -> Vec<Zone> {
        let Some(zone) = around.zone_of(pod) else { return Vec::new() };
        let has_room = around.nodes.has_room(zone);
        let bound = around.index.pods().bound(pod).into_iter().filter(|(binding, _)| leaves(binding));
        let claimed = bound.filter_map(|(binding, target)| Some((binding, target.ok()?)));
        let zones = claimed.filter_map(|(binding, target)| {
            let least = usize::from(binding.policy.min_healthy_per_zone.0);
            let group =
                around.groups.get(&binding.key.group).filter(|group| least > 0 && !group.is_paused())?;
            // A new leader has not read it yet: it might be.
            let unread = group.observation.last_read().is_none();
            let counts = |(other, owner): &(&Target, &ObjectKey)| {
                *owner != pod
                    && Surroundings::is_healthy(group, other)
                    && around.zone_of(owner) == Some(zone)
                    && !self.departures.departs(owner, around.limits, around.wall)
            };
            Some(Zone {
                is_healthy: unread || Surroundings::is_healthy(group, &target),
                least,
                healthy: around.index.bindings().targets_of(&binding.key).filter(counts).count(),
                others: around.others_in(zone, binding, pod),
                has_room,
            })
        });
        zones.collect()
    }
}

/// What has happened.
impl Evictions {
    /// Something has happened that matters to pods that leave, or may.
    pub fn touch(&mut self, touched: Touched<'_>, now: Moment) {
        self.departures.touch(touched, now);
        self.early.touch(touched, now);
    }

    /// The watch of pods says this, and the index does not know it yet. Gives the pods that it shows for the first time,
    /// and that were there before their node was marked; `None`: it is about no node that goes.
    pub fn saw(&mut self, change: &Change<PodFacts>, around: &Surroundings<'_>) -> Option<Vec<ObjectKey>> {
        let (pods, matters) = match change {
            Change::Applied(pod) => (std::slice::from_ref(pod), self.early.signal(&pod.key).is_some()),
            Change::Relisted(_, pods) => (&pods[..], true),
            Change::Deleted(pod) => (&[][..], self.early.signal(&pod.key).is_some()),
        };
        for pod in pods {
            self.departures.saw(pod, around.now, around.wall);
        }
        if self.early.is_empty() {
            return None;
        }
        let known =
            |pod: &PodFacts| around.index.pods().get(&pod.key).is_some_and(|known| known.uid == pod.uid);
        let late = pods.iter().filter(|pod| stays_alive(pod) && self.early.was_there(pod) && !known(pod));
        let late: Vec<ObjectKey> = late.map(|pod| pod.key.clone()).collect();
        (matters || !late.is_empty()).then_some(late)
    }

    /// The index has taken in what the watch of pods said about this one, or about any.
    pub fn follow(&mut self, one: Option<&ObjectKey>, index: &Index) {
        self.departures.keep(one, |pod, uid| index.pods().get(pod).is_some_and(|pod| pod.uid == *uid));
        self.early.keep(one, |pod, uid| {
            index.pods().get(pod).is_some_and(|pod| pod.uid == *uid && stays_alive(pod))
        });
    }

    /// The removal of a target is sent.
    pub fn removal_sent(&mut self, target: &Target, now: Moment) {
        self.departures.removal_sent(&target.ip, now);
    }

    /// Another replica leads from now on, or may. Gives the pods whose removal was decided here and is not written down.
    pub fn stand_by(&mut self) -> Vec<ObjectKey> {
        self.early.stand_by();
        self.departures.stand_by()
    }
}

/// Nodes that are about to go.
impl Evictions {
    /// How many nodes are about to go, for this reason.
    pub fn nodes_that_go(&self, fate: Fate) -> usize {
        self.early.count(fate)
    }

    /// The sign that the node of a pod is about to go, if that concerns the pod.
    pub fn signal(&self, pod: &ObjectKey) -> Option<&Signal> {
        self.early.signal(pod)
    }

    /// A node is about to go. Gives the pods that this concerns anew: all that have their address, and those that were
    /// concerned because of an earlier sign.
    pub fn node_goes(
        &mut self,
        node: &Arc<str>,
        signal: Signal,
        around: &Surroundings<'_>,
    ) -> BTreeSet<ObjectKey> {
        if !self.early.mark(node, signal, around.wall) {
            return BTreeSet::new();
        }
        let here =
            |pod: &&PodFacts| pod.node.as_ref() == Some(node) && !pod.ips.is_empty() && stays_alive(pod);
        let pods = around.index.pods().all().filter(here).map(|pod| pod.key.clone());
        let before = self.early.pods().filter(|(_, pod)| pod.node == *node).map(|(pod, _)| pod.clone());
        pods.chain(before).collect()
    }

    /// That its node is about to go concerns this pod. Gives why, in what words, and whether its targets go at once.
    pub fn concern(&mut self, pod: &PodFacts, around: &Surroundings<'_>) -> Option<Signal> {
        self.early.concern(pod, pod.node.as_ref()?, around.now);
        let signal = self.early.signal(&pod.key)?.clone();
        if !signal.fate.is_immediate() && !around.index.pods().leaves(&pod.key) {
            self.departures.revoke(&pod.key);
        }
        self.departures.touch(Touched::Pod(&pod.key), around.now);
        Some(signal)
    }

    /// A node stays after all, or is forgotten. Gives the pods that this concerns, and whether each was taken out early.
    pub fn node_stays(&mut self, node: &Arc<str>, around: &Surroundings<'_>) -> Vec<(ObjectKey, bool)> {
        let mut pods = Vec::new();
        for pod in self.early.unmark(node) {
            let is_early = self.departures.is_early(&pod) && self.departures.is_out(&pod);
            if !around.index.pods().leaves(&pod) {
                // What went with its node comes back with it.
                self.departures.revoke(&pod);
            }
            self.departures.touch(Touched::Pod(&pod), around.now);
            pods.push((pod, is_early));
        }
        pods
    }

    /// The nodes that are gone and from which nothing is left are forgotten: a node that is gone matters as long as pods
    /// are left on it, also those that are seen late ([`Evictions::concern`] them first). Gives those that are to be remembered, if any is gone.
    pub fn forget_deleted_nodes(&mut self) -> Option<BTreeSet<Arc<str>>> {
        if self.early.count(Fate::Deleted) == 0 {
            return None;
        }
        let with_pods = self.early.nodes_with_pods();
        for node in self.early.deleted_but(&with_pods) {
            self.early.unmark(&node);
        }
        Some(with_pods)
    }
}

/// What the leader does.
impl Evictions {
    /// When something is to be done.
    pub fn next_due(&self) -> Option<Moment> {
        self.departures.next_due().into_iter().chain(self.early.next_due()).min()
    }

    /// What is due about the pods of nodes that go, and then about those that are asked to leave.
    pub fn due(&mut self, mut next_id: impl FnMut() -> RequestId, around: &Surroundings<'_>) -> Due {
        let mut due = Due::default();
        self.ask_to_leave(&mut next_id, around, &mut due);
        loop {
            let pods = self.departures.take_due(around.now);
            if pods.is_empty() {
                return due;
            }
            for pod in &pods {
                let concerns = self.concerns_of(pod, around);
                self.departures.concern(pod, concerns);
            }
            // Of other namespaces another installation looks after.
            for pod in pods.into_iter().filter(|pod| around.services.is_selected(&pod.namespace)) {
                self.mind(pod, &mut next_id, around, &mut due);
            }
        }
    }

    /// Asks the pods to leave that nothing keeps alive: the leader does so itself, before anybody else.
    fn ask_to_leave(
        &mut self,
        mut next_id: impl FnMut() -> RequestId,
        around: &Surroundings<'_>,
        due: &mut Due,
    ) {
        let leaves = |pod: &ObjectKey| {
            let facts = around.index.pods().get(pod).filter(|pod| stays_alive(pod) && pod.leaving.is_none());
            let bound = || bound(&around.bound_but_for_leaving(pod));
            facts.is_some_and(|facts| leaves_early(facts, &bound(), around.bounds))
        };
        for pod in self.early.take_due(leaves, around.now) {
            let id = next_id();
            // Written twice it says the same: what was done in between counts.
            let Some(at) = self.early.since(&pod) else { continue };
            let Some(uid) = self.early.begin(&pod, id) else { continue };
            let write = MarkWrite { pod, uid, mark: Mark::Asked(Asked::early(at)) };
            due.asks.push((id, Ask::Early(write)));
        }
    }

    fn mind(
        &mut self,
        pod: ObjectKey,
        mut next_id: impl FnMut() -> RequestId,
        around: &Surroundings<'_>,
        due: &mut Due,
    ) {
        self.decide_with_its_node(&pod, around);
        self.decide_what_was_paused(&pod, around);
        let case = self.case(&pod, around);
        if case.zones == Err(Reason::EvictionWaitsForZone) {
            due.closely.extend(around.targets_of(&pod).into_iter().map(|(_, arn, _)| arn));
        }
        let mark = match self.departures.next(&pod, &case, around.limits) {
            Next::Wait(_) => return,
            Next::Check => None,
            Next::Mark(mark) => Some(mark),
        };
        let id = next_id();
        let Some((uid, labels)) = self.departures.begin(&pod, id, mark) else { return };
        let ask = if let Some(mark) = mark {
            Ask::Mark(MarkWrite { pod, uid, mark })
        } else {
            let departing = self.departing(&pod.namespace, around);
            Ask::Check(Check { pod, uid, labels, departing })
        };
        due.asks.push((id, ask));
    }

    /// What the API server says of the budgets of a pod. Gives what follows, if anything: one that may leave is taken out
    /// by that.
    pub fn checked(
        &mut self,
        id: RequestId,
        result: Result<Checked, Failure>,
        around: &Surroundings<'_>,
    ) -> Option<Verdict> {
        let is_ready = |pod: &ObjectKey| around.index.pods().get(pod).is_none_or(PodFacts::is_ready);
        let case = bare_case(around);
        let verdict = self.departures.checked(id, result, is_ready, around.limits, &case)?;
        let Verdict::Leaves { pod, .. } = &verdict else { return Some(verdict) };
        // Meanwhile others may have left its zones, or it may have come to have its hold: then it is looked at again.
        if self.zones_allow(pod, around).is_err()
            || around.has_its_hold(pod, &bound(&around.targets_of(pod)))
            || self.departures.waits_for_turn(pod)
        {
            return None;
        }
        let facts = around.index.pods().get(pod)?;
        let (targets, bound) = around.to_be_taken_out(facts, around.targets_of(pod));
        self.departures.decide(pod, targets, bound, around.now);
        Some(verdict)
    }

    /// Something was written, or could not be. Gives what the user should be told.
    pub fn marked(
        &mut self,
        id: RequestId,
        result: Result<(), Failure>,
        around: &Surroundings<'_>,
    ) -> Option<Marked> {
        self.departures.marked(id, result, &bare_case(around))
    }

    /// That a pod is to leave has been written on it, or could not be. Gives what the user should be told.
    pub fn asked_early(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) -> Option<(ObjectKey, Uid, Reason, Box<str>)> {
        self.early.marked(pod, id, result, now)
    }
}

/// What is known of one.
impl Evictions {
    fn zones_allow(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> Result<Reason, Reason> {
        if self.departures.is_early(pod) && self.is_last_healthy(pod, around) {
            return Err(Reason::LastHealthyTarget);
        }
        let waited = self.departures.since(pod).map(|since| around.wall.since(since)).unwrap_or_default();
        may_leave(&self.zones(pod, |_| true, around), waited, around.limits.patience)
    }

    /// Whether a pod is the only healthy target of a group. Nobody waits for one that would leave early; taken out, it
    /// would be missed until its eviction lets another one come.
    fn is_last_healthy(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> bool {
        let departs = |owner: &ObjectKey| self.departures.departs(owner, around.limits, around.wall);
        around.targets_of(pod).iter().any(|(bound, arn, target)| {
            let Some(group) = around.groups.get(arn).filter(|_| !bound.paused) else { return false };
            let others = around.index.bindings().of_group(arn);
            let others = others.flat_map(|binding| around.index.bindings().targets_of(&binding.key));
            let mut others = others.filter(|(other, owner)| {
                *owner != pod && Surroundings::is_healthy(group, other) && !departs(owner)
            });
            let unread = group.observation.last_read().is_none();
            unread || (Surroundings::is_healthy(group, target) && others.next().is_none())
        })
    }

    /// Whether the node of a pod takes no pods, or is about to go: then nobody need believe the request alone.
    fn is_backed_by_its_node(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> bool {
        around.node_is_closed(pod) || self.early.signal(pod).is_some()
    }

    fn concerns_of(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> Concerns {
        let decided = self.departures.decided(pod).into_iter().flat_map(|decision| &decision.targets);
        let facts = around.index.pods().get(pod).into_iter();
        let selecting =
            facts.flat_map(|facts| around.index.bindings().selecting(&facts.key.namespace, &facts.labels));
        let bound = selecting.map(|binding| binding.key.group.clone());
        let left = around.left_of(pod).into_iter().map(|(_, arn, _)| arn);
        Concerns {
            groups: decided.map(|(arn, _)| arn.clone()).chain(bound).chain(left).collect(),
            is_backed: self.is_backed_by_its_node(pod, around),
        }
    }

    fn case(&self, pod: &ObjectKey, around: &Surroundings<'_>) -> Case {
        let facts = around.index.pods().get(pod);
        let is_out = |(arn, target): &(TargetGroupArn, Target)| {
            let group = around.groups.get(arn).zip(facts);
            group.is_none_or(|(group, facts)| group.registrations.is_out(target, &facts.uid))
        };
        let decided = self.departures.decided(pod);
        let is_unknown = facts.is_some_and(|facts| around.may_yet_bind(facts).is_some());
        let asks_zones = self.departures.asks_zones(pod);
        let zones = if asks_zones { self.zones_allow(pod, around) } else { Ok(Reason::ZoneAllows) };
        let (bound, lingers) = (bound(&around.targets_of(pod)), around.lingering(pod));
        let is_back = !around.left_of(pod).is_empty();
        Case {
            zones,
            has_hold: around.has_its_hold(pod, &bound),
            waits_for_turn: self.departures.waits_for_turn(pod),
            is_target: decided.is_some()
                || bound.iter().any(|bound| !bound.paused)
                || is_unknown
                || is_back
                || !lingers.is_zero(),
            lingers,
            is_back,
            is_gone: decided.is_some_and(|decision| decision.targets.iter().all(is_out)),
            is_unknown,
            node_goes: self.is_backed_by_its_node(pod, around),
            node_stays: around.node_stays(pod),
            now: around.now,
            wall: around.wall,
        }
    }

    /// The targets of a pod went with its node, before it was asked to leave: they are what its departure waits for.
    fn decide_with_its_node(&mut self, pod: &ObjectKey, around: &Surroundings<'_>) {
        if around.index.pods().goes_with_its_node(pod)
            && self.departures.is_undecided(pod)
            && let Some(facts) = around.index.pods().get(pod)
        {
            let (targets, bound) = around.to_be_taken_out(facts, around.bound_but_for_leaving(pod));
            self.departures.decide(pod, targets, bound, around.now);
        }
    }

    /// What could not be removed when it was decided that a pod leaves may be since, as when a pause has ended: that is
    /// waited for as well.
    fn decide_what_was_paused(&mut self, pod: &ObjectKey, around: &Surroundings<'_>) {
        let (Some(decision), Some(facts)) = (self.departures.decided(pod), around.index.pods().get(pod))
        else {
            return;
        };
        let left = around.left_of(pod).into_iter().map(|(bound, arn, target)| (bound, (arn, target)));
        let more = left.filter(|(_, target)| !decision.targets.contains(target));
        let (bound, targets): (Vec<BoundTo>, Vec<_>) = more.unzip();
        if !targets.is_empty() {
            let bound = super::propagation(facts, &bound, around.bounds).unwrap_or_default();
            self.departures.decide_more(pod, targets, bound);
        }
    }

    /// The labels of the pods of a namespace that are on their way out, those included whose targets went with their
    /// nodes.
    fn departing(&self, namespace: &str, around: &Surroundings<'_>) -> Vec<Labels> {
        let Surroundings { limits, wall, index, .. } = around;
        let mut all = self.departures.departing(namespace, limits, *wall);
        let with_nodes = self.early.pods().filter(|(pod, _)| {
            &*pod.namespace == namespace
                && index.pods().goes_with_its_node(pod)
                && !self.departures.departs(pod, limits, *wall)
        });
        all.extend(with_nodes.filter_map(|(pod, _)| Some(index.pods().get(pod)?.labels.clone())));
        all
    }
}

/// When nothing counts but the time.
fn bare_case(around: &Surroundings<'_>) -> Case {
    Case {
        zones: Ok(Reason::ZoneAllows),
        has_hold: false,
        waits_for_turn: false,
        is_target: true,
        lingers: Duration::ZERO,
        is_back: false,
        is_gone: false,
        is_unknown: false,
        node_goes: false,
        node_stays: false,
        now: around.now,
        wall: around.wall,
    }
}
