//! The arithmetic of a grace period.
//!
//! Owns how long a terminating container may still live. Pure. The rules are the kubelet's (v1.36,
//! `calculateEffectiveGracePeriod` and `killContainer`): a grace period only ever gets shorter, is never
//! under one second, the preStop hook is paid from it, and whatever the hook left, SIGKILL comes no sooner
//! than two seconds after SIGTERM. Grace periods are real seconds, whatever the time scale.

use std::time::Duration;
use tokio::time::Instant;

/// The least time between SIGTERM and SIGKILL (`minimumGracePeriodInSeconds`).
pub const MINIMUM_AFTER_HOOK: Duration = Duration::from_secs(2);

/// What a pod gets whose object vanished at once (force delete): one second by the source, and a tenth that
/// passes before the runtime acts; a container with a 5 s preStop was measured to serve 1.1 s more.
pub const VANISHED: Duration = Duration::from_millis(1100);

/// A running grace period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grace {
    granted: Duration,
    deadline: Instant,
}

impl Grace {
    /// Starts a grace period of `requested` (zero: the object is gone or about to be).
    pub fn begin(requested: Duration, now: Instant) -> Self {
        let granted = effective(requested);
        Self { granted, deadline: now + granted }
    }

    /// Takes a second request into account. `true` if it shortened the grace period; the shorter one counts
    /// from now, and never moves the end later.
    pub fn shorten(&mut self, requested: Duration, now: Instant) -> bool {
        let granted = effective(requested);
        if granted >= self.granted {
            return false;
        }
        self.granted = granted;
        self.deadline = self.deadline.min(now + granted);
        true
    }

    /// Whether it is over sooner than another one.
    pub fn ends_before(&self, other: &Self) -> bool {
        self.deadline < other.deadline
    }

    /// When a hook that starts now must have ended; `wants` is its own length, if it has one.
    pub fn hook_end(&self, wants: Option<Duration>, now: Instant) -> Instant {
        wants.map_or(self.deadline, |wants| self.deadline.min(now + wants))
    }

    /// When SIGKILL follows a SIGTERM that was sent at `terminated`.
    pub fn kill_at(&self, terminated: Instant) -> Instant {
        self.deadline.max(terminated + MINIMUM_AFTER_HOOK)
    }
}

fn effective(requested: Duration) -> Duration {
    if requested.is_zero() { VANISHED } else { requested.max(Duration::from_secs(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn the_hook_is_paid_from_the_grace_period() {
        let now = Instant::now();
        let grace = Grace::begin(seconds(30), now);
        let hook_end = grace.hook_end(Some(seconds(10)), now);
        assert_eq!(hook_end, now + seconds(10));
        assert_eq!(grace.kill_at(hook_end), now + seconds(30));
    }

    #[test]
    fn a_hook_longer_than_the_grace_period_is_cut_and_two_seconds_remain() {
        let now = Instant::now();
        let grace = Grace::begin(seconds(5), now);
        let hook_end = grace.hook_end(Some(seconds(10)), now);
        assert_eq!(hook_end, now + seconds(5));
        assert_eq!(grace.kill_at(hook_end), now + seconds(7));
    }

    #[test]
    fn a_second_delete_shortens_from_now_on_and_never_lengthens() {
        let now = Instant::now();
        let mut grace = Grace::begin(seconds(30), now);
        assert!(!grace.shorten(seconds(60), now));
        assert!(grace.shorten(seconds(5), now + seconds(10)));
        assert_eq!(grace.hook_end(None, now), now + seconds(15));
        let mut late = Grace::begin(seconds(30), now);
        assert!(late.shorten(seconds(20), now + seconds(25)));
        assert_eq!(late.hook_end(None, now), now + seconds(30));
    }

    #[test]
    fn a_pod_that_vanished_keeps_its_hook_for_about_a_second() {
        let now = Instant::now();
        let grace = Grace::begin(Duration::ZERO, now);
        assert_eq!(grace.hook_end(Some(seconds(5)), now), now + VANISHED);
        assert_eq!(Grace::begin(Duration::from_millis(10), now).hook_end(None, now), now + seconds(1));
    }
}
