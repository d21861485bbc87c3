//! The times at which this replica first saw each annotation on a pod about its eviction.
//!
//! Every replica tracks when it first saw each annotation on pods that should be evicted, even if the replica is not
//! the leader. A new leader has therefore seen each annotation shortly after its write, and continues the wait.

use std::time::Duration;

use crate::model::{LeavingFacts, Moment, Written};

/// The times for one pod. See the module docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    since: Written,
    asked: Written,
    waits: Option<Written>,
    deregistered: Option<Written>,
}

impl Seen {
    /// Creates the times for annotations that are seen for the first time.
    pub fn first(facts: &LeavingFacts, now: Moment) -> Self {
        let written = |at| Written::new(at, now);
        Self {
            since: written(facts.ask.since),
            asked: written(facts.ask.asked),
            waits: facts.waits.map(|(at, _)| written(at)),
            deregistered: facts.deregistered.map(|(at, _)| written(at)),
        }
    }

    /// Updates the times for the current annotations.
    pub fn follow(&mut self, facts: &LeavingFacts, now: Moment) {
        let fresh = Self::first(facts, now);
        let known = |before: Option<Written>, fresh: Option<Written>| {
            fresh.map(|fresh| before.map_or(fresh, |before| before.now_says(fresh.at(), now)))
        };
        *self = Self {
            since: self.since.now_says(fresh.since.at(), now),
            asked: self.asked.now_says(fresh.asked.at(), now),
            waits: known(self.waits, fresh.waits),
            deregistered: known(self.deregistered, fresh.deregistered),
        };
    }

    /// Sets the time at which AWS accepted the deregistration. This replica knows the time from its own request.
    pub const fn was_deregistered(&mut self, since: Moment) {
        if let Some(written) = self.deregistered {
            self.deregistered = Some(Written::new(written.at(), since));
        }
    }

    /// The time of the first request.
    pub const fn since(&self) -> Written {
        self.since
    }

    /// The time of the last request.
    pub const fn asked(&self) -> Written {
        self.asked
    }

    /// The time at which the leader last decided that the eviction must wait.
    pub const fn waits(&self) -> Option<Written> {
        self.waits
    }

    /// The time at which the load balancers stop sending. `None`: AWS has not accepted the deregistration.
    pub fn over(&self, facts: &LeavingFacts) -> Option<Moment> {
        let (_, bound) = facts.deregistered?;
        Some(self.deregistered?.ends(bound))
    }

    /// The time that has passed since the first request.
    pub const fn waited(&self, now: Moment) -> Duration {
        self.since.ago(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WallTime;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn wall(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(seconds))
    }

    #[test]
    fn each_word_counts_from_when_it_was_seen_and_anew_when_it_is_another_one() {
        let bound = Duration::from_secs(120);
        let asked = LeavingFacts::asked(wall(900), wall(900));
        let mut seen = Seen::first(&asked, at(1));
        assert_eq!((seen.waited(at(5)), seen.over(&asked)), (Duration::from_secs(4), None));
        let out = LeavingFacts { deregistered: Some((wall(100), bound)), ..asked };
        seen.follow(&out, at(10));
        assert_eq!((seen.since().seen(), seen.over(&out)), (at(1), Some(at(130))), "the clock is behind");
        seen.follow(&out, at(50));
        assert_eq!(seen.over(&out), Some(at(130)), "it is still the same word");
        let again =
            LeavingFacts { ask: out.again(wall(960)), deregistered: Some((wall(9_999), bound)), ..out };
        seen.follow(&again, at(60));
        assert_eq!((seen.asked().seen(), seen.over(&again)), (at(60), Some(at(180))), "and now it is ahead");
        seen.was_deregistered(at(58));
        assert_eq!(seen.over(&again), Some(at(178)));
        seen.follow(&asked, at(70));
        assert_eq!((seen.waits(), seen.over(&asked)), (None, None));
    }
}
