//! The only place that reads the monotonic clock.

use std::time::Duration;

use headgate_core::Moment;
use tokio::time::Instant;

/// The clock of the process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// The time.
    pub fn now(self) -> Moment {
        Moment::after_start(self.start.elapsed())
    }

    /// Waits until `moment`.
    pub async fn sleep_until(self, moment: Moment) {
        tokio::time::sleep_until(self.start + moment.elapsed()).await;
    }

    /// How long `moment` lies back.
    pub fn since(self, moment: Moment) -> Duration {
        self.now().since(moment)
    }
}
