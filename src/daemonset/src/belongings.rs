//! Requests for objects other than new pods: pods to adopt or release, ControllerRevisions, and the
//! PodDisruptionBudget.

use std::collections::BTreeSet;

use headgate_core::model::limits::PROBLEMS;

use super::{asks::Asks, seen::Seen};
use crate::model::{Owner, Revision, RevisionFacts, SetFacts, SetPod, ask::Ask};

/// Returns whether the set controls the pod.
pub fn is_own(pod: &SetPod, facts: &SetFacts) -> bool {
    let is_controlled = pod.controller.as_ref().is_some_and(|owner| owner.uid == facts.uid);
    is_controlled && pod.set.as_deref() == Some(&*facts.key.name)
}

/// Returns whether the set may adopt the pod.
pub fn may_adopt(pod: &SetPod, facts: &SetFacts) -> bool {
    let is_labelled = pod.set.as_deref() == Some(&*facts.key.name);
    pod.controller.is_none() && is_labelled && !pod.terminating && !pod.finished
}

/// Adopts pods that have the set's label but no controller. Releases pods that the set controls but that lost the
/// label.
pub fn pods(facts: &SetFacts, pods: &[&SetPod], wants: &mut Vec<Ask>) {
    for pod in pods.iter().filter(|pod| !pod.terminating) {
        let is_labelled = pod.set.as_deref() == Some(&*facts.key.name);
        let (name, uid) = (pod.key.name.clone(), pod.uid.clone());
        match &pod.controller {
            None if may_adopt(pod, facts) => wants.push(Ask::Adopt { name, uid }),
            Some(owner) if owner.uid == facts.uid && !is_labelled => wants.push(Ask::Release { name, uid }),
            _ => {}
        }
    }
}

/// Stores the revision of the current template, deletes surplus revisions, and returns the revisions that exist.
pub fn revisions(
    facts: &SetFacts,
    seen: &Seen,
    pods: &[&SetPod],
    asks: &Asks,
    wants: &mut Vec<Ask>,
) -> BTreeSet<Revision> {
    let all = seen.revisions_of(&facts.key);
    let (own, others): (Vec<&RevisionFacts>, Vec<_>) = all
        .filter(|revision| revision.controller.as_ref().is_none_or(|owner| owner.uid == facts.uid))
        .partition(|revision| revision.controller.is_some());
    for orphan in others {
        wants.push(Ask::AdoptRevision { name: orphan.key.name.clone(), uid: orphan.uid.clone() });
    }
    let newest = own.iter().map(|revision| revision.number).max().unwrap_or_default();
    // Another client may have written the largest possible number.
    let next = newest.saturating_add(1);
    let update = &facts.spec.revision;
    match own.iter().find(|revision| revision.revision == *update) {
        None => wants.push(Ask::KeepRevision { revision: update.clone(), number: next }),
        Some(kept) if kept.number < newest => wants.push(Ask::RenumberRevision {
            name: kept.key.name.clone(),
            uid: kept.uid.clone(),
            number: next,
        }),
        Some(_) => {}
    }
    let is_used = |revision: &Revision| {
        revision == update
            || facts.remembered.current.as_ref() == Some(revision)
            || pods.iter().any(|pod| pod.revision == *revision)
            || asks.makes(revision)
    };
    let mut old: Vec<&&RevisionFacts> = own.iter().filter(|kept| !is_used(&kept.revision)).collect();
    old.sort_by_key(|kept| std::cmp::Reverse(kept.number));
    for kept in old.into_iter().skip(facts.spec.history) {
        wants.push(Ask::DropRevision { name: kept.key.name.clone(), uid: kept.uid.clone() });
    }
    own.iter().map(|kept| kept.revision.clone()).collect()
}

/// Describes the PodDisruptionBudgets in the set's namespace whose selectors exceed a limit.
pub fn too_large(facts: &SetFacts, seen: &Seen) -> Vec<Box<str>> {
    let all = seen.budgets_in(&facts.key.namespace);
    let said = all.filter_map(|budget| Some((&budget.key.name, budget.beyond?)));
    said.map(|(name, excess)| format!("PodDisruptionBudget {name}: {excess}").into())
        .take(PROBLEMS.most)
        .collect()
}

/// Keeps the set's PodDisruptionBudget at this `minAvailable`. If another PodDisruptionBudget selects the pods, deletes
/// the set's own PodDisruptionBudget. Kubernetes never evicts a pod that two PodDisruptionBudgets select.
pub fn budgets(facts: &SetFacts, seen: &Seen, least: Option<usize>, wants: &mut Vec<Ask>) {
    let is_own = |owner: &Owner| owner.uid == facts.uid;
    let (mut own, mut orphan, mut others) = (None, None, false);
    for budget in seen.budgets_in(&facts.key.namespace) {
        let is_of_its_name = budget.set.as_deref() == Some(&*facts.key.name);
        match &budget.controller {
            Some(owner) if is_own(owner) => own = Some(budget),
            // The PodDisruptionBudget of a deleted set with the same name, whose pods were kept.
            None if is_of_its_name => orphan = Some(budget),
            _ if budget.selects(&facts.spec.labels) => others = true,
            _ => {}
        }
    }
    if let Some(orphan) = orphan {
        wants.push(Ask::AdoptBudget { name: orphan.key.name.clone(), uid: orphan.uid.clone() });
        return;
    }
    match (least.filter(|_| !others), own) {
        (Some(least), Some(budget)) if budget.min_available == Some(least) => {}
        (Some(least), own) => {
            wants.push(Ask::KeepBudget { least, uid: own.map(|budget| budget.uid.clone()) });
        }
        (None, Some(budget)) => wants.push(Ask::DropBudget(budget.uid.clone())),
        (None, None) => {}
    }
}
