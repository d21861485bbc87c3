//! The Services and TargetBindings that Headgate knows, and the selected namespaces.
//!
//! * **Owns** the last known state of objects that define bindings, the active bindings, and the selected namespaces.
//!   The active bindings include bindings of deleted or unreadable objects.
//! * **Flow.** [`Services::apply`] records a change from a watch and returns the affected objects. The caller
//!   reevaluates each affected object with [`Services::settle`]. The index then gets the active bindings, and
//!   [`Services::say`] reports the problems. [`Origins`] answers queries.
//! * **Guarantees.** An unreadable object keeps its previous valid bindings. The targets of a deleted Service remain
//!   for a while, in case the Service is created again. If most TargetBindings or selected namespaces disappear,
//!   Headgate changes nothing until a second list confirms the removal (`doubts.rs`).
//! * **Assumes** that the caller calls [`Services::settle`] for each object that [`Services::apply`] returns.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    binding::{annotation, settle},
    brake::most_of,
    leadership::Watch,
    model::{
        BindingFacts, Bindings, Cause, Change, GroupRef, Moment, ObjectKey, Origin, Problem, Reason,
        Resolution, Scope, ServiceFacts, Settings, Settled, Uid, Unknown,
        grant::{GrantFacts, Held},
        limits,
        notice::About,
        problem::bounded,
    },
    multimap::Multimap,
    view::OriginView,
};

mod doubts;
mod granting;
mod origins;
mod written;

pub use origins::Origins;

use doubts::Doubts;
use granting::{Granting, Withholdings};

#[derive(Clone, Debug)]
struct Known {
    /// The Service, or a TargetBinding in the form of a Service.
    facts: ServiceFacts,
    /// A problem that [`Services::settle`] does not find.
    besides: Option<(Reason, String)>,
    /// The Service with which a TargetBinding was last evaluated.
    service: Option<ObjectKey>,
    /// The result of the last call of [`Services::settle`].
    settled: Settled,
    shown: Option<OriginView>,
    /// When Headgate removes the bindings of a deleted Service, unless the Service is created again.
    ends: Option<Moment>,
    /// The rejected bindings whose targets still remain.
    withheld: Withholdings,
}

impl Known {
    /// Whether the object has an annotation or a problem that concerns bindings. An empty annotation also counts.
    fn tries_to_bind(&self) -> bool {
        self.facts.target_groups.is_some()
            || self.besides.is_some()
            || !self.facts.policy.unknown().is_empty()
    }

    /// Resets the object as if its annotation had been removed.
    fn clear(&mut self) {
        (self.facts.target_groups, self.besides) = (None, None);
        self.facts.policy.forget_unknown();
    }
}

/// The number of bindings, and the number of named target groups.
type Counts = (usize, usize);

/// Drops an object's new bindings and names that exceed the limit of its namespace. The counts include only the
/// namespace's other objects. Returns whether the function dropped anything.
fn keep_within(settled: &mut Settled, before: &Settled, (bindings, names): Counts) -> bool {
    let bound = limits::BINDINGS.excess(bindings + settled.bindings.len());
    if bound.is_some() {
        let room = limits::BINDINGS.most.saturating_sub(bindings);
        let (old, new): (Bindings, Bindings) = std::mem::take(&mut settled.bindings)
            .into_iter()
            .partition(|(key, _)| before.bindings.contains_key(key));
        settled.bindings = old.into_iter().chain(new).take(room).collect();
    }
    let looked_up = limits::NAMES.excess(names + settled.references.len());
    if looked_up.is_some() {
        let room = limits::NAMES.most.saturating_sub(names);
        let (old, new): (BTreeSet<GroupRef>, BTreeSet<GroupRef>) = std::mem::take(&mut settled.references)
            .into_iter()
            .partition(|name| before.references.contains(name));
        settled.references = old.into_iter().chain(new).take(room).collect();
    }
    let excesses = [bound, looked_up].into_iter().flatten();
    let problems = excesses.map(|excess| Problem::of_all(Reason::LimitExceeded, excess.to_string()));
    settled.problems.extend(problems);
    let exceeds = bound.is_some() || looked_up.is_some();
    settled.doubtful |= exceeds;
    exceeds
}

/// The change of an object's view.
#[derive(Clone, Debug)]
pub enum Shown {
    Unchanged,
    Changed(OriginView),
    Gone,
}

/// A change that a watch reports.
#[derive(Clone, Debug)]
pub enum Watched {
    Service(Change<ServiceFacts>),
    Binding(Change<BindingFacts>),
    Namespace(Change<Arc<str>>),
    /// All existing grants.
    Grants(Vec<GrantFacts>),
}

/// The objects to reevaluate, the namespaces whose selection has changed, and the scope to list again.
pub type Changed = (Vec<Origin>, BTreeSet<Arc<str>>, Option<(Watch, Scope)>);

/// The TargetBindings, and the Services that have, or recently had, an annotation of Headgate.
#[derive(Clone, Debug, Default)]
pub struct Services {
    known: BTreeMap<Origin, Known>,
    /// The deleted objects, which may have been created again.
    deleted: BTreeSet<Origin>,
    /// All Services, because a TargetBinding may refer to any Service.
    all: BTreeMap<ObjectKey, ServiceFacts>,
    /// Recently deleted Services, each with the time until which TargetBindings keep the Service's targets.
    gone: BTreeMap<ObjectKey, (ServiceFacts, Moment)>,
    /// The scopes in which all Services are known.
    listed: BTreeSet<Scope>,
    written: BTreeMap<ObjectKey, BindingFacts>,
    /// Deleted TargetBindings that wait for the deregistration of their targets, each with its target group.
    ending: BTreeMap<ObjectKey, (Uid, Option<GroupRef>)>,
    /// The objects that name each target group.
    naming: Multimap<GroupRef, Origin>,
    /// The target groups whose references may have changed since the last call.
    renamed: BTreeSet<GroupRef>,
    /// The selected namespaces, or `None` if all namespaces are selected.
    selected: Option<BTreeSet<Arc<str>>>,
    /// The objects with fewer bindings than requested, because their namespace has reached a limit.
    crowded: BTreeSet<Origin>,
    doubts: Doubts,
    /// How long the bindings of a deleted Service remain active.
    grace: Duration,
    granting: Granting,
}

impl Services {
    /// Creates the state without any objects.
    pub fn new(settings: &Settings) -> Self {
        let selected = settings.namespaces_are_selected.then(BTreeSet::new);
        let (doubts, granting) = (Doubts::new(settings.relist_patience), Granting::new(settings));
        Self { grace: settings.service_grace, selected, doubts, granting, ..Self::default() }
    }

    /// Returns a read-only view of the objects that define bindings.
    pub const fn origins(&self) -> Origins<'_> {
        Origins(self)
    }

    /// Applies a change that a watch reports.
    pub fn apply(&mut self, watched: Watched, seen: Moment) -> Changed {
        let (origins, namespaces) = match watched {
            Watched::Service(change) => (self.apply_service(change, seen), BTreeSet::new()),
            Watched::Binding(change) => (self.apply_written(change, seen), BTreeSet::new()),
            Watched::Namespace(change) => self.select(change, seen),
            Watched::Grants(all) => (self.set_grants(all), BTreeSet::new()),
        };
        (self.with_crowded(origins), namespaces, self.doubts.take_asks())
    }

    /// Adds objects whose namespace has reached a limit, because a change in the same namespace may make room.
    fn with_crowded(&self, mut changed: Vec<Origin>) -> Vec<Origin> {
        if !self.crowded.is_empty() {
            let here: BTreeSet<Arc<str>> =
                changed.iter().map(|origin| origin.key().namespace.clone()).collect();
            let beside = self.crowded.iter().filter(|crowded| here.contains(&crowded.key().namespace));
            changed.extend(beside.cloned());
        }
        changed
    }

    fn apply_service(&mut self, change: Change<ServiceFacts>, seen: Moment) -> Vec<Origin> {
        let mut changed = Vec::new();
        match change {
            Change::Applied(facts) => {
                changed.extend(self.put_service(facts.clone()));
                changed.extend(self.read_again(|named| *named == facts.key));
            }
            Change::Deleted(facts) => {
                let origin = Origin::Service(facts.key.clone());
                changed.extend(self.give_up(&origin, Some(&facts.uid), seen));
                if self.all.get(&facts.key).is_some_and(|known| known.uid == facts.uid) {
                    self.doubts.services.deleted(&facts.key, self.all.keys(), seen);
                    self.lose_service(&facts.key, seen);
                }
                changed.extend(self.read_again(|named| *named == facts.key));
            }
            Change::Relisted(scope, list) => {
                let there: BTreeSet<ObjectKey> = list.iter().map(|facts| facts.key.clone()).collect();
                let missing = |key: &ObjectKey| scope.covers(&key.namespace) && !there.contains(key);
                let here = self.all.keys().filter(|key| scope.covers(&key.namespace)).count();
                let fewer: Vec<ObjectKey> = self.all.keys().filter(|key| missing(key)).cloned().collect();
                self.doubts.services.listed(&scope, fewer.clone(), &most_of(&fewer, here), seen);
                for key in fewer {
                    self.lose_service(&key, seen);
                }
                let is_gone = |origin: &&Origin| matches!(origin, Origin::Service(key) if missing(key));
                let gone: Vec<Origin> = self.known.keys().filter(is_gone).cloned().collect();
                changed.extend(gone.iter().filter_map(|origin| self.give_up(origin, None, seen)));
                changed.extend(list.into_iter().filter_map(|facts| self.put_service(facts)));
                self.listed.insert(scope.clone());
                changed.extend(self.read_again(|named| scope.covers(&named.namespace)));
            }
        }
        changed
    }

    fn put_service(&mut self, facts: ServiceFacts) -> Option<Origin> {
        self.gone.remove(&facts.key);
        self.doubts.services.shows(&facts.key);
        self.all.insert(facts.key.clone(), facts.clone());
        self.put(Origin::Service(facts.key.clone()), facts, None)
    }

    fn put(
        &mut self,
        origin: Origin,
        facts: ServiceFacts,
        besides: Option<(Reason, String)>,
    ) -> Option<Origin> {
        if let Some(known) = self.known.get_mut(&origin) {
            let is_same = known.facts == facts && known.besides == besides && known.ends.is_none();
            (known.facts, known.besides, known.ends) = (facts, besides, None);
            return (!is_same).then_some(origin);
        }
        let settled = Settled { doubtful: true, unknown: Some(Unknown::Pending), ..Settled::default() };
        let known = Known {
            facts,
            besides,
            service: None,
            settled,
            shown: None,
            ends: None,
            withheld: Withholdings::new(),
        };
        known.tries_to_bind().then(|| {
            self.known.insert(origin.clone(), known);
            origin
        })
    }

    /// Records the deletion of a Service. The Service's pods still run, so Headgate keeps their targets for a while.
    /// Some tools delete and recreate a Service to change it, which must not deregister pods.
    fn give_up(&mut self, origin: &Origin, uid: Option<&Uid>, seen: Moment) -> Option<Origin> {
        let known = self.known.get_mut(origin)?;
        if self.grace.is_zero() || known.settled.bindings.is_empty() {
            return self.take_away(origin, uid);
        }
        if uid.is_some_and(|uid| *uid != known.facts.uid) {
            return None;
        }
        known.ends = known.ends.or(Some(seen + self.grace));
        self.deleted.insert(origin.clone());
        Some(origin.clone())
    }

    /// Advances the time. Returns the objects to reevaluate, because deleted Services have expired or an unconfirmed
    /// removal was accepted.
    pub fn pass(&mut self, now: Moment) -> Changed {
        let (written, namespaces) = self.doubts.pass(now);
        let mut ended: Vec<Origin> =
            written.iter().filter_map(|key| self.forget_written(key, None)).collect();
        if let Some(selected) = &mut self.selected {
            selected.retain(|namespace| !namespaces.contains(namespace));
        }
        ended.extend(self.within(&namespaces));
        let over = |known: &Known| known.ends.is_some_and(|ends| ends <= now);
        self.deleted.retain(|origin| self.known.get(origin).is_some_and(|known| known.ends.is_some()));
        for origin in &self.deleted {
            let Some(known) = self.known.get_mut(origin).filter(|known| over(known)) else { continue };
            known.ends = None;
            known.clear();
            ended.push(origin.clone());
        }
        let over = |(_, (_, until)): &(&ObjectKey, &(ServiceFacts, Moment))| *until <= now;
        for key in self.gone.iter().filter(over).map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.gone.remove(&key);
            ended.extend(self.read_again(|named| *named == key));
        }
        ended.extend(self.granting.pass(now));
        (self.with_crowded(ended), namespaces, None)
    }

    /// Removes a deleted object, as if its annotation had been removed.
    fn take_away(&mut self, origin: &Origin, uid: Option<&Uid>) -> Option<Origin> {
        let known = self.known.get_mut(origin)?;
        if uid.is_some_and(|uid| *uid != known.facts.uid) {
            return None;
        }
        known.clear();
        Some(origin.clone())
    }

    fn select(&mut self, change: Change<Arc<str>>, seen: Moment) -> (Vec<Origin>, BTreeSet<Arc<str>>) {
        let Some(selected) = &mut self.selected else { return (Vec::new(), BTreeSet::new()) };
        let before = selected.clone();
        let mut concerned = self.doubts.select(selected, change, seen);
        let namespaces: BTreeSet<Arc<str>> = before.symmetric_difference(selected).cloned().collect();
        concerned.extend(namespaces.iter().cloned());
        (self.within(&concerned), namespaces)
    }

    /// The objects of a namespace.
    fn known_in(&self, namespace: &str) -> impl Iterator<Item = (&Origin, &Known)> {
        let from =
            |origin: fn(ObjectKey) -> Origin| self.known.range(origin(ObjectKey::new(namespace, ""))..);
        let (services, written) = (from(Origin::Service), from(Origin::TargetBinding));
        let is_here = move |(origin, _): &(&Origin, &Known)| &*origin.key().namespace == namespace;
        let services =
            services.take_while(move |known| matches!(known.0, Origin::Service(_)) && is_here(known));
        services.chain(written.take_while(is_here))
    }

    /// The objects of these namespaces.
    fn within(&self, namespaces: &BTreeSet<Arc<str>>) -> Vec<Origin> {
        let here = self.known.keys().filter(|origin| namespaces.contains(&origin.key().namespace));
        here.cloned().collect()
    }

    /// Whether the namespace is selected.
    pub fn is_selected(&self, namespace: &str) -> bool {
        self.selected.as_ref().is_none_or(|selected| selected.contains(namespace))
    }

    /// Reevaluates the active bindings of an object. Also returns why bindings were removed.
    pub fn settle(
        &mut self,
        origin: &Origin,
        resolve: impl Fn(&GroupRef) -> Resolution,
        held: &impl Held,
        now: Moment,
    ) -> (Bindings, Cause) {
        let selected = self.is_selected(&origin.key().namespace);
        let doubt = self.doubts.problem(origin);
        let others = self.known_in(&origin.key().namespace).filter(|(other, _)| *other != origin);
        let others = others.fold((0, 0), |(bindings, names), (_, Known { settled, .. })| {
            (bindings + settled.bindings.len(), names + settled.references.len())
        });
        self.crowded.remove(origin);
        let Some(known) = self.known.get_mut(origin) else {
            return (Bindings::new(), Cause::BindingRemoved);
        };
        let (mut settled, ended) = if selected {
            let namespace = &*origin.key().namespace;
            let may_look_up = |reference: &GroupRef| self.granting.may_look_up(namespace, reference, held);
            let resolve = |reference: &GroupRef| match resolve(reference) {
                found @ Resolution::Found(_) => found,
                unknown => may_look_up(reference).err().unwrap_or(unknown),
            };
            let mut settled = settle(origin, &known.facts, &known.settled, resolve);
            settled.refused = settled.references.iter().any(|reference| may_look_up(reference).is_err());
            if keep_within(&mut settled, &known.settled, others) {
                self.crowded.insert(origin.clone());
            }
            let refused = self.granting.grant(origin, &mut settled, &mut known.withheld, held, now);
            (settled, if refused { Cause::NotGranted } else { Cause::BindingRemoved })
        } else {
            (Settled::default(), Cause::NamespaceNotSelected)
        };
        if known.ends.is_some() {
            let said = format!(
                "The Service was deleted, and its targets remain for {} s. To deregister targets immediately, remove the \
                 annotation before you delete a Service.",
                self.grace.as_secs()
            );
            settled.problems.push(Problem::of_all(Reason::BindingRemoved, said));
        }
        settled.problems.extend(doubt);
        if selected {
            for name in known.facts.policy.unknown() {
                let said = annotation::unknown(name);
                settled.problems.push(Problem::of_ports([], Reason::InvalidBinding, said));
            }
        }
        settled.problems = bounded(settled.problems);
        settled.doubtful |= known.besides.is_some();
        let (bindings, names) = (settled.bindings.clone(), settled.references.clone());
        let before = std::mem::replace(&mut known.settled, settled).references;
        self.name(origin, &before, &names);
        if self.granting.is_required() {
            self.renamed.extend(names);
        }
        (bindings, ended)
    }

    /// Updates the target groups that an object names.
    fn name(&mut self, origin: &Origin, before: &BTreeSet<GroupRef>, now: &BTreeSet<GroupRef>) {
        for changed in before.symmetric_difference(now) {
            if now.contains(changed) {
                self.naming.put(changed, origin);
            } else {
                self.naming.take(changed, origin);
            }
            self.renamed.insert(changed.clone());
        }
    }

    /// Takes the target groups whose references have changed since the last call. Each target group comes with the
    /// namespaces that name the group and may look it up.
    pub fn take_renamed(&mut self, held: &impl Held) -> BTreeMap<GroupRef, BTreeSet<Arc<str>>> {
        let renamed = std::mem::take(&mut self.renamed).into_iter().map(|group| {
            let naming = self.naming.of(&group).map(Origin::key);
            let is_it = |(_, (_, of)): &(_, &(_, Option<GroupRef>))| of.as_ref() == Some(&group);
            let ending = self.ending.iter().filter(is_it).map(|(key, _)| key);
            let namers = naming.chain(ending).map(|key| key.namespace.clone());
            let may_look_up =
                |namespace: &Arc<str>| self.granting.may_look_up(namespace, &group, held).is_ok();
            let namers = namers.filter(may_look_up).collect();
            (group, namers)
        });
        renamed.collect()
    }

    /// Returns the problems of an object and the change of its view, then drops the object if it has no bindings.
    pub fn say(&mut self, origin: &Origin) -> Option<(About, Vec<Problem>, Shown)> {
        let known = self.known.get_mut(origin)?;
        let besides = known.besides.clone().map(|(reason, said)| Problem::of_all(reason, said));
        let problems: Vec<Problem> = known.settled.problems.iter().cloned().chain(besides).collect();
        let about = about(origin, &known.facts.uid);
        let binds = known.tries_to_bind() || !known.settled.bindings.is_empty();
        let view = binds.then(|| OriginView {
            origin: origin.clone(),
            uid: known.facts.uid.clone(),
            exists: known.ends.is_none(),
            problems: problems.clone(),
        });
        let changed = known.shown != view;
        known.shown.clone_from(&view);
        if !binds && let Some(known) = self.known.remove(origin) {
            self.name(origin, &known.settled.references, &BTreeSet::new());
            self.crowded.remove(origin);
        }
        let shown = match view {
            _ if !changed => Shown::Unchanged,
            Some(view) => Shown::Changed(view),
            None => Shown::Gone,
        };
        Some((about, problems, shown))
    }
}

fn about(origin: &Origin, uid: &Uid) -> About {
    match origin {
        Origin::Service(key) => About::Service(key.clone(), uid.clone()),
        Origin::TargetBinding(key) => About::TargetBinding(key.clone(), uid.clone()),
    }
}

#[cfg(test)]
mod tests;
