//! Supervises the long-running tasks. Each task has a name, and must run until the stop.
//!
//! If a task stops early or panics, all tasks are stopped, and [`Tasks::failed`] returns the name of the task.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of supervised tasks.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    failed: Arc<OnceLock<&'static str>>,
}

impl Tasks {
    /// Starts a task that must run until the stop.
    pub fn supervise(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let (stop, failed) = (self.stop.clone(), Arc::clone(&self.failed));
        self.tracker.spawn(async move {
            // The separate task makes a panic count as an early stop.
            let mut inner = tokio::spawn(work);
            tokio::select! {
                () = stop.cancelled() => inner.abort(),
                ended = &mut inner => {
                    tracing::error!(task = name, panicked = ended.is_err(), "task ended early, stopping");
                    let _ = failed.set(name);
                    stop.cancel();
                }
            }
        });
    }

    /// Starts a task that completes on its own, such as one API call.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tracker.spawn(work)
    }

    /// Returns a token that is cancelled when all tasks must stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the name of the task that stopped early.
    pub fn failed(&self) -> Option<&'static str> {
        self.failed.get().copied()
    }

    /// Signals all tasks to stop, and waits until all tasks have stopped.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_stops_the_others_and_is_named() {
        let tasks = Tasks::default();
        tasks.supervise("patient", std::future::pending());
        tasks.supervise("hasty", async {});
        tasks.stop().cancelled().await;
        tasks.shut_down().await;
        assert_eq!(tasks.failed(), Some("hasty"));
    }

    #[tokio::test]
    async fn a_stop_from_outside_names_nobody() {
        let tasks = Tasks::default();
        tasks.supervise("patient", std::future::pending());
        tasks.shut_down().await;
        assert_eq!(tasks.failed(), None);
    }
}
