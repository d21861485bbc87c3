//! The Services and TargetBindings that the engine was told of, and what they bind.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Known,
    bound::{Bound, Text},
    doubts::Doubts,
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
    /// Most Services, or TargetBindings, are said to be gone. Services that are keep their targets for a while in any case.
    pub services_doubted: Doubts<ObjectKey>,
    pub written_doubted: Doubts<ObjectKey>,
    /// What occurred.
    pub seen: Vec<&'static str>,
}

impl Objects {
    pub fn new(grace: Duration, patience: Duration) -> Self {
        Self {
            bound: BTreeMap::new(),
            services: BTreeMap::new(),
            services_listed: false,
            gone: BTreeMap::new(),
            written: BTreeMap::new(),
            grace,
            services_doubted: Doubts::new(patience),
            written_doubted: Doubts::new(patience),
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
        self.services_doubted.pass(now);
        let written = self.written_doubted.pass(now);
        if !written.is_empty() {
            self.seen.push("list: gone after a while");
            self.written.retain(|key, _| !written.contains(key));
            self.read_bindings(known);
            over = true;
        }
        over
    }

    /// When [`Objects::pass`] has something to do.
    pub fn next_due(&self) -> Option<Moment> {
        let gone = self.gone.values().map(|(_, until)| *until);
        let doubted = self.services_doubted.next_due().into_iter().chain(self.written_doubted.next_due());
        self.bound.values().filter_map(|bound| bound.ends).chain(gone).chain(doubted).min()
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
                    let Self { services, services_doubted, seen, .. } = self;
                    let there = services.len() + services_doubted.count();
                    services_doubted.deleted(&service.key, there, now, seen);
                    self.lose(&service.key, now);
                }
            }
            Change::Relisted(_, list) => {
                self.services_listed = true;
                let (there, listed) = (keys(self.services.values()), keys(list));
                self.services_doubted.listed(&listed, &there, now, &mut self.seen);
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
        self.services_doubted.shows(&service.key);
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

    pub fn told_of_bindings(&mut self, change: &Change<BindingFacts>, now: Moment, known: &Known<'_>) {
        let Self { written, written_doubted, seen, .. } = self;
        let alive = |written: &BTreeMap<ObjectKey, BindingFacts>| -> BTreeSet<ObjectKey> {
            written.values().filter(|binding| !binding.ending).map(|binding| binding.key.clone()).collect()
        };
        match change {
            Change::Applied(binding) => {
                written_doubted.shows(&binding.key);
                written.insert(binding.key.clone(), binding.clone());
            }
            Change::Deleted(binding) => {
                let there = written.get(&binding.key).filter(|there| there.uid == binding.uid);
                // One that is on its way out is in nobody's doubt.
                let is_gone = there.is_some_and(|there| {
                    there.ending || written_doubted.deleted(&binding.key, alive(written).len(), now, seen)
                });
                if is_gone {
                    written.remove(&binding.key);
                }
            }
            Change::Relisted(_, list) => {
                let listed: BTreeSet<ObjectKey> = list.iter().map(|binding| binding.key.clone()).collect();
                let gone = written_doubted.listed(&listed, &alive(written), now, seen);
                written
                    .retain(|key, binding| !gone.contains(key) && (listed.contains(key) || !binding.ending));
                written.extend(list.iter().map(|binding| (binding.key.clone(), binding.clone())));
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

fn keys<'a>(services: impl IntoIterator<Item = &'a ServiceFacts>) -> BTreeSet<ObjectKey> {
    services.into_iter().map(|service| service.key.clone()).collect()
}
