//! What is known besides of the pods that leave, or may: where they are targets, and what AWS may still have of them.
//! Questions only.

use std::{sync::Arc, time::Duration};

use super::{BoundTo, Limits, has_hold, propagation};
use crate::{
    binding::Binding,
    groups::{Group, Groups, Which},
    index::Index,
    model::{
        AskedHold, Bounds, HealthState, Hold, Moment, ObjectKey, PodFacts, Reason, Target, TargetGroupArn,
        WallTime,
    },
    nodes::Nodes,
    services::Services,
};

/// A place where a pod is a target, or should be, or was.
pub type Place = (BoundTo, TargetGroupArn, Target);

/// What the others know.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Pods, bindings, and who owns which target.
    pub index: &'a Index,
    /// Target groups.
    pub groups: &'a Groups,
    /// Services and TargetBindings.
    pub services: &'a Services,
    /// Nodes.
    pub nodes: &'a Nodes,
    /// For how long is waited for what.
    pub limits: &'a Limits,
    /// How long load balancers go on sending.
    pub bounds: &'a Bounds,
    /// The time.
    pub now: Moment,
    /// The time as it is written down.
    pub wall: WallTime,
}

impl Surroundings<'_> {
    fn bound_to(&self, binding: &Binding) -> BoundTo {
        let paused = self.groups.get(&binding.key.group).is_some_and(Group::is_paused);
        BoundTo { balancer: binding.balancer, hold: binding.policy.hold, paused }
    }

    /// Where a pod is a target, or should be.
    pub fn targets_of(&self, pod: &ObjectKey) -> Vec<Place> {
        let bound = self.index.pods().bound(pod).into_iter();
        let place = |(binding, target): (&Binding, Result<Target, Reason>)| {
            Some((self.bound_to(binding), binding.key.group.clone(), target.ok()?))
        };
        bound.filter_map(place).collect()
    }

    /// Where a pod is a target, or would be if it were not taken out.
    pub fn bound_but_for_leaving(&self, pod: &ObjectKey) -> Vec<Place> {
        let bound = self.index.pods().bound_but_for_leaving(pod).into_iter();
        bound.map(|(binding, target)| (self.bound_to(binding), binding.key.group.clone(), target)).collect()
    }

    /// The hold that is asked for by something which may turn out to bind a pod, when its target group has been looked
    /// up.
    pub fn may_yet_bind(&self, pod: &PodFacts) -> Option<Hold> {
        self.services.origins().pending(&pod.key.namespace, &pod.labels)
    }

    /// The hold that counts for a pod which is bound to nothing, if a load balancer may send to it all the same.
    pub fn may_be_sent_to(&self, pod: &PodFacts) -> Option<Hold> {
        let left = self.index.pods().left_at(&pod.key);
        let left = left.is_some_and(|left| self.now.since(left) < self.bounds.network);
        let mut bound = self.index.pods().bound(&pod.key).into_iter();
        // It may have been readier before this replica has seen it; or the leader has not seen it ready, or keeps it for its
        // zones, and so has not taken it out.
        let is_unready =
            |target: &Result<Target, Reason>| matches!(target, Err(Reason::NotReadyYet | Reason::NotReady));
        let unready = bound.find(|(_, target)| is_unready(target));
        let known = unready.map(|(binding, _)| binding.policy.hold).or_else(|| left.then(Hold::default));
        known.or_else(|| self.may_yet_bind(pod))
    }

    /// For how long load balancers may still send to a pod for what was taken out before.
    pub fn lingering(&self, pod: &ObjectKey) -> Duration {
        let Some(pod) = self.index.pods().get(pod) else { return Duration::ZERO };
        let groups = self.groups.these(Which::OfPod(&pod.uid)).filter(|(_, group)| !group.is_paused());
        let left = groups.filter_map(|(_, group)| {
            let bound = group.asked_hold().bound(pod.hold, self.bounds)?;
            let out = group.registrations.out_of(&pod.uid);
            out.map(|since| (since.min(self.wall) + bound).since(self.wall)).max()
        });
        left.max().unwrap_or_default()
    }

    /// Where AWS may have a target of a pod besides, for which it is not bound any more: its removal is under way, for
    /// whatever reason; as of one that another leader has registered again before it saw that the pod leaves.
    pub fn left_of(&self, pod: &ObjectKey) -> Vec<Place> {
        let Some(facts) = self.index.pods().get(pod) else { return Vec::new() };
        let written = self.groups.these(Which::OfPod(&facts.uid)).filter(|(_, group)| !group.is_paused());
        let targets = written.flat_map(|(arn, group)| {
            let AskedHold { balancer, hold } = group.asked_hold();
            let bound = BoundTo { balancer, hold, paused: false };
            group.registrations.all_of(&facts.uid).map(move |target| (bound, arn.clone(), *target))
        });
        targets.collect()
    }

    /// From where a pod is taken out that is a target `now` in these places, and for how long the load balancers may go on
    /// sending after that.
    pub fn to_be_taken_out(
        &self,
        pod: &PodFacts,
        mut now: Vec<Place>,
    ) -> (Vec<(TargetGroupArn, Target)>, Duration) {
        for (bound, arn, target) in self.left_of(&pod.key) {
            if !now.iter().any(|(_, other, there)| *other == arn && *there == target) {
                now.push((bound, arn, target));
            }
        }
        let bound: Vec<BoundTo> = now.iter().map(|(bound, ..)| *bound).collect();
        let bound = propagation(pod, &bound, self.bounds).unwrap_or_default();
        let written = now.into_iter().filter(|(bound, ..)| !bound.paused);
        let targets = written.map(|(_, arn, target)| (arn, target)).collect();
        (targets, bound.max(self.lingering(&pod.key)))
    }

    /// The zone of a pod, if it is known.
    pub fn zone_of(&self, pod: &ObjectKey) -> Option<&Arc<str>> {
        self.nodes.zone(self.index.pods().get(pod)?.node.as_ref())
    }

    /// How many other pods that `binding` selects there are in a zone, or may come to be: also those that are starting or not
    /// scheduled yet, and those that go, since others come for them.
    pub fn others_in(&self, zone: &Arc<str>, binding: &Binding, pod: &ObjectKey) -> usize {
        let here = self.index.pods().of(&pod.namespace).filter(|other| {
            other.key != *pod
                && !other.finished
                && binding.selector.selects(&other.labels)
                && (other.node.is_none() || self.nodes.zone(other.node.as_ref()) == Some(zone))
        });
        here.count()
    }

    /// What the last read of a target group shows of a target.
    pub fn is_healthy(group: &Group, target: &Target) -> bool {
        group.observation.state(target) == Some(HealthState::Healthy)
    }

    /// Whether a pod that is `bound` like this keeps itself alive for long enough, as far as is known here.
    pub fn has_its_hold(&self, pod: &ObjectKey, bound: &[BoundTo]) -> bool {
        self.index.pods().get(pod).is_some_and(|facts| has_hold(facts, bound))
    }

    /// Whether the node of a pod takes no new pods.
    pub fn node_is_closed(&self, pod: &ObjectKey) -> bool {
        self.nodes.is_closed(self.index.pods().get(pod).and_then(|facts| facts.node.as_ref()))
    }

    /// Whether the node of a pod is known to stay.
    pub fn node_stays(&self, pod: &ObjectKey) -> bool {
        self.nodes.stays(self.index.pods().get(pod).and_then(|facts| facts.node.as_ref()))
    }
}

/// What was said of where a pod is.
pub fn bound(places: &[Place]) -> Vec<BoundTo> {
    places.iter().map(|(bound, ..)| *bound).collect()
}
