//! Which namespaces have targets in the group: they hold it while no grant names it.
//!
//! * The ledger remembers them, so that whoever was first stays so when another replica leads.
//! * A namespace that has bound nothing to the group for a while holds it no more.
//! * A ledger that a version before has written does not say who they are: then the namespaces of the living pods that it
//!   names do, all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::Registrations;
use crate::{
    ledger::{Ledger, PodMark},
    model::{Moment, Target, grant},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The ledger has not been read.
    Unread,
    /// It was, and a version before had written it.
    Earlier,
    Known,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Holders {
    source: Source,
    all: BTreeSet<Arc<str>>,
    /// Those that bind nothing to the group, and since when.
    unbound: BTreeMap<Arc<str>, Moment>,
    patience: Duration,
    /// Whether one has ceased to be since that was asked.
    ceased: bool,
}

impl Holders {
    pub const fn new(patience: Duration) -> Self {
        Self {
            source: Source::Unread,
            all: BTreeSet::new(),
            unbound: BTreeMap::new(),
            patience,
            ceased: false,
        }
    }

    pub fn forget(&mut self) {
        *self = Self::new(self.patience);
    }

    /// The ledger says so.
    pub fn read(&mut self, ledger: &Ledger) {
        let known = ledger.holders().cloned();
        let is_earlier = known.is_none() && !ledger.is_empty();
        self.source = if is_earlier { Source::Earlier } else { Source::Known };
        self.all = known.unwrap_or_default();
        self.unbound.retain(|holder, _| self.all.contains(holder));
    }

    /// What the ledger should say; `is_empty`: whether it says nothing else.
    pub fn note(&self, is_empty: bool) -> Option<BTreeSet<Arc<str>>> {
        (self.source == Source::Known && !(is_empty && self.all.is_empty())).then(|| self.all.clone())
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When the next one ceases to be.
    pub fn next_due(&self) -> Option<Moment> {
        self.unbound.values().min().map(|since| *since + self.patience)
    }

    /// Time has passed; says whether one has ceased to be.
    pub fn pass(&mut self, now: Moment) -> bool {
        let over: Vec<Arc<str>> = self
            .unbound
            .extract_if(.., |_, since| *since + self.patience <= now)
            .map(|(holder, _)| holder)
            .collect();
        for holder in &over {
            self.all.remove(holder);
        }
        self.ceased |= !over.is_empty();
        !over.is_empty()
    }

    /// These namespaces bind the group now. If a grant names it, whoever does not is not remembered.
    pub fn bound_by(&mut self, bound: &BTreeSet<Arc<str>>, is_granted: bool, now: Moment) {
        if is_granted {
            self.all.retain(|holder| bound.contains(holder));
            self.unbound.clear();
        }
        for holder in &self.all {
            if bound.contains(holder) {
                self.unbound.remove(holder);
            } else {
                self.unbound.entry(holder.clone()).or_insert(now);
            }
        }
    }
}

impl Registrations {
    /// The namespaces that hold the group, as far as that is known.
    pub fn holders(&self) -> grant::Holders<'_> {
        match self.holders.source {
            Source::Known => grant::Holders::These(&self.holders.all),
            Source::Unread | Source::Earlier => grant::Holders::Unknown,
        }
    }

    /// Whether the ledger was written by a version that did not remember who holds the group.
    pub fn holders_are_missing(&self) -> bool {
        self.holders.source == Source::Earlier
    }

    /// These hold the group: the namespaces of the pods that such a ledger names.
    pub fn remember_holders(&mut self, holders: BTreeSet<Arc<str>>) {
        (self.holders.source, self.holders.all) = (Source::Known, holders);
        self.stored.touch();
    }

    /// Another namespace comes to have targets in it.
    pub fn admit_holder(&mut self, namespace: &Arc<str>) {
        if self.holders.all.insert(namespace.clone()) {
            self.stored.touch();
        }
    }

    /// Whether one has ceased to hold it since this was asked last.
    pub fn take_ceased(&mut self) -> bool {
        std::mem::take(&mut self.holders.ceased)
    }

    /// The targets of which AWS was told.
    pub fn told(&self) -> BTreeSet<Target> {
        self.entries.which(|entry| entry.told.mark().is_some()).copied().collect()
    }

    /// Whether AWS was told of this target for the pod of this mark.
    pub fn is_told_of(&self, target: &Target, mark: PodMark) -> bool {
        self.entries.get(target).is_some_and(|entry| entry.told.mark() == Some(mark))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::Noted, model::Uid, testing::target};

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn names(all: &[&str]) -> BTreeSet<Arc<str>> {
        all.iter().map(|name| Arc::from(*name)).collect()
    }

    fn read(holders: Option<&[&str]>, targets: u8) -> Holders {
        let mut ledger = Ledger::default();
        for last in 0..targets {
            ledger.note(target(last, 80), Noted::Registered, PodMark::of(&Uid::new("a")));
        }
        if let Some(all) = holders {
            ledger.note_holders(names(all));
        }
        let mut holders = Holders::new(Duration::from_secs(3600));
        holders.read(&ledger);
        holders
    }

    #[test]
    fn a_ledger_with_targets_and_without_holders_is_a_version_s_that_did_not_remember_them() {
        assert_eq!(read(None, 1).source, Source::Earlier);
        assert_eq!(read(None, 0).source, Source::Known, "nobody holds it");
        let known = read(Some(&["shop"]), 1);
        assert_eq!((known.source, &known.all), (Source::Known, &names(&["shop"])));
        assert_eq!(known.note(false), Some(names(&["shop"])));
        assert_eq!(read(None, 1).note(false), None, "until they are known");
        assert_eq!(read(None, 0).note(true), None, "an empty ledger stays empty");
        assert_eq!(read(Some(&[]), 1).note(false), Some(names(&[])));
    }

    #[test]
    fn a_namespace_that_binds_nothing_for_an_hour_holds_the_group_no_more() {
        let mut holders = read(Some(&["a", "b"]), 1);
        assert_eq!(holders.next_due(), None);
        holders.bound_by(&names(&["b"]), false, at(10));
        holders.bound_by(&names(&["b"]), false, at(20));
        assert_eq!(holders.next_due(), Some(at(3610)));
        assert!(!holders.pass(at(3609)) && !holders.ceased);
        holders.bound_by(&names(&["a", "b"]), false, at(3609));
        assert_eq!(holders.next_due(), None, "it binds it again");
        holders.bound_by(&names(&[]), false, at(4000));
        assert!(holders.pass(at(7600)) && holders.ceased && holders.is_empty());
        assert_eq!(holders.next_due(), None);
    }

    #[test]
    fn where_a_grant_says_who_may_bind_nobody_else_is_remembered() {
        let mut holders = read(Some(&["a", "b"]), 1);
        holders.bound_by(&names(&["b"]), true, at(10));
        assert_eq!((holders.next_due(), holders.all), (None, names(&["b"])));
    }
}
