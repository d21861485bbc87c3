//! Stores the sets and their objects, as the watches last reported them.
//!
//! * **Owns** the objects by set. A pod or ControllerRevision belongs to its controller. Without a controller, the
//!   object belongs to the set in its label.
//! * **Guarantees.** If a watch reports most nodes as deleted, the nodes count as deleted only after a confirmation.
//!   The confirmation is a second list, or 30 s without a contrary report.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use headgate_core::{
    brake::{Becomes, Brake, most_of},
    model::{Change, Moment, ObjectKey, Scope},
};

use crate::model::{BudgetFacts, Owner, RevisionFacts, SetFacts, SetNode, SetPod};

/// The maximum time for which a deletion of most nodes is doubted.
const PATIENCE: Duration = Duration::from_secs(30);

/// The kinds that are watched per namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Sets,
    Pods,
    Revisions,
    Budgets,
}

/// Objects by set and name.
#[derive(Debug)]
struct BySet<T> {
    of: BTreeMap<ObjectKey, BTreeMap<Arc<str>, T>>,
    set: BTreeMap<ObjectKey, ObjectKey>,
}

impl<T> Default for BySet<T> {
    fn default() -> Self {
        Self { of: BTreeMap::new(), set: BTreeMap::new() }
    }
}

impl<T> BySet<T> {
    /// Stores an object. If the object moved from another set, returns the previous set.
    fn put(&mut self, key: &ObjectKey, set: &ObjectKey, thing: T) -> Option<ObjectKey> {
        let before = self.set.insert(key.clone(), set.clone()).filter(|before| before != set);
        if let Some(before) = &before {
            self.drop_of(before, key);
        }
        self.of.entry(set.clone()).or_default().insert(key.name.clone(), thing);
        before
    }

    fn drop_of(&mut self, set: &ObjectKey, key: &ObjectKey) -> Option<T> {
        let of = self.of.get_mut(set)?;
        let thing = of.remove(&key.name);
        if of.is_empty() {
            self.of.remove(set);
        }
        thing
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<(ObjectKey, T)> {
        let set = self.set.remove(key)?;
        self.drop_of(&set, key).map(|thing| (set, thing))
    }

    /// Returns the stored objects of a scope that `there` does not contain.
    fn missing(&self, scope: &Scope, there: &BTreeSet<ObjectKey>) -> Vec<ObjectKey> {
        let is_missing = |key: &&ObjectKey| scope.covers(&key.namespace) && !there.contains(*key);
        self.set.keys().filter(is_missing).cloned().collect()
    }
}

/// The sets and their objects, as the watches last reported them.
#[derive(Debug, Default)]
pub struct Seen {
    sets: BTreeMap<ObjectKey, SetFacts>,
    pods: BySet<SetPod>,
    revisions: BySet<RevisionFacts>,
    budgets: BTreeMap<ObjectKey, BudgetFacts>,
    nodes: BTreeMap<Arc<str>, SetNode>,
    brake: Brake<Arc<str>>,
    /// The kinds and scopes whose initial list has not arrived yet.
    unlisted: BTreeSet<(Kind, Scope)>,
    nodes_are_listed: bool,
}

impl Seen {
    /// Creates an empty state that waits for the initial lists of these scopes.
    pub fn new(scopes: &[Scope]) -> Self {
        let kinds = [Kind::Sets, Kind::Pods, Kind::Revisions, Kind::Budgets];
        let of = |kind| scopes.iter().map(move |scope| (kind, scope.clone()));
        let unlisted = kinds.into_iter().flat_map(of).collect();
        Self { unlisted, brake: Brake::new(PATIENCE), ..Self::default() }
    }

    /// Returns whether the initial sync is complete.
    pub fn has_listed(&self) -> bool {
        self.unlisted.is_empty() && self.nodes_are_listed
    }

    /// Applies a change of sets. Returns the names of the changed sets.
    pub fn sets(&mut self, change: Change<SetFacts>) -> BTreeSet<ObjectKey> {
        match change {
            Change::Applied(set) => {
                let key = set.key.clone();
                self.sets.insert(key.clone(), set);
                [key].into()
            }
            Change::Deleted(set) => {
                self.sets.remove(&set.key);
                [set.key].into()
            }
            Change::Relisted(scope, sets) => {
                let mut touched: BTreeSet<ObjectKey> =
                    self.sets.keys().filter(|key| scope.covers(&key.namespace)).cloned().collect();
                self.sets.retain(|key, _| !scope.covers(&key.namespace));
                for set in sets {
                    touched.insert(set.key.clone());
                    self.sets.insert(set.key.clone(), set);
                }
                self.unlisted.remove(&(Kind::Sets, scope));
                touched
            }
        }
    }

    /// Applies a change of pods. Returns the changed pods, their sets, and whether the pods still exist.
    pub fn pods(&mut self, change: Change<SetPod>) -> Vec<(ObjectKey, SetPod, bool)> {
        let mut changes = Vec::new();
        match change {
            Change::Applied(pod) => self.put_pod(pod, &mut changes),
            Change::Deleted(pod) => {
                if let Some((set, _)) = self.pods.remove(&pod.key) {
                    changes.push((set, pod, false));
                }
            }
            Change::Relisted(scope, pods) => {
                let there = pods.iter().map(|pod| pod.key.clone()).collect();
                for key in self.pods.missing(&scope, &there) {
                    changes.extend(self.pods.remove(&key).map(|(set, pod)| (set, pod, false)));
                }
                for pod in pods {
                    self.put_pod(pod, &mut changes);
                }
                self.unlisted.remove(&(Kind::Pods, scope));
            }
        }
        changes
    }

    fn put_pod(&mut self, pod: SetPod, changes: &mut Vec<(ObjectKey, SetPod, bool)>) {
        let Some(set) = home(&pod.key, pod.controller.as_ref(), pod.set.as_ref()) else { return };
        if let Some(before) = self.pods.put(&pod.key, &set, pod.clone()) {
            changes.push((before, pod.clone(), false));
        }
        changes.push((set, pod, true));
    }

    /// Applies a change of ControllerRevisions. Returns the sets of the changed ControllerRevisions.
    pub fn revisions(&mut self, change: Change<RevisionFacts>) -> BTreeSet<ObjectKey> {
        let mut touched = BTreeSet::new();
        match change {
            Change::Applied(revision) => self.put_revision(revision, &mut touched),
            Change::Deleted(revision) => {
                touched.extend(self.revisions.remove(&revision.key).map(|(set, _)| set));
            }
            Change::Relisted(scope, revisions) => {
                let there = revisions.iter().map(|revision| revision.key.clone()).collect();
                for key in self.revisions.missing(&scope, &there) {
                    touched.extend(self.revisions.remove(&key).map(|(set, _)| set));
                }
                for revision in revisions {
                    self.put_revision(revision, &mut touched);
                }
                self.unlisted.remove(&(Kind::Revisions, scope));
            }
        }
        touched
    }

    fn put_revision(&mut self, revision: RevisionFacts, touched: &mut BTreeSet<ObjectKey>) {
        let set = home(&revision.key, revision.controller.as_ref(), revision.set.as_ref());
        let Some(set) = set else { return };
        touched.extend(self.revisions.put(&revision.key.clone(), &set, revision));
        touched.insert(set);
    }

    /// Applies a change of PodDisruptionBudgets. Returns all sets in the same namespaces.
    pub fn budgets(&mut self, change: Change<BudgetFacts>) -> BTreeSet<ObjectKey> {
        let scope = match &change {
            Change::Applied(budget) | Change::Deleted(budget) => {
                Scope::Namespace(budget.key.namespace.clone())
            }
            Change::Relisted(scope, _) => scope.clone(),
        };
        match change {
            Change::Applied(budget) => _ = self.budgets.insert(budget.key.clone(), budget),
            Change::Deleted(budget) => _ = self.budgets.remove(&budget.key),
            Change::Relisted(scope, budgets) => {
                self.budgets.retain(|key, _| !scope.covers(&key.namespace));
                self.budgets.extend(budgets.into_iter().map(|budget| (budget.key.clone(), budget)));
                self.unlisted.remove(&(Kind::Budgets, scope));
            }
        }
        self.sets.keys().filter(|key| scope.covers(&key.namespace)).cloned().collect()
    }

    /// Applies a change of nodes. Returns whether the stored nodes have changed.
    pub fn nodes(&mut self, change: Change<SetNode>, now: Moment) -> bool {
        match change {
            Change::Applied(node) => {
                self.brake.shows(&node.name);
                let before = self.nodes.insert(node.name.clone(), node.clone());
                before.as_ref() != Some(&node)
            }
            Change::Deleted(node) => {
                let became = self.brake.deleted(&node.name, self.nodes.keys(), now);
                self.drop_nodes(became)
            }
            Change::Relisted(scope, nodes) => {
                let there: BTreeSet<&Arc<str>> = nodes.iter().map(|node| &node.name).collect();
                let missing: Vec<Arc<str>> =
                    self.nodes.keys().filter(|name| !there.contains(name)).cloned().collect();
                let most = most_of(&missing, self.nodes.len());
                let became = self.brake.listed(&scope, missing, &most, now);
                self.drop_nodes(became);
                self.nodes.extend(nodes.into_iter().map(|node| (node.name.clone(), node)));
                self.nodes_are_listed = true;
                true
            }
        }
    }

    fn drop_nodes(&mut self, became: Vec<(Arc<str>, Becomes)>) -> bool {
        let before = self.nodes.len();
        for (name, _) in became.into_iter().filter(|(_, becomes)| *becomes == Becomes::Gone) {
            self.nodes.remove(&name);
        }
        self.nodes.len() < before
    }

    /// Advances the time. Returns whether the deletion of nodes was confirmed.
    pub fn pass(&mut self, now: Moment) -> bool {
        let before = self.nodes.len();
        for name in self.brake.pass(now) {
            self.nodes.remove(&name);
        }
        self.nodes.len() < before
    }

    /// Returns the time of the next due call of [`Seen::pass`].
    pub fn due(&self) -> Option<Moment> {
        self.brake.next_due()
    }

    /// Returns whether the caller must list all nodes again. Returns `true` only once.
    pub fn take_relist(&mut self) -> bool {
        self.brake.take_asks().is_some()
    }

    pub fn set(&self, key: &ObjectKey) -> Option<&SetFacts> {
        self.sets.get(key)
    }

    /// Returns the names of all sets.
    pub fn set_keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.sets.keys().cloned()
    }

    /// Returns all nodes by name.
    pub const fn all_nodes(&self) -> &BTreeMap<Arc<str>, SetNode> {
        &self.nodes
    }

    /// Returns the pods that a set controls or may adopt.
    pub fn pods_of(&self, set: &ObjectKey) -> impl Iterator<Item = &SetPod> {
        self.pods.of.get(set).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the number of pods of all sets.
    pub fn pod_count(&self) -> usize {
        self.pods.set.len()
    }

    /// Returns the pod with this name in a set.
    pub fn pod(&self, set: &ObjectKey, name: &str) -> Option<&SetPod> {
        self.pods.of.get(set)?.get(name)
    }

    /// Returns the ControllerRevisions that a set controls or may adopt.
    pub fn revisions_of(&self, set: &ObjectKey) -> impl Iterator<Item = &RevisionFacts> {
        self.revisions.of.get(set).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the PodDisruptionBudgets in a namespace.
    pub fn budgets_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a BudgetFacts> {
        headgate_core::model::object::within(&self.budgets, namespace).map(|(_, budget)| budget)
    }
}

/// Returns the set that an object belongs to. Without a controller, returns the set in the object's label.
fn home(key: &ObjectKey, controller: Option<&Owner>, label: Option<&Arc<str>>) -> Option<ObjectKey> {
    let name = controller.map(|owner| &owner.name).or(label)?;
    Some(ObjectKey { namespace: key.namespace.clone(), name: name.clone() })
}
