//! The delay before the restart of a container that exited on its own.
//!
//! The module computes the crash-loop backoff of one container, and is pure. The first restart has no backoff: the
//! kubelet restarts the container about one second later, when the kubelet next lists the containers. Later delays are
//! 10 s, 20 s, 40 s … up to 5 minutes. A run of at least 10 minutes resets the backoff.

use std::time::Duration;

/// The delay before the first restart. The kubelet lists the containers once per second.
pub const FIRST: Duration = Duration::from_secs(1);
const INITIAL: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(5);
/// The minimum run time after which the backoff is reset.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// The crash-loop backoff of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrashBackoff {
    next: Option<Duration>,
}

/// The delay before one restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    /// The delay of the first restart. During the first delay, the status shows the terminated container.
    Short(Duration),
    /// A delay in `CrashLoopBackOff`.
    CrashLoop(Duration),
}

impl Wait {
    /// Returns the length of the delay.
    pub fn length(self) -> Duration {
        match self {
            Self::Short(length) | Self::CrashLoop(length) => length,
        }
    }
}

impl CrashBackoff {
    /// Returns the delay after a run that lasted `ran`.
    pub fn after(&mut self, ran: Duration) -> Wait {
        if ran >= FORGOTTEN_AFTER {
            self.next = None;
        }
        match self.next {
            None => {
                self.next = Some(INITIAL);
                Wait::Short(FIRST)
            }
            Some(delay) => {
                self.next = Some((delay * 2).min(LONGEST));
                Wait::CrashLoop(delay)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_wait_longer_each_time_up_to_five_minutes() {
        let mut backoff = CrashBackoff::default();
        assert_eq!(backoff.after(Duration::ZERO), Wait::Short(FIRST));
        let waits: Vec<_> = (0..7).map(|_| backoff.after(Duration::ZERO).length().as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_long_run_forgets_earlier_crashes() {
        let mut backoff = CrashBackoff::default();
        backoff.after(Duration::ZERO);
        backoff.after(Duration::ZERO);
        assert_eq!(backoff.after(FORGOTTEN_AFTER), Wait::Short(FIRST));
    }
}
