//! The pull of a pod's images, between the sandbox and the first container.
//!
//! Owns how long it takes and whether it fails. Of a failure, what a kubelet of v1.36.3 shows was measured: the
//! address appears with `ErrImagePull`, the phase stays `Pending`, and 12 s later the container waits in
//! `ImagePullBackOff`. Further tries are not played. Pure.

use crate::pod::behaviour::Behaviour;
use std::time::Duration;
use tokio::time::Instant;

/// From the first failure to the status that shows the back-off.
const SHOWS_BACK_OFF_AFTER: Duration = Duration::from_secs(12);

/// What a container waits for whose image cannot be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The first try has failed.
    Error,
    /// It is to be tried again some time.
    BackOff,
}

/// How far it is.
#[derive(Debug)]
pub(super) struct Pull {
    takes: Duration,
    fails: bool,
    /// Something changes then.
    due: Option<Instant>,
    failure: Option<Failure>,
}

impl Pull {
    pub(super) fn new(behaviour: &Behaviour) -> Self {
        Self { takes: behaviour.pull_delay, fails: behaviour.pull_fails, due: None, failure: None }
    }

    /// A sandbox is there in which no container has run.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.fails || !self.takes.is_zero() {
            self.due = Some(now + self.takes);
        }
    }

    /// The pod ends, or its sandbox is lost.
    pub(super) fn end(&mut self) {
        (self.due, self.failure) = (None, None);
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.due
    }

    /// The time of [`Pull::wake`] has come.
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

    /// Whether no container may start yet, or ever.
    pub(super) fn holds_back(&self) -> bool {
        self.due.is_some() || self.failure.is_some()
    }
}
