//! What is known besides of the pods that leave, or may: where they are targets, and what AWS may still have of them.
//! Questions only.

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
    targets::registration::Since,
};

/// A place where a pod is a target, or should be, or was.
pub type Place = (BoundTo, TargetGroupArn, Target);

#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    pub(super) index: &'a Index,
    pub(super) groups: &'a Groups,
    pub(super) services: &'a Services,
    pub(super) nodes: &'a Nodes,
    pub(super) rules: Rules,
    /// Whether this replica decides.
    pub(super) leads: bool,
    pub(super) now: Moment,
    pub(super) wall: WallTime,
}

impl<'a> Surroundings<'a> {
    /// What is known at this time; `leads`: this replica decides; `wall`: the time as it is written down.
    pub const fn new(
        (index, groups, services, nodes): (&'a Index, &'a Groups, &'a Services, &'a Nodes),
        rules: Rules,
        leads: bool,
        now: Moment,
        wall: WallTime,
    ) -> Self {
        Self { index, groups, services, nodes, rules, leads, now, wall }
    }

    /// What is answered when the eviction of a pod is asked for, which is there like this; `was_noted`: the ledgers had
    /// a target of it when they were read last.
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
            // It may have been taken out a moment ago, and the load balancer go on sending.
            self.bound_but_for_leaving(pod)
        } else {
            self.targets_of(pod)
        };
        let mut bound: Vec<BoundTo> = bound(&places);
        if let (true, Some(hold)) = (bound.is_empty(), self.may_be_sent_to(facts, was_noted)) {
            // The leader knows. It is an NLB at worst.
            bound.push(BoundTo { balancer: LoadBalancerType::Network, hold, paused: false });
        }
        let node_goes = self.node_goes(facts);
        rule(facts, &bound, is_guarded, node_goes, request, &self.rules, (self.now, self.wall, seen))
    }

    /// Whether the watch shows that the node of a pod takes no pods, or is about to go.
    fn node_goes(&self, pod: &PodFacts) -> bool {
        let signal = |node: &Arc<str>| self.nodes.signal(node);
        self.nodes.last_seen().is_closed(pod.node.as_ref()) || pod.node.as_ref().and_then(signal).is_some()
    }

    /// How a pod stands in its zone of each target group that it `leaves`; others that depart do not count.
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
            // A new leader has not read it yet: it might be.
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

    /// Whether a pod is its namespace's only target of a group that serves, but for others that depart. Nobody waits for one that
    /// would leave early; taken out, it would be missed until its eviction lets another one come.
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

    /// Whether a pod is healthy in a group, as far as the last read shows: also one that a zonal shift keeps from serving,
    /// since the shift ends without it.
    pub(super) fn is_healthy_in(&self, arn: &TargetGroupArn, pod: &ObjectKey) -> bool {
        let Some(group) = self.groups.get(arn) else { return false };
        let mut targets = self.index.pods().bound(pod).into_iter();
        targets.any(|(binding, target)| {
            let is_healthy = |target| group.observation().state(&target).is_some_and(HealthState::is_healthy);
            binding.key.group == *arn && target.is_ok_and(is_healthy)
        })
    }

    /// Whether nothing is written about this target of a pod: neither this binding nor another one that it has it through
    /// lets that be.
    fn is_paused(&self, pod: &ObjectKey, binding: &Binding, target: &Target) -> bool {
        let Some(group) = self.groups.get(&binding.key.group) else { return binding.policy.paused };
        match group.registrations().is_paused_for(target, pod) {
            Some(paused) => paused,
            None => group.is_read_only() || binding.policy.paused,
        }
    }

    /// How a pod is bound that is this target, or would be.
    fn place(&self, pod: &ObjectKey, binding: &Binding, target: Target) -> Place {
        let paused = self.is_paused(pod, binding, &target);
        let bound = BoundTo { balancer: binding.balancer, hold: binding.policy.hold, paused };
        (bound, binding.key.group.clone(), target)
    }

    pub(super) fn targets_of(&self, pod: &ObjectKey) -> Vec<Place> {
        let bound = self.index.pods().bound(pod).into_iter();
        bound.filter_map(|(binding, target)| Some(self.place(pod, binding, target.ok()?))).collect()
    }

    /// Where a pod is a target, or would be if it were not taken out.
    pub(super) fn bound_but_for_leaving(&self, pod: &ObjectKey) -> Vec<Place> {
        let bound = self.index.pods().bound_but_for_leaving(pod).into_iter();
        bound.map(|(binding, target)| self.place(pod, binding, target)).collect()
    }

    /// The hold that is asked for by something which may turn out to bind a pod, when its target group has been looked
    /// up.
    pub(super) fn may_yet_bind(&self, pod: &PodFacts) -> Option<Hold> {
        self.services.origins().pending(&pod.key.namespace, &pod.labels, self.leads)
    }

    /// The hold that counts for a pod which is bound to nothing, if a load balancer may send to it all the same.
    fn may_be_sent_to(&self, pod: &PodFacts, was_noted: bool) -> Option<Hold> {
        // It starts, unless what is seen of it is older than what is known.
        if pod.ips.is_empty() && !was_noted && !self.has_elsewhere(pod) {
            return None;
        }
        let left = self.index.pods().left_at(&pod.key);
        let left = if self.leads {
            left.is_some_and(|left| self.now.since(left) < self.rules.bounds.network)
        } else {
            // Its removal may be held for as long as nothing replaces it, and only a leader knows. An open gate, or the
            // ledgers, say to a replica that started since that it was a target.
            let was_bound = left.is_some() || was_noted;
            was_bound || pod.gate.as_deref().is_some_and(|gate| gate.shown.is_open_for(&pod.ips))
        };
        let mut bound = self.index.pods().bound(&pod.key).into_iter();
        // It may have been readier before this replica has seen it; or the leader has not seen it ready, or keeps it for its
        // zones, and so has not taken it out.
        let is_unready = |target: &Result<Target, Cause>| target.is_err_and(Cause::is_of_readiness);
        let unready = bound.find(|(_, target)| is_unready(target));
        let known = unready.map(|(binding, _)| binding.policy.hold).or_else(|| left.then(Hold::default));
        // A leader knows besides what the ledger has told it, or what it has taken out for another reason.
        let is_known_of = || {
            !self.lingering(pod).is_zero()
                || !self.left_of(pod).is_empty()
                || !self.said_out_of(pod).is_empty()
                || self.has_elsewhere(pod)
        };
        known.or_else(|| self.may_yet_bind(pod)).or_else(|| is_known_of().then(Hold::default))
    }

    /// Whether the leader before had a pod at an address that it has not, as far as is seen. It may have got it since, and
    /// what is seen be older; or it has lost it, and others are there.
    pub(super) fn has_elsewhere(&self, pod: &PodFacts) -> bool {
        let mut groups = self.groups.these(Which::OfPod(&pod.uid));
        groups.any(|(_, group)| group.registrations().has_elsewhere(&pod.uid, &pod.ips))
    }

    /// For how long load balancers may still send to a pod for what was taken out before, also at an address that it seems to
    /// have no more: what is seen of that may be what was a moment ago. What the ledger says was taken out before it was
    /// written on the pod that all was, that covers.
    pub(super) fn lingering(&self, pod: &PodFacts) -> Duration {
        let noted = pod.leaving.as_deref().and_then(|leaving| leaving.out_at(self.wall));
        let is_covered =
            |since: &Since| matches!(since, Since::Ledger(at) if noted.is_some_and(|noted| at.at() <= noted));
        let left = self.groups.these(Which::OfPod(&pod.uid)).flat_map(|(_, group)| {
            let out = group.registrations().out_of(&pod.uid).filter(|(since, _)| !is_covered(since));
            out.filter_map(|(since, asked)| {
                let bound = asked.bound(pod.hold, &self.rules.bounds)?;
                Some(since.ends(bound).since(self.now))
            })
        });
        let returned = self.index.pods().returned_at(&pod.key);
        let returned = returned.map(|at| (at + self.rules.bounds.network).since(self.now));
        left.chain(returned).max().unwrap_or_default()
    }

    /// For how long load balancers may go on sending to a pod that is a target, or will be one, if it were taken out now. Not
    /// of one that is not to be held.
    pub(super) fn would_be_sent_to(&self, pod: &PodFacts) -> Option<Duration> {
        let places = self.targets_of(&pod.key).into_iter().chain(self.left_of(pod));
        let bounds = &self.rules.bounds;
        let places = places.filter_map(|(bound, ..)| hold_of(pod, &bound).bound(bound.balancer, bounds));
        places.max().or_else(|| self.may_yet_bind(pod).map(|_| bounds.network))
    }

    /// Where AWS may have a target of a pod besides, for which it is not bound any more: its removal is under way, for
    /// whatever reason; as of one that another leader has registered again before it saw that the pod leaves.
    pub(super) fn left_of(&self, pod: &PodFacts) -> Vec<Place> {
        let targets = self.groups.these(Which::OfPod(&pod.uid)).flat_map(|(arn, group)| {
            group.registrations().all_of(&pod.uid, &pod.ips).map(move |(target, asked)| {
                let AskedHold { balancer, hold } = asked;
                (BoundTo { balancer, hold, paused: false }, arn.clone(), *target)
            })
        });
        targets.collect()
    }

    /// Where a pod is out by the word of a ledger alone, as long as no read has shown that.
    pub(super) fn said_out_of(&self, pod: &PodFacts) -> Vec<(TargetGroupArn, Target)> {
        let said = self.groups.these(Which::OfPod(&pod.uid)).flat_map(|(arn, group)| {
            group.registrations().said_out_of(&pod.uid).map(move |target| (arn.clone(), *target))
        });
        said.collect()
    }

    /// From where a pod is taken out that is a target in these places, and for how long the load balancers may go on sending
    /// after that. What AWS has of it besides is added when it is looked at next.
    pub(super) fn taken_out(
        &self,
        pod: &PodFacts,
        places: Vec<Place>,
    ) -> (Vec<(TargetGroupArn, Target)>, Duration) {
        let bound = propagation(pod, &bound(&places), &self.rules.bounds).unwrap_or_default();
        let written = places.into_iter().filter(|(bound, ..)| !bound.paused);
        (written.map(|(_, arn, target)| (arn, target)).collect(), bound.max(self.lingering(pod)))
    }

    /// The zone of a pod, if it is known.
    fn zone_of(&self, pod: &ObjectKey) -> Option<&Arc<str>> {
        self.nodes.last_seen().zone(self.index.pods().get(pod)?.node.as_ref())
    }

    /// How many other pods that `binding` selects there are in a zone, or may come to be: also those that are starting or not
    /// scheduled yet, and those that go, since others come for them.
    fn others_in(&self, zone: &Arc<str>, binding: &Binding, pod: &ObjectKey) -> usize {
        let here = self.index.pods().of(&pod.namespace).filter(|other| {
            other.key != *pod
                && !other.finished
                && binding.selector.selects(&other.labels)
                && (other.node.is_none() || self.nodes.last_seen().zone(other.node.as_ref()) == Some(zone))
        });
        here.count()
    }

    /// Whether a pod that is `bound` like this keeps itself alive for long enough, as far as is known here.
    pub(super) fn has_its_hold(&self, pod: &ObjectKey, bound: &[BoundTo]) -> bool {
        self.index.pods().get(pod).is_some_and(|facts| has_hold(facts, bound))
    }
}

/// Whether the last read of a target group shows that a target serves. One under a zonal shift does not.
fn serves(group: &Group, target: &Target) -> bool {
    group.observation().state(target) == Some(HealthState::Healthy)
}

/// The same of one that serves on when another one goes.
fn serves_on(group: &Group, target: &Target) -> bool {
    let counts = |read| group.registrations().is_untouched_since(target, read);
    serves(group, target) && group.observation().last_read().is_some_and(counts)
}

/// What was said of where a pod is.
pub fn bound(places: &[Place]) -> Vec<BoundTo> {
    places.iter().map(|(bound, ..)| *bound).collect()
}
