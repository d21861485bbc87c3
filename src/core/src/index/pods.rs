//! The pods, and queries about pods.

use std::net::IpAddr;

use super::{Index, verdict::verdict};
use crate::{
    ledger::PodMark,
    model::{
        Binding, BindingKey, Cause, Ended, Labels, Moment, ObjectKey, Owner, PodFacts, Standing, Target,
        TargetGroupArn, changes::Contest, object::within,
    },
};

#[derive(Clone, Debug)]
pub(super) struct PodEntry {
    pub(super) facts: PodFacts,
    /// A sequence number that increases each time a pod gets a new IP.
    pub(super) order: u64,
    pub(super) standing: Standing,
    /// Whether the pod is deregistered before its eviction although the pod's annotation does not show the
    /// deregistration yet.
    pub(super) leaves: bool,
    /// Why the pod is deregistered with its node, or is not registered because its node will be drained.
    pub(super) node_goes: Option<Cause>,
    /// Whether the pod is no longer ready and its zone does not need the target.
    pub(super) let_go: bool,
    pub(super) claims: Vec<(BindingKey, Target)>,
    /// The time at which the pod last lost a target for a reason other than the loss of its address.
    pub(super) left: Option<Moment>,
    /// The time at which the pod appeared again after a list lacked the pod.
    pub(super) returned: Option<Moment>,
}

impl PodEntry {
    pub fn new(facts: PodFacts, order: u64) -> Self {
        Self {
            facts,
            order,
            standing: Standing::default(),
            leaves: false,
            node_goes: None,
            let_go: false,
            claims: Vec::new(),
            left: None,
            returned: None,
        }
    }

    pub fn ended(&self, seen: Moment) -> Ended {
        let PodFacts { key, uid, hold, node, .. } = &self.facts;
        let pod = Owner { pod: key.clone(), uid: uid.clone() };
        Ended { pod, hold: *hold, node: node.clone(), seen }
    }
}

/// The pods as last seen, and their state. Read-only.
#[derive(Clone, Copy, Debug)]
pub struct Pods<'a>(pub(super) &'a Index);

impl<'a> Pods<'a> {
    fn entry(self, pod: &ObjectKey) -> Option<&'a PodEntry> {
        self.0.pods.get(pod).map(|entry| &**entry)
    }

    /// Returns the pod as last seen.
    pub fn get(self, pod: &ObjectKey) -> Option<&'a PodFacts> {
        self.entry(pod).map(|entry| &entry.facts)
    }

    pub fn all(self) -> impl Iterator<Item = &'a PodFacts> {
        self.0.pods.values().map(|entry| &entry.facts)
    }

    /// The pods of a namespace.
    pub fn of(self, namespace: &str) -> impl Iterator<Item = &'a PodFacts> {
        within(&self.0.pods, namespace).map(|(_, entry)| &entry.facts)
    }

    pub fn count(self) -> usize {
        self.0.pods.len()
    }

    /// Returns the pod with this hash, from any namespace.
    pub fn marked(self, mark: PodMark) -> Option<&'a PodFacts> {
        self.get(self.0.marks.get(&mark)?)
    }

    /// The pods that have not terminated and whose status shows this address, in the order in which the pods got the
    /// address.
    pub fn at(self, ip: &IpAddr) -> impl Iterator<Item = &'a PodFacts> {
        self.0.addresses.tenants(ip).filter_map(move |pod| self.get(pod))
    }

    /// Returns the pod that has an address from the status of `pod`, and why `pod` does not have the address.
    pub fn taken_by(self, pod: &PodFacts) -> Option<(&'a ObjectKey, Cause)> {
        pod.ips.iter().find_map(|ip| self.0.addresses.taken_by(ip, &pod.key))
    }

    /// The pods that wait for an address of a pod on another node.
    pub fn contests(self) -> impl Iterator<Item = Contest> {
        self.0.addresses.contests()
    }

    /// The number of pods that wait for an address of a pod on another node.
    pub fn contested(self) -> usize {
        self.0.addresses.contested()
    }

    /// The time at which the first pod of the workload with these labels appeared. `None`: the workload is unknown, or
    /// one of its pods was a target.
    pub fn unbound_since(self, namespace: &str, labels: &Labels) -> Option<Moment> {
        self.0.workloads.unbound_since(namespace, labels)
    }

    /// The bindings that select a pod, each with the target that the pod claims, or with the reason why the pod claims
    /// no target.
    pub fn bound(self, pod: &ObjectKey) -> Vec<(&'a Binding, Result<Target, Cause>)> {
        let Some(entry) = self.entry(pod) else { return Vec::new() };
        let selecting = self.0.bindings.selecting(&pod.namespace, &entry.facts.labels);
        let stands = |binding: &Binding| {
            let claimed = entry.claims.iter().find(|(key, _)| *key == binding.key);
            match claimed {
                Some((_, target)) => Ok(*target),
                None => self.says(entry, None, binding),
            }
        };
        selecting.map(|binding| (binding, stands(binding))).collect()
    }

    /// The targets that a pod would have if Headgate had not deregistered the pod early.
    pub fn bound_but_for_leaving(self, pod: &ObjectKey) -> Vec<(&'a Binding, Target)> {
        let Some(entry) = self.entry(pod) else { return Vec::new() };
        let selecting = self.0.bindings.selecting(&pod.namespace, &entry.facts.labels);
        let says = |binding: &Binding| verdict(&entry.facts, entry.standing, None, binding).ok();
        let is_own = |target: &Target| self.0.addresses.taken_by(&target.ip, pod).is_none();
        selecting.filter_map(|binding| Some((binding, says(binding).filter(is_own)?))).collect()
    }

    /// Whether a pod would have this target of this group if the pod were ready, or if the pod already had the target.
    pub fn waits_for_readiness(self, pod: &ObjectKey, group: &TargetGroupArn, target: &Target) -> bool {
        let Some(entry) = self.entry(pod) else { return false };
        let mut bound = self.0.bindings.of(&pod.namespace).filter(|binding| binding.key.group == *group);
        let says = |had, binding| self.says(entry, had, binding);
        bound.any(|binding| says(None, binding).is_err() && says(Some(*target), binding) == Ok(*target))
    }

    /// Why this pod does not remain a target at this address: its termination, the loss of the address, or an early
    /// deregistration. `None`: the pod remains a target.
    pub fn left(self, owner: &Owner, ip: &IpAddr) -> Option<Cause> {
        let Some(entry) = self.entry(&owner.pod).filter(|entry| entry.facts.uid == owner.uid) else {
            return Some(Cause::PodDeleted);
        };
        let facts = &entry.facts;
        let has_lost = || !facts.ips.contains(ip) || self.0.addresses.taken_by(ip, &facts.key).is_some();
        facts.goes().or_else(|| has_lost().then_some(Cause::IpChanged)).or_else(|| entry.why_out())
    }

    /// The time at which the pod last stopped being a target of a group.
    pub fn left_at(self, pod: &ObjectKey) -> Option<Moment> {
        self.entry(pod)?.left
    }

    /// The time at which the pod appeared again after a list lacked the pod. Headgate may not know about
    /// deregistrations in the meantime.
    pub fn returned_at(self, pod: &ObjectKey) -> Option<Moment> {
        self.entry(pod)?.returned
    }

    /// Why a living pod is not a target: its eviction, or the removal of its node.
    pub fn why_out(self, pod: &ObjectKey) -> Option<Cause> {
        self.entry(pod)?.why_out()
    }

    /// Whether the pod is deregistered before its eviction.
    pub fn leaves(self, pod: &ObjectKey) -> bool {
        self.entry(pod).is_some_and(|entry| entry.leaves)
    }

    /// Whether the pod is deregistered because its node will be or was removed.
    pub fn goes_with_its_node(self, pod: &ObjectKey) -> bool {
        let goes = self.entry(pod).and_then(|entry| entry.node_goes);
        goes.is_some_and(Cause::ends_the_node)
    }

    /// The time at which an unready pod will count as unready for too long, if nothing changes.
    pub fn lost_at(self, pod: &ObjectKey) -> Option<Moment> {
        self.entry(pod)?.standing.lost_at(self.0.patience)
    }

    /// The time at which a pod that was missing in a doubted list will count as deleted.
    pub fn given_up_at(self, pod: &ObjectKey) -> Option<Moment> {
        self.0.brake.doubted_until(pod)
    }

    /// The time at which Headgate would have deregistered an unready pod if its zone did not need the target.
    pub fn kept_since(self, pod: &ObjectKey) -> Option<Moment> {
        Some(self.0.kept.all.get(pod)?.since)
    }

    /// The number of unready pods of `binding` that remain registered because their zones need the targets.
    pub fn kept_by(self, binding: &BindingKey) -> usize {
        if !self.0.bindings.get(binding).is_some_and(Binding::lets_go) {
            return 0;
        }
        let claims = |entry: &PodEntry| entry.claims.iter().any(|(key, _)| key == binding);
        let staying = self.0.kept.all.iter().filter(|(_, kept)| kept.stays);
        staying.filter(|(pod, _)| self.entry(pod).is_some_and(claims)).count()
    }

    /// The verdict for a pod. The verdict is an error if the pod is deregistered early or another pod has its address.
    pub(super) fn says(
        self,
        entry: &PodEntry,
        had: Option<Target>,
        binding: &Binding,
    ) -> Result<Target, Cause> {
        let target = entry.verdict_but_for_keeping(had, binding)?;
        let taken = || self.0.addresses.taken_by(&target.ip, &entry.facts.key);
        let out = entry.why_out().or_else(|| taken().map(|(_, cause)| cause));
        out.map_or(Ok(target), Err)
    }
}
