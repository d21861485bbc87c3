//! The image pull of a pod, between the sandbox and the first container.
//!
//! The module determines the duration and the result of the pull. The status after a failure was measured with a
//! kubelet of v1.36.3. The address appears with `ErrImagePull`, and the phase remains `Pending`. After 12 s, the
//! container waits in `ImagePullBackOff`. Further attempts are not simulated. The module is pure.

use crate::pod::behaviour::Behaviour;
use std::time::Duration;
use tokio::time::Instant;

/// The time between the first failure and the status that shows the backoff.
const SHOWS_BACK_OFF_AFTER: Duration = Duration::from_secs(12);

/// The reason why a container with a failed image pull waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The first attempt has failed.
    Error,
    /// Another attempt will follow.
    BackOff,
}

/// The progress of the image pull.
#[derive(Debug)]
pub(super) struct Pull {
    takes: Duration,
    fails: bool,
    /// The time of the next change.
    due: Option<Instant>,
    failure: Option<Failure>,
}

impl Pull {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        Self { takes: behaviour.pull_delay, fails: behaviour.pull_fails, due: None, failure: None }
    }

    /// Starts the pull for a new sandbox without containers.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.fails || !self.takes.is_zero() {
            self.due = Some(now + self.takes);
        }
    }

    /// Stops the pull, because the pod terminates or the sandbox is lost.
    pub(super) fn end(&mut self) {
        (self.due, self.failure) = (None, None);
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.due
    }

    /// Handles a timer of [`Pull::wake`].
    pub(super) fn elapsed(&mut self, now: Instant) {
        (self.due, self.failure) = match (self.fails, self.failure) {
            (false, _) => (None, None),
            (true, None) => (Some(now + SHOWS_BACK_OFF_AFTER), Some(Failure::Error)),
            (true, Some(_)) => (None, Some(Failure::BackOff)),
        };
    }

    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Returns whether no container may start, now or later.
    pub(super) fn holds_back(&self) -> bool {
        self.due.is_some() || self.failure.is_some()
    }
}
