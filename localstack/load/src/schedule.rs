//! The schedule of requests. Requests start at absolute offsets from the start of the run, so that delays do not add
//! up.

use std::time::Duration;

/// A schedule with a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    rate: f64,
}

impl Schedule {
    /// Creates a schedule with `rate` requests per second. `None`: the rate is not greater than 0, or is too small.
    pub fn new(rate: f64) -> Option<Self> {
        let usable = rate.is_finite() && rate > 0.0 && Duration::try_from_secs_f64(1.0 / rate).is_ok();
        usable.then_some(Self { rate })
    }

    /// Returns the start of request `index`, relative to the start of the run. After an overflow, the request never
    /// starts.
    pub fn offset(self, index: u32) -> Duration {
        Duration::try_from_secs_f64(f64::from(index) / self.rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_at_any_whole_rate_holds_that_many_requests() {
        for rate in 1_u32..=2_000 {
            let schedule = Schedule::new(f64::from(rate)).unwrap();
            assert!(schedule.offset(rate - 1) < Duration::from_secs(1), "{rate}");
            assert_eq!(schedule.offset(rate), Duration::from_secs(1), "{rate}");
        }
    }

    #[test]
    fn a_late_request_is_as_exact_as_an_early_one() {
        let schedule = Schedule::new(3.0).unwrap();
        assert_eq!(schedule.offset(1), Duration::from_nanos(333_333_333));
        assert_eq!(schedule.offset(1_999_998), Duration::from_secs(666_666));
    }

    #[test]
    fn a_rate_without_a_period_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            assert_eq!(Schedule::new(rate), None, "{rate}");
        }
    }
}
