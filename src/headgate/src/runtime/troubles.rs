//! What prevents this replica from leading. Tasks that send calls and watches report it, and the task that holds the
//! Lease reads it.

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

/// See the module docs. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Troubles(Arc<Mutex<Ability>>);

impl Troubles {
    fn ability(&self) -> MutexGuard<'_, Ability> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure. `of` distinguishes failures with the same cause.
    pub fn failed(&self, cause: Cause, of: &str, now: Moment) {
        self.ability().failed(cause, of, now);
    }

    /// Records a success.
    pub fn worked(&self, cause: Cause, of: &str) {
        self.ability().worked(cause, of);
    }

    /// The failure that has lasted too long, if any.
    pub fn present(&self, now: Moment) -> Option<Trouble> {
        self.ability().trouble(now)
    }

    /// Whether the leader releases the Lease, if this many others are ready and not in backoff.
    pub fn step_down(&self, others: usize, now: Moment) -> Option<(Trouble, Duration)> {
        self.ability().steps_down(others, now)
    }
}
