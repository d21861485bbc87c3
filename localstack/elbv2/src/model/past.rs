//! What the API showed of a group's targets a while ago, for answers that are behind.
//!
//! Each change is remembered with what was before it; going back means undoing them from the latest on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::TargetGroup;
use super::target::{State, TargetKey, Zone};

/// Changes remembered per group; as many as a group of a thousand targets makes in a few deployments.
const MOST: usize = 10_000;

/// What the API shows of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Where it is in its life.
    pub state: State,
    /// Where it is.
    pub zone: Zone,
}

impl Shown {
    /// Whether a caller who names this zone means this target.
    pub fn is_in(&self, zone: Option<&str>) -> bool {
        zone.is_none_or(|zone| zone == self.zone.as_str())
    }
}

/// The changes of a group, the latest last.
#[derive(Debug, Default)]
pub struct Past {
    changes: VecDeque<(Duration, TargetKey, Option<Shown>)>,
}

impl Past {
    /// Remembers what was before a change.
    pub fn note(&mut self, now: Duration, key: TargetKey, before: Option<Shown>) {
        if self.changes.len() == MOST {
            self.changes.pop_front();
        }
        self.changes.push_back((now, key, before));
    }
}

impl TargetGroup {
    /// What the API showed at a moment.
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
