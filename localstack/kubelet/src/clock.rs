//! The one place that reads a clock.
//!
//! Owns [`Moment`], a reading of both clocks a kubelet needs: the monotonic one for grace periods and
//! back-off, the wall clock for the timestamps in a status. Pure code takes a `Moment` as a parameter and
//! never reads a clock itself; nothing here can fail.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;
use tokio::time::Instant;

/// One reading of the monotonic and the wall clock, taken together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The monotonic reading: what deadlines are counted with.
    pub instant: Instant,
    /// The wall clock: what statuses show.
    pub wall: Timestamp,
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Self {
        Self { instant: Instant::now(), wall: Timestamp::now() }
    }

    /// The wall clock as the API stores it: whole seconds, so that a value written and read back is equal.
    pub fn timestamp(self) -> Time {
        Time(Timestamp::from_second(self.wall.as_second()).unwrap_or(self.wall))
    }

    /// The moment `span` later.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self { instant: self.instant + span, wall: self.wall.saturating_add(span).unwrap_or(self.wall) }
    }
}
