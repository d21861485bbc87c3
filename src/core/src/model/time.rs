//! The core never reads a clock; callers pass the time as a parameter.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A point on the monotonic clock of the process, counted from its start.
///
/// The core has its own type because `std::time::Instant` needs the real clock, and the core also runs with a simulated
/// clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The start of the process.
    pub const START: Self = Self(Duration::ZERO);

    /// Creates the moment that is `elapsed` after the start of the process.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time between the start of the process and this moment.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment, or zero if `earlier` is later.
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

/// A point on the wall clock, for times that another process reads later.
///
/// The clocks of machines differ, and are sometimes adjusted. Headgate therefore uses stored times only to order
/// events. To measure how long ago an event was, use [`Written`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

impl WallTime {
    /// Creates a time from the duration since the beginning of 1970, in UTC.
    pub const fn since_1970(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the beginning of 1970.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this time, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Sub<Duration> for WallTime {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(rhs))
    }
}

impl Add<Duration> for WallTime {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(rhs))
    }
}

/// A stored time, and when this replica first saw it.
///
/// A wait begins when this replica first sees the record, and the monotonic clock measures the wait. A record is always
/// written before a replica sees it, so no wrong clock can end a wait early. A stored time in the future cannot extend
/// a wait. A new process sees the record for the first time, so it may wait again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    at: WallTime,
    seen: Moment,
}

impl Written {
    /// Creates a record of a stored time that this replica first saw at `seen`.
    pub const fn new(at: WallTime, seen: Moment) -> Self {
        Self { at, seen }
    }

    /// Updates the record with the currently stored time. If the stored time has not changed, the record keeps the
    /// moment when this replica first saw it.
    #[must_use]
    pub fn now_says(self, at: WallTime, now: Moment) -> Self {
        if self.at == at { self } else { Self { at, seen: now } }
    }

    /// The stored time, only for comparison with other stored times.
    pub const fn at(self) -> WallTime {
        self.at
    }

    /// When this replica first saw the stored time.
    pub const fn seen(self) -> Moment {
        self.seen
    }

    /// The end of a wait of length `bound` that begins with this record.
    pub fn ends(self, bound: Duration) -> Moment {
        self.seen + bound
    }

    /// The minimum time since the record was stored.
    pub const fn ago(self, now: Moment) -> Duration {
        now.since(self.seen)
    }
}

/// How long Headgate collects registrations of one target group, to send them in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Headgate sends the registrations when no registration was added for this long.
    pub idle: Duration,
    /// The longest time for which Headgate collects registrations before it sends them.
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

    #[test]
    fn a_bound_that_begins_with_a_written_time_ends_when_it_has_passed_here_whatever_is_written() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let bound = Duration::from_secs(120);
        for written in [0, 1_800_000_000, u64::MAX].map(Duration::from_secs).map(WallTime::since_1970) {
            let seen = Written::new(written, at(5));
            assert_eq!((seen.ends(bound), seen.ago(at(7))), (at(125), Duration::from_secs(2)));
            assert_eq!(seen.now_says(written, at(60)), seen, "it was seen before");
            let later = written + Duration::from_secs(1);
            let other = if later == written { WallTime::default() } else { later };
            assert_eq!(seen.now_says(other, at(60)), Written::new(other, at(60)));
        }
    }
}
