//! A token bucket, with time as a parameter, that slows down when AWS says so and recovers slowly.

use std::time::Duration;

use crate::time::Moment;

/// A limit of AWS: one token a request, whatever it carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Tokens that come each second; above 0.
    pub per_second: f64,
    /// Tokens that are kept at most; at least 1.
    pub burst: f64,
}

/// Throttled again and again, the rate goes down to this share of the limit and no further.
const LEAST: f64 = 0.125;
/// One refusal lowers the rate at once; those that come within this time of it belong to it.
const ONE_REFUSAL: Duration = Duration::from_secs(1);
/// From the least share to the whole limit in about a minute.
const REGAINED_PER_SECOND: f64 = 1.0 / 60.0;
/// Sums of fractions of tokens are taken for whole when so little is missing.
const EPSILON: f64 = 1e-6;

/// A bucket of tokens.
///
/// AWS limits ELBv2 calls per account and region with token buckets (ELBv2 "API request throttling"). Other programs
/// of the account draw from the same ones, so what is left can only be learnt from being refused: then the rate is
/// halved, and grows back a little each second.
#[derive(Clone, Debug)]
pub struct Bucket {
    limit: Limit,
    share: f64,
    tokens: f64,
    filled: Moment,
    lowered: Option<Moment>,
    /// Since when the rate is below the limit.
    since: Option<Moment>,
}

impl Bucket {
    /// A full bucket.
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            share: 1.0,
            tokens: limit.burst.max(1.0),
            filled: Moment::START,
            lowered: None,
            since: None,
        }
    }

    /// How many tokens there are now.
    pub fn tokens(&mut self, now: Moment) -> f64 {
        self.fill(now);
        self.tokens + EPSILON
    }

    /// The most tokens that it holds at present.
    pub fn most(&self) -> f64 {
        (self.limit.burst * self.share).max(1.0)
    }

    /// How many tokens come each second at present.
    pub fn rate(&self) -> f64 {
        self.limit.per_second * self.share
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Moment) -> bool {
        self.take_above(0.0, now)
    }

    /// Takes a token, if there is one and at least `left` are left after it.
    pub fn take_above(&mut self, left: f64, now: Moment) -> bool {
        let taken = self.tokens(now) >= 1.0 + left;
        if taken {
            self.tokens -= 1.0;
        }
        taken
    }

    /// When there will be `count` tokens, or as many as it holds at most; `now` if there are already.
    pub fn when(&mut self, count: f64, now: Moment) -> Moment {
        let missing = count.min(self.most()) - self.tokens(now);
        if missing <= 0.0 {
            return now;
        }
        // One microsecond more, so that rounding never wakes us just too early.
        now + Duration::from_secs_f64(missing / self.rate()) + Duration::from_micros(1)
    }

    /// AWS has refused a call: its bucket is empty, whatever was thought of it.
    pub fn throttled(&mut self, now: Moment) {
        self.fill(now);
        self.tokens = self.tokens.min(0.0);
        self.since = self.since.or(Some(now));
        if self.lowered.is_none_or(|lowered| now.since(lowered) >= ONE_REFUSAL) {
            self.lowered = Some(now);
            self.share = (self.share / 2.0).max(LEAST);
        }
    }

    /// Since when the rate is below the limit, because AWS has refused calls.
    pub fn throttled_since(&mut self, now: Moment) -> Option<Moment> {
        self.fill(now);
        self.since
    }

    /// When the rate will be what the limit allows, if nothing more is refused; `None`: it is.
    pub fn regained(&self) -> Option<Moment> {
        let seconds = (1.0 - self.share).max(0.0) / REGAINED_PER_SECOND;
        self.since.map(|_| self.filled + Duration::from_secs_f64(seconds) + Duration::from_micros(1))
    }

    fn fill(&mut self, now: Moment) {
        let seconds = now.since(self.filled).as_secs_f64();
        // Counted at the rate of before: slightly too few is right while it grows.
        let gained = seconds * self.rate();
        if self.lowered.is_some() {
            self.share = (self.share + seconds * REGAINED_PER_SECOND).min(1.0);
        }
        if self.share >= 1.0 {
            self.since = None;
        }
        self.tokens = (self.tokens + gained).min(self.most());
        self.filled = self.filled.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    fn bucket(burst: f64) -> Bucket {
        Bucket::new(Limit { per_second: 4.0, burst })
    }

    #[test]
    fn while_it_is_throttled_it_holds_fewer_tokens_than_before() {
        let mut bucket = bucket(3.0);
        bucket.throttled(at(0));
        assert_eq!(
            (0..5).filter(|_| bucket.take(at(1_000))).count(),
            1,
            "half of three, and half of the rate"
        );
    }

    #[test]
    fn the_burst_is_there_at_once_and_the_rate_after_it() {
        let mut bucket = bucket(3.0);
        assert_eq!((0..5).filter(|_| bucket.take(at(0))).count(), 3);
        let next = bucket.when(1.0, at(0));
        assert!(next > at(249) && next < at(252), "{next:?}");
        assert!(!bucket.take(at(249)) && bucket.take(next));
    }

    #[test]
    fn a_long_rest_fills_no_more_than_the_burst() {
        let mut bucket = bucket(3.0);
        assert_eq!((0..9).filter(|_| bucket.take(at(3_600_000))).count(), 3);
        assert!(bucket.when(99.0, at(3_600_000)) <= at(3_600_751), "no one waits for more than it holds");
    }

    #[test]
    fn a_clock_that_seems_to_step_back_gives_no_tokens() {
        let mut bucket = bucket(1.0);
        assert!(bucket.take(at(1000)) && !bucket.take(at(10)) && !bucket.take(at(1000)));
    }

    #[test]
    fn some_may_be_left_for_others() {
        let mut bucket = bucket(3.0);
        assert_eq!((0..5).filter(|_| bucket.take_above(2.0, at(0))).count(), 1);
        assert_eq!((0..5).filter(|_| bucket.take(at(0))).count(), 2);
    }

    #[test]
    fn a_refusal_empties_it_and_halves_the_rate_once_for_all_calls_of_that_moment() {
        let mut bucket = bucket(20.0);
        for ms in [0, 10, 20] {
            bucket.throttled(at(ms));
        }
        assert!(!bucket.take(at(400)), "the next token comes at half the rate");
        assert!(bucket.take(at(540)));
        bucket.throttled(at(2000));
        assert!((bucket.rate() - 1.0).abs() < 0.1, "{}", bucket.rate());
    }

    #[test]
    fn the_rate_has_a_floor_and_grows_back_within_a_minute() {
        let mut bucket = bucket(20.0);
        for second in 0..20 {
            bucket.throttled(at(second * 1000));
        }
        assert!((0.5..0.6).contains(&bucket.rate()), "{}", bucket.rate());
        bucket.take(at(50_000));
        assert!(bucket.rate() < 4.0);
        bucket.take(at(80_000));
        assert!((bucket.rate() - 4.0).abs() < 1e-9 && (bucket.most() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn it_is_known_since_when_calls_are_refused_and_until_when_that_shows() {
        let mut bucket = bucket(20.0);
        assert_eq!((bucket.throttled_since(at(500)), bucket.regained()), (None, None));
        bucket.throttled(at(1000));
        bucket.throttled(at(3000));
        let regained = bucket.regained().unwrap();
        assert!(regained > at(30_000) && regained < at(63_000), "{regained:?}");
        assert_eq!(bucket.throttled_since(at(20_000)), Some(at(1000)));
        let regained = bucket.regained().unwrap();
        assert_eq!((bucket.throttled_since(regained), bucket.regained()), (None, None));
    }
}
