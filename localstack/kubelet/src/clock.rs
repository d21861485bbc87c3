//! The only module that reads a clock.
//!
//! [`Moment`] is a reading of two clocks: the monotonic clock for grace periods and backoff, and the wall clock for
//! timestamps in a status. Pure code takes a `Moment` as a parameter and never reads a clock.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use tokio::time::Instant;

/// A simultaneous reading of the monotonic clock and the wall clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The reading of the monotonic clock, for deadlines.
    pub instant: Instant,
    /// The reading of the wall clock, for statuses.
    pub wall: Timestamp,
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Self {
        Self { instant: Instant::now(), wall: Timestamp::now() }
    }

    /// Returns the wall clock in whole seconds, which is the precision of the API. A written value therefore equals the
    /// value that is read back.
    pub fn timestamp(self) -> Time {
        Time(Timestamp::from_second(self.wall.as_second()).unwrap_or(self.wall))
    }

    /// Returns the moment `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self { instant: self.instant + span, wall: self.wall.saturating_add(span).unwrap_or(self.wall) }
    }
}
