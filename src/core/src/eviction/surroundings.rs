//! Read-only data about pods that are or may be evicted: the target groups of each pod, and the targets that AWS may
//! still list.

use std::{sync::Arc, time::Duration};

use super::{
    ruling::{has_hold, hold_of, propagation, rule},
    seen::Seen,
    zone::Zone,
};
use crate::{
    index::Index,
    model::{
        AskedHold, Binding, Cause, HealthState, Hold, LoadBalancerType, Moment, ObjectKey, PodFacts, Target,
        TargetGroupArn, WallTime,
        eviction::{BoundTo, Request, Rules, Ruling},
    },
    nodes::Nodes,
    services::Services,
    targets::groups::{Group, Groups, Which},
};

/// A present, desired or past target of a pod.
pub type Place = (BoundTo, TargetGroupArn, Target);

#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    pub(super) index: &'a Index,
    pub(super) groups: &'a Groups,
    pub(super) services: &'a Services,
    pub(super) nodes: &'a Nodes,
    pub(super) rules: Rules,
    /// Whether this replica is the leader.
    pub(super) leads: bool,
    pub(super) now: Moment,
    pub(super) wall: WallTime,
}

impl<'a> Surroundings<'a> {
    /// Creates a view of the data at this time. `leads`: whether this replica is the leader. `wall`: the wall-clock
    /// time for new annotations.
    pub const fn new(
        (index, groups, services, nodes): (&'a Index, &'a Groups, &'a Services, &'a Nodes),
        rules: Rules,
        leads: bool,
        now: Moment,
        wall: WallTime,
    ) -> Self {
        Self { index, groups, services, nodes, rules, leads, now, wall }
    }

    /// The answer to a request for the eviction of a pod. `was_noted`: whether the ledgers contained a target of the
    /// pod when the ledgers were last read.
    pub(super) fn rule(
        &self,
        seen: Option<Seen>,
        was_noted: bool,
        facts: &PodFacts,
        request: &Request,
    ) -> Ruling {
        let pod = &facts.key;
        let is_guarded = self.zones(pod, |_| true, |_| false).iter().any(Zone::is_guarded);
        let places = if self.index.pods().goes_with_its_node(pod) {
            // The pod may have been deregistered just now, and the load balancer may still send to the pod.
            self.bound_but_for_leaving(pod)
        } else {
            self.targets_of(pod)
        };
        let mut bound: Vec<BoundTo> = bound(&places);
        if let (true, Some(hold)) = (bound.is_empty(), self.may_be_sent_to(facts, was_noted)) {
            // Only the leader knows the type of the load balancer. An NLB has the longest propagation delay.
            bound.push(BoundTo { balancer: LoadBalancerType::Network, hold, paused: false });
        }
        let node_goes = self.node_goes(facts);
        rule(facts, &bound, is_guarded, node_goes, request, &self.rules, (self.now, self.wall, seen))
    }

    /// Whether the pod's node is cordoned or will be removed, according to the watch.
    fn node_goes(&self, pod: &PodFacts) -> bool {
        let signal = |node: &Arc<str>| self.nodes.signal(node);
        self.nodes.last_seen().is_closed(pod.node.as_ref()) || pod.node.as_ref().and_then(signal).is_some()
    }

    /// The state of the pod's zone in the target group of each binding that `leaves` selects. Pods that `departs`
    /// selects do not count as healthy.
    pub(super) fn zones(
        &self,
        pod: &ObjectKey,
        leaves: impl Fn(&Binding) -> bool,
        departs: impl Fn(&ObjectKey) -> bool,
    ) -> Vec<Zone> {
        let Some(zone) = self.zone_of(pod) else { return Vec::new() };
        let has_room = self.nodes.last_seen().has_room(zone);
        let bound = self.index.pods().bound(pod).into_iter().filter(|(binding, _)| leaves(binding));
        let claimed = bound.filter_map(|(binding, target)| Some((binding, target.ok()?)));
        let zones = claimed.filter_map(|(binding, target)| {
            let least = usize::from(binding.policy.min_healthy_per_zone.0);
            let group = self.groups.get(&binding.key.group).filter(|_| least > 0)?;
            if self.is_paused(pod, binding, &target) {
                return None;
            }
            // A new leader has not read the health of the target group yet. The target may therefore serve.
            let unread = group.observation().last_read().is_none();
            let counts = |(other, owner): &(&Target, &ObjectKey)| {
                *owner != pod
                    && serves_on(group, other)
                    && self.zone_of(owner) == Some(zone)
                    && !departs(owner)
            };
            Some(Zone {
                serves: unread || serves(group, &target),
                least,
                healthy: self.index.bindings().targets_of(&binding.key).filter(counts).count(),
                others: self.others_in(zone, binding, pod),
                has_room,
            })
        });
        zones.collect()
    }

    /// Whether a pod is the only serving target of a target group in its namespace. Pods with an eviction in progress
    /// do not count. An early deregistration starts no replacement, so the last serving pod remains registered until
    /// its eviction.
    pub(super) fn is_last_that_serves(&self, pod: &ObjectKey, departs: impl Fn(&ObjectKey) -> bool) -> bool {
        self.targets_of(pod).iter().any(|(bound, arn, target)| {
            let Some(group) = self.groups.get(arn).filter(|_| !bound.paused) else { return false };
            let is_own = |binding: &&Binding| binding.key.origin.key().namespace == pod.namespace;
            let others = self.index.bindings().of_group(arn).filter(is_own);
            let others = others.flat_map(|binding| self.index.bindings().targets_of(&binding.key));
            let mut others =
                others.filter(|(other, owner)| *owner != pod && serves_on(group, other) && !departs(owner));
            let unread = group.observation().last_read().is_none();
            unread || (serves(group, target) && others.next().is_none())
        })
    }

    /// Whether a pod was healthy in a target group when Headgate last read its health. A target in a zonal shift counts
    /// as healthy, because the shift may end at any time.
    pub(super) fn is_healthy_in(&self, arn: &TargetGroupArn, pod: &ObjectKey) -> bool {
        let Some(group) = self.groups.get(arn) else { return false };
        let mut targets = self.index.pods().bound(pod).into_iter();
        targets.any(|(binding, target)| {
            let is_healthy = |target| group.observation().state(&target).is_some_and(HealthState::is_healthy);
            binding.key.group == *arn && target.is_ok_and(is_healthy)
        })
    }

    /// Whether Headgate sends no calls about this target of a pod. Either every binding that gives the pod the target
    /// is paused, or Headgate is read-only.
    fn is_paused(&self, pod: &ObjectKey, binding: &Binding, target: &Target) -> bool {
        let Some(group) = self.groups.get(&binding.key.group) else { return binding.policy.paused };
        match group.registrations().is_paused_for(target, pod) {
            Some(paused) => paused,
            None => group.is_read_only() || binding.policy.paused,
        }
    }

    /// Describes this target of the pod. The target may be only desired.
    fn place(&self, pod: &ObjectKey, binding: &Binding, target: Target) -> Place {
        let paused = self.is_paused(pod, binding, &target);
        let bound = BoundTo { balancer: binding.balancer, hold: binding.policy.hold, paused };
        (bound, binding.key.group.clone(), target)
    }

    pub(super) fn targets_of(&self, pod: &ObjectKey) -> Vec<Place> {
        let bound = self.index.pods().bound(pod).into_iter();
        bound.filter_map(|(binding, target)| Some(self.place(pod, binding, target.ok()?))).collect()
    }

    /// The targets that a pod has, or would have if the pod were not deregistered.
    pub(super) fn bound_but_for_leaving(&self, pod: &ObjectKey) -> Vec<Place> {
        let bound = self.index.pods().bound_but_for_leaving(pod).into_iter();
        bound.map(|(binding, target)| self.place(pod, binding, target)).collect()
    }

    /// The hold of a binding that may still apply to the pod, because Headgate is still looking up the binding's target
    /// group.
    pub(super) fn may_yet_bind(&self, pod: &PodFacts) -> Option<Hold> {
        self.services.origins().pending(&pod.key.namespace, &pod.labels, self.leads)
    }

    /// The hold of a pod without bindings, if a load balancer may still send to the pod.
    fn may_be_sent_to(&self, pod: &PodFacts, was_noted: bool) -> Option<Hold> {
        // The pod has just started, unless the watch lags.
        if pod.ips.is_empty() && !was_noted && !self.is_known_of(pod) {
            return None;
        }
        let left = self.index.pods().left_at(&pod.key);
        let left = if self.leads {
            left.is_some_and(|left| self.now.since(left) < self.rules.bounds.network)
        } else {
            // The deregistration may wait for a replacement, which only a leader knows. A replica that started later
            // uses an open gate or the ledgers to detect that the pod was a target.
            let was_bound = left.is_some() || was_noted;
            was_bound || pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips))
        };
        let mut bound = self.index.pods().bound(&pod.key).into_iter();
        // An unready pod may still be registered, because a replica has not seen the latest readiness or because the
        // pod's zone needs the target.
        let is_unready = |target: &Result<Target, Cause>| target.is_err_and(Cause::is_of_readiness);
        let unready = bound.find(|(_, target)| is_unready(target));
        let known = unready.map(|(binding, _)| binding.policy.hold).or_else(|| left.then(Hold::default));
        known.or_else(|| self.may_yet_bind(pod)).or_else(|| self.is_known_of(pod).then(Hold::default))
    }

    /// Whether load balancers may send to a pod for a reason that only a leader knows: the content of the ledger, or
    /// deregistrations that the leader made for other reasons.
    pub(super) fn is_known_of(&self, pod: &PodFacts) -> bool {
        !self.lingering(pod).is_zero() || !self.left_of(pod).is_empty() || self.has_elsewhere(pod)
    }

    /// Whether the previous leader registered the pod with an address that its status does not show to this replica.
    /// Either the watch lags, or the pod has lost the address and another pod may have it.
    pub(super) fn has_elsewhere(&self, pod: &PodFacts) -> bool {
        let mut groups = self.groups.these(Which::OfPod(&pod.uid));
        groups.any(|(_, group)| group.registrations().has_elsewhere(&pod.uid, &pod.ips))
    }

    /// How long load balancers may still send to a pod after earlier deregistrations. An address that the pod no longer
    /// shows counts too, because the watch may lag.
    pub(super) fn lingering(&self, pod: &PodFacts) -> Duration {
        let left = self.groups.these(Which::OfPod(&pod.uid)).flat_map(|(_, group)| {
            group.registrations().out_of(&pod.uid).filter_map(|(accepted, asked)| {
                let bound = asked.bound(pod.hold, &self.rules.bounds)?;
                Some((accepted + bound).since(self.now))
            })
        });
        let returned = self.index.pods().returned_at(&pod.key);
        let returned = returned.map(|at| (at + self.rules.bounds.network).since(self.now));
        left.chain(returned).max().unwrap_or_default()
    }

    /// How long load balancers would keep sending to a present or future target if the pod were deregistered now.
    /// `None`: the pod needs no hold.
    pub(super) fn would_be_sent_to(&self, pod: &PodFacts) -> Option<Duration> {
        let places = self.targets_of(&pod.key).into_iter().chain(self.left_of(pod));
        let bounds = &self.rules.bounds;
        let places = places.filter_map(|(bound, ..)| hold_of(pod, &bound).bound(bound.balancer, bounds));
        places.max().or_else(|| self.may_yet_bind(pod).map(|_| bounds.network))
    }

    /// Further targets of a pod that AWS may list although Headgate is already deregistering the targets. For example,
    /// another leader registered a target before it saw that the pod should be evicted.
    pub(super) fn left_of(&self, pod: &PodFacts) -> Vec<Place> {
        let targets = self.groups.these(Which::OfPod(&pod.uid)).flat_map(|(arn, group)| {
            group.registrations().all_of(&pod.uid, &pod.ips).map(move |(target, asked)| {
                let AskedHold { balancer, hold } = asked;
                (BoundTo { balancer, hold, paused: false }, arn.clone(), *target)
            })
        });
        targets.collect()
    }

    /// The targets to deregister for a pod in these places, and how long the load balancers may keep sending
    /// afterwards. Further targets that AWS has are added at the next check.
    pub(super) fn taken_out(
        &self,
        pod: &PodFacts,
        places: Vec<Place>,
    ) -> (Vec<(TargetGroupArn, Target)>, Duration) {
        let bound = propagation(pod, &bound(&places), &self.rules.bounds).unwrap_or_default();
        let written = places.into_iter().filter(|(bound, ..)| !bound.paused);
        (written.map(|(_, arn, target)| (arn, target)).collect(), bound.max(self.lingering(pod)))
    }

    /// The zone of a pod, if the zone is known.
    fn zone_of(&self, pod: &ObjectKey) -> Option<&Arc<str>> {
        self.nodes.last_seen().zone(self.index.pods().get(pod)?.node.as_ref())
    }

    /// The number of other pods of `binding` that are or may be in a zone. Starting and unscheduled pods count.
    /// Terminating pods count too, because replacements will start.
    fn others_in(&self, zone: &Arc<str>, binding: &Binding, pod: &ObjectKey) -> usize {
        let here = self.index.pods().of(&pod.namespace).filter(|other| {
            other.key != *pod
                && !other.finished
                && binding.selector.selects(&other.labels)
                && (other.node.is_none() || self.nodes.last_seen().zone(other.node.as_ref()) == Some(zone))
        });
        here.count()
    }

    /// Whether the hold of a pod with the bindings `bound` is long enough, as far as this replica knows.
    pub(super) fn has_its_hold(&self, pod: &ObjectKey, bound: &[BoundTo]) -> bool {
        self.index.pods().get(pod).is_some_and(|facts| has_hold(facts, bound))
    }
}

/// Whether a target serves, according to the last known state of its target group. A target in a zonal shift does not
/// serve.
fn serves(group: &Group, target: &Target) -> bool {
    group.observation().state(target) == Some(HealthState::Healthy)
}

/// Whether a target serves, and Headgate has not changed the target since its health was last read.
fn serves_on(group: &Group, target: &Target) -> bool {
    let counts = |read| group.registrations().is_untouched_since(target, read);
    serves(group, target) && group.observation().last_read().is_some_and(counts)
}

/// The bindings of these targets.
pub fn bound(places: &[Place]) -> Vec<BoundTo> {
    places.iter().map(|(bound, ..)| *bound).collect()
}
