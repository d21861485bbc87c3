//! Time is a parameter: the core never reads a clock.

use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A point on the monotonic clock of the process, counted from its start.
///
/// It is a type of its own because `std::time::Instant` needs the real clock, and the core also runs with a simulated
/// one.
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

/// A point on the wall clock, since 1970. Only for times that are stored and read by another process.
///
/// The clocks of machines differ, and are sometimes set. A stored time therefore shows which of two events came first,
/// but never how long ago one was. For that, use [`Written`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

impl WallTime {
    /// The time this long after the beginning of 1970, in UTC.
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
/// There is one rule for stored times: a wait begins when this replica first sees the record, and the monotonic clock
/// measures it. The record was written before that, so no wait ends early with any clock of the writer or this replica.
/// A time of next year does not extend a wait. A new process sees the record again, and may wait once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    at: WallTime,
    seen: Moment,
}

impl Written {
    /// A stored time that was first seen at `seen`.
    pub const fn new(at: WallTime, seen: Moment) -> Self {
        Self { at, seen }
    }

    /// Updates the record with the time that is stored now. If it is the same, it keeps when it was first seen.
    #[must_use]
    pub fn now_says(self, at: WallTime, now: Moment) -> Self {
        if self.at == at { self } else { Self { at, seen: now } }
    }

    /// The stored time. Only for comparison with other stored times.
    pub const fn at(self) -> WallTime {
        self.at
    }

    /// When this replica first saw it.
    pub const fn seen(self) -> Moment {
        self.seen
    }

    /// When a wait of length `bound` that begins with this record is over.
    pub fn ends(self, bound: Duration) -> Moment {
        self.seen + bound
    }

    /// How long ago it was stored, at least.
    pub const fn ago(self, now: Moment) -> Duration {
        now.since(self.seen)
    }
}

/// How long registrations of one group wait for others, to send them in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// They wait until none was added for this long.
    pub idle: Duration,
    /// They wait at most this long.
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
