//! The failures that prevent this replica from leading. Tasks and watches report failures, and the task that holds the
//! Lease reads them.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use headgate_core::{
    Cause, Moment, Reason,
    leadership::ability::{Ability, Trouble},
};

/// The cause as text.
pub const fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::RemovalsFail => "AWS accepts no deregistration",
        Reason::WatchesFail => "a watch of the Kubernetes API fails repeatedly",
        Reason::AwsUnreachable => "AWS is unreachable",
        _ => "it has no valid AWS credentials",
    }
}

/// The failures that tasks and watches reported. Clones share the failures.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<Ability>>);

impl Troubles {
    fn ability(&self) -> MutexGuard<'_, Ability> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure. `of` distinguishes operations that fail with the same cause.
    pub fn failed(&self, cause: Cause, of: &str, now: Moment) {
        self.ability().failed(cause, of, now);
    }

    /// Records that an operation succeeded.
    pub fn worked(&self, cause: Cause, of: &str) {
        self.ability().worked(cause, of);
    }

    /// The failure that has lasted too long, if there is one.
    pub fn present(&self, now: Moment) -> Option<Trouble> {
        self.ability().trouble(now)
    }

    /// Returns the failure for which the leader should release the Lease, if `others` replicas are ready and not in
    /// backoff.
    pub fn step_down(&self, others: usize, now: Moment) -> Option<(Trouble, Duration)> {
        self.ability().steps_down(others, now)
    }
}
