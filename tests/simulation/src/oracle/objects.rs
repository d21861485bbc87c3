//! The Services and TargetBindings that the engine was told of, and what they bind.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Known,
    bound::{Bound, Text},
};
use headgate_core::model::{BindingFacts, Change, Moment, ObjectKey, Origin, ServiceFacts, Uid};

/// See the module.
#[derive(Debug)]
pub struct Objects {
    pub bound: BTreeMap<Origin, Bound>,
    services: BTreeMap<ObjectKey, ServiceFacts>,
    services_listed: bool,
    /// Services that were deleted, and until when TargetBindings keep the targets that they have of them.
    gone: BTreeMap<ObjectKey, (ServiceFacts, Moment)>,
    written: BTreeMap<ObjectKey, BindingFacts>,
    /// For how long a deleted Service keeps its targets.
    grace: Duration,
    /// What occurred.
    pub seen: Vec<&'static str>,
}

impl Objects {
    pub fn new(grace: Duration) -> Self {
        Self {
            bound: BTreeMap::new(),
            services: BTreeMap::new(),
            services_listed: false,
            gone: BTreeMap::new(),
            written: BTreeMap::new(),
            grace,
            seen: Vec::new(),
        }
    }

    /// Time has passed; says whether anything follows.
    pub fn pass(&mut self, now: Moment, known: &Known<'_>) -> bool {
        let mut over = false;
        for (origin, bound) in &mut self.bound {
            if bound.ends.is_some_and(|ends| ends <= now) {
                (bound.text, bound.ends, over) = (bound.text.without_groups(), None, true);
                bound.settle(origin, known);
                self.seen.push("service: not made again in time");
            }
        }
        let gone = self.gone.len();
        self.gone.retain(|_, (_, until)| *until > now);
        if self.gone.len() < gone {
            self.read_bindings(known);
            over = true;
        }
        over
    }

    /// When [`Objects::pass`] has something to do.
    pub fn next_due(&self) -> Option<Moment> {
        let gone = self.gone.values().map(|(_, until)| *until);
        self.bound.values().filter_map(|bound| bound.ends).chain(gone).min()
    }

    /// Other target groups are known now.
    pub fn settle(&mut self, known: &Known<'_>) {
        self.bound.iter_mut().for_each(|(origin, bound)| bound.settle(origin, known));
    }

    pub fn told_of_services(&mut self, change: &Change<ServiceFacts>, now: Moment, known: &Known<'_>) {
        match change {
            Change::Applied(service) => self.put_service(service, known),
            Change::Deleted(service) => {
                self.give_up(&service.key, Some(&service.uid), now, known);
                if self.services.get(&service.key).is_some_and(|there| there.uid == service.uid) {
                    self.lose(&service.key, now);
                }
            }
            Change::Relisted(_, list) => {
                self.services_listed = true;
                let missing = |key: &ObjectKey| !list.iter().any(|service| service.key == *key);
                for key in self.services.keys().filter(|key| missing(key)).cloned().collect::<Vec<_>>() {
                    self.lose(&key, now);
                }
                let gone: Vec<ObjectKey> = self
                    .bound
                    .keys()
                    .filter(|origin| matches!(origin, Origin::Service(key) if missing(key)))
                    .map(|origin| origin.key().clone())
                    .collect();
                for key in &gone {
                    self.give_up(key, None, now, known);
                }
                for service in list {
                    self.put_service(service, known);
                }
            }
        }
        self.read_bindings(known);
    }

    fn put_service(&mut self, service: &ServiceFacts, known: &Known<'_>) {
        self.gone.remove(&service.key);
        self.services.insert(service.key.clone(), service.clone());
        let origin = Origin::Service(service.key.clone());
        if self.bound.get(&origin).is_some_and(|bound| bound.ends.is_some()) {
            self.seen.push("service: made again in time");
        }
        self.put(&origin, Text::of_service(service), known);
    }

    fn put(&mut self, origin: &Origin, text: Text, known: &Known<'_>) {
        let bound = self.bound.entry(origin.clone()).or_insert_with(|| Bound::new(text.clone()));
        bound.says(text);
        bound.settle(origin, known);
    }

    /// A Service is gone: TargetBindings that have targets of it keep them for a while.
    fn lose(&mut self, key: &ObjectKey, now: Moment) {
        let Some(service) = self.services.remove(key) else { return };
        let keeps = |bound: &Bound| bound.of.as_ref() == Some(key) && !bound.binds_nothing();
        if !self.grace.is_zero() && self.bound.values().any(keeps) {
            self.gone.insert(key.clone(), (service, now + self.grace));
        }
    }

    /// A Service is gone: what it bound stays for a while.
    fn give_up(&mut self, key: &ObjectKey, uid: Option<&Uid>, now: Moment, known: &Known<'_>) {
        let origin = Origin::Service(key.clone());
        let Some(bound) = self.bound.get_mut(&origin) else { return };
        if uid.is_some_and(|uid| *uid != bound.text.uid) {
            return;
        }
        if self.grace.is_zero() || bound.binds_nothing() {
            bound.text = bound.text.without_groups();
            bound.settle(&origin, known);
        } else {
            bound.ends = bound.ends.or(Some(now + self.grace));
        }
    }

    pub fn told_of_bindings(&mut self, change: &Change<BindingFacts>, known: &Known<'_>) {
        match change {
            Change::Applied(binding) => _ = self.written.insert(binding.key.clone(), binding.clone()),
            Change::Deleted(binding) => {
                if self.written.get(&binding.key).is_some_and(|there| there.uid == binding.uid) {
                    self.written.remove(&binding.key);
                }
            }
            Change::Relisted(_, list) => {
                self.written = list.iter().map(|binding| (binding.key.clone(), binding.clone())).collect();
            }
        }
        self.read_bindings(known);
    }

    /// Reads all TargetBindings, each with the Service that it names.
    fn read_bindings(&mut self, known: &Known<'_>) {
        for (origin, bound) in &mut self.bound {
            if matches!(origin, Origin::TargetBinding(key) if !self.written.contains_key(key)) {
                bound.says(bound.text.without_groups());
                bound.settle(origin, known);
            }
        }
        for binding in self.written.values().cloned().collect::<Vec<_>>() {
            let origin = Origin::TargetBinding(binding.key.clone());
            let named = binding.service();
            let mut service = named.as_ref().and_then(|named| self.services.get(named));
            let is_missing = named.is_some() && service.is_none();
            // Services that were not listed yet may well be there.
            if is_missing && !self.services_listed && !binding.ending {
                continue;
            }
            let of = service.map(|service| service.key.clone());
            if is_missing && let Some(bound) = self.bound.get(&origin).filter(|bound| !bound.binds_nothing())
            {
                if bound.of != named && !binding.ending {
                    continue;
                }
                service = named.as_ref().and_then(|named| self.gone.get(named)).map(|(service, _)| service);
            }
            let mut text = Text::of_binding(&binding, service);
            if binding.ending {
                text = text.without_groups();
            }
            self.put(&origin, text, known);
            if let Some(bound) = self.bound.get_mut(&origin).filter(|_| !is_missing) {
                bound.of = of;
            }
        }
    }
}
