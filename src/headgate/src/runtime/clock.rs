//! This module alone reads the monotonic clock and compares the wall clock with it.
//!
//! Every wait uses the monotonic clock. The wall clock only provides stored times, so a wrong or changing wall clock is
//! harmless. Headgate follows changes of the wall clock, and logs a step.

use std::time::{Duration, SystemTime};

use headgate_core::{Moment, WallTime};
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

    /// The time since `moment`.
    pub fn since(self, moment: Moment) -> Duration {
        self.now().since(moment)
    }
}

/// The wall clock of this machine, which may be wrong.
pub fn wall() -> WallTime {
    WallTime::since_1970(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Headgate does not correct a smaller deviation of the wall clock, because reading two clocks takes time.
const FOLLOWED: Duration = Duration::from_millis(500);
/// Headgate reports a further deviation of the two clocks if it is at least this large.
const SAID: Duration = Duration::from_secs(5);

/// How far and in which direction the wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The wall clock was set forwards.
    Forwards(Duration),
    /// The wall clock was set back.
    Back(Duration),
}

impl Step {
    fn between(before: WallTime, after: WallTime) -> Self {
        if after >= before { Self::Forwards(after.since(before)) } else { Self::Back(before.since(after)) }
    }

    const fn by(self) -> Duration {
        match self {
            Self::Forwards(by) | Self::Back(by) => by,
        }
    }
}

/// The known state of the wall clock: its value when the process started, and its value at the last report. The module
/// docs describe how Headgate uses the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Wall {
    followed: WallTime,
    said: WallTime,
}

/// A deviation of the wall clock from its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parted {
    /// The wall clock's present value.
    pub shows: WallTime,
    /// The step, if it is large enough for a report.
    pub step: Option<Step>,
}

impl Wall {
    /// A wall clock with the value `wall` at `now`.
    pub fn new(wall: WallTime, now: Moment) -> Self {
        let started = wall - now.elapsed();
        Self { followed: started, said: started }
    }

    /// The wall clock's value when the process started.
    pub const fn started(self) -> WallTime {
        self.followed
    }

    /// Compares the wall clock's value at `now` with the expected value.
    pub fn look(&mut self, wall: WallTime, now: Moment) -> Option<Parted> {
        let started = wall - now.elapsed();
        if Step::between(self.followed, started).by() < FOLLOWED {
            return None;
        }
        self.followed = started;
        let step = Some(Step::between(self.said, started)).filter(|step| step.by() >= SAID);
        if step.is_some() {
            self.said = started;
        }
        Some(Parted { shows: wall, step })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_is_set_is_followed_and_a_step_of_seconds_is_said_once() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let shows = |millis: u64| WallTime::since_1970(Duration::from_millis(1_800_000_000_000 + millis));
        let mut wall = Wall::new(shows(10_000), at(10));
        assert_eq!(wall.started(), shows(0));
        let parted = |millis, step| Some(Parted { shows: shows(millis), step });
        let (ahead, back) = (Step::Forwards(Duration::from_secs(7)), Step::Back(Duration::from_secs(3_000)));
        for (now, millis, expected) in [
            (20, 20_000, None),
            (20, 20_499, None),
            (20, 20_500, parted(20_500, None)),
            (30, 30_500, None),
            (40, 44_000, parted(44_000, None)),
            (50, 57_000, parted(57_000, Some(ahead))),
            (60, 67_000, None),
            (4_000, 1_007_000, parted(1_007_000, Some(back))),
            (4_010, 1_017_000, None),
        ] {
            assert_eq!(wall.look(shows(millis), at(now)), expected, "{millis} ms after {now} s");
        }
        assert_eq!(Wall::new(WallTime::default(), at(5)).started(), WallTime::default(), "1970 has begun");
    }
}
