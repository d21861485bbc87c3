//! The only module that reads a clock.
//!
//! [`Moment`] is a reading of two clocks: the monotonic one for grace periods and backoff, the wall clock for the
//! timestamps in a status. Pure code takes a `Moment` as a parameter and never reads a clock.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use tokio::time::Instant;

/// One reading of the monotonic and the wall clock, taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The monotonic clock, for deadlines.
    pub instant: Instant,
    /// The wall clock, for statuses.
    pub wall: Timestamp,
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Self {
        Self { instant: Instant::now(), wall: Timestamp::now() }
    }

    /// The wall clock in the API's precision of whole seconds, so that a written value equals the one read back.
    pub fn timestamp(self) -> Time {
        Time(Timestamp::from_second(self.wall.as_second()).unwrap_or(self.wall))
    }

    /// The moment `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self { instant: self.instant + span, wall: self.wall.saturating_add(span).unwrap_or(self.wall) }
    }
}
