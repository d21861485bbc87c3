//! The TargetBindings that users wrote, which Headgate evaluates like Services.
//!
//! A TargetBinding that names a Service binds the Service's pods. When the Service is deleted, the targets remain for a
//! while, in the same way as for a Service with the annotation. If the Service does not exist or the TargetBinding is
//! unreadable, the previous valid bindings remain active.

use std::{collections::BTreeSet, time::Duration};

use super::{Known, Services};
use crate::{
    binding::read_written,
    brake::{Becomes, most_of},
    model::{
        BindingFacts, Change, GroupRef, Moment, ObjectKey, Origin, Reason, ServiceFacts, Uid, excerpt::brief,
        target_binding::Pods,
    },
};

impl Services {
    pub(super) fn apply_written(&mut self, change: Change<BindingFacts>, seen: Moment) -> Vec<Origin> {
        match change {
            Change::Applied(facts) => self.show_written(facts).into_iter().collect(),
            Change::Deleted(facts) if self.written.get(&facts.key).is_some_and(|it| it.uid == facts.uid) => {
                let became = self.doubts.written.deleted(&facts.key, self.written.keys(), seen);
                self.become_of_written(became)
            }
            Change::Deleted(facts) => self.forget_written(&facts.key, Some(&facts.uid)).into_iter().collect(),
            Change::Relisted(scope, list) => {
                let there: BTreeSet<ObjectKey> = list.iter().map(|facts| facts.key.clone()).collect();
                let is_missing = |key: &&ObjectKey| scope.covers(&key.namespace) && !there.contains(*key);
                // If an object that is already being deleted disappears, no further target is removed.
                let ended: Vec<ObjectKey> = self.ending.keys().filter(is_missing).cloned().collect();
                let missing: Vec<ObjectKey> = self.written.keys().filter(is_missing).cloned().collect();
                let here = self.written.keys().filter(|key| scope.covers(&key.namespace)).count();
                let became =
                    self.doubts.written.listed(&scope, missing.clone(), &most_of(&missing, here), seen);
                let ended = ended.iter().filter_map(|key| self.forget_written(key, None));
                let mut changed: Vec<Origin> = ended.collect();
                changed.extend(self.become_of_written(became));
                changed.extend(list.into_iter().filter_map(|facts| self.show_written(facts)));
                changed
            }
        }
    }

    /// Applies Headgate's decisions about TargetBindings that a watch reported as deleted.
    fn become_of_written(&mut self, became: Vec<(ObjectKey, Becomes)>) -> Vec<Origin> {
        let origins = became.into_iter().filter_map(|(key, becomes)| match becomes {
            Becomes::Gone => self.forget_written(&key, None),
            Becomes::Doubted | Becomes::There => Some(Origin::TargetBinding(key)),
        });
        origins.collect()
    }

    fn show_written(&mut self, facts: BindingFacts) -> Option<Origin> {
        let origin = Origin::TargetBinding(facts.key.clone());
        let was_doubted = self.doubts.written.shows(&facts.key);
        self.put_written(facts).or_else(|| was_doubted.then_some(origin))
    }

    /// Records the deletion of a Service. TargetBindings that use the Service keep their targets for a while.
    pub(super) fn lose_service(&mut self, key: &ObjectKey, seen: Moment) {
        let Some(facts) = self.all.remove(key) else { return };
        let is_in_force =
            |known: &Known| known.service.as_ref() == Some(key) && !known.settled.bindings.is_empty();
        if !self.grace.is_zero() && self.known.values().any(is_in_force) {
            self.gone.insert(key.clone(), (facts, seen + self.grace));
        }
    }

    fn put_written(&mut self, facts: BindingFacts) -> Option<Origin> {
        let key = facts.key.clone();
        if facts.ending {
            self.written.remove(&key);
            self.end(&key, Some((facts.uid, GroupRef::parse(&facts.group).ok())));
            return self.take_away(&Origin::TargetBinding(key), None);
        }
        self.end(&key, None);
        self.written.insert(key.clone(), facts);
        self.read(&key)
    }

    pub(super) fn forget_written(&mut self, key: &ObjectKey, uid: Option<&Uid>) -> Option<Origin> {
        let is_meant = |known: &Uid| uid.is_none_or(|uid| uid == known);
        if self.ending.get(key).is_some_and(|(known, _)| is_meant(known)) {
            self.end(key, None);
        }
        if self.written.get(key).is_some_and(|known| is_meant(&known.uid)) {
            self.written.remove(key);
        }
        self.take_away(&Origin::TargetBinding(key.clone()), uid)
    }

    /// Reevaluates the TargetBindings that name one of the Services.
    pub(super) fn read_again(&mut self, of: impl Fn(&ObjectKey) -> bool) -> Vec<Origin> {
        let touched = |facts: &BindingFacts| facts.service().is_some_and(|named| of(&named));
        let keys: Vec<ObjectKey> =
            self.written.values().filter(|facts| touched(facts)).map(|facts| facts.key.clone()).collect();
        keys.iter().filter_map(|key| self.read(key)).collect()
    }

    fn read(&mut self, key: &ObjectKey) -> Option<Origin> {
        let written = self.written.get(key)?;
        let named = written.service();
        let service = named.as_ref().and_then(|named| self.all.get(named));
        // Until Headgate has listed all Services, a missing Service may still exist.
        let listed = || self.listed.iter().any(|scope| scope.covers(&key.namespace));
        if named.is_some() && service.is_none() && !listed() {
            return None;
        }
        let origin = Origin::TargetBinding(key.clone());
        let (mut facts, mut besides) = read_written(written, service);
        let mut of = service.map(|service| service.key.clone());
        let stays =
            |(reason, said): (Reason, String)| (reason, said + " The previous value remains in effect.");
        let before = self.known.get(&origin).filter(|known| !known.settled.bindings.is_empty());
        if let (Pods::Unreadable(_), Some(known)) = (&written.pods, before) {
            of.clone_from(&known.service);
            facts = ServiceFacts { uid: facts.uid, ..known.facts.clone() };
            besides = besides.map(stays);
        }
        if let (Some(named), None) = (named, service)
            && let Some(known) = before
        {
            of.clone_from(&known.service);
            if of.as_ref() != Some(&named) {
                facts = known.facts.clone();
                besides = besides.map(stays);
            } else if let Some((gone, _)) = self.gone.get(&named) {
                (facts, _) = read_written(written, Some(gone));
                besides = Some((Reason::BindingRemoved, service_deleted(&named.name, self.grace)));
            }
        }
        let read = self.put(origin.clone(), facts, besides);
        if let Some(known) = self.known.get_mut(&origin) {
            known.service = of;
        }
        read
    }

    /// Takes the deleted TargetBindings without remaining targets, each only once. `has_left` returns whether a
    /// TargetBinding has no targets left in its target group, if the target group is known.
    pub fn released(
        &mut self,
        has_left: impl Fn(&Origin, Option<&GroupRef>) -> bool,
    ) -> Vec<(ObjectKey, Uid)> {
        let left = |(key, (_, group)): &(&ObjectKey, &(Uid, Option<GroupRef>))| {
            has_left(&Origin::TargetBinding((*key).clone()), group.as_ref())
        };
        let over: Vec<ObjectKey> = self.ending.iter().filter(left).map(|(key, _)| key.clone()).collect();
        over.into_iter().filter_map(|key| self.end(&key, None).map(|uid| (key, uid))).collect()
    }

    /// Records whether a TargetBinding is being deleted and waits for the deregistration of its targets.
    fn end(&mut self, key: &ObjectKey, ending: Option<(Uid, Option<GroupRef>)>) -> Option<Uid> {
        self.renamed.extend(ending.iter().filter_map(|(_, group)| group.clone()));
        let before = match ending {
            Some(ending) => self.ending.insert(key.clone(), ending),
            None => self.ending.remove(key),
        };
        let (uid, group) = before?;
        self.renamed.extend(group);
        Some(uid)
    }
}

/// The report about a TargetBinding whose Service was deleted.
fn service_deleted(name: &str, grace: Duration) -> String {
    format!(
        "Service {} was deleted, and its targets remain for {} s. To deregister the targets immediately, delete this \
         TargetBinding.",
        brief(name),
        grace.as_secs()
    )
}
