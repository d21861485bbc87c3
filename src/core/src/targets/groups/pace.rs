//! How soon a target group is read again: soon after a change, then less and less often.
//!
//! AWS sends no notifications, so Headgate notices changes only in reads. Reads may use at most half of the account's
//! Describe calls. A group in which nothing changes must leave the calls to others, even if its targets are unhealthy,
//! because they may stay unhealthy forever.
//!
//! * **While targets are new**, the load balancer will soon report a new state for them. With most health checks that
//!   takes a few minutes at most.
//! * **While a target has a problem** (it is unhealthy, rejected, or in a zone that is not served), the waits double.
//! * **While a readiness gate waits** for such a target, and its pod runs, the group is read again after an eighth of
//!   the time since the last change. A pod that starts slowly then waits only a little longer than its start took. In
//!   the first minute such reads have priority over others.
//! * **After somebody else has deregistered a target**, more may follow. The group is read again after a quarter of the
//!   time since then, until that is the normal rate.

use std::time::Duration;

use crate::model::Moment;

/// The wait while something is under way, and after any change.
const SOON: Duration = Duration::from_secs(2);
/// The longest wait while a target has a problem.
const SELDOM: Duration = Duration::from_secs(30);
/// Nothing counts as under way after this long without a change. A load balancer that checks every 30 s and needs five
/// checks takes two and a half minutes.
const UNDER_WAY: Duration = Duration::from_secs(5 * 60);

/// The shortest wait while a readiness gate waits.
const FOR_GATES: Duration = Duration::from_secs(1);
/// Reads for a gate that waits for an unhealthy target have priority for this long after the last change.
const YOUNG: Duration = Duration::from_secs(60);

/// When a group last changed. See the module docs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    changed: Moment,
    /// When a read last showed that somebody else has deregistered a target.
    taken: Option<Moment>,
}

impl Pace {
    /// Records a change: a call has ended, a read has shown something new, or a pod has become ready.
    pub fn changed(&mut self, now: Moment) {
        self.changed = self.changed.max(now);
    }

    /// Records that somebody else has deregistered a target.
    pub fn taken(&mut self, now: Moment) {
        self.taken = Some(now);
    }

    /// Whether something may still be under way.
    pub fn is_fresh(&self, now: Moment) -> bool {
        now.since(self.changed) < UNDER_WAY
    }

    /// How soon the group is read again while targets are new.
    pub fn while_new(&self, now: Moment) -> Duration {
        if self.is_fresh(now) { SOON } else { SELDOM }
    }

    /// How soon the group is read again while a target has a problem.
    pub fn while_amiss(&self, now: Moment) -> Duration {
        now.since(self.changed).clamp(SOON, SELDOM)
    }

    /// How soon the group is read again while a readiness gate waits for a target that has a problem and whose pod
    /// runs, and whether that read has priority.
    pub fn while_expected(&self, now: Moment) -> (Duration, bool) {
        let since = now.since(self.changed);
        ((since / 8).clamp(FOR_GATES, SELDOM), since < YOUNG)
    }

    /// How soon the group is read again after somebody else has deregistered a target. `None`: nobody has.
    pub fn while_contested(&self, now: Moment) -> Option<Duration> {
        self.taken.map(|taken| (now.since(taken) / 4).max(SOON))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    /// When the reads after a change at `0` begin, up to the first one at or after `until` seconds.
    fn reads(until: u64, wait: impl Fn(Moment) -> Duration) -> Vec<u64> {
        let mut all = vec![0];
        while let Some(last) = all.last().copied().filter(|last| *last < until) {
            all.push(last + wait(at(last)).as_secs());
        }
        all
    }

    #[test]
    fn while_a_target_stays_as_it_should_not_be_the_waits_double_up_to_half_a_minute() {
        let mut pace = Pace::default();
        pace.changed(at(0));
        assert_eq!(reads(90, |now| pace.while_amiss(now)), [0, 2, 4, 8, 16, 32, 62, 92]);
        pace.changed(at(92));
        assert_eq!(pace.while_amiss(at(92)), Duration::from_secs(2));
    }

    #[test]
    fn while_targets_are_new_it_is_read_soon_for_five_minutes() {
        let pace = Pace::default();
        for (second, wait, fresh) in [(0, 2, true), (299, 2, true), (300, 30, false)] {
            assert_eq!(pace.while_new(at(second)), Duration::from_secs(wait), "{second}");
            assert_eq!(pace.is_fresh(at(second)), fresh, "{second}");
        }
    }

    #[test]
    fn while_a_gate_waits_for_a_target_whose_pod_runs_the_waits_are_an_eighth_of_the_time_so_far() {
        let pace = Pace::default();
        for (second, expected) in [(0, (1, true)), (40, (5, true)), (60, (7, false)), (400, (30, false))] {
            let (wait, is_awaited) = pace.while_expected(at(second));
            assert_eq!((wait.as_secs(), is_awaited), expected, "{second}");
        }
    }

    #[test]
    fn after_a_target_was_taken_out_by_another_it_is_read_when_a_quarter_of_that_time_has_passed_again() {
        let mut pace = Pace::default();
        assert_eq!(pace.while_contested(at(9)), None);
        pace.taken(at(0));
        for (second, wait) in [(0, 2), (8, 2), (40, 10), (240, 60)] {
            assert_eq!(pace.while_contested(at(second)), Some(Duration::from_secs(wait)), "{second}");
        }
    }
}
