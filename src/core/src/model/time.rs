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

/// A point on the wall clock, since 1970: only for what is written down and read by another process.
///
/// Clocks of machines differ, and are set now and then. A stored time shows which of two things came first, and never
/// how long ago one was: for that there is [`Written`].
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

/// A time that somebody wrote down, and when this replica saw it written for the first time.
///
/// The one rule about such times: the monotonic clock measures a wait here, from the moment when its time was seen.
/// The record was written by then, so no wait ends early, with any clock of the writer or this replica. A time of
/// next year delays nothing for longer than the wait. A new process sees the time again, and may wait once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    at: WallTime,
    seen: Moment,
}

impl Written {
    /// This is written, and was seen then.
    pub const fn new(at: WallTime, seen: Moment) -> Self {
        Self { at, seen }
    }

    /// What is written now: if it is still the same, it was seen before.
    #[must_use]
    pub fn now_says(self, at: WallTime, now: Moment) -> Self {
        if self.at == at { self } else { Self { at, seen: now } }
    }

    /// In its written form. Only for comparison with other written times.
    pub const fn at(self) -> WallTime {
        self.at
    }

    /// When this replica saw it.
    pub const fn seen(self) -> Moment {
        self.seen
    }

    /// When a wait that begins with it is over.
    pub fn ends(self, bound: Duration) -> Moment {
        self.seen + bound
    }

    /// How long ago it was, at least.
    pub const fn ago(self, now: Moment) -> Duration {
        now.since(self.seen)
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
