//! The arithmetic of grace periods.
//!
//! The module computes how long a terminating container may still run, and is pure. The rules are the kubelet's rules
//! (v1.36, `calculateEffectiveGracePeriod` and `killContainer`). A later request can only shorten a grace period. A
//! grace period is at least one second. The preStop hook uses a part of the grace period. SIGKILL follows at least two
//! seconds after SIGTERM, for any duration of the hook. Grace periods are in real seconds, for any time scale.

use std::time::Duration;
use tokio::time::Instant;

/// The minimum time between SIGTERM and SIGKILL (`minimumGracePeriodInSeconds`).
pub const MINIMUM_AFTER_HOOK: Duration = Duration::from_secs(2);

/// The grace period of a pod after a force deletion. The source code of the kubelet sets one second, and the runtime
/// acts a tenth of a second later. In a measurement, a container with a 5 s preStop hook kept serving for 1.1 s.
pub const VANISHED: Duration = Duration::from_millis(1100);

/// A grace period in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grace {
    granted: Duration,
    deadline: Instant,
}

impl Grace {
    /// Starts a grace period of `requested`. Zero means that the object is deleted immediately.
    pub fn begin(requested: Duration, now: Instant) -> Self {
        let granted = effective(requested);
        Self { granted, deadline: now + granted }
    }

    /// Applies a further request. Returns `true` if the request shortened the grace period. A shorter grace period
    /// starts now, and its deadline is never later than before.
    pub fn shorten(&mut self, requested: Duration, now: Instant) -> bool {
        let granted = effective(requested);
        if granted >= self.granted {
            return false;
        }
        self.granted = granted;
        self.deadline = self.deadline.min(now + granted);
        true
    }

    /// Returns whether the deadline is earlier than another grace period's deadline.
    pub fn ends_before(&self, other: &Self) -> bool {
        self.deadline < other.deadline
    }

    /// Returns the deadline of a hook that starts now. `wants`: the hook's own duration.
    pub fn hook_end(&self, wants: Option<Duration>, now: Instant) -> Instant {
        wants.map_or(self.deadline, |wants| self.deadline.min(now + wants))
    }

    /// Returns the time of the SIGKILL that follows a SIGTERM at `terminated`.
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
