//! The Services that Headgate knows, the namespaces that are selected, and what has been said about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    binding::{Bindings, Resolution, Settled, settle},
    input::Change,
    notice::{About, Notice, Notices},
    object::{ObjectKey, Uid},
    policy::Policy,
    reason::Reason,
    service::ServiceFacts,
    target_group::GroupRef,
};

#[derive(Debug)]
struct Known {
    facts: ServiceFacts,
    bindings: Bindings,
    policy: Policy,
    problems: Vec<(Reason, String)>,
    references: BTreeSet<GroupRef>,
}

/// The Services with the annotation, or that had it a moment ago.
#[derive(Debug)]
pub struct Services {
    known: BTreeMap<ObjectKey, Known>,
    /// `None`: all namespaces count.
    selected: Option<BTreeSet<Arc<str>>>,
    notices: Notices<ObjectKey>,
}

impl Services {
    pub fn new(namespaces_are_selected: bool) -> Self {
        Self {
            known: BTreeMap::new(),
            selected: namespaces_are_selected.then(BTreeSet::new),
            notices: Notices::default(),
        }
    }

    /// Takes in what the watch says; returns the Services to settle anew.
    pub fn apply(&mut self, change: Change<ServiceFacts>) -> Vec<ObjectKey> {
        match change {
            Change::Applied(facts) => self.put(facts).into_iter().collect(),
            Change::Deleted(facts) => self.take_away(&facts.key, Some(&facts.uid)).into_iter().collect(),
            Change::Relisted(scope, list) => {
                let there: BTreeSet<ObjectKey> = list.iter().map(|facts| facts.key.clone()).collect();
                let missing: Vec<ObjectKey> = self
                    .known
                    .keys()
                    .filter(|key| scope.covers(&key.namespace) && !there.contains(key))
                    .cloned()
                    .collect();
                let mut changed: Vec<ObjectKey> =
                    missing.iter().filter_map(|key| self.take_away(key, None)).collect();
                changed.extend(list.into_iter().filter_map(|facts| self.put(facts)));
                changed
            }
        }
    }

    fn put(&mut self, facts: ServiceFacts) -> Option<ObjectKey> {
        let key = facts.key.clone();
        match self.known.get_mut(&key) {
            Some(known) if known.facts == facts => return None,
            Some(known) => known.facts = facts,
            None if facts.target_groups.is_none() => return None,
            None => {
                let known = Known {
                    facts,
                    bindings: Bindings::new(),
                    policy: Policy::default(),
                    problems: Vec::new(),
                    references: BTreeSet::new(),
                };
                self.known.insert(key.clone(), known);
            }
        }
        Some(key)
    }

    /// The Service is gone: as if its annotation had been taken away.
    fn take_away(&mut self, key: &ObjectKey, uid: Option<&Uid>) -> Option<ObjectKey> {
        let known = self.known.get_mut(key)?;
        if uid.is_some_and(|uid| *uid != known.facts.uid) {
            return None;
        }
        known.facts.target_groups = None;
        Some(key.clone())
    }

    /// Takes in which namespaces are selected; returns the Services to settle anew.
    pub fn select(&mut self, change: Change<Arc<str>>) -> Vec<ObjectKey> {
        let Some(selected) = &mut self.selected else { return Vec::new() };
        let before = selected.clone();
        match change {
            Change::Applied(name) => {
                selected.insert(name);
            }
            Change::Deleted(name) => {
                selected.remove(&name);
            }
            Change::Relisted(_, names) => *selected = names.into_iter().collect(),
        }
        let changed: BTreeSet<&Arc<str>> = before.symmetric_difference(selected).collect();
        self.known.keys().filter(|key| changed.contains(&key.namespace)).cloned().collect()
    }

    /// Decides anew what is in force for a Service; also says why bindings that ended did so.
    pub fn settle(
        &mut self,
        key: &ObjectKey,
        resolve: impl Fn(&GroupRef) -> Resolution,
    ) -> (Settled, Reason) {
        let ended = Reason::BindingRemoved;
        let Some(known) = self.known.get_mut(key) else { return (Settled::default(), ended) };
        let selected = self.selected.as_ref().is_none_or(|selected| selected.contains(&key.namespace));
        let (settled, ended) = if selected {
            (settle(&known.facts, &known.bindings, known.policy, resolve), ended)
        } else {
            (Settled::default(), Reason::NamespaceNotSelected)
        };
        known.bindings.clone_from(&settled.bindings);
        known.policy = settled.policy;
        known.problems.clone_from(&settled.problems);
        known.references.clone_from(&settled.references);
        (settled, ended)
    }

    /// All target groups that are named anywhere.
    pub fn references(&self) -> BTreeSet<GroupRef> {
        self.known.values().flat_map(|known| known.references.iter().cloned()).collect()
    }

    /// The Services whose annotation names this target group.
    pub fn naming(&self, reference: &GroupRef) -> Vec<ObjectKey> {
        let names = |known: &Known| known.references.contains(reference);
        self.known.iter().filter(|(_, known)| names(known)).map(|(key, _)| key.clone()).collect()
    }

    /// The UID of a known Service.
    pub fn uid(&self, key: &ObjectKey) -> Option<&Uid> {
        self.known.get(key).map(|known| &known.facts.uid)
    }

    /// What is wrong with a Service and has not been said yet; `more` comes from elsewhere. Afterwards a Service
    /// without annotation and bindings is forgotten.
    pub fn say(&mut self, key: &ObjectKey, more: impl Iterator<Item = (Reason, String)>) -> Vec<Notice> {
        let Some(known) = self.known.get(key) else { return Vec::new() };
        let problems: Vec<(Reason, String)> = known.problems.iter().cloned().chain(more).collect();
        let about = About::Service(key.clone(), known.facts.uid.clone());
        if known.facts.target_groups.is_none() && known.bindings.is_empty() {
            self.known.remove(key);
        }
        let new = self.notices.set(key, problems);
        new.into_iter().map(|(reason, note)| Notice { about: about.clone(), reason, note }).collect()
    }
}
