//! The bindings in force, whose each target is, and what is wrong.

mod contest;
mod troubles;

pub use contest::Claim;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::{contest::Contest, troubles::Troubled};
use super::Cause;
use crate::model::{
    Binding, BindingKey, Bindings, Changes, Labels, ObjectKey, Origin, Target, TargetGroupArn, Trouble, Uid,
};

/// Who has a trouble: a pod, at one of its targets if it is about that.
type Subject = (ObjectKey, Option<Target>);

/// See the module. From outside: questions only.
#[derive(Debug, Default)]
pub struct InForce {
    by_namespace: BTreeMap<Arc<str>, Bindings>,
    by_group: BTreeMap<TargetGroupArn, BTreeSet<BindingKey>>,
    contests: BTreeMap<(TargetGroupArn, Target), Contest>,
    targets: BTreeMap<BindingKey, BTreeMap<Target, ObjectKey>>,
    troubles: BTreeMap<Trouble, Troubled>,
    /// What has changed since that was handed on: here, and with the pods.
    pub(super) changes: Changes,
}

impl InForce {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Binding> {
        self.by_namespace.values().flat_map(BTreeMap::values)
    }

    /// The binding of this name.
    pub fn get(&self, key: &BindingKey) -> Option<&Binding> {
        self.by_namespace.get(&key.origin.key().namespace)?.get(key)
    }

    /// Those of a namespace.
    pub(super) fn of(&self, namespace: &str) -> impl Iterator<Item = &Binding> {
        self.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// Those that bind something to this group.
    pub fn of_group(&self, group: &TargetGroupArn) -> impl Iterator<Item = &Binding> {
        self.by_group.get(group).into_iter().flatten().filter_map(|key| self.get(key))
    }

    /// Those that this object makes.
    pub fn by<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Binding> {
        self.of(&origin.key().namespace).filter(move |binding| binding.key.origin == *origin)
    }

    /// Those that select pods of `namespace` with these labels.
    pub fn selecting(&self, namespace: &str, labels: &Labels) -> impl Iterator<Item = &Binding> {
        self.of(namespace).filter(|binding| binding.selector.selects(labels))
    }

    /// The targets that `binding` claims, each with its pod.
    pub fn targets_of(&self, binding: &BindingKey) -> impl Iterator<Item = (&Target, &ObjectKey)> {
        self.targets.get(binding).into_iter().flatten()
    }

    /// The pod whose a target of a group is.
    pub fn owner(&self, group: &TargetGroupArn, target: &Target) -> Option<&ObjectKey> {
        let contest = self.contests.get(&(group.clone(), *target))?;
        contest.prevailing().map(|claim| &claim.owner.pod)
    }

    /// A pod claims a target.
    pub(super) fn add(&mut self, claim: Claim, target: Target, cause: Cause) {
        let binding = claim.binding.clone();
        self.contests.entry((binding.group.clone(), target)).or_default().claims.push(claim);
        self.decide(&binding, target, cause);
    }

    /// A pod claims a target through `binding` no more.
    pub(super) fn release(&mut self, uid: &Uid, binding: &BindingKey, target: Target, cause: Cause) {
        if let Some(contest) = self.contests.get_mut(&(binding.group.clone(), target)) {
            contest.claims.retain(|claim| claim.owner.uid != *uid || claim.binding != *binding);
        }
        self.decide(binding, target, cause);
    }

    /// Who claims a target.
    pub(super) fn claims_on(&self, group: &TargetGroupArn, target: Target) -> &[Claim] {
        self.contests.get(&(group.clone(), target)).map_or(&[], |contest| &contest.claims)
    }

    /// This binding ends; nothing claims anything through it any more.
    pub(super) fn end_binding(&mut self, key: &BindingKey) {
        if let Some(here) = self.by_namespace.get_mut(&key.origin.key().namespace) {
            here.remove(key);
        }
        if let Some(of_group) = self.by_group.get_mut(&key.group) {
            of_group.remove(key);
            if of_group.is_empty() {
                self.by_group.remove(&key.group);
            }
        }
        self.targets.remove(key);
        self.troubles.retain(|trouble, _| trouble.binding != *key);
        self.changes.bindings.insert(key.clone());
    }

    /// This binding begins, or is another one now; `false`: it is as it was.
    pub(super) fn begin_binding(&mut self, binding: &Binding) -> bool {
        let key = &binding.key;
        let here = self.by_namespace.entry(key.origin.key().namespace.clone()).or_default();
        if here.get(key) == Some(binding) {
            return false;
        }
        here.insert(key.clone(), binding.clone());
        self.by_group.entry(key.group.clone()).or_default().insert(key.clone());
        self.changes.bindings.insert(key.clone());
        true
    }
}
