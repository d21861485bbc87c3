//! Nodes that are about to go: what becomes of the targets of their pods before anybody asks for an eviction.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    engine::{Effect, Engine, groups::Groups, sayings},
    index::Index,
    leaving::{self, BoundTo, MarkWrite, leaves_early, propagation},
    model::{
        leaving::{Asked, Mark},
        node::NodeFacts,
        object::{Labels, ObjectKey},
        pod::PodFacts,
        reason::Reason,
        request::{Failure, RequestId},
        target::Target,
        target_group::TargetGroupArn,
        time::{Moment, WallTime},
        watch::Change,
    },
    nodes::Fate,
    notice::{About, Notice},
    requests::{Asker, Request},
};

/// Where a pod is a target, or would be if it were not taken out.
fn bound(index: &Index, groups: &Groups, pod: &ObjectKey) -> Vec<(BoundTo, TargetGroupArn, Target)> {
    let bound = index.bound_but_for_leaving(pod).into_iter();
    let targets = bound.map(|(binding, target)| {
        let group = &binding.key.group;
        let paused = groups.get(group).is_some_and(super::group::Group::is_paused);
        let (balancer, hold) = (binding.balancer, binding.policy.hold);
        (BoundTo { balancer, hold, paused }, group.clone(), target)
    });
    targets.collect()
}

const fn stays_alive(pod: &PodFacts) -> bool {
    !pod.terminating && !pod.finished
}

impl Engine {
    /// How many nodes are about to go, for this reason.
    pub fn nodes_that_go(&self, fate: Fate) -> usize {
        self.early.count(fate)
    }

    /// The watch of nodes says this.
    pub(super) fn on_node(
        &mut self,
        change: Change<NodeFacts>,
        seen: Moment,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let changed = self.nodes.apply(change);
        if !changed.is_empty() {
            // Zones, and who is believed, hang on nodes; one that has just been listed may be known to stay.
            self.touch_leaving(leaving::Touched::All, now);
        }
        for node in changed {
            let signal = self.nodes.signal(&node);
            // One that is neither marked nor known to stay is missing in a list that is doubted.
            let stays = signal.is_none() && self.nodes.stays(Some(&node));
            if let Some(signal) = signal
                && self.early.mark(&node, signal, self.wall(now))
            {
                self.node_goes(&node, seen, now, effects);
            } else if stays {
                self.node_stays(&node, seen, now, effects);
            }
        }
        self.forget_deleted_nodes();
    }

    /// All pods that have their address are concerned, and those that were because of an earlier sign.
    fn node_goes(&mut self, node: &Arc<str>, seen: Moment, now: Moment, effects: &mut Vec<Effect>) {
        let here =
            |pod: &&PodFacts| pod.node.as_ref() == Some(node) && !pod.ips.is_empty() && stays_alive(pod);
        let pods = self.index.pods().filter(here).map(|pod| pod.key.clone());
        let before = self.early.pods().filter(|(_, pod)| pod.node == *node).map(|(pod, _)| pod.clone());
        for pod in pods.chain(before).collect::<BTreeSet<ObjectKey>>() {
            self.concern(&pod, seen, now, effects);
        }
    }

    fn concern(&mut self, pod: &ObjectKey, seen: Moment, now: Moment, effects: &mut Vec<Effect>) {
        let Some(facts) = self.index.pod(pod) else { return };
        let Some(node) = facts.node.clone() else { return };
        self.early.concern(facts, &node, now);
        let Some((fate, said)) =
            self.early.signal(pod).map(|signal| (signal.fate, sayings::node_goes(&node, signal)))
        else {
            return;
        };
        let was_target = self.targets_of(pod).iter().any(|(bound, ..)| !bound.paused);
        let goes = fate.is_immediate().then(|| fate.reason());
        if goes.is_none() && !self.index.leaves(pod) {
            self.departures.revoke(pod, now);
        }
        let changes = self.index.node_goes(pod, goes, seen);
        self.absorb(changes, now, effects);
        self.touch_leaving(leaving::Touched::Pod(pod), now);
        if let Some(reason) = goes {
            self.held_of_pod_goes(pod, reason, seen);
        }
        if goes.is_some() && was_target && self.term.acts() && !self.settings.read_only {
            self.tell_pod(pod, fate.reason(), said, effects);
        }
    }

    /// What was done because a node was about to go is undone.
    fn node_stays(&mut self, node: &Arc<str>, seen: Moment, now: Moment, effects: &mut Vec<Effect>) {
        for pod in self.early.unmark(node) {
            let is_early = self.departures.is_early(&pod) && self.departures.is_out(&pod);
            if self.term.acts() && (is_early || self.index.goes_with_its_node(&pod)) {
                self.tell_pod(&pod, Reason::NodeStays, sayings::node_stays(node), effects);
            }
            if !self.index.leaves(&pod) {
                // What went with its node comes back with it.
                self.departures.revoke(&pod, now);
            }
            let changes = self.index.node_goes(&pod, None, seen);
            self.absorb(changes, now, effects);
        }
    }

    /// A node that is gone matters as long as pods are left on it.
    fn forget_deleted_nodes(&mut self) {
        if self.early.count(Fate::Deleted) > 0 {
            let with_pods = self.early.nodes_with_pods();
            for node in self.early.deleted_but(&with_pods) {
                self.early.unmark(&node);
            }
            self.nodes.keep_deleted(|node| with_pods.contains(node));
        }
    }

    /// The watch of pods says this, and the index does not know it yet. Gives the pods that it shows for the first time,
    /// and that were there before their node was marked; `None`: it is about no node that goes.
    pub(super) fn early_sees(&self, change: &Change<PodFacts>) -> Option<Vec<ObjectKey>> {
        let (pods, matters) = match change {
            Change::Applied(pod) => (std::slice::from_ref(pod), self.early.signal(&pod.key).is_some()),
            Change::Relisted(_, pods) => (&pods[..], !self.early.is_empty()),
            Change::Deleted(pod) => (&[][..], self.early.signal(&pod.key).is_some()),
        };
        if self.early.is_empty() {
            return None;
        }
        let known = |pod: &PodFacts| self.index.pod(&pod.key).is_some_and(|known| known.uid == pod.uid);
        let late = pods.iter().filter(|pod| stays_alive(pod) && self.early.was_there(pod) && !known(pod));
        let late: Vec<ObjectKey> = late.map(|pod| pod.key.clone()).collect();
        (matters || !late.is_empty()).then_some(late)
    }

    fn early_keeps(&mut self, one: Option<&ObjectKey>) {
        let index = &self.index;
        self.early
            .keep(one, |pod, uid| index.pod(pod).is_some_and(|pod| pod.uid == *uid && stays_alive(pod)));
    }

    /// The index has let pods go that a list did not have.
    pub(super) fn early_forgets(&mut self) {
        if !self.early.is_empty() {
            self.early_keeps(None);
            self.forget_deleted_nodes();
        }
    }

    /// The index has taken in what the watch of pods said.
    pub(super) fn early_follows(
        &mut self,
        one: Option<&ObjectKey>,
        late: &[ObjectKey],
        seen: Moment,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        self.early_keeps(one);
        for pod in late {
            self.concern(pod, seen, now, effects);
        }
        self.early.touch(one.map_or(leaving::Touched::All, leaving::Touched::Pod), now);
        self.forget_deleted_nodes();
    }

    /// Where a pod is a target, or would be if its node did not go.
    pub(super) fn bound_but_for_its_node(&self, pod: &ObjectKey) -> Vec<(BoundTo, TargetGroupArn, Target)> {
        bound(&self.index, &self.groups, pod)
    }

    /// Asks the pods to leave that nothing keeps alive: the leader does so itself, before anybody else.
    pub(super) fn mind_early(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if !self.term.acts() || self.settings.read_only || self.early.next_due().is_none_or(|due| due > now) {
            return;
        }
        let Self { early, index, groups, settings, .. } = self;
        let leaves = |pod: &ObjectKey| {
            let bound: Vec<BoundTo> =
                bound(index, groups, pod).into_iter().map(|(bound, ..)| bound).collect();
            let facts = index.pod(pod).filter(|pod| stays_alive(pod) && pod.leaving.is_none());
            facts.is_some_and(|facts| leaves_early(facts, &bound, &settings.bounds))
        };
        for pod in early.take_due(leaves, now) {
            let id = self.requests.next_id();
            // Written twice it says the same: what was done in between counts.
            let Some(at) = self.early.since(&pod) else { continue };
            let Some(uid) = self.early.begin(&pod, id) else { continue };
            let write = MarkWrite { pod: pod.clone(), uid, mark: Mark::Asked(Asked::early(at)) };
            self.ask(id, Asker::Early(pod), Request::Mark(write), effects);
        }
    }

    /// That a pod is to leave has been written on it, or could not be.
    pub(super) fn early_marked(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        if let Some((pod, uid, reason, why)) = self.early.marked(pod, id, result, now) {
            let note = sayings::leaving_refused(&why);
            effects.push(Effect::Notice(Notice { about: About::Pod(pod, uid), reason, note }));
        }
    }

    /// A pod is taken out early.
    pub(super) fn tell_early(&self, pod: &ObjectKey, effects: &mut Vec<Effect>) {
        let node = self.index.pod(pod).and_then(|facts| facts.node.as_ref());
        if let (Some(node), Some(signal)) = (node, self.early.signal(pod)) {
            self.tell_pod(pod, Reason::NodeDisrupted, sayings::node_goes(node, signal), effects);
        }
    }

    /// The targets of a pod went with its node, before it was asked to leave: they are what its departure waits for.
    pub(super) fn decide_with_its_node(&mut self, pod: &ObjectKey, now: Moment) {
        if !self.index.goes_with_its_node(pod) || !self.departures.is_undecided(pod) {
            return;
        }
        let Some(facts) = self.index.pod(pod) else { return };
        let all = self.all_targets_of(pod, self.bound_but_for_its_node(pod));
        let bound: Vec<BoundTo> = all.iter().map(|(bound, ..)| *bound).collect();
        let bound = propagation(facts, &bound, &self.settings.bounds).unwrap_or_default();
        let bound = bound.max(self.lingering(pod, now));
        let written = all.into_iter().filter(|(bound, ..)| !bound.paused);
        let targets = written.map(|(_, arn, target)| (arn, target)).collect();
        self.departures.decide(pod, targets, bound, now);
    }

    /// The labels of the pods of a namespace that are on their way out, those included whose targets went with their
    /// nodes.
    pub(super) fn departing(&self, namespace: &str, wall: WallTime) -> Vec<Labels> {
        let limits = &self.settings.leaving;
        let mut all = self.departures.departing(namespace, limits, wall);
        let with_nodes = self.early.pods().filter(|(pod, _)| {
            &*pod.namespace == namespace
                && self.index.goes_with_its_node(pod)
                && !self.departures.departs(pod, limits, wall)
        });
        all.extend(with_nodes.filter_map(|(pod, _)| Some(self.index.pod(pod)?.labels.clone())));
        all
    }
}
