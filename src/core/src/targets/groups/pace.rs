//! How soon a target group is read again: soon after anything has changed in it, then less and less often.
//!
//! AWS says nothing by itself: whatever is to be noticed is seen in a read. Half of the Describe calls of the account are
//! all that there are for reads, so a group in which nothing changes has to leave them to others, also when its targets
//! are not as they should be: they may stay so for ever.
//!
//! * **While targets are new**, the load balancer will say another word of them by itself. That takes minutes at most
//!   with most health checks.
//! * **While a target stays as it should not be** (unhealthy, refused, in a zone that is not served), the waits double.
//! * **While a readiness gate waits** for such a target, and its pod runs, the group is read again after an eighth of the
//!   time that nothing has changed: a pod that took its time to start is not kept waiting for much longer than it took. In
//!   the first minute such reads go before others.
//! * **When somebody else has taken a target out**, more of them may go: the group is read when a quarter of the time has
//!   passed again that has passed since, until it is read no more often than any other.

use std::time::Duration;

use crate::model::Moment;

/// While something is under way, and after any change.
const SOON: Duration = Duration::from_secs(2);
/// While a target stays as it should not be.
const SELDOM: Duration = Duration::from_secs(30);
/// What is under way is so no longer when nothing has changed for so long. A load balancer that checks every 30 s and wants
/// five checks takes two and a half minutes.
const UNDER_WAY: Duration = Duration::from_secs(5 * 60);

/// While a readiness gate waits, at least.
const FOR_GATES: Duration = Duration::from_secs(1);
/// For so long a gate that waits for a target which is not healthy goes before others.
const YOUNG: Duration = Duration::from_secs(60);

/// When something has changed in a group. See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    changed: Moment,
    /// When it was seen last that somebody else has taken a target out.
    taken: Option<Moment>,
}

impl Pace {
    /// Something has changed: a call has ended, a read has shown something new, a pod has become ready.
    pub fn changed(&mut self, now: Moment) {
        self.changed = self.changed.max(now);
    }

    /// Somebody else has taken a target out.
    pub fn taken(&mut self, now: Moment) {
        self.taken = Some(now);
    }

    /// Whether something may still be under way.
    pub fn is_fresh(&self, now: Moment) -> bool {
        now.since(self.changed) < UNDER_WAY
    }

    /// How soon it is read again while targets are new.
    pub fn while_new(&self, now: Moment) -> Duration {
        if self.is_fresh(now) { SOON } else { SELDOM }
    }

    /// How soon it is read again while a target is not as it should be.
    pub fn while_amiss(&self, now: Moment) -> Duration {
        now.since(self.changed).clamp(SOON, SELDOM)
    }

    /// How soon it is read again while a readiness gate waits for a target that is not as it should be and whose pod runs; and
    /// whether that read is waited for.
    pub fn while_expected(&self, now: Moment) -> (Duration, bool) {
        let since = now.since(self.changed);
        ((since / 8).clamp(FOR_GATES, SELDOM), since < YOUNG)
    }

    /// How soon it is read again after somebody else has taken a target out; `None`: nobody has.
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

    /// When the first reads after something at `0` begin, up to so many seconds later.
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
