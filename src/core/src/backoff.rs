//! Backoff with jitter and a maximum.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::model::Moment;

/// The backoff of one kind of call to one target group. Failures of one group never delay calls to other groups.
#[derive(Debug)]
pub struct Backoff {
    builder: ExponentialBuilder,
    steps: Option<ExponentialBackoff>,
    /// The number of failures since the last success.
    taken: usize,
    until: Moment,
}

/// The iterator of delays cannot be cloned. A clone of the backoff rebuilds the iterator from the same seed and skips
/// the delays that the original has used.
impl Clone for Backoff {
    fn clone(&self) -> Self {
        let mut steps = self.steps.as_ref().map(|_| self.builder.build());
        if let (Some(steps), Some(last)) = (&mut steps, self.taken.checked_sub(1)) {
            let _ = steps.nth(last);
        }
        Self { builder: self.builder, steps, taken: self.taken, until: self.until }
    }
}

impl Backoff {
    /// The delay is `first` after the first failure, doubles with each further failure, and is at most `cap`. Each
    /// delay gets random jitter of up to its own length, from `seed`.
    pub fn new(first: Duration, cap: Duration, seed: u64) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(first)
            .with_max_delay(cap)
            .with_factor(2.0)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed);
        Self { builder, steps: None, taken: 0, until: Moment::START }
    }

    /// Whether the current delay, if any, has passed.
    pub fn is_over(&self, now: Moment) -> bool {
        self.until <= now
    }

    /// The time at which the current delay ends.
    pub const fn until(&self) -> Moment {
        self.until
    }

    /// Records a failed call and starts the next delay.
    pub fn failed(&mut self, now: Moment) {
        let steps = self.steps.get_or_insert_with(|| self.builder.build());
        self.taken += 1;
        if let Some(wait) = steps.next() {
            self.until = now + wait;
        }
    }

    /// Records a successful call and resets the backoff: after the next failure, the delay is `first`.
    pub fn succeeded(&mut self) {
        (self.steps, self.taken) = (None, 0);
        self.until = Moment::START;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_with_jitter_of_at_most_their_own_length_and_start_anew_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2), 7);
        let mut wait = || {
            backoff.failed(Moment::START);
            backoff.until().elapsed().as_millis()
        };
        for floor in [100, 200, 400, 800, 1600, 2000, 2000] {
            let wait = wait();
            assert!((floor..=2 * floor).contains(&wait), "{wait} for {floor}");
        }
        backoff.succeeded();
        assert!(backoff.is_over(Moment::START));
        backoff.failed(Moment::START);
        assert!(backoff.until().elapsed() <= Duration::from_millis(200));
    }
    #[test]
    fn a_clone_goes_on_as_the_backoff_itself_does() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2), 7);
        for failures in 0..5 {
            let mut other = backoff.clone();
            assert_eq!(other.until(), backoff.until());
            other.failed(Moment::START);
            backoff.failed(Moment::START);
            assert_eq!(other.until(), backoff.until(), "after {failures} failures");
        }
    }
}
