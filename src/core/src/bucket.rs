//! A token bucket, with time as a parameter.

use std::time::Duration;

use crate::time::Moment;

/// AWS limits ELBv2 calls per account and region with token buckets: one token a request, not a target.
/// Register and Deregister share 4/s with a burst of 20; Describe calls have 50/s with a burst of 200 (ELBv2
/// "API request throttling").
#[derive(Clone, Debug)]
pub struct Bucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    filled: Moment,
}

impl Bucket {
    /// A full bucket of `burst` tokens that gets `per_second` new ones a second.
    pub fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, tokens: burst, filled: Moment::START }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Moment) -> bool {
        self.fill(now);
        let taken = self.tokens >= 1.0;
        if taken {
            self.tokens -= 1.0;
        }
        taken
    }

    /// When the next token will be there; `now` if there is one already.
    pub fn next(&mut self, now: Moment) -> Moment {
        self.fill(now);
        if self.tokens >= 1.0 {
            return now;
        }
        // One microsecond more, so that rounding never wakes us just too early.
        let missing = (1.0 - self.tokens) / self.per_second;
        now + Duration::from_secs_f64(missing) + Duration::from_micros(1)
    }

    fn fill(&mut self, now: Moment) {
        let gained = now.since(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.filled = self.filled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    #[test]
    fn the_burst_is_there_at_once_and_the_rate_after_it() {
        let mut bucket = Bucket::new(4.0, 3.0);
        assert_eq!((0..5).filter(|_| bucket.take(at(0))).count(), 3);
        let next = bucket.next(at(0));
        assert!(next > at(249) && next < at(252), "{next:?}");
        assert!(!bucket.take(at(249)) && bucket.take(next));
    }

    #[test]
    fn a_long_rest_fills_no_more_than_the_burst() {
        let mut bucket = Bucket::new(4.0, 3.0);
        assert_eq!((0..9).filter(|_| bucket.take(at(3_600_000))).count(), 3);
    }

    #[test]
    fn a_clock_that_seems_to_step_back_gives_no_tokens() {
        let mut bucket = Bucket::new(4.0, 1.0);
        assert!(bucket.take(at(1000)) && !bucket.take(at(10)) && !bucket.take(at(1000)));
    }
}
