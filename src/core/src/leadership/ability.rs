//! Decides when the leader must release the Lease because it cannot lead.
//!
//! ```text
//!  repeated failures ──► trouble after 10 s ──► can another replica lead?   no ──► keeps the Lease
//!                                                                          yes ──► releases the Lease, backs off
//! ```
//! * **Owns** the current failures, each with the time at which it began, and the length of the next backoff.
//! * **The rule.** A leader releases the Lease if a failure has lasted for [`PATIENCE`] and another replica is ready
//!   and not in backoff. If the last backoff was recent, the next backoff is twice as long. If all other replicas are
//!   in backoff, the leader keeps the Lease, because the other replicas recently failed to lead too. After its backoff,
//!   a replica can become the leader again.
//! * **Guarantees.** If all replicas are equally broken, each replica releases the Lease at most once per backoff. The
//!   backoff grows to [`LONGEST_REST`]. Another replica can take each released Lease.
//! * **Caveats.** A single failure does not count: a watch that failed once and has reported no failure since works
//!   again. The caller does not report failures that affect all replicas, such as a missing permission or a missing
//!   kind.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Cause, Moment, Reason};

/// The time after which repeated failures count as trouble.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The minimum number of failures that count as trouble.
const OFTEN: u32 = 3;
/// Two failures that are further apart than this are unrelated.
const APART: Duration = Duration::from_secs(30);
/// The length of the first backoff.
pub const FIRST_REST: Duration = Duration::from_secs(30);
/// The maximum length of a backoff.
pub const LONGEST_REST: Duration = Duration::from_secs(16 * 60);

/// Consecutive failures without a success in between.
#[derive(Clone, Copy, Debug)]
struct Streak {
    first: Moment,
    last: Moment,
    count: u32,
}

impl Streak {
    fn is_trouble(&self, now: Moment) -> bool {
        self.count >= OFTEN && self.last.since(self.first) >= PATIENCE && now.since(self.last) <= APART
    }
}

/// The failure that prevents this replica from leading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble(Cause, Moment);

impl Trouble {
    /// The reason for the trouble.
    pub const fn reason(self) -> Reason {
        self.0.reason()
    }

    /// The time of the first failure.
    pub const fn since(self) -> Moment {
        self.1
    }
}

/// Decides whether the leader must release the Lease. See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Ability {
    failing: BTreeMap<(Cause, Box<str>), Streak>,
    /// The last backoff: its start and its length.
    rested: Option<(Moment, Duration)>,
}

impl Ability {
    /// Records a failure. `of` distinguishes failures with the same cause.
    pub fn failed(&mut self, cause: Cause, of: &str, now: Moment) {
        let new = Streak { first: now, last: now, count: 0 };
        let streak = self.failing.entry((cause, of.into())).or_insert(new);
        if now.since(streak.last) > APART {
            *streak = new;
        }
        streak.last = now;
        streak.count = streak.count.saturating_add(1);
    }

    /// Records a success.
    pub fn worked(&mut self, cause: Cause, of: &str) {
        self.failing.retain(|(failing, whose), _| *failing != cause || **whose != *of);
    }

    /// The trouble of this replica, if any. If several kinds of failures count as trouble, returns the kind that began
    /// first.
    pub fn trouble(&self, now: Moment) -> Option<Trouble> {
        let troubles = self.failing.iter().filter(|(_, streak)| streak.is_trouble(now));
        let first = troubles.min_by_key(|(_, streak)| streak.first)?;
        Some(Trouble(first.0.0, first.1.first))
    }

    /// Decides whether this leader must release the Lease now. `others`: the number of other replicas that are ready
    /// and not in backoff. Returns the trouble, and the length of this replica's backoff.
    pub fn steps_down(&mut self, others: usize, now: Moment) -> Option<(Trouble, Duration)> {
        let trouble = self.trouble(now).filter(|_| others > 0)?;
        let again = self.rested.filter(|(since, rest)| now.since(*since) <= *rest * 4);
        let rest = again.map_or(FIRST_REST, |(_, rest)| (rest * 2).min(LONGEST_REST));
        self.rested = Some((now, rest));
        // A standby detects only failing watches.
        self.failing.retain(|(cause, _), _| *cause == Cause::WatchesFail);
        Some((trouble, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn failing(cause: Cause, from: u64, to: u64) -> Ability {
        let mut ability = Ability::default();
        (from..=to).step_by(2).for_each(|second| ability.failed(cause, "", at(second)));
        ability
    }

    #[test]
    fn what_has_failed_for_ten_seconds_lets_the_leader_give_the_lease_back_if_another_one_could_lead() {
        let mut ability = failing(Cause::RemovalsFail, 0, 8);
        assert_eq!(ability.steps_down(1, at(9)), None);
        ability.failed(Cause::RemovalsFail, "", at(10));
        assert_eq!(ability.steps_down(0, at(10)), None, "nobody else is there");
        let trouble = Trouble(Cause::RemovalsFail, at(0));
        assert_eq!(ability.trouble(at(10)), Some(trouble));
        assert_eq!(ability.steps_down(1, at(10)), Some((trouble, FIRST_REST)));
        assert_eq!(ability.trouble(at(10)), None, "it makes no calls any more");
    }

    #[test]
    fn a_success_in_between_ends_it_but_not_that_of_something_else() {
        let mut ability = failing(Cause::WatchesFail, 0, 10);
        ability.failed(Cause::WatchesFail, "pods", at(10));
        ability.worked(Cause::WatchesFail, "pods");
        ability.worked(Cause::RemovalsFail, "");
        assert!(ability.trouble(at(10)).is_some());
        ability.worked(Cause::WatchesFail, "");
        assert_eq!(ability.trouble(at(10)), None);
    }

    #[test]
    fn a_watch_that_broke_now_and_then_and_is_silent_in_between_works() {
        let mut ability = Ability::default();
        ability.failed(Cause::WatchesFail, "pods", at(0));
        assert_eq!(ability.trouble(at(20)), None);
        ability.failed(Cause::WatchesFail, "pods", at(20));
        assert_eq!(ability.trouble(at(20)), None, "twice is not often");
        for second in [60, 100, 140] {
            ability.failed(Cause::WatchesFail, "pods", at(second));
            assert_eq!(ability.trouble(at(second)), None);
        }
        let old = failing(Cause::WatchesFail, 0, 20);
        assert!(old.trouble(at(50)).is_some() && old.trouble(at(51)).is_none(), "nothing has failed since");
    }

    #[test]
    fn each_rest_is_twice_as_long_as_the_one_before_unless_that_was_long_ago() {
        let mut ability = Ability::default();
        let mut now = at(0);
        let mut step_down = |wait: Duration| {
            now = now + wait;
            for _ in 0..=5 {
                now = now + SECOND * 2;
                ability.failed(Cause::WatchesFail, "", now);
            }
            ability.steps_down(1, now).unwrap().1.as_secs()
        };
        let rests: Vec<u64> =
            [0, 60, 120, 240, 480, 960, 1920, 1920].map(|wait| step_down(SECOND * wait)).into();
        assert_eq!(rests, [30, 60, 120, 240, 480, 960, 960, 960]);
        assert_eq!(step_down(LONGEST_REST * 4), 30);
    }

    #[test]
    fn the_trouble_that_began_first_is_named() {
        let mut ability = failing(Cause::WatchesFail, 0, 20);
        (2..=20).for_each(|second| ability.failed(Cause::AwsUnreachable, "", at(second)));
        let trouble = ability.trouble(at(20)).unwrap();
        assert_eq!((trouble.reason(), trouble.since()), (Reason::WatchesFail, at(0)));
    }
}
