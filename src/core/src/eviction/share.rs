//! The pods that whoever drains their node passes over: whether their turn has come, and how many of a target group leave at
//! a time.
//!
//! A DaemonSet's pod is told of nothing before the machine ends under it, so it leaves early whatever its hold. But a sign
//! may come to many nodes at once, long before they end, and what leaves early serves no more. So at most one in four of the
//! pods of a target group is out at a time, beyond those whose replacements serve already.

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

/// One in so many pods of a target group may be out early.
const ONE_IN: usize = 4;
/// Nodes that replace others may come up before those are marked, but not longer before than this.
const BEFORE: Duration = Duration::from_hours(1);
/// And each of them is younger than all that go, by more than those that were made together differ.
const YOUNGER: i64 = 60;

/// By namespace and target group.
type Known = BTreeMap<(Arc<str>, TargetGroupArn), Members>;

/// What is known of the pods of a namespace that are targets of one group, or would be if they did not leave.
struct Members {
    pods: BTreeSet<ObjectKey>,
    /// Those that are out early, or on their way out.
    leaving: BTreeSet<ObjectKey>,
    /// Those that serve instead of others, whose nodes go.
    replacing: usize,
}

impl Members {
    /// Whether one more may leave.
    fn allow(&self, pod: &ObjectKey) -> bool {
        let others = self.leaving.iter().filter(|leaving| *leaving != pod).count();
        let share = self.pods.len().saturating_sub(self.replacing) / ONE_IN;
        others < share.max(1) + self.replacing
    }
}

impl Surroundings<'_> {
    /// Why a pod that nobody evicts is a target still although its node is to be drained, if it is one and not asked yet.
    pub fn waits_early(&self, evictions: &Evictions, pod: &PodFacts) -> Option<Cause> {
        let places = bound(&self.places_of(pod));
        let is_held = propagation(pod, &places, &self.rules.bounds).is_some();
        if pod.leaving.is_some() || !is_held || !self.is_passed_over(pod) {
            return None;
        }
        let has_come = evictions.has_come(pod, self);
        Some(if has_come { Cause::TooManyLeaveEarly } else { Cause::ManyNodesMarked })
    }

    /// Where a pod is a target, also if it would not become one as it is now; or would be if it were not taken out.
    fn places_of(&self, pod: &PodFacts) -> Vec<Place> {
        let now = self.targets_of(&pod.key);
        if now.is_empty() { self.bound_but_for_leaving(&pod.key) } else { now }
    }

    /// Whether whoever drains the node of a pod passes it over.
    pub(super) fn is_passed_over(&self, pod: &PodFacts) -> bool {
        let signal = pod.node.as_ref().and_then(|node| self.nodes.signal(node));
        signal.is_some_and(|(signal, _)| pod.passed_over.on(signal))
    }

    /// The pods of the namespace of `pod` that are targets of a group, or would be; `leaves`: those that leave it early.
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
        // Since when a node of them goes, and when the last of those was created.
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
    /// Asks those to leave before anybody else does whose node is to be drained, if nothing keeps them alive or nobody
    /// evicts them.
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
                // Others may come to serve, or end.
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

    /// Whether a pod leaves early that nobody has asked to, because its node is to be drained: not one that has its hold and
    /// that somebody will evict, nor one that is not to be held.
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

    /// Whether a pod has its hold, and its turn to make use of it: not one whose machine ends under it.
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

    /// Whether the turn of a pod's node has come: its sign says so, or others have been evicted from it.
    fn has_come(&self, pod: &PodFacts, around: &Surroundings<'_>) -> bool {
        let signal = pod.node.as_ref().and_then(|node| Some((node, around.nodes.signal(node)?.0)));
        signal.is_some_and(|(node, signal)| {
            around.nodes.last_seen().is_its_turn(signal) || self.early.is_drained(node)
        })
    }

    /// Whether a pod that starts on a node which goes need not be registered there.
    pub(super) fn stays_out(&self, pod: &PodFacts, around: &Surroundings<'_>) -> bool {
        // The leader before may have registered it, when its node did not go yet; also where it would be no target as it is
        // now.
        let is_in = |arn: &TargetGroupArn, target: &Target| {
            around.groups.get(arn).is_some_and(|group| group.registrations().may_be_sent_to(target).is_some())
        };
        let mut places = around.places_of(pod).into_iter().chain(around.left_of(pod));
        pod.leaving.is_none()
            && !places.any(|(_, arn, target)| is_in(&arn, &target))
            && around.is_passed_over(pod)
            && self.leaves_early(pod, &mut BTreeMap::new(), around)
    }

    /// Whether it is not too many of a pod's target groups that are out early, this one among them.
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

    /// The same, if those count as well that are only asked to leave. Others may wait for their budgets without end.
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
