//! Decides when Headgate accepts the deletion of most TargetBindings or the removal of most selected namespaces.
//!
//! The targets of a deleted Service always remain for a while. If most Services disappear, Headgate lists the Services
//! again during that time. The second list contains Services that a wrong list or watch has omitted.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use crate::{
    brake::{Becomes, Brake, most_of},
    leadership::Watch,
    model::{Change, Moment, ObjectKey, Origin, Problem, Reason, Scope, excerpt::brief},
};

#[derive(Clone, Debug)]
pub(super) struct Doubts {
    pub(super) services: Brake<ObjectKey>,
    pub(super) written: Brake<ObjectKey>,
    namespaces: Brake<Arc<str>>,
    patience: Duration,
}

impl Default for Doubts {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

impl Doubts {
    pub fn new(patience: Duration) -> Self {
        let (services, written) = (Brake::new(patience), Brake::new(patience));
        Self { services, written, namespaces: Brake::new(patience), patience }
    }

    /// Takes the next scope to list again, if any.
    pub fn take_asks(&mut self) -> Option<(Watch, Scope)> {
        let services = self.services.take_asks().map(|scope| (Watch::Services, scope));
        let written = self.written.take_asks().map(|scope| (Watch::Bindings, scope));
        let namespaces = self.namespaces.take_asks().map(|scope| (Watch::Namespaces, scope));
        services.or(written).or(namespaces)
    }

    /// When Headgate accepts the next unconfirmed deletion.
    pub fn next_due(&self) -> Option<Moment> {
        let all = [self.services.next_due(), self.written.next_due(), self.namespaces.next_due()];
        all.into_iter().flatten().min()
    }

    /// When Headgate accepts the unconfirmed removal of an object or of its namespace.
    pub fn until(&self, origin: &Origin) -> Option<Moment> {
        let written = match origin {
            Origin::Service(_) => None,
            Origin::TargetBinding(key) => self.written.doubted_until(key),
        };
        written.into_iter().chain(self.namespaces.doubted_until(&origin.key().namespace)).min()
    }

    /// The report about an object whose removal is unconfirmed.
    pub fn problem(&self, origin: &Origin) -> Option<Problem> {
        self.until(origin)?;
        let namespace = &origin.key().namespace;
        let what = if self.namespaces.doubted_until(namespace).is_some() {
            format!("most selected namespaces ({} too)", brief(namespace))
        } else {
            "most TargetBindings (this one too)".to_owned()
        };
        let said = format!(
            "A list or watch lacks {what}. Bindings remain in effect until a second list confirms it, at most {} s. Check \
             the API server for errors.",
            self.patience.as_secs()
        );
        Some(Problem::of_all(Reason::ListDoubted, said))
    }

    /// Records a change of the `selected` namespaces. Returns the namespaces whose state has changed.
    pub fn select(
        &mut self,
        selected: &mut BTreeSet<Arc<str>>,
        change: Change<Arc<str>>,
        seen: Moment,
    ) -> BTreeSet<Arc<str>> {
        let became = match change {
            Change::Applied(name) => {
                selected.insert(name.clone());
                if self.namespaces.shows(&name) { vec![(name, Becomes::There)] } else { Vec::new() }
            }
            Change::Deleted(name) if selected.contains(&name) => {
                self.namespaces.deleted(&name, selected.iter(), seen)
            }
            Change::Deleted(_) => Vec::new(),
            Change::Relisted(scope, names) => {
                let names: BTreeSet<Arc<str>> = names.into_iter().collect();
                let missing: Vec<Arc<str>> = selected.difference(&names).cloned().collect();
                let most = most_of(&missing, selected.len());
                selected.extend(names);
                self.namespaces.listed(&scope, missing, &most, seen)
            }
        };
        for (name, _) in became.iter().filter(|(_, becomes)| *becomes == Becomes::Gone) {
            selected.remove(name);
        }
        became.into_iter().map(|(name, _)| name).collect()
    }

    /// Advances the time. Returns the TargetBindings that count as deleted, and the namespaces that count as no longer
    /// selected.
    pub fn pass(&mut self, now: Moment) -> (Vec<ObjectKey>, BTreeSet<Arc<str>>) {
        self.services.pass(now);
        (self.written.pass(now), self.namespaces.pass(now).into_iter().collect())
    }
}
