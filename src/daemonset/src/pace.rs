//! How fast pods are made.
//!
//! * **Owns** how many at once, how often the API server refused, and of which nodes the pods end by themselves.
//! * **Guarantees.** Creations begin with one, and each that succeeds lets one more be made at once. One that is refused starts
//!   that again, after a pause that doubles. Of a node whose pods end by themselves the next is made after a pause that
//!   doubles, up to a quarter of an hour.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headgate_core::model::Moment;

use crate::model::Revision;

/// So many pods are made at once at most.
const MOST_AT_ONCE: usize = 128;
/// The first pause after a creation that was refused, and the longest.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(120));
/// The first pause on a node whose pod has ended by itself, and the longest.
const ENDED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(900));

/// A pause that doubles.
fn doubled((first, longest): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

/// How fast pods are made.
#[derive(Debug)]
pub struct Pace {
    at_once: usize,
    /// How often in a row the API server refused.
    refused: u32,
    /// Until then none is made.
    until: Moment,
    /// The nodes whose pods end by themselves.
    ended: BTreeMap<Arc<str>, Ended>,
}

/// The pods of a node end by themselves.
#[derive(Debug)]
struct Ended {
    revision: Revision,
    times: u32,
    until: Moment,
}

impl Default for Pace {
    fn default() -> Self {
        Self { at_once: 1, refused: 0, until: Moment::START, ended: BTreeMap::new() }
    }
}

impl Pace {
    /// From when on a pod of this may be made there.
    pub fn from(&self, node: &str, revision: &Revision) -> Moment {
        let ended = self.ended.get(node).filter(|ended| ended.revision == *revision);
        ended.map_or(self.until, |ended| ended.until.max(self.until))
    }

    /// How many may be made at once.
    pub const fn at_once(&self) -> usize {
        self.at_once
    }

    /// The API server made one.
    pub fn made(&mut self) {
        self.at_once = (self.at_once + 1).min(MOST_AT_ONCE);
        self.refused = 0;
    }

    /// It refused to. Those that were asked for together are refused together.
    pub fn refused(&mut self, now: Moment) {
        if self.until <= now {
            self.at_once = 1;
            self.until = now + doubled(REFUSED, self.refused);
            self.refused += 1;
        }
    }

    /// A pod of this node has ended by itself.
    pub fn ended(&mut self, node: &Arc<str>, revision: Revision, now: Moment) {
        let before = self.ended.get(node).filter(|ended| ended.revision == revision);
        let times = before.map_or(0, |ended| ended.times + 1);
        let until = now + doubled(ENDED, times);
        self.ended.insert(node.clone(), Ended { revision, times, until });
    }

    /// One of this node serves.
    pub fn serves(&mut self, node: &str) {
        self.ended.remove(node);
    }
}
