//! How long a container that ended on its own waits for its restart.
//!
//! The crash-loop delay of one container. Pure. A kubelet restarts once without a backoff, about one second later, when
//! it next lists the containers. Then it waits 10 s, 20 s, 40 s … up to 5 minutes. It resets the delay after a run of
//! 10 minutes.

use std::time::Duration;

/// The time until the first restart: the kubelet lists the containers once a second.
pub const FIRST: Duration = Duration::from_secs(1);
const INITIAL: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(5);
/// A container that ran this long has recovered.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// The crash-loop backoff of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrashBackoff {
    next: Option<Duration>,
}

/// One wait before a restart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    /// The first restart. The status shows the ended container until then.
    Short(Duration),
    /// `CrashLoopBackOff` for this long.
    CrashLoop(Duration),
}

impl Wait {
    /// How long it is.
    pub fn length(self) -> Duration {
        match self {
            Self::Short(length) | Self::CrashLoop(length) => length,
        }
    }
}

impl CrashBackoff {
    /// The wait after a run that lasted `ran`.
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
