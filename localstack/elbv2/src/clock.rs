//! The only module that reads a clock. All other modules use a [`Duration`] since the start. Outputs use timestamps.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// Monotonic time since the start, with the wall time of that start.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_at: Timestamp,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), started_at: Timestamp::now() }
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The wall time of a moment.
    pub fn at(&self, moment: Duration) -> Timestamp {
        self.started_at.checked_add(moment).unwrap_or(Timestamp::MAX)
    }

    /// The instant of a moment, for timers.
    pub fn instant(&self, moment: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + moment)
    }
}
