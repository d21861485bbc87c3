//! A token bucket that receives the time as a parameter. The bucket never holds more tokens than AWS's bucket, and
//! slows down if other programs use tokens too.

use std::{collections::VecDeque, time::Duration};

use crate::model::{Moment, rates::Limit};

/// The minimum rate after repeated throttling, as a share of the limit.
const LEAST: f64 = 0.125;
/// The share of the limit that the rate regains per second. The recovery from the minimum takes about one minute.
const REGAINED_PER_SECOND: f64 = 1.0 / 60.0;
/// The bucket treats a fraction as a whole token if at most this much is missing.
const EPSILON: f64 = 1e-6;
/// A rejection with at most this many tokens left may have a harmless cause: this bucket and AWS's bucket differ
/// slightly.
const NEARLY_EMPTY: f64 = 4.0;
/// A second rejection within this time cannot result from a slight difference between the buckets.
const AGAIN: Duration = Duration::from_secs(10);
/// The time after which an unanswered call has arrived at AWS or was lost. AWS answers within 30 to 250 ms.
const ARRIVED: Duration = Duration::from_secs(1);

/// A bucket of tokens.
///
/// AWS limits ELBv2 calls per account and region with token buckets (ELBv2 "API request throttling"). AWS takes the
/// token of a call when the call arrives, at some time between its sending and its answer. AWS's bucket must never hold
/// fewer tokens than this bucket:
///
/// * This bucket takes a token when Headgate sends the call, because the call may arrive immediately.
/// * This bucket refills the token as if the call arrived only with its answer, because AWS's bucket may be full until
///   the call arrives. A full bucket gains no tokens. Apart from this rule, the count does not depend on when calls
///   arrive.
///
/// Other programs in the account use the same buckets, and only rejections show how many tokens remain. A rejection has
/// one of two causes:
///
/// * Few tokens were left when Headgate sent the call. Both buckets differ by less than a token, or another program
///   took a token. This bucket loses the token of the call, and nothing else changes.
/// * Many tokens were left when Headgate sent the call, or AWS rejected another call shortly before. Other programs use
///   AWS's bucket. Headgate then empties this bucket and halves the rate. The rate recovers gradually.
#[derive(Clone, Debug)]
pub struct Bucket {
    limit: Limit,
    share: f64,
    /// The remaining tokens, without the tokens of calls in flight.
    tokens: f64,
    /// The times at which the calls in flight were sent, in order.
    in_flight: VecDeque<Moment>,
    filled: Moment,
    /// The time of the last rejection that no earlier rejection explains.
    refused: Option<Moment>,
    lowered: Option<Moment>,
    /// The time at which the rate fell below the limit.
    since: Option<Moment>,
}

/// The token of a call in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token {
    sent: Moment,
    /// The number of tokens in the bucket before this token was taken.
    of: f64,
}

impl Token {
    /// Limits the recorded number of tokens to the number that the whole bucket held when `whole` was taken. The token
    /// belongs to a partial bucket.
    pub const fn of_no_more_than(self, whole: Self) -> Self {
        Self { of: self.of.min(whole.of), ..self }
    }
}

impl Bucket {
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            share: 1.0,
            tokens: limit.burst.max(1.0),
            in_flight: VecDeque::new(),
            filled: Moment::START,
            refused: None,
            lowered: None,
            since: None,
        }
    }

    /// The number of tokens that are available now.
    pub fn tokens(&mut self, now: Moment) -> f64 {
        self.fill(now);
        self.tokens + EPSILON
    }

    /// The current capacity of the bucket.
    pub fn most(&self) -> f64 {
        (self.limit.burst * self.share).max(1.0)
    }

    /// The current number of tokens that the bucket gains per second.
    pub fn rate(&self) -> f64 {
        self.limit.per_second * self.share
    }

    /// Takes a token for a call that is sent now, if a token is available. The caller must report the answer with
    /// [`Bucket::answered`] or [`Bucket::refused`].
    pub fn take(&mut self, now: Moment) -> Option<Token> {
        let of = self.tokens(now);
        if of < 1.0 {
            return None;
        }
        self.tokens -= 1.0;
        self.in_flight.push_back(now);
        Some(Token { sent: now, of })
    }

    /// The time at which `count` tokens are available. A `count` above the capacity means a full bucket. Returns `now`
    /// if the tokens are available. If a call in flight keeps the bucket below `count`, returns the time at which the
    /// call times out.
    pub fn when(&self, count: f64, now: Moment) -> Moment {
        let count = count.min(self.most());
        let gained = now.since(self.filled).as_secs_f64() * self.rate();
        let missing = count - ((self.tokens + gained).min(self.ceiling()) + EPSILON);
        if missing <= 0.0 {
            return now;
        }
        // Add one microsecond, so that a rounding error never causes a wake-up slightly too early.
        let refilled = now + Duration::from_secs_f64(missing / self.rate()) + Duration::from_micros(1);
        match self.in_flight.front() {
            Some(sent) if count > self.ceiling() => refilled.max(*sent + ARRIVED),
            _ => refilled,
        }
    }

    /// Records that the call of this token ended without throttling.
    pub fn answered(&mut self, token: Token, now: Moment) {
        self.fill(now);
        if let Ok(at) = self.in_flight.binary_search(&token.sent) {
            self.in_flight.remove(at);
        }
    }

    /// Records that AWS throttled the call of this token. Returns whether the bucket lowered its rate.
    pub fn refused(&mut self, token: Token, now: Moment) -> bool {
        self.answered(token, now);
        // Headgate sent the call before the answer of the earlier rejection arrived.
        if self.refused.is_some_and(|refused| token.sent < refused) {
            return false;
        }
        let again = self.refused.is_some_and(|refused| now.since(refused) < AGAIN);
        self.refused = Some(now);
        let others_draw = again || token.of > NEARLY_EMPTY;
        if others_draw {
            self.lower(now);
        }
        others_draw
    }

    /// Empties the bucket and lowers its rate, because other programs use AWS's bucket too.
    pub fn lower(&mut self, now: Moment) {
        self.fill(now);
        self.tokens = self.tokens.min(0.0);
        self.since = self.since.or(Some(now));
        self.lowered = Some(now);
        self.share = (self.share / 2.0).max(LEAST);
    }

    /// The time at which the rate fell below the limit because AWS throttled calls. `None`: the rate is at the limit.
    pub fn throttled_since(&mut self, now: Moment) -> Option<Moment> {
        self.fill(now);
        self.since
    }

    /// The time at which the rate reaches the limit if AWS throttles no further call. `None`: the rate is at the limit.
    pub fn regained(&self) -> Option<Moment> {
        let seconds = (1.0 - self.share).max(0.0) / REGAINED_PER_SECOND;
        self.since.map(|_| self.filled + Duration::from_secs_f64(seconds) + Duration::from_micros(1))
    }

    /// The maximum number of tokens while calls are in flight.
    fn ceiling(&self) -> f64 {
        let in_flight = u32::try_from(self.in_flight.len()).map_or(f64::MAX, f64::from);
        (self.most() - in_flight).max(0.0)
    }

    fn fill(&mut self, now: Moment) {
        while let Some(sent) = self.in_flight.front().copied()
            && now.since(sent) >= ARRIVED
        {
            self.fill_until((sent + ARRIVED).max(self.filled));
            self.in_flight.pop_front();
        }
        self.fill_until(now);
    }

    fn fill_until(&mut self, now: Moment) {
        let seconds = now.since(self.filled).as_secs_f64();
        // The calculation uses the previous rate. Slightly too few tokens are safe while the rate grows.
        let gained = seconds * self.rate();
        if self.lowered.is_some() {
            self.share = (self.share + seconds * REGAINED_PER_SECOND).min(1.0);
        }
        if self.share >= 1.0 {
            self.since = None;
        }
        self.tokens = (self.tokens + gained).min(self.ceiling());
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

    /// The number of these calls that can be sent if each call is answered immediately.
    fn sends(bucket: &mut Bucket, calls: usize, now: Moment) -> usize {
        (0..calls).filter_map(|_| bucket.take(now).map(|token| bucket.answered(token, now))).count()
    }

    /// Sends a call that AWS throttles immediately. Returns whether the bucket lowered its rate.
    fn is_lowered_by_a_refusal(bucket: &mut Bucket, now: Moment) -> bool {
        let token = bucket.take(now).unwrap();
        bucket.refused(token, now)
    }

    #[test]
    fn while_it_is_throttled_it_holds_fewer_tokens_than_before() {
        let mut bucket = bucket(3.0);
        bucket.lower(at(0));
        assert_eq!(sends(&mut bucket, 5, at(1_000)), 1, "half of three, and half of the rate");
    }

    #[test]
    fn the_burst_is_there_at_once_and_the_rate_after_it() {
        let mut bucket = bucket(3.0);
        assert_eq!(sends(&mut bucket, 5, at(0)), 3);
        let next = bucket.when(1.0, at(0));
        assert!(next > at(249) && next < at(252), "{next:?}");
        assert_eq!((sends(&mut bucket, 1, at(249)), sends(&mut bucket, 1, next)), (0, 1));
    }

    #[test]
    fn a_long_rest_fills_no_more_than_the_burst() {
        let mut bucket = bucket(3.0);
        assert_eq!(sends(&mut bucket, 9, at(3_600_000)), 3);
        assert!(bucket.when(99.0, at(3_600_000)) <= at(3_600_751), "no one waits for more than it holds");
    }

    #[test]
    fn a_clock_that_seems_to_step_back_gives_no_tokens() {
        let mut bucket = bucket(1.0);
        for (ms, calls) in [(1000, 1), (10, 0), (1000, 0)] {
            assert_eq!(sends(&mut bucket, 1, at(ms)), calls);
        }
    }

    #[test]
    fn what_calls_in_flight_have_spent_comes_back_from_their_answer_on() {
        let mut bucket = bucket(3.0);
        let sent: Vec<Token> = (0..5).filter_map(|_| bucket.take(at(0))).collect();
        assert_eq!(sent.len(), 3);
        assert!(bucket.take(at(600)).is_none(), "they may arrive only now");
        assert!(bucket.when(1.0, at(600)) >= at(1_000));
        for token in sent {
            bucket.answered(token, at(600));
        }
        let next = bucket.when(1.0, at(600));
        assert!(next > at(849) && next < at(852), "{next:?}");
        assert!(bucket.take(next).is_some());
    }

    #[test]
    fn tokens_that_were_there_before_come_back_while_calls_are_in_flight() {
        let mut bucket = bucket(3.0);
        assert_eq!(sends(&mut bucket, 2, at(0)), 2);
        let _in_flight = bucket.take(at(0)).unwrap();
        assert!(bucket.take(at(249)).is_none() && bucket.take(at(251)).is_some(), "whenever it arrives");
    }

    #[test]
    fn a_call_without_an_answer_has_arrived_after_a_while() {
        let mut bucket = bucket(1.0);
        let lost = bucket.take(at(0)).unwrap();
        let waits = bucket.when(1.0, at(10));
        assert!(waits >= at(1_000) && bucket.take(at(900)).is_none());
        assert!(
            bucket.take(at(1_249)).is_none() && bucket.take(at(1_252)).is_some(),
            "whenever it is looked at"
        );
        bucket.answered(lost, at(1_300));
        assert!(bucket.take(at(1_400)).is_none());
    }

    #[test]
    fn a_refusal_near_an_empty_bucket_costs_no_more_than_its_own_token() {
        let mut bucket = bucket(20.0);
        assert_eq!(sends(&mut bucket, 19, at(0)), 19);
        assert!(!is_lowered_by_a_refusal(&mut bucket, at(0)));
        assert_eq!((bucket.throttled_since(at(0)), bucket.rate()), (None, 4.0));
        assert_eq!((sends(&mut bucket, 1, at(249)), sends(&mut bucket, 1, at(251))), (0, 1));
    }

    #[test]
    fn calls_that_were_sent_before_a_refusal_was_known_belong_to_it() {
        let mut bucket = bucket(20.0);
        assert_eq!(sends(&mut bucket, 17, at(0)), 17);
        let sent: Vec<Token> = (0..3).filter_map(|_| bucket.take(at(0))).collect();
        for token in sent {
            assert!(!bucket.refused(token, at(100)));
        }
        assert!((bucket.rate() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn refused_again_soon_near_an_empty_bucket_others_draw_from_it() {
        for (again, is_lowered) in [(9_000, true), (60_000, false)] {
            let mut bucket = bucket(1.0);
            assert!(!is_lowered_by_a_refusal(&mut bucket, at(0)));
            assert_eq!(is_lowered_by_a_refusal(&mut bucket, at(again)), is_lowered, "{again}");
        }
    }

    #[test]
    fn a_refusal_of_a_well_filled_bucket_empties_it_and_halves_the_rate_once_for_all_calls_of_that_moment() {
        let mut bucket = bucket(20.0);
        let sent: Vec<Token> = (0..3).filter_map(|_| bucket.take(at(0))).collect();
        let lowered: Vec<bool> = sent.into_iter().map(|token| bucket.refused(token, at(20))).collect();
        assert_eq!(lowered, [true, false, false]);
        assert_eq!(sends(&mut bucket, 1, at(400)), 0, "the next token comes at half the rate");
        assert_eq!(sends(&mut bucket, 1, at(540)), 1);
        assert!(is_lowered_by_a_refusal(&mut bucket, at(2000)));
        assert!((bucket.rate() - 1.0).abs() < 0.1, "{}", bucket.rate());
    }

    #[test]
    fn the_rate_has_a_floor_and_grows_back_within_a_minute() {
        let mut bucket = bucket(20.0);
        for second in 0..20 {
            bucket.lower(at(second * 1000));
        }
        assert!((0.5..0.6).contains(&bucket.rate()), "{}", bucket.rate());
        bucket.tokens(at(50_000));
        assert!(bucket.rate() < 4.0);
        bucket.tokens(at(80_000));
        assert!((bucket.rate() - 4.0).abs() < 1e-9 && (bucket.most() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn it_is_known_since_when_calls_are_refused_and_until_when_that_shows() {
        let mut bucket = bucket(20.0);
        assert_eq!((bucket.throttled_since(at(500)), bucket.regained()), (None, None));
        bucket.lower(at(1000));
        bucket.lower(at(3000));
        let regained = bucket.regained().unwrap();
        assert!(regained > at(30_000) && regained < at(63_000), "{regained:?}");
        assert_eq!(bucket.throttled_since(at(20_000)), Some(at(1000)));
        let regained = bucket.regained().unwrap();
        assert_eq!((bucket.throttled_since(regained), bucket.regained()), (None, None));
    }
}
