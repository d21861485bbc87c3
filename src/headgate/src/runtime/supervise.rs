//! Supervises named tasks: if one task ends unexpectedly, the others stop and the program fails.

use std::{future::Future, time::Duration};

use thiserror::Error;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// The supervisor abandons tasks that have not ended this long after the signal to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// A task ended before the signal to stop.
#[derive(Debug, Error)]
#[error(
    "the task \"{name}\" ended unexpectedly: {why}; this is a bug or a lost connection, see the earlier log \
     lines"
)]
pub struct TaskEnded {
    name: String,
    why: String,
}

/// The tasks of the program.
#[derive(Debug)]
pub struct Supervisor {
    tasks: JoinSet<(String, Result<(), String>)>,
    stop: CancellationToken,
}

impl Supervisor {
    /// Creates a supervisor without tasks. Cancelling `stop` ends the program.
    pub fn new(stop: CancellationToken) -> Self {
        Self { tasks: JoinSet::new(), stop }
    }

    /// Starts a task. The supervisor drops the task when `stop` is cancelled.
    pub fn spawn(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let name = name.into();
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => Ok(()),
                // A dependency may have stopped before the task noticed.
                ended = task => if stop.is_cancelled() { Ok(()) } else { ended },
            };
            (name, ended)
        });
    }

    /// Starts a task that may continue for some time after `stop`.
    pub fn spawn_draining(
        &mut self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        let name = name.into();
        self.tasks.spawn(async move { (name, task.await) });
    }

    /// Waits until all tasks have ended.
    ///
    /// # Errors
    /// A task ended before the signal to stop.
    pub async fn run(mut self) -> Result<(), TaskEnded> {
        let mut failed = None;
        while let Some(ended) = self.tasks.join_next().await {
            let (name, why) = match ended {
                Ok((name, Ok(()))) if self.stop.is_cancelled() => {
                    info!(task = name, "stopped");
                    continue;
                }
                Ok((name, Ok(()))) => (name, "it had nothing left to do".to_owned()),
                Ok((name, Err(why))) => (name, why),
                Err(error) => ("unknown".to_owned(), error.to_string()),
            };
            error!(task = name, why, "a task has ended, stopping");
            failed = failed.or(Some(TaskEnded { name, why }));
            self.stop.cancel();
            break;
        }
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(PATIENCE, rest).await.is_err() {
            warn!("some tasks did not stop within {PATIENCE:?}");
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Makes SIGTERM and SIGINT stop the program.
///
/// # Errors
/// The process cannot catch the signals.
pub fn stop_on_signals(stop: &CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: stopping"),
            _ = interrupt.recv() => info!("SIGINT: stopping"),
        }
        stop.cancel();
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_lacks_something_once_all_is_to_stop_has_not_ended_by_itself() {
        let stop = CancellationToken::new();
        let mut supervisor = Supervisor::new(stop.clone());
        supervisor.spawn("watch", async move {
            stop.cancel();
            Err("the engine is gone".to_owned())
        });
        assert!(supervisor.run().await.is_ok());
    }

    #[tokio::test]
    async fn a_task_that_ends_by_itself_stops_the_others_and_is_named() {
        let stop = CancellationToken::new();
        let mut supervisor = Supervisor::new(stop.clone());
        supervisor.spawn("watch", std::future::pending());
        supervisor.spawn("admin", async { Err("the port is gone".to_owned()) });
        let error = supervisor.run().await.unwrap_err().to_string();
        assert!(error.contains("\"admin\" ended unexpectedly: the port is gone"), "{error}");
        assert!(stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_panic_stops_the_others_too() {
        let mut supervisor = Supervisor::new(CancellationToken::new());
        supervisor.spawn("watch", std::future::pending());
        supervisor.spawn("bug", async { panic!("a bug") });
        assert!(supervisor.run().await.is_err());
    }

    #[tokio::test]
    async fn stopping_ends_all_tasks_in_good_order() {
        let stop = CancellationToken::new();
        let mut supervisor = Supervisor::new(stop.clone());
        supervisor.spawn("watch", std::future::pending());
        let draining = stop.clone();
        supervisor.spawn_draining("owner", async move {
            draining.cancelled().await;
            Ok(())
        });
        stop.cancel();
        supervisor.run().await.unwrap();
    }
}
