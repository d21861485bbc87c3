//! The bindings in force, the owner of each target, and the problems of bindings.

mod troubles;

use std::{collections::BTreeMap, sync::Arc};

use self::troubles::Troubled;
use super::Because;
use crate::{
    model::{
        Binding, BindingKey, Bindings, Changes, Labels, Moment, ObjectKey, Origin, Owner, Target,
        TargetGroupArn, Trouble, Uid,
        changes::{Ownership, Through},
    },
    multimap::Multimap,
};

/// A pod with a problem, and the affected target if the problem is about one target.
type Subject = (ObjectKey, Option<Target>);

#[derive(Clone, Debug)]
pub struct Claim {
    pub(in crate::index) binding: BindingKey,
    pub(in crate::index) owner: Owner,
    pub(in crate::index) order: u64,
    pub(in crate::index) host_network: bool,
}

/// The `Claim`s of all pods on a target, and the owner of the target.
#[derive(Clone, Debug, Default)]
struct Contest {
    claims: Vec<Claim>,
    owner: Option<Uid>,
    /// Why the present owner owns the target, and the time at which the pod became the owner.
    since: Option<Because>,
    troubles: Vec<(Trouble, Subject)>,
}

/// `Claim`s that were removed in this step while other `Claim`s on the same target remained. If the other `Claim`s are
/// removed in the same step too, the pod had the target through all of these bindings.
#[derive(Clone, Debug, Default)]
struct Ended(BTreeMap<(TargetGroupArn, Target), Vec<BindingKey>>);

impl Ended {
    /// The bindings through which a pod has or had a target. `last`: the binding whose claim was added or removed.
    fn through(&mut self, contest: &Contest, id: &(TargetGroupArn, Target), last: &BindingKey) -> Through {
        let claims = contest.claims.iter().filter(|claim| contest.is_owners(claim));
        let mut all: Vec<BindingKey> = claims.map(|claim| claim.binding.clone()).collect();
        let at = all.iter().position(|binding| binding == last);
        match at.map(|at| all.swap_remove(at)).or_else(|| all.pop()) {
            Some(its) => {
                if at.is_none() {
                    self.0.entry(id.clone()).or_default().push(last.clone());
                }
                Through { last: its, others: all }
            }
            None => Through { last: last.clone(), others: self.0.remove(id).unwrap_or_default() },
        }
    }
}

/// The bindings in force, with their owners and problems. The fields are read-only outside this module.
#[derive(Clone, Debug, Default)]
pub struct InForce {
    by_namespace: BTreeMap<Arc<str>, Bindings>,
    /// The time of the last change of the bindings of each namespace.
    changed: BTreeMap<Arc<str>, Moment>,
    by_group: Multimap<TargetGroupArn, BindingKey>,
    contests: BTreeMap<(TargetGroupArn, Target), Contest>,
    targets: BTreeMap<BindingKey, BTreeMap<Target, ObjectKey>>,
    troubles: BTreeMap<Trouble, Troubled>,
    ended: Ended,
    /// The changes of this step, in this module and in the pods.
    pub(super) changes: Changes,
}

impl InForce {
    pub fn all(&self) -> impl Iterator<Item = &Binding> {
        self.by_namespace.values().flat_map(BTreeMap::values)
    }

    /// Returns the binding with this key.
    pub fn get(&self, key: &BindingKey) -> Option<&Binding> {
        self.by_namespace.get(&key.origin.key().namespace)?.get(key)
    }

    /// The time of the last change of the bindings of a namespace. `None`: the bindings never changed.
    pub fn changed_at(&self, namespace: &str) -> Option<Moment> {
        self.of(namespace).next().and(self.changed.get(namespace).copied())
    }

    /// The bindings of a namespace.
    pub(super) fn of(&self, namespace: &str) -> impl Iterator<Item = &Binding> {
        self.by_namespace.get(namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// The bindings of this target group.
    pub fn of_group(&self, group: &TargetGroupArn) -> impl Iterator<Item = &Binding> {
        self.by_group.of(group).filter_map(|key| self.get(key))
    }

    /// The bindings that this Service or TargetBinding creates.
    pub fn by<'a>(&'a self, origin: &'a Origin) -> impl Iterator<Item = &'a Binding> {
        self.of(&origin.key().namespace).filter(move |binding| binding.key.origin == *origin)
    }

    /// The bindings that select pods of `namespace` with these labels.
    pub fn selecting(&self, namespace: &str, labels: &Labels) -> impl Iterator<Item = &Binding> {
        self.of(namespace).filter(|binding| binding.selector.selects(labels))
    }

    /// The targets that pods claim through `binding`, each with its pod.
    pub fn targets_of(&self, binding: &BindingKey) -> impl Iterator<Item = (&Target, &ObjectKey)> {
        self.targets.get(binding).into_iter().flatten()
    }

    /// The pod that owns a target of a group.
    pub fn owner(&self, group: &TargetGroupArn, target: &Target) -> Option<&ObjectKey> {
        let contest = self.contests.get(&(group.clone(), *target))?;
        contest.prevailing().map(|claim| &claim.owner.pod)
    }

    /// The owner of each target that has an owner.
    pub fn ownerships(&self) -> impl Iterator<Item = Ownership> {
        self.contests.iter().filter_map(|((_, target), contest)| {
            let (claim, Because { cause, seen }) = (contest.prevailing()?, contest.since?);
            let its = contest.claims.iter().filter(|other| contest.is_owners(other));
            let others = its.filter(|other| other.binding != claim.binding);
            let others = others.map(|other| other.binding.clone()).collect();
            let through = Through { last: claim.binding.clone(), others };
            let owner = Some(claim.owner.clone());
            Some(Ownership { through, target: *target, owner, cause, seen })
        })
    }

    /// Starts a step: clears the list of `Claim`s that were removed in earlier steps.
    pub(super) fn forget_ended(&mut self) {
        self.ended.0.clear();
    }

    /// Adds the `Claim` of a pod on a target.
    pub(super) fn add(&mut self, claim: Claim, target: Target, because: Because) {
        let binding = claim.binding.clone();
        let contest = self.contests.entry((binding.group.clone(), target)).or_default();
        let its = contest.is_owners(&claim);
        contest.claims.push(claim);
        self.decide(&binding, target, its, because);
    }

    /// Removes the `Claim` of a pod on a target through `binding`.
    pub(super) fn release(&mut self, uid: &Uid, binding: &BindingKey, target: Target, because: Because) {
        let mut its = false;
        if let Some(contest) = self.contests.get_mut(&(binding.group.clone(), target)) {
            contest.claims.retain(|claim| claim.owner.uid != *uid || claim.binding != *binding);
            its = contest.owner.as_ref() == Some(uid);
        }
        self.decide(binding, target, its, because);
    }

    /// The `Claim`s of all pods on a target.
    pub(super) fn claims_on(&self, group: &TargetGroupArn, target: Target) -> &[Claim] {
        self.contests.get(&(group.clone(), target)).map_or(&[], |contest| &contest.claims)
    }

    /// Removes a binding without `Claim`s.
    pub(super) fn end_binding(&mut self, key: &BindingKey, seen: Moment) {
        self.changed.insert(key.origin.key().namespace.clone(), seen);
        if let Some(here) = self.by_namespace.get_mut(&key.origin.key().namespace) {
            here.remove(key);
        }
        self.by_group.take(&key.group, key);
        self.targets.remove(key);
        self.troubles.retain(|trouble, _| trouble.binding != *key);
        self.changes.bindings.insert(key.clone());
    }

    /// Adds or changes a binding. Returns `false` if the binding is unchanged.
    pub(super) fn begin_binding(&mut self, binding: &Binding, seen: Moment) -> bool {
        let key = &binding.key;
        let here = self.by_namespace.entry(key.origin.key().namespace.clone()).or_default();
        if here.get(key) == Some(binding) {
            return false;
        }
        here.insert(key.clone(), binding.clone());
        self.changed.insert(key.origin.key().namespace.clone(), seen);
        self.by_group.put(&key.group, key);
        self.changes.bindings.insert(key.clone());
        true
    }

    /// Decides again which pod owns `target`. Records a change of the owner or of its bindings. `its`: whether a
    /// `Claim` of the owner was added or removed.
    fn decide(&mut self, binding: &BindingKey, target: Target, its: bool, because: Because) {
        self.changes.bindings.insert(binding.clone());
        let id = (binding.group.clone(), target);
        let Some(contest) = self.contests.get_mut(&id) else { return };
        let here = contest.claims.iter().filter(|claim| claim.binding == *binding);
        // If several pods of one binding claim the target, report the pod that got the address last.
        if let Some(claim) = here.max_by_key(|claim| claim.order) {
            let pod = claim.owner.pod.clone();
            self.targets.entry(binding.clone()).or_default().insert(target, pod);
        } else if let Some(targets) = self.targets.get_mut(binding) {
            targets.remove(&target);
        }
        let owner = contest.prevailing().map(|claim| claim.owner.clone());
        if its || owner.as_ref().map(|owner| &owner.uid) != contest.owner.as_ref() {
            let uid = owner.as_ref().map(|owner| owner.uid.clone());
            if uid != contest.owner {
                (contest.owner, contest.since) = (uid, Some(because));
            }
            let through = self.ended.through(contest, &id, binding);
            self.changes.ownerships.push(Ownership {
                through,
                target,
                owner,
                cause: because.cause,
                seen: because.seen,
            });
        }
        let now = contest.troubles(target);
        let before = std::mem::replace(&mut contest.troubles, now.clone());
        if contest.claims.is_empty() {
            self.contests.remove(&id);
        }
        self.note_contest(&before, &now);
    }
}

impl Contest {
    /// Whether all pods with a `Claim` share the address legitimately, because they use the host network.
    fn is_honest(&self) -> bool {
        self.claims.iter().all(|claim| claim.host_network)
    }

    /// Whether this `Claim` belongs to the owner of the target.
    fn is_owners(&self, claim: &Claim) -> bool {
        self.owner.as_ref() == Some(&claim.owner.uid)
    }

    /// The `Claim` that makes its pod the owner.
    fn prevailing(&self) -> Option<&Claim> {
        if self.is_honest() {
            self.claims.iter().min_by_key(|claim| claim.order)
        } else {
            self.claims.iter().rev().max_by_key(|claim| claim.order)
        }
    }
}
