//! The pause before a failed watch is retried.
//!
//! The pause grows up to some seconds. kube's own wrapper resets its pause after every item that is not an error. A
//! watcher emits an item before each list, even if the list fails, so kube's pause would never grow. Headgate's pause
//! is only reset after some time without failures.

use std::time::Duration;

use futures::{Stream, TryStream};
use kube::runtime::{
    utils::{Backoff, ResetTimerBackoff, StreamBackoff},
    watcher::ExponentialBackoff,
};

/// The pause after the first failure.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause. A random time of up to the same length is added.
const LONGEST: Duration = Duration::from_secs(5);
/// The pause is reset after this time without a failure.
const SETTLED: Duration = Duration::from_secs(60);

/// The sequence of pauses.
pub struct Patience(ResetTimerBackoff<ExponentialBackoff>);

impl Default for Patience {
    fn default() -> Self {
        let growing = backon::ExponentialBuilder::default()
            .with_min_delay(FIRST)
            .with_max_delay(LONGEST)
            .with_factor(2.0)
            .without_max_times()
            .with_jitter();
        Self(ResetTimerBackoff::new(growing.into(), SETTLED))
    }
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next()
    }
}

impl Backoff for Patience {
    /// Only time without failures resets the pause.
    fn reset(&mut self) {}
}

/// A stream that pauses after each error.
pub trait Patient: Sized {
    /// Wraps the stream so that it pauses after each error.
    fn patient(self) -> StreamBackoff<Self, Patience>;
}

impl<S: Stream + TryStream> Patient for S {
    fn patient(self) -> StreamBackoff<Self, Patience> {
        StreamBackoff::new(self, Patience::default())
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_again_and_again_is_tried_every_few_seconds() {
        // Like a watcher, the stream emits a start item and then an error.
        let failing = futures::stream::iter([Ok(()), Err(())].into_iter().cycle());
        let begun = Instant::now();
        let mut failures = 0;
        let mut events = std::pin::pin!(failing.patient());
        while begun.elapsed() < Duration::from_secs(60) {
            failures += usize::from(events.next().await == Some(Err(())));
        }
        assert!((8..=20).contains(&failures), "{failures} in a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_minute_without_a_failure_the_first_pause_is_short_again() {
        let mut patience = Patience::default();
        for _ in 0..10 {
            patience.next();
        }
        assert!(patience.next().unwrap() >= LONGEST);
        patience.reset();
        assert!(patience.next().unwrap() >= LONGEST, "an event in between changes nothing");
        advance(SETTLED + Duration::from_secs(1)).await;
        assert!(patience.next().unwrap() <= 2 * FIRST);
    }
}
