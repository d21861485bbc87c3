//! The long-lived tasks. Each has a name, and none may end before the stop.
//!
//! If one ends early or panics, all are stopped, and [`Tasks::failed`] returns its name.

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
            // A separate task, so that a panic counts as an early end.
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

    /// Starts a task that ends on its own, such as one API call.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tracker.spawn(work)
    }

    /// Cancelled when all tasks must stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// The name of the task that ended early.
    pub fn failed(&self) -> Option<&'static str> {
        self.failed.get().copied()
    }

    /// Tells all tasks to stop and waits until they have stopped.
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
