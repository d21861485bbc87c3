//! Properties of the check for doubtful deletions: a wrong report removes few objects, and Headgate soon accepts a
//! correct report.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*};

use super::holds;
use crate::{
    brake::{Becomes, Brake, MOMENT, is_most, most_of},
    model::{Moment, Scope},
};

const PATIENCE: Duration = Duration::from_secs(30);

type Names = BTreeSet<Arc<str>>;

/// An event of a watch.
#[derive(Clone, Debug)]
enum Said {
    Listed(BTreeSet<u8>),
    Deleted(u8),
    Shown(u8),
}

fn word() -> impl Strategy<Value = (Said, u64)> {
    let said = prop_oneof![
        2 => some().prop_map(Said::Listed),
        4 => (0..10_u8).prop_map(Said::Deleted),
        2 => (0..10_u8).prop_map(Said::Shown),
    ];
    (said, 0..5_000_u64)
}

fn some() -> impl Strategy<Value = BTreeSet<u8>> {
    proptest::collection::btree_set(0..10_u8, 0..10)
}

fn name(of: u8) -> Arc<str> {
    format!("n{of}").into()
}

fn names(of: &BTreeSet<u8>) -> Names {
    of.iter().map(|of| name(*of)).collect()
}

/// The state of the check, and the objects that count as existing.
struct Watched {
    brake: Brake<Arc<str>>,
    there: Names,
    now: Moment,
}

impl Watched {
    /// Creates the state after a list of these objects.
    fn new(there: &BTreeSet<u8>) -> Self {
        let mut it = Self { brake: Brake::new(PATIENCE), there: Names::new(), now: Moment::START };
        it.listed(&names(there));
        it
    }

    fn becomes(&mut self, became: Vec<(Arc<str>, Becomes)>) {
        for (name, _) in became.into_iter().filter(|(_, becomes)| *becomes == Becomes::Gone) {
            self.there.remove(&name);
        }
    }

    fn listed(&mut self, list: &Names) {
        let missing: Vec<Arc<str>> = self.there.difference(list).cloned().collect();
        let most = most_of(&missing, self.there.len());
        let became = self.brake.listed(&Scope::Cluster, missing, &most, self.now);
        self.becomes(became);
        self.there.extend(list.iter().cloned());
    }

    fn deleted(&mut self, of: u8) {
        if self.there.contains(&name(of)) {
            let became = self.brake.deleted(&name(of), self.there.iter(), self.now);
            self.becomes(became);
        }
    }

    fn passes(&mut self, time: Duration) {
        self.now = self.now + time;
        for name in self.brake.pass(self.now) {
            self.there.remove(&name);
        }
    }

    fn says(&mut self, words: &[(Said, u64)]) {
        for (said, after) in words {
            self.passes(Duration::from_millis(*after));
            match said {
                Said::Listed(list) => self.listed(&names(list)),
                Said::Deleted(of) => self.deleted(*of),
                Said::Shown(of) => {
                    self.brake.shows(&name(*of));
                    self.there.insert(name(*of));
                }
            }
        }
    }
}

#[test]
fn what_two_lists_say_is_so_whatever_was_said_before() {
    holds((vec(word(), 0..20), some()), |(words, list)| {
        let mut watched = Watched::new(&BTreeSet::new());
        watched.says(&words);
        let list = names(&list);
        watched.listed(&list);
        watched.listed(&list);
        prop_assert_eq!(&watched.there, &list);
        prop_assert_eq!(watched.brake.next_due(), None);
        Ok(())
    });
}

#[test]
fn nothing_is_in_doubt_for_longer_than_the_patience() {
    holds(vec(word(), 0..20), |words| {
        let mut watched = Watched::new(&BTreeSet::new());
        watched.says(&words);
        prop_assert!(watched.brake.next_due().is_none_or(|due| due <= watched.now + PATIENCE));
        watched.passes(PATIENCE);
        prop_assert_eq!(watched.brake.next_due(), None);
        Ok(())
    });
}

#[test]
fn one_list_takes_away_half_at_most_or_one() {
    holds((some(), some()), |(there, list)| {
        let mut watched = Watched::new(&there);
        watched.listed(&names(&list));
        let lost = there.len() - names(&there).intersection(&watched.there).count();
        prop_assert!(!is_most(lost, there.len()), "{lost} of {}", there.len());
        let missing = there.difference(&list).count();
        prop_assert_eq!(watched.brake.take_asks().is_some(), is_most(missing, there.len()));
        Ok(())
    });
}

#[test]
fn deletions_within_a_moment_take_one_away_and_later_the_others_unless_most_have_gone() {
    holds((some(), vec((0..10_u8, 0..299_u64), 0..10)), |(there, deletions)| {
        let mut watched = Watched::new(&there);
        let mut gone = BTreeSet::new();
        for (of, after) in &deletions {
            watched.passes(Duration::from_millis(*after));
            watched.deleted(*of);
            gone.extend(there.get(of).copied());
        }
        let lost = |watched: &Watched| there.len() - watched.there.len();
        prop_assert_eq!(lost(&watched), gone.len().min(1));
        let asks = watched.brake.take_asks().is_some();
        prop_assert_eq!(asks, is_most(gone.len(), there.len()));
        watched.passes(MOMENT);
        prop_assert_eq!(lost(&watched), if asks { 1 } else { gone.len() });
        watched.passes(PATIENCE);
        prop_assert_eq!(lost(&watched), gone.len());
        Ok(())
    });
}
