//! The only module that reads a clock. All other modules use a [`Duration`] since the start. Outputs contain
//! timestamps.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A monotonic clock that starts with the stand-in, and the wall time of the start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_at: Timestamp,
}

impl Clock {
    /// Creates a clock that starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), started_at: Timestamp::now() }
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns the wall time of a moment.
    pub fn at(&self, moment: Duration) -> Timestamp {
        self.started_at.checked_add(moment).unwrap_or(Timestamp::MAX)
    }

    /// Returns the instant of a moment, for timers.
    pub fn instant(&self, moment: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + moment)
    }
}
