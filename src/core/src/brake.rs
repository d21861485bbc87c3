//! The safety check of watched objects. If most objects of a kind disappear, Headgate waits until a second list
//! confirms their deletion.
//!
//! A list or a watch can be wrong: an API server may have lost data, or a misrouted proxy may query another API server.
//! Headgate accepts the deletion of one object immediately. If more than half of the objects disappear, and at least
//! two, Headgate waits for a second list that also lacks these objects. Without a second list, Headgate accepts the
//! deletions after a timeout.
//!
//! ```text
//!  a list lacks an object      ──► deleted; if most objects are missing: doubted, and a new list is requested
//!  a watch reports a deletion  ──► deleted, if no other object disappeared within 3 s
//!                                  withheld, if other objects disappeared within 3 s, because most may follow
//!                                  doubted with all withheld objects, if most disappear; a new list is requested
//!  a list or watch contains it ──► exists, and is no longer doubted
//!  the next list lacks it, or the timeout has passed ──► deleted
//! ```
//!
//! * **Owns** the objects whose reported deletion is not accepted yet, and the deletions that were accepted within the
//!   last 3 s.
//! * **Guarantees.** A wrong list removes at most half of the existing objects, or one object. A wrong watch event
//!   removes at most one object. Headgate accepts a correct report within the timeout.
//! * **Assumes** that the caller requests each list, and keeps an object until the object is [`Becomes::Gone`].
//! * **Caveat.** Headgate accepts two wrong lists in a row.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::model::{Moment, ObjectKey, Scope};

/// Headgate always accepts the deletion of a single object, because single deletions are normal.
const FEWEST: usize = 2;

/// Several deletions within this time may come from the same wrong source.
pub const MOMENT: Duration = Duration::from_secs(3);

/// Whether the deletion of `lost` of `all` objects needs a confirmation.
pub const fn is_most(lost: usize, all: usize) -> bool {
    lost >= FEWEST && 2 * lost > all
}

/// Returns the `missing` objects if their deletion needs a confirmation. If not, returns an empty set.
pub fn most_of<K: Ord + Clone>(missing: &[K], all: usize) -> BTreeSet<K> {
    let most = if is_most(missing.len(), all) { missing } else { &[] };
    most.iter().cloned().collect()
}

/// A namespaced object, or a cluster-scoped object such as a node or a namespace.
pub trait Placed: Ord + Clone {
    /// The namespace of the object; empty for a cluster-scoped object.
    fn namespace(&self) -> &str;
}

impl Placed for ObjectKey {
    fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl Placed for Arc<str> {
    fn namespace(&self) -> &'static str {
        ""
    }
}

/// The state that Headgate assumes for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// The object is deleted.
    Gone,
    /// The object may be deleted. Headgate treats the object as existing until a list confirms the deletion or a
    /// timeout passes.
    Doubted,
    /// The object exists.
    There,
}

/// An object whose deletion was reported but not accepted yet.
#[derive(Clone, Copy, Debug)]
struct Withheld {
    until: Moment,
    /// Whether most objects were reported as deleted. `false`: only some objects disappeared within the last 3 s.
    doubted: bool,
}

/// The safety check of one kind of object. See the module docs.
#[derive(Clone, Debug)]
pub struct Brake<K> {
    /// The timeout after which Headgate accepts a doubted deletion. Zero: Headgate accepts every deletion immediately.
    patience: Duration,
    withheld: BTreeMap<K, Withheld>,
    /// The deletions that were accepted within the last 3 s.
    believed: BTreeMap<K, Moment>,
    scopes: BTreeSet<Scope>,
    /// The scope for which a new list is needed.
    asks: Option<Scope>,
}

impl<K> Default for Brake<K> {
    fn default() -> Self {
        Self::new(Duration::ZERO)
    }
}

impl<K> Brake<K> {
    /// Creates a safety check without doubted objects. `patience`: the maximum duration of a doubt.
    pub const fn new(patience: Duration) -> Self {
        Self {
            patience,
            withheld: BTreeMap::new(),
            believed: BTreeMap::new(),
            scopes: BTreeSet::new(),
            asks: None,
        }
    }

    /// The time at which [`Self::pass`] next accepts a deletion.
    pub fn next_due(&self) -> Option<Moment> {
        self.withheld.values().map(|withheld| withheld.until).min()
    }

    /// Returns the scope for which a new list is needed, and clears the request.
    pub const fn take_asks(&mut self) -> Option<Scope> {
        self.asks.take()
    }
}

impl<K: Placed> Brake<K> {
    /// Handles a list of `scope` that lacks the `missing` objects. `most`: the objects whose deletion needs a
    /// confirmation. Returns the new state of each missing object, and of each doubted object that exists.
    pub fn listed(
        &mut self,
        scope: &Scope,
        missing: Vec<K>,
        most: &BTreeSet<K>,
        seen: Moment,
    ) -> Vec<(K, Becomes)> {
        let covered = |key: &K| scope.covers(key.namespace());
        self.scopes.insert(scope.clone());
        self.believed.retain(|key, _| !covered(key));
        let mut before = BTreeMap::new();
        for key in self.withheld.keys().filter(|key| covered(key)).cloned().collect::<Vec<_>>() {
            before.extend(self.withheld.remove_entry(&key));
        }
        let mut all = Vec::new();
        for key in missing {
            // A second list confirms the deletion.
            let becomes = if before.remove(&key).is_some() || !most.contains(&key) || self.patience.is_zero()
            {
                Becomes::Gone
            } else {
                self.withheld.insert(key.clone(), Withheld { until: seen + self.patience, doubted: true });
                self.asks = Some(scope.clone());
                Becomes::Doubted
            };
            all.push((key, becomes));
        }
        all.extend(before.into_keys().map(|key| (key, Becomes::There)));
        all
    }

    /// Handles a deletion that a watch reports. `known`: all objects that Headgate treats as existing. Returns the new
    /// state of each changed object.
    pub fn deleted<'a>(
        &mut self,
        key: &K,
        known: impl Iterator<Item = &'a K>,
        seen: Moment,
    ) -> Vec<(K, Becomes)>
    where
        K: 'a,
    {
        let scope = self.scopes.iter().find(|scope| scope.covers(key.namespace()));
        let Some(scope) = scope.filter(|_| !self.patience.is_zero()) else {
            return vec![(key.clone(), Becomes::Gone)];
        };
        if self.withheld.contains_key(key) {
            return Vec::new();
        }
        self.believed.retain(|_, at| *at + MOMENT > seen);
        let covered = |key: &&K| scope.covers(key.namespace());
        let went = self.believed.keys().filter(covered).count();
        let waiting: Vec<K> = self.withheld.keys().filter(covered).cloned().collect();
        let lost = went + waiting.len() + 1;
        if lost < FEWEST {
            self.believed.insert(key.clone(), seen);
            return vec![(key.clone(), Becomes::Gone)];
        }
        let others =
            known.filter(covered).filter(|other| *other != key && !self.withheld.contains_key(*other));
        if is_most(lost, lost + others.count()) {
            let is_asked = waiting.iter().any(|key| self.doubted_until(key).is_some());
            if !is_asked {
                self.asks = Some(scope.clone());
            }
            return self.doubt(waiting.into_iter().chain([key.clone()]), seen);
        }
        self.withheld.insert(key.clone(), Withheld { until: seen + MOMENT, doubted: false });
        Vec::new()
    }

    /// Marks these objects as doubted. Returns the objects that were not doubted before.
    fn doubt(&mut self, keys: impl Iterator<Item = K>, seen: Moment) -> Vec<(K, Becomes)> {
        let until = seen + self.patience;
        let mut all = Vec::new();
        for key in keys {
            if self.doubted_until(&key).is_none() {
                self.withheld.insert(key.clone(), Withheld { until, doubted: true });
                all.push((key, Becomes::Doubted));
            }
        }
        all
    }

    /// Records that this object exists. Returns whether the object was doubted.
    pub fn shows(&mut self, key: &K) -> bool {
        self.believed.remove(key);
        self.withheld.remove(key).is_some_and(|withheld| withheld.doubted)
    }

    /// Returns the objects whose timeout has passed. Headgate now treats these objects as deleted.
    pub fn pass(&mut self, now: Moment) -> Vec<K> {
        let over = self.withheld.iter().filter(|(_, withheld)| withheld.until <= now);
        let over: Vec<K> = over.map(|(key, _)| key.clone()).collect();
        for key in &over {
            self.withheld.remove(key);
        }
        over
    }

    /// The time at which the doubt about this object ends.
    pub fn doubted_until(&self, key: &K) -> Option<Moment> {
        self.withheld.get(key).filter(|withheld| withheld.doubted).map(|withheld| withheld.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Becomes::{Doubted, Gone, There};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    /// The watched objects, and the objects that Headgate treats as existing.
    struct Watched {
        brake: Brake<Arc<str>>,
        there: BTreeSet<Arc<str>>,
    }

    fn names(names: &str) -> BTreeSet<Arc<str>> {
        names.split_whitespace().map(Arc::from).collect()
    }

    impl Watched {
        fn new(there: &str) -> Self {
            let mut watched = Self { brake: Brake::new(PATIENCE), there: BTreeSet::new() };
            assert_eq!(watched.listed(there, 0), []);
            watched
        }

        fn gone(&mut self, became: Vec<(Arc<str>, Becomes)>) -> Vec<(String, Becomes)> {
            for (name, becomes) in &became {
                if *becomes == Gone {
                    self.there.remove(name);
                }
            }
            became.into_iter().map(|(name, becomes)| (name.to_string(), becomes)).collect()
        }

        fn listed(&mut self, list: &str, seconds: u64) -> Vec<(String, Becomes)> {
            let list = names(list);
            let missing: Vec<Arc<str>> = self.there.difference(&list).cloned().collect();
            let most = most_of(&missing, self.there.len());
            let became = self.brake.listed(&Scope::Cluster, missing, &most, at(seconds));
            let became = self.gone(became);
            self.there.extend(list);
            became
        }

        fn deleted(&mut self, name: &str, seconds: u64) -> Vec<(String, Becomes)> {
            let became = self.brake.deleted(&name.into(), self.there.iter(), at(seconds));
            self.gone(became)
        }

        fn passes(&mut self, seconds: u64) -> Vec<String> {
            let over = self.brake.pass(at(seconds));
            over.into_iter()
                .inspect(|name| _ = self.there.remove(name))
                .map(|name| name.to_string())
                .collect()
        }

        fn asks(&mut self) -> bool {
            self.brake.take_asks().is_some()
        }
    }

    fn all(names: &str, becomes: Becomes) -> Vec<(String, Becomes)> {
        names.split_whitespace().map(|name| (name.to_owned(), becomes)).collect()
    }

    #[test]
    fn more_than_half_and_at_least_two_are_most() {
        let most = [(1, 1), (2, 4), (1, 2), (0, 0)].map(|(lost, all)| is_most(lost, all));
        assert_eq!(most, [false; 4]);
        assert!(is_most(2, 2) && is_most(2, 3) && is_most(3, 5));
    }

    #[test]
    fn a_list_without_most_is_believed_when_a_second_one_says_the_same() {
        let mut watched = Watched::new("a b c d");
        assert_eq!(watched.listed("a", 1), all("b c d", Doubted));
        assert!(watched.asks() && !watched.asks());
        assert_eq!(watched.brake.doubted_until(&"b".into()), Some(at(31)));
        assert_eq!(watched.listed("a b", 2), [all("c d", Gone), all("b", There)].concat());
        assert!(!watched.asks());
        assert_eq!(watched.brake.next_due(), None);
    }

    #[test]
    fn a_list_without_half_or_without_one_is_believed() {
        let mut watched = Watched::new("a b c d");
        assert_eq!(watched.listed("a b", 1), all("c d", Gone));
        assert_eq!(watched.listed("a", 2), all("b", Gone));
        assert_eq!(watched.listed("", 3), all("a", Gone));
        assert!(!watched.asks());
    }

    #[test]
    fn what_a_second_list_has_not_got_besides_is_asked_about_again() {
        let mut watched = Watched::new("a b c");
        assert_eq!(watched.listed("c", 1), all("a b", Doubted));
        watched.asks();
        assert_eq!(watched.listed("", 2), [all("a b", Gone), all("c", Doubted)].concat());
        assert!(watched.asks());
    }

    #[test]
    fn what_nobody_contradicts_is_believed_after_a_while() {
        let mut watched = Watched::new("a b");
        watched.listed("", 1);
        assert_eq!(watched.brake.next_due(), Some(at(31)));
        assert!(watched.brake.shows(&"b".into()), "a watch says so");
        assert_eq!(watched.passes(30), [""; 0]);
        assert_eq!(watched.passes(31), ["a"]);
    }

    #[test]
    fn single_deletions_are_believed_at_once() {
        let mut watched = Watched::new("a b c");
        for (name, seconds) in [("a", 0), ("b", 3), ("c", 6)] {
            assert_eq!(watched.deleted(name, seconds), all(name, Gone));
        }
        assert!(!watched.asks());
    }

    #[test]
    fn deletions_of_a_few_within_a_moment_are_believed_when_it_is_over() {
        let mut watched = Watched::new("a b c d e f");
        assert_eq!(watched.deleted("a", 0), all("a", Gone));
        assert_eq!(watched.deleted("b", 0), []);
        assert_eq!(watched.deleted("c", 2), []);
        assert_eq!(watched.deleted("c", 2), [], "twice");
        assert_eq!((watched.passes(2), watched.passes(3)), (vec![], vec!["b".to_owned()]));
        assert_eq!(watched.brake.doubted_until(&"c".into()), None);
        assert_eq!(watched.passes(5), ["c"]);
        assert!(!watched.asks());
    }

    #[test]
    fn deletions_of_most_within_a_moment_take_one_away_and_await_a_list() {
        let mut watched = Watched::new("a b c d e");
        assert_eq!(watched.deleted("a", 0), all("a", Gone));
        assert_eq!(watched.deleted("b", 1), []);
        assert_eq!(watched.deleted("c", 2), all("b c", Doubted));
        assert!(watched.asks());
        assert_eq!(watched.deleted("d", 2), all("d", Doubted));
        assert!(!watched.asks(), "it is on its way");
        assert_eq!(watched.passes(31), [""; 0]);
        assert_eq!(watched.listed("a b e", 31), [all("c d", Gone), all("b", There)].concat());
        assert_eq!(watched.passes(100), [""; 0]);
    }

    #[test]
    fn one_that_comes_again_was_not_lost() {
        let mut watched = Watched::new("a b c");
        for _ in 0..2 {
            assert_eq!(watched.deleted("a", 0), all("a", Gone));
            assert!(!watched.brake.shows(&"a".into()), "it was not doubted");
            watched.there.insert("a".into());
        }
        assert_eq!(watched.deleted("a", 0), all("a", Gone));
        assert_eq!(watched.deleted("b", 0), all("b", Doubted));
    }

    #[test]
    fn a_list_of_one_namespace_says_nothing_about_another() {
        let key = |namespace: &str, name: &str| ObjectKey::new(namespace, name);
        let scopes = ["x", "y"].map(|name| Scope::Namespace(name.into()));
        let mut brake = Brake::new(PATIENCE);
        for scope in &scopes {
            brake.listed(scope, vec![], &BTreeSet::new(), at(0));
        }
        let known = ["x", "y"].map(|namespace| [key(namespace, "a"), key(namespace, "b")]).concat();
        let missing = vec![key("x", "a"), key("x", "b")];
        let most = most_of(&missing, 2);
        brake.listed(&scopes[0], missing, &most, at(1));
        assert_eq!(brake.take_asks(), Some(scopes[0].clone()));
        assert_eq!(brake.deleted(&key("y", "a"), known.iter(), at(1)), [(key("y", "a"), Gone)]);
        assert_eq!(brake.listed(&scopes[1], vec![], &BTreeSet::new(), at(2)), []);
        assert!(brake.doubted_until(&key("x", "a")).is_some());
    }

    #[test]
    fn without_patience_and_before_the_first_list_everything_is_believed() {
        let known = names("a b");
        for mut brake in [Brake::default(), Brake::new(PATIENCE)] {
            for name in &known {
                assert_eq!(brake.deleted(name, known.iter(), at(0)), [(name.clone(), Gone)]);
            }
        }
        let mut brake = Brake::default();
        let missing: Vec<Arc<str>> = known.iter().cloned().collect();
        let became = brake.listed(&Scope::Cluster, missing.clone(), &most_of(&missing, 2), at(0));
        assert!(became.iter().all(|(_, becomes)| *becomes == Gone));
    }
}
