//! How fast pods are created.
//!
//! * **Owns** how many creations may be in flight, how often the API server rejected one, and on which nodes pods
//!   terminate on their own.
//! * **Guarantees.** Creations begin with one in flight, and each success allows one more. A rejection resets this,
//!   after a pause that doubles. On a node whose pods terminate on their own, the next pod is created after a pause
//!   that doubles, up to 15 minutes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headgate_core::model::Moment;

use crate::model::Revision;

/// The maximum number of creations in flight.
const MOST_AT_ONCE: usize = 128;
/// The first and the longest pause after a rejected creation.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(120));
/// The first and the longest pause on a node whose pod has terminated on its own.
const ENDED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(900));

/// The pause, doubled `times` times.
fn doubled((first, longest): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

/// How fast pods are created.
#[derive(Debug)]
pub struct Pace {
    at_once: usize,
    /// The number of consecutive rejections.
    refused: u32,
    /// No pod is created before this time.
    until: Moment,
    /// The nodes whose pods terminate on their own.
    ended: BTreeMap<Arc<str>, Ended>,
}

/// A node whose pods terminate on their own.
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
    /// When a pod of this revision may be created on the node.
    pub fn from(&self, node: &str, revision: &Revision) -> Moment {
        let ended = self.ended.get(node).filter(|ended| ended.revision == *revision);
        ended.map_or(self.until, |ended| ended.until.max(self.until))
    }

    /// How many creations may be in flight.
    pub const fn at_once(&self) -> usize {
        self.at_once
    }

    /// Records that the API server created a pod.
    pub fn made(&mut self) {
        self.at_once = (self.at_once + 1).min(MOST_AT_ONCE);
        self.refused = 0;
    }

    /// Records a rejection. Creations that were sent together count as one.
    pub fn refused(&mut self, now: Moment) {
        if self.until <= now {
            self.at_once = 1;
            self.until = now + doubled(REFUSED, self.refused);
            self.refused += 1;
        }
    }

    /// Records that a pod of this node terminated on its own.
    pub fn ended(&mut self, node: &Arc<str>, revision: Revision, now: Moment) {
        let before = self.ended.get(node).filter(|ended| ended.revision == revision);
        let times = before.map_or(0, |ended| ended.times + 1);
        let until = now + doubled(ENDED, times);
        self.ended.insert(node.clone(), Ended { revision, times, until });
    }

    /// Records that a pod of this node is available.
    pub fn serves(&mut self, node: &str) {
        self.ended.remove(node);
    }
}
