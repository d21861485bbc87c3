//! When the secret path of the webhooks is written into their configurations, followed by another one, and forgotten.
//!
//! The API server calls the webhooks by a path that nobody else knows. A change goes in one order, so that no call is
//! missed: the path is stored, every replica serves it, the configurations name it, and some time after that the path
//! before it is served no more. This decides about the next step; whether every replica serves a path is asked by whoever
//! takes the step [`Step::Write`].

use std::time::Duration;

use crate::model::webhook::StoredPath;

/// What the configurations name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// All of them the present path.
    Present,
    /// At least one of them another path, or none.
    Other,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing for now.
    Nothing,
    /// Write the present path into the configurations, if every replica serves it.
    Write,
    /// Store that the configurations name the present path.
    Confirm,
    /// Forget the path before.
    Forget,
    /// Store a new path; the present one becomes the one before.
    Replace,
}

/// The times that go with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// A path is followed by another one when two thirds of this are over.
    lifetime: i64,
}

impl Times {
    /// For paths that are followed by others when two thirds of this are over.
    pub fn new(lifetime: Duration) -> Self {
        Self { lifetime: i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX) }
    }

    /// For so many seconds the path before is served after the configurations have named the present one: API servers
    /// learn of it within moments, the rest is for one that was cut off. At most an hour.
    pub fn overlap(self) -> i64 {
        (self.lifetime / 6).min(3600)
    }

    /// After so many seconds every replica has read a new path, where they cannot be asked one by one. At most a minute.
    pub fn spread(self) -> i64 {
        (self.lifetime / 30).min(60)
    }
}

/// Decides. `certificate`: when the newest certificate was made that is kept beside the path, if there is one: a path is
/// changed together with it.
pub fn step(stored: StoredPath, named: Named, certificate: Option<i64>, times: Times, now: i64) -> Step {
    match named {
        Named::Other => Step::Write,
        Named::Present => {
            let Some(since) = stored.named_since else { return Step::Confirm };
            if stored.has_previous {
                let over = now.saturating_sub(since) >= times.overlap();
                return if over { Step::Forget } else { Step::Nothing };
            }
            let is_late = now.saturating_sub(stored.made) >= times.lifetime / 3 * 2;
            let is_older = certificate.is_some_and(|made| made > stored.made);
            if is_late || is_older { Step::Replace } else { Step::Nothing }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;
    const MADE: i64 = 1000 * DAY;

    fn times() -> Times {
        Times::new(Duration::from_secs(90 * 24 * 3600))
    }

    fn settled() -> StoredPath {
        StoredPath { made: MADE, named_since: Some(MADE + 5), has_previous: false }
    }

    fn at(stored: StoredPath, named: Named, now: i64) -> Step {
        step(stored, named, None, times(), now)
    }

    #[test]
    fn a_path_is_written_and_then_confirmed() {
        let fresh = StoredPath { named_since: None, ..settled() };
        assert_eq!(at(fresh, Named::Other, MADE), Step::Write);
        assert_eq!(at(fresh, Named::Present, MADE), Step::Confirm);
        assert_eq!(at(settled(), Named::Present, MADE + DAY), Step::Nothing);
        assert_eq!(
            at(settled(), Named::Other, MADE + DAY),
            Step::Write,
            "somebody has replaced the configurations"
        );
    }

    #[test]
    fn another_one_follows_after_two_thirds_of_the_lifetime_and_the_one_before_goes_an_hour_later() {
        assert_eq!(at(settled(), Named::Present, MADE + 60 * DAY - 1), Step::Nothing);
        assert_eq!(at(settled(), Named::Present, MADE + 60 * DAY), Step::Replace);
        let now = MADE + 60 * DAY;
        let replaced = StoredPath { made: now, named_since: None, has_previous: true };
        assert_eq!(at(replaced, Named::Other, now), Step::Write);
        assert_eq!(at(replaced, Named::Present, now + 7), Step::Confirm);
        let confirmed = StoredPath { named_since: Some(now + 7), ..replaced };
        assert_eq!(at(confirmed, Named::Present, now + 7 + 3599), Step::Nothing);
        assert_eq!(at(confirmed, Named::Present, now + 7 + 3600), Step::Forget);
    }

    #[test]
    fn a_path_is_changed_together_with_the_certificate() {
        let now = MADE + DAY;
        assert_eq!(step(settled(), Named::Present, Some(MADE), times(), now), Step::Nothing);
        assert_eq!(step(settled(), Named::Present, Some(MADE + 1), times(), now), Step::Replace);
        let busy = StoredPath { has_previous: true, named_since: Some(now), ..settled() };
        assert_eq!(
            step(busy, Named::Present, Some(MADE + 1), times(), now),
            Step::Nothing,
            "the last change has not ended"
        );
    }

    #[test]
    fn the_times_shrink_with_the_lifetime_and_never_exceed_what_is_promised() {
        let of = |seconds| {
            let times = Times::new(Duration::from_secs(seconds));
            [times.overlap(), times.spread()]
        };
        assert_eq!(of(12), [2, 0]);
        assert_eq!(of(90 * 24 * 3600), [3600, 60]);
        assert_eq!(of(u64::MAX), [3600, 60]);
    }

    #[test]
    fn odd_times_break_nothing() {
        let odd = StoredPath { made: i64::MAX, named_since: Some(i64::MIN), has_previous: true };
        for named in [Named::Present, Named::Other] {
            let _ = at(odd, named, i64::MIN);
            let _ = at(odd, named, i64::MAX);
        }
    }
}
