//! A target that repeatedly disappears soon after its registration: somebody else deregisters it, for example a
//! controller that manages the whole target group.
//!
//! Headgate registers it again immediately the first few times, and then less and less often. Two programs that undo
//! each other's work at full speed would use up AWS's calls, and the target would get no traffic.

use std::time::Duration;

use crate::model::Moment;

/// A target that disappears within this time after its registration did not disappear by chance. Controllers that
/// compare everything they own do so every few minutes.
const SOON: Duration = Duration::from_secs(10 * 60);
/// This many times in a row are no chance either.
const OFTEN: u32 = 3;
/// The target is registered again after this long, and then after twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LAST_WAIT: Duration = Duration::from_secs(5 * 60);

/// How often a target has disappeared in a row, each time soon after its registration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vanishing {
    registered: Option<Moment>,
    times: u32,
}

impl Vanishing {
    /// AWS has accepted the registration.
    pub fn registered(&mut self, now: Moment) {
        self.registered = Some(now);
    }

    /// The target has disappeared, and Headgate did not deregister it. Returns how long it must not be registered
    /// again.
    pub fn vanished(&mut self, now: Moment) -> Option<Duration> {
        let soon = self.registered.take().is_some_and(|registered| now.since(registered) < SOON);
        self.times = if soon { self.times + 1 } else { 0 };
        let further = self.times.checked_sub(OFTEN)?;
        Some(FIRST_WAIT.saturating_mul(1 << further.min(8)).min(LAST_WAIT))
    }

    /// A read that began at `began` has shown the target.
    pub fn seen(&mut self, began: Moment) {
        if self.registered.is_some_and(|registered| began.since(registered) >= SOON) {
            self.times = 0;
        }
    }

    /// Whether somebody else deregisters the target repeatedly.
    pub fn is_removed_by_another(&self) -> bool {
        self.times >= OFTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    /// Registers the target this many times; it disappears a minute later each time. Returns the waits in seconds.
    fn vanish(vanishing: &mut Vanishing, times: u64) -> Vec<Option<u64>> {
        let once = |time| {
            vanishing.registered(at(time * 60));
            vanishing.vanished(at(time * 60 + 59)).map(|wait| wait.as_secs())
        };
        (0..times).map(once).collect()
    }

    #[test]
    fn the_first_times_are_put_right_at_once_and_the_next_ever_more_rarely() {
        let mut vanishing = Vanishing::default();
        let waits = vanish(&mut vanishing, 8);
        let expected = [None, None, Some(30), Some(60), Some(120), Some(240), Some(300), Some(300)];
        assert_eq!(waits, expected);
    }

    #[test]
    fn one_that_stayed_for_long_vanished_by_chance() {
        let mut vanishing = Vanishing::default();
        vanish(&mut vanishing, 2);
        vanishing.registered(at(1000));
        assert_eq!(vanishing.vanished(at(1600)), None);
        assert_eq!(vanish(&mut vanishing, 2), [None, None], "it is counted anew");
    }

    #[test]
    fn one_that_was_not_registered_from_here_since_is_not_counted() {
        let mut vanishing = Vanishing::default();
        vanish(&mut vanishing, 2);
        assert_eq!(vanishing.vanished(at(130)), None);
    }

    #[test]
    fn it_is_over_when_the_target_has_stayed() {
        let mut vanishing = Vanishing::default();
        vanish(&mut vanishing, 3);
        vanishing.registered(at(1000));
        vanishing.seen(at(1599));
        assert!(vanishing.is_removed_by_another());
        vanishing.seen(at(1600));
        assert!(!vanishing.is_removed_by_another());
    }
}
