//! The namespaces that hold the group because they have targets in it, while no grant names the group.
//!
//! * The ledger stores them, so that the first namespace keeps the group when another replica leads.
//! * A namespace ceases to hold the group some time after its last binding ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::Registrations;
use crate::model::{Moment, grant};

/// See the module docs.
#[derive(Clone, Debug)]
pub struct Holders {
    /// Whether the ledger has been read.
    is_known: bool,
    all: BTreeSet<Arc<str>>,
    /// The holders without a binding to the group, and since when.
    unbound: BTreeMap<Arc<str>, Moment>,
    patience: Duration,
    /// Whether a namespace has ceased to hold the group since the last call of [`Registrations::take_ceased`].
    ceased: bool,
}

impl Holders {
    pub const fn new(patience: Duration) -> Self {
        Self { is_known: false, all: BTreeSet::new(), unbound: BTreeMap::new(), patience, ceased: false }
    }

    /// Takes in the holders from the ledger.
    pub fn read(&mut self, holders: &BTreeSet<Arc<str>>) {
        self.is_known = true;
        self.all.clone_from(holders);
        self.unbound.retain(|holder, _| self.all.contains(holder));
    }

    /// The holders that the ledger should contain.
    pub const fn all(&self) -> &BTreeSet<Arc<str>> {
        &self.all
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When the next namespace ceases to hold the group.
    pub fn next_due(&self) -> Option<Moment> {
        self.unbound.values().min().map(|since| *since + self.patience)
    }

    /// Advances the time. Returns whether a namespace has ceased to hold the group.
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

    /// Sets the namespaces that bind the group. If a grant names the group, holders without a binding are forgotten
    /// immediately.
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
    /// The namespaces that hold the group, if the ledger has been read.
    pub fn holders(&self) -> grant::Holders<'_> {
        if self.holders.is_known { grant::Holders::These(&self.holders.all) } else { grant::Holders::Unknown }
    }

    /// Adds a namespace that will have targets in the group.
    pub fn admit_holder(&mut self, namespace: &Arc<str>) {
        if self.holders.all.insert(namespace.clone()) {
            self.stored.touch();
        }
    }

    /// Whether a namespace has ceased to hold the group since the last call.
    pub fn take_ceased(&mut self) -> bool {
        std::mem::take(&mut self.holders.ceased)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn names(all: &[&str]) -> BTreeSet<Arc<str>> {
        all.iter().map(|name| Arc::from(*name)).collect()
    }

    fn read(all: &[&str]) -> Holders {
        let mut holders = Holders::new(Duration::from_secs(3600));
        holders.read(&names(all));
        holders
    }

    #[test]
    fn who_holds_the_group_is_not_known_before_the_ledger_was_read() {
        let (holders, unread) = (read(&["shop"]), Holders::new(Duration::from_secs(3600)));
        assert!(holders.is_known && *holders.all() == names(&["shop"]));
        assert!(!unread.is_known && unread.is_empty());
    }

    #[test]
    fn a_namespace_that_binds_nothing_for_an_hour_holds_the_group_no_more() {
        let mut holders = read(&["a", "b"]);
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
        let mut holders = read(&["a", "b"]);
        holders.bound_by(&names(&["b"]), true, at(10));
        assert_eq!((holders.next_due(), holders.all), (None, names(&["b"])));
    }
}
