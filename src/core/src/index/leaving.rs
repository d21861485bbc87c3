//! Pods that are taken out of their target groups while they live: for their eviction, or because their node goes.

use crate::{
    binding::Binding,
    index::{Cause, Changes, Index, PodEntry, verdict::verdict},
    model::{leaving::LeavingFacts, object::ObjectKey, reason::Reason, target::Target, time::Moment},
};

impl PodEntry {
    /// Why it is no target although it lives, if that is so.
    pub(super) fn why_out(&self) -> Option<Reason> {
        let leaving = self.facts.leaving.as_deref();
        let evicting = self.leaves || leaving.is_some_and(LeavingFacts::is_out);
        let early = leaving.is_some_and(|leaving| leaving.early);
        let reason = if early { Reason::NodeDisrupted } else { Reason::PodEvicting };
        self.node_goes.or(evicting.then_some(reason))
    }
}

impl Index {
    /// A pod is to be evicted and `leaves` its target groups before, or stays in them after all.
    pub fn let_leave(&mut self, pod: &ObjectKey, leaves: bool, seen: Moment) -> Changes {
        let mut changes = Changes::default();
        if let Some(entry) = self.pods.get_mut(pod)
            && entry.leaves != leaves
        {
            entry.leaves = leaves;
            self.claim_all(pod, Cause { reason: Reason::EvictionGivenUp, seen }, &mut changes);
        }
        changes
    }

    /// Whether that is so.
    pub fn leaves(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|entry| entry.leaves)
    }

    /// The node of a pod is about to die or gone, as this reason says, or stays after all.
    pub fn node_goes(&mut self, pod: &ObjectKey, goes: Option<Reason>, seen: Moment) -> Changes {
        let mut changes = Changes::default();
        if let Some(entry) = self.pods.get_mut(pod)
            && entry.node_goes != goes
        {
            entry.node_goes = goes;
            self.claim_all(pod, Cause { reason: Reason::NodeStays, seen }, &mut changes);
        }
        changes
    }

    /// Whether the targets of a pod go because its node is about to die, or gone.
    pub fn goes_with_its_node(&self, pod: &ObjectKey) -> bool {
        self.pods.get(pod).is_some_and(|entry| entry.node_goes.is_some())
    }

    /// Why a living pod is no target of anything, if it leaves: for its eviction, or because its node goes.
    pub fn why_out(&self, pod: &ObjectKey) -> Option<Reason> {
        self.pods.get(pod)?.why_out()
    }

    /// When a pod was not a target any more of something that it was one of.
    pub fn left_at(&self, pod: &ObjectKey) -> Option<Moment> {
        self.pods.get(pod)?.left
    }

    /// What a pod would be a target of if it were not taken out.
    pub fn bound_but_for_leaving(&self, pod: &ObjectKey) -> Vec<(&Binding, Target)> {
        let Some(entry) = self.pods.get(pod) else { return Vec::new() };
        let selecting = self.selecting(&pod.namespace, &entry.facts.labels);
        let says = |binding: &Binding| verdict(&entry.facts, entry.standing, None, binding).ok();
        let is_own = |target: &Target| self.addresses.taken_by(&target.ip, pod).is_none();
        selecting.filter_map(|binding| Some((binding, says(binding).filter(is_own)?))).collect()
    }
}

/// What stands between a living pod and its targets, for the simulation.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// The leader takes it out, for its eviction.
    pub decided: bool,
    /// Its node is about to go, and it with it at once.
    pub node_goes: bool,
    /// It has not been ready for too long, and its zones do not need it.
    pub let_go: bool,
}

#[cfg(test)]
impl Index {
    /// The pods with anything of that.
    pub fn apart(&self) -> std::collections::BTreeMap<ObjectKey, Apart> {
        let of = |entry: &PodEntry| Apart {
            decided: entry.leaves,
            node_goes: entry.node_goes.is_some(),
            let_go: entry.let_go,
        };
        let all = self.pods.iter().map(|(pod, entry)| (pod.clone(), of(entry)));
        all.filter(|(_, apart)| *apart != Apart::default()).collect()
    }
}
