//! Nodes that are about to go: what becomes of the targets of their pods before anybody asks for an eviction.

use std::sync::Arc;

use crate::{
    engine::Engine,
    eviction,
    index::Order,
    model::{Change, Failure, Moment, NodeFacts, Notice, ObjectKey, Reason, RequestId, notice::About},
    nodes::Fate,
    reports::sayings,
};

impl Engine {
    /// How many nodes are about to go, for this reason.
    pub fn nodes_that_go(&self, fate: Fate) -> usize {
        self.evictions.nodes_that_go(fate)
    }

    /// The watch of nodes says this.
    pub(super) fn on_node(&mut self, change: Change<NodeFacts>, seen: Moment, now: Moment) {
        let changed = self.nodes.apply(change);
        if !changed.is_empty() {
            // Zones, and who is believed, hang on nodes; one that has just been listed may be known to stay.
            self.evictions.touch(eviction::Touched::All, now);
        }
        for node in changed {
            // One that is neither marked nor known to stay is missing in a list that is doubted.
            if let Some(signal) = self.nodes.signal(&node) {
                let (evictions, _, around) = self.evictions(now);
                for pod in evictions.node_goes(&node, signal, &around) {
                    self.concern(&pod, seen, now);
                }
            } else if self.nodes.stays(Some(&node)) {
                self.node_stays(&node, seen, now);
            }
        }
        self.forget_deleted_nodes();
    }

    /// That its node is about to go concerns this pod.
    fn concern(&mut self, pod: &ObjectKey, seen: Moment, now: Moment) {
        let (evictions, _, around) = self.evictions(now);
        let Some(facts) = around.index.pods().get(pod) else { return };
        let was_target = around.targets_of(pod).iter().any(|(bound, ..)| !bound.paused);
        let Some((node, signal)) = facts.node.clone().zip(evictions.concern(facts, &around)) else { return };
        let goes = signal.fate.is_immediate().then(|| signal.fate.reason());
        let changes = self.index.order(pod, Order::NodeGoes(goes), seen);
        self.absorb(changes, now);
        if let Some(reason) = goes {
            self.held_of_pod_goes(pod, reason, seen);
            if was_target && self.term.acts() && !self.settings.read_only {
                self.tell_pod(pod, reason, sayings::node_goes(&node, &signal));
            }
        }
    }

    /// What was done because a node was about to go is undone.
    fn node_stays(&mut self, node: &Arc<str>, seen: Moment, now: Moment) {
        let (evictions, _, around) = self.evictions(now);
        for (pod, is_early) in evictions.node_stays(node, &around) {
            if self.term.acts() && (is_early || self.index.pods().goes_with_its_node(&pod)) {
                self.tell_pod(&pod, Reason::NodeStays, sayings::node_stays(node));
            }
            let changes = self.index.order(&pod, Order::NodeGoes(None), seen);
            self.absorb(changes, now);
        }
    }

    pub(super) fn forget_deleted_nodes(&mut self) {
        if let Some(with_pods) = self.evictions.forget_deleted_nodes() {
            self.nodes.keep_deleted(|node| with_pods.contains(node));
        }
    }

    /// The index has taken in what the watch of pods said about this one, or any: that concerns a node that goes, and these
    /// are `late` pods of such a node.
    pub(super) fn concern_late(
        &mut self,
        one: Option<&ObjectKey>,
        late: &[ObjectKey],
        seen: Moment,
        now: Moment,
    ) {
        for pod in late {
            self.concern(pod, seen, now);
        }
        self.evictions.touch(one.map_or(eviction::Touched::All, eviction::Touched::Pod), now);
        self.forget_deleted_nodes();
    }

    /// That a pod is to leave has been written on it, or could not be.
    pub(super) fn early_marked(
        &mut self,
        pod: &ObjectKey,
        id: RequestId,
        result: Result<(), Failure>,
        now: Moment,
    ) {
        if let Some((pod, uid, reason, why)) = self.evictions.asked_early(pod, id, result, now) {
            let note = sayings::leaving_refused(&why);
            self.out.tell(Notice { about: About::Pod(pod, uid), reason, note });
        }
    }

    /// A pod is taken out early.
    pub(super) fn tell_early(&mut self, pod: &ObjectKey) {
        let node = self.index.pods().get(pod).and_then(|facts| facts.node.as_ref());
        if let (Some(node), Some(signal)) = (node, self.evictions.signal(pod)) {
            self.tell_pod(pod, Reason::NodeDisrupted, sayings::node_goes(node, signal));
        }
    }
}
