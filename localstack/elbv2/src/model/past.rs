//! Stores earlier states of a group's targets in the API, for stale answers.
//!
//! Each change is stored with the state before the change. To reconstruct an earlier state, the changes are undone, the
//! latest change first.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::TargetGroup;
use super::target::{State, TargetKey, Zone};

/// The maximum number of stored changes per group. A few deployments of a group with 1,000 targets cause about this
/// many changes.
const MOST: usize = 10_000;

/// The state of a target in the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub state: State,
    pub zone: Zone,
}

impl Shown {
    /// Returns whether a call with this zone selects the target.
    pub fn is_in(&self, zone: Option<&str>) -> bool {
        zone.is_none_or(|zone| zone == self.zone.as_str())
    }
}

/// The changes of a group. The latest change is the last element.
#[derive(Debug, Default)]
pub struct Past {
    changes: VecDeque<(Duration, TargetKey, Option<Shown>)>,
}

impl Past {
    /// Stores the state before a change.
    pub fn note(&mut self, now: Duration, key: TargetKey, before: Option<Shown>) {
        if self.changes.len() == MOST {
            self.changes.pop_front();
        }
        self.changes.push_back((now, key, before));
    }
}

impl TargetGroup {
    /// Returns the states that the API showed at a moment.
    pub fn shown_at(&self, moment: Duration) -> BTreeMap<TargetKey, Shown> {
        let now = |target: &super::Target| Shown { state: target.state, zone: target.zone.clone() };
        let mut shown: BTreeMap<TargetKey, Shown> =
            self.targets().map(|target| (target.key, now(target))).collect();
        for (_, key, before) in self.past.changes.iter().rev().take_while(|(at, ..)| *at > moment) {
            match before {
                Some(before) => drop(shown.insert(*key, before.clone())),
                None => drop(shown.remove(key)),
            }
        }
        shown
    }
}
