//! Time as a parameter: the core never reads a clock.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A point on the monotonic clock of the process, counted from its start.
///
/// A type of its own, because `std::time::Instant` can only be had from the real clock, and the core also runs
/// under a simulated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the process.
    pub const START: Self = Self(Duration::ZERO);

    /// The moment `elapsed` after the start of the process.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the start of the process this is.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(rhs))
    }
}

/// A point on the wall clock, since 1970: only for what is written down and read by another process. Clocks of machines
/// differ a little and are set now and then; nothing that may do harm hangs on it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

impl WallTime {
    /// The time so long after the beginning of 1970, in UTC.
    pub const fn since_1970(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the beginning of 1970 this is.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for WallTime {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

/// How long registrations of one group wait for more that could travel with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Until none has come for this long.
    pub idle: Duration,
    /// But no longer than this.
    pub most: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_moment_is_before_the_start() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        assert_eq!(at(5) - Duration::from_secs(3), at(2));
        assert_eq!(at(5) - Duration::from_secs(7), Moment::START);
    }
}
