//! Converts moments of the process to times of day, for people and programs.

use std::time::SystemTime;

use headgate_core::{Moment, WallTime};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::{SignedDuration, Timestamp},
};

/// Converts moments of the process to times.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The present moment on the clock of the process.
    pub now: Moment,
    /// The present time on the wall clock.
    pub time: Timestamp,
}

impl Times {
    /// Creates a conversion at the moment `now`.
    pub fn at(now: Moment) -> Self {
        Self { now, time: Timestamp::try_from(SystemTime::now()).unwrap_or_default() }
    }

    /// The time of a moment.
    pub fn time(self, moment: Moment) -> MicroTime {
        let signed = |duration| SignedDuration::try_from(duration).unwrap_or_default();
        let ahead = signed(moment.since(self.now)) - signed(self.now.since(moment));
        MicroTime(self.time.checked_add(ahead).unwrap_or(self.time))
    }
}

/// The time of a wall clock value of the engine.
pub fn of_wall(wall: WallTime) -> MicroTime {
    let since = SignedDuration::try_from(wall.since(WallTime::default())).unwrap_or_default();
    MicroTime(Timestamp::UNIX_EPOCH.checked_add(since).unwrap_or(Timestamp::UNIX_EPOCH))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_before_and_after_now_are_as_far_away_in_time() {
        let moment = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let times = Times { now: moment(100), time: "2026-03-04T05:06:07Z".parse().unwrap() };
        assert_eq!(times.time(moment(97)).0.to_string(), "2026-03-04T05:06:04Z");
        assert_eq!(times.time(moment(103)).0.to_string(), "2026-03-04T05:06:10Z");
        let wall = WallTime::since_1970(Duration::from_secs(1_700_000_000));
        assert_eq!(of_wall(wall).0.to_string(), "2023-11-14T22:13:20Z");
    }
}
