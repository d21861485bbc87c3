//! Limits how fast pods are created.
//!
//! * **Owns** the limit of creations in flight, the number of rejections, and the nodes on which pods terminate on
//!   their own.
//! * **Guarantees.** The limit starts at one creation in flight, and increases by one with each success. After a
//!   rejection, the controller pauses, and the limit starts at one again. If pods on a node terminate on their own, the
//!   controller waits before it creates the next pod on the node. Each further failure doubles the pause. The longest
//!   pause on a node is 15 minutes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headgate_core::model::Moment;

use crate::model::Revision;

/// The maximum number of creations in flight.
const MOST_AT_ONCE: usize = 128;
/// The first and the longest pause after a rejected creation.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(120));
/// The first and the longest pause on a node whose pod terminated on its own.
const ENDED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(900));

/// Returns the pause after `times` doublings.
fn doubled((first, longest): (Duration, Duration), times: u32) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(longest)
}

/// Limits how fast pods are created.
#[derive(Debug)]
pub struct Pace {
    at_once: usize,
    /// The number of consecutive rejections.
    refused: u32,
    /// The time before which no pod is created.
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
    /// Returns the time from which a pod of this revision may be created on the node.
    pub fn from(&self, node: &str, revision: &Revision) -> Moment {
        let ended = self.ended.get(node).filter(|ended| ended.revision == *revision);
        ended.map_or(self.until, |ended| ended.until.max(self.until))
    }

    /// Returns the maximum number of creations in flight.
    pub const fn at_once(&self) -> usize {
        self.at_once
    }

    /// Records that the API server created a pod.
    pub fn made(&mut self) {
        self.at_once = (self.at_once + 1).min(MOST_AT_ONCE);
        self.refused = 0;
    }

    /// Records a rejection. Several rejections during one pause count as one rejection.
    pub fn refused(&mut self, now: Moment) {
        if self.until <= now {
            self.at_once = 1;
            self.until = now + doubled(REFUSED, self.refused);
            self.refused += 1;
        }
    }

    /// Records that a pod on this node terminated on its own.
    pub fn ended(&mut self, node: &Arc<str>, revision: Revision, now: Moment) {
        let before = self.ended.get(node).filter(|ended| ended.revision == revision);
        let times = before.map_or(0, |ended| ended.times + 1);
        let until = now + doubled(ENDED, times);
        self.ended.insert(node.clone(), Ended { revision, times, until });
    }

    /// Records that a pod on this node is available.
    pub fn serves(&mut self, node: &str) {
        self.ended.remove(node);
    }
}
