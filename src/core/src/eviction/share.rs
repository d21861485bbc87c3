//! Decides when to deregister pods that drain tools skip, and how many pods of a target group at a time.
//!
//! A pod of a DaemonSet gets no notice before its machine terminates. Headgate therefore deregisters a DaemonSet's pod
//! early, even if the pod has a hold. However, many nodes may get a taint or annotation at the same time, long before
//! the nodes terminate. A pod that is deregistered early no longer serves. Headgate therefore deregisters at most a
//! quarter of the pods of a target group early. Pods whose replacements already serve do not count toward this share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Evictions, Surroundings,
    departure::Departure,
    ruling::propagation,
    stays_alive,
    surroundings::{Place, bound},
};
use crate::{
    model::{
        Binding, Cause, ObjectKey, PodFacts, RequestId, Target, TargetGroupArn, WallTime, eviction::BoundTo,
        leaving::Asked,
    },
    requests::Request,
};

/// At most one in this many pods of a target group may be deregistered early.
const ONE_IN: usize = 4;
/// The maximum time by which a replacement node may start before the old nodes get their removal signals.
const BEFORE: Duration = Duration::from_hours(1);
/// The minimum difference in age between a replacement node and all nodes that will be removed. Nodes that were created
/// together differ by less.
const YOUNGER: i64 = 60;

/// The pods of each namespace and target group.
type Known = BTreeMap<(Arc<str>, TargetGroupArn), Members>;

/// The pods of a namespace that are targets of one group, or would be targets if they were not deregistered.
struct Members {
    pods: BTreeSet<ObjectKey>,
    /// The pods that are or soon will be deregistered early.
    leaving: BTreeSet<ObjectKey>,
    /// The number of pods that serve in place of pods whose nodes will be removed.
    replacing: usize,
}

impl Members {
    /// Whether one more pod may be deregistered early.
    fn allow(&self, pod: &ObjectKey) -> bool {
        let others = self.leaving.iter().filter(|leaving| *leaving != pod).count();
        let share = self.pods.len().saturating_sub(self.replacing) / ONE_IN;
        others < share.max(1) + self.replacing
    }
}

impl Surroundings<'_> {
    /// Why a pod that drain tools skip is still a target although its node will be drained. `None`: drain tools do not
    /// skip the pod, the pod needs no hold, or its eviction is already recorded.
    pub fn waits_early(&self, evictions: &Evictions, pod: &PodFacts) -> Option<Cause> {
        let places = bound(&self.places_of(pod));
        let is_held = propagation(pod, &places, &self.rules.bounds).is_some();
        if pod.leaving.is_some() || !is_held || !self.is_passed_over(pod) {
            return None;
        }
        let has_come = evictions.has_come(pod, self);
        Some(if has_come { Cause::TooManyLeaveEarly } else { Cause::ManyNodesMarked })
    }

    /// The targets of the pod. If the pod has no target, returns the targets that the pod would have without its
    /// deregistration.
    fn places_of(&self, pod: &PodFacts) -> Vec<Place> {
        let now = self.targets_of(&pod.key);
        if now.is_empty() { self.bound_but_for_leaving(&pod.key) } else { now }
    }

    /// Whether drain tools skip the pod when they drain its node.
    pub(super) fn is_passed_over(&self, pod: &PodFacts) -> bool {
        let signal = pod.node.as_ref().and_then(|node| self.nodes.signal(node));
        signal.is_some_and(|(signal, _)| pod.passed_over.on(signal))
    }

    /// The pods in the namespace of `pod` that are or would be targets of a group. `leaves`: whether a pod is
    /// deregistered early.
    fn members(&self, pod: &ObjectKey, arn: &TargetGroupArn, leaves: impl Fn(&PodFacts) -> bool) -> Members {
        let bindings = self.index.bindings().of_group(arn);
        let own: Vec<&Binding> =
            bindings.filter(|binding| binding.key.origin.key().namespace == pod.namespace).collect();
        let is_member = |facts: &&PodFacts| {
            let mut own = own.iter();
            !facts.ips.is_empty()
                && stays_alive(facts)
                && own.any(|binding| binding.selector.selects(&facts.labels))
        };
        let all = self.index.pods().of(&pod.namespace).filter(is_member);
        let mut members = Members { pods: BTreeSet::new(), leaving: BTreeSet::new(), replacing: 0 };
        // The time of the first removal signal of a node of these pods, and the creation time of the youngest such
        // node.
        let (mut since, mut youngest, mut staying) = (None, i64::MIN, Vec::new());
        let created = |facts: &PodFacts| self.nodes.last_seen().created(facts.node.as_ref());
        for facts in all {
            members.pods.insert(facts.key.clone());
            if leaves(facts) {
                members.leaving.insert(facts.key.clone());
            }
            let goes = facts.node.as_ref().and_then(|node| self.nodes.signal(node));
            match goes.filter(|(signal, _)| signal.concerns(facts)) {
                Some((_, at)) => {
                    since = Some(since.map_or(at, |since: WallTime| since.min(at)));
                    youngest = youngest.max(created(facts).unwrap_or(i64::MIN));
                }
                None => staying.push(facts),
            }
        }
        let Some(since) = since else { return members };
        let replaces = |facts: &&&PodFacts| {
            let Some(created) = created(facts).filter(|created| created.saturating_sub(YOUNGER) > youngest)
            else {
                return false;
            };
            let created =
                WallTime::since_1970(Duration::from_secs(u64::try_from(created).unwrap_or_default()));
            created + BEFORE > since && self.is_healthy_in(arn, &facts.key)
        };
        members.replacing = staying.iter().filter(replaces).count();
        members
    }
}

impl Evictions {
    /// Writes annotations for pods whose node will be drained, before a client requests their eviction. The method
    /// selects pods without a hold, and pods that drain tools skip.
    pub(super) fn ask_to_leave(
        &mut self,
        mut next_id: impl FnMut() -> RequestId,
        around: &Surroundings<'_>,
    ) -> Vec<(RequestId, Request)> {
        let (mut known, mut asks) = (BTreeMap::new(), Vec::new());
        while let Some((pod, since)) = self.early.take(around.nodes, around.now) {
            let facts = around.index.pods().get(&pod);
            let facts = facts.filter(|facts| stays_alive(facts) && facts.leaving.is_none());
            let Some(facts) = facts else { continue };
            if !self.leaves_early(facts, &mut known, around) {
                // Check the pod again later, because replacements may become healthy, or other pods may terminate.
                if around.waits_early(self, facts) == Some(Cause::TooManyLeaveEarly) {
                    self.early.look_again(&pod, around.now);
                }
                continue;
            }
            for members in
                known.values_mut().filter(|members: &&mut Members| members.pods.contains(&facts.key))
            {
                members.leaving.insert(facts.key.clone());
            }
            let id = next_id();
            let asked = Asked::early(since).after(facts.left_over, around.wall);
            asks.extend(self.early.ask(pod, asked, id).map(|write| (id, Request::Mark(write))));
        }
        asks
    }

    /// Whether a pod is deregistered early because its node will be drained. Pods with a hold that the drain tool will
    /// evict are not deregistered early. Pods that need no hold are not deregistered early either.
    fn leaves_early(&self, pod: &PodFacts, known: &mut Known, around: &Surroundings<'_>) -> bool {
        let places = bound(&around.places_of(pod));
        if propagation(pod, &places, &around.rules.bounds).is_none() {
            return false;
        }
        if around.is_passed_over(pod) {
            self.has_come(pod, around) && self.allow(pod, known, around)
        } else {
            !around.has_its_hold(&pod.key, &places)
        }
    }

    /// Whether a pod has a hold and enough time for the hold. A pod that terminates with its machine does not have
    /// enough time.
    pub(super) fn keeps_its_hold(
        &self,
        pod: &ObjectKey,
        bound: &[BoundTo],
        around: &Surroundings<'_>,
    ) -> bool {
        let is_early = |departure: &Departure| departure.facts.ask.early;
        let facts = around.index.pods().get(pod);
        let ends_with_its_node = self.departures.pods.get(pod).is_some_and(is_early)
            && facts.is_some_and(|facts| around.is_passed_over(facts));
        !ends_with_its_node && around.has_its_hold(pod, bound)
    }

    /// Whether Headgate may act now on the removal signal of the pod's node, or other pods of the node have been
    /// evicted.
    fn has_come(&self, pod: &PodFacts, around: &Surroundings<'_>) -> bool {
        let signal = pod.node.as_ref().and_then(|node| Some((node, around.nodes.signal(node)?.0)));
        signal.is_some_and(|(node, signal)| {
            around.nodes.last_seen().is_its_turn(signal) || self.early.is_drained(node)
        })
    }

    /// Whether a pod that starts on a node that will be removed should not be registered.
    pub(super) fn stays_out(&self, pod: &PodFacts, around: &Surroundings<'_>) -> bool {
        // The previous leader may have registered the pod before the removal signal, even in a group that would not
        // accept the pod now.
        let is_in = |arn: &TargetGroupArn, target: &Target| {
            around.groups.get(arn).is_some_and(|group| group.registrations().may_be_sent_to(target).is_some())
        };
        let mut places = around.places_of(pod).into_iter().chain(around.left_of(pod));
        pod.leaving.is_none()
            && !places.any(|(_, arn, target)| is_in(&arn, &target))
            && around.is_passed_over(pod)
            && self.leaves_early(pod, &mut BTreeMap::new(), around)
    }

    /// Whether each target group of the pod has at most the allowed share of early deregistrations, including this pod.
    pub(super) fn share_allows(&self, pod: &PodFacts, around: &Surroundings<'_>) -> bool {
        let is_out = |facts: &PodFacts| self.is_out_early(&facts.key);
        let groups = around.places_of(pod);
        let mut groups = groups.iter().filter(|(bound, ..)| !bound.paused);
        groups.all(|(_, arn, _)| around.members(&pod.key, arn, is_out).allow(&pod.key))
    }

    fn is_out_early(&self, pod: &ObjectKey) -> bool {
        let departure = self.departures.pods.get(pod);
        let is_out = departure.is_some_and(|departure| departure.facts.ask.early && departure.is_out());
        is_out || self.early.stays_out(pod)
    }

    /// Whether one more pod of each target group may be deregistered early. Unlike [`Self::share_allows`], this method
    /// also counts pods that only have an annotation, because such pods may wait for their budgets forever.
    fn allow(&self, pod: &PodFacts, known: &mut Known, around: &Surroundings<'_>) -> bool {
        let leaves = |facts: &PodFacts| {
            let is_asked = facts.leaving.as_deref().is_some_and(|leaving| leaving.ask.early);
            let goes = (is_asked || self.early.goes(&facts.key)) && around.is_passed_over(facts);
            goes || self.is_out_early(&facts.key)
        };
        let groups = around.places_of(pod);
        let mut groups = groups.into_iter().filter(|(bound, ..)| !bound.paused);
        groups.all(|(_, arn, _)| {
            let members = known.entry((pod.key.namespace.clone(), arn));
            let members = members.or_insert_with_key(|(_, arn)| around.members(&pod.key, arn, leaves));
            members.allow(&pod.key)
        })
    }
}
