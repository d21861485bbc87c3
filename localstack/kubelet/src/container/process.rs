//! The process of one run of a container.
//!
//! The module manages the listeners of the declared ports, the order in which they close, and the reaction to SIGTERM.
//! A process reports once that it runs, and once that it has exited. Without a start delay, the process runs when its
//! ports are open. With a start delay, the process counts as running immediately. The process has exited when every
//! socket is closed. If a port cannot be opened, the process exits with code 1, as a real server does.

use crate::container::conduct::{Conduct, OnSigterm};
use crate::container::event::ContainerEvent;
use crate::container::server::{self, Identity, Signals};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The exit code of a process after SIGKILL: 128 + 9.
const KILLED: i32 = 137;

/// A running container.
#[derive(Debug)]
pub struct Process {
    terminate: CancellationToken,
    signals: Signals,
    exit: mpsc::Sender<i32>,
    hanging: Arc<watch::Sender<bool>>,
}

impl Process {
    /// Starts the process. `reports` gets [`ContainerEvent::Started`] once and [`ContainerEvent::Exited`] once.
    pub fn spawn(identity: Arc<Identity>, ports: Vec<u16>, reports: mpsc::Sender<ContainerEvent>) -> Self {
        let hanging = Arc::clone(&identity.hanging);
        let (terminate, signals) = (CancellationToken::new(), Signals::default());
        let (exit, exits) = mpsc::channel(1);
        let main = Main { identity, terminate: terminate.clone(), signals: signals.clone() };
        tokio::spawn(main.run(ports, exits, reports).in_current_span());
        Self { terminate, signals, exit, hanging }
    }

    /// Makes the process hang or continue. A hanging process accepts connections but answers nothing. A restarted
    /// process does not hang.
    pub fn hang(&self, hanging: bool) {
        self.hanging.send_replace(hanging);
    }

    /// Returns whether the process hangs.
    pub fn is_hanging(&self) -> bool {
        *self.hanging.borrow()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.terminate.cancel();
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        self.signals.kill.cancel();
    }

    /// Makes the process exit with this code. A second call before the exit has no effect.
    pub fn exit(&self, code: i32) {
        let _ = self.exit.try_send(code);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signals.kill.cancel();
    }
}

struct Main {
    identity: Arc<Identity>,
    terminate: CancellationToken,
    signals: Signals,
}

impl Main {
    async fn run(
        self,
        ports: Vec<u16>,
        mut exits: mpsc::Receiver<i32>,
        reports: mpsc::Sender<ContainerEvent>,
    ) {
        let conduct = self.identity.conduct;
        let tasks = TaskTracker::new();
        let slowly = !conduct.start_delay.is_zero();
        let opened = if slowly { Ok(()) } else { self.open(&ports, &tasks).await };
        if opened.is_ok() && reports.send(ContainerEvent::Started).await.is_err() {
            return end(&tasks, &self.signals).await;
        }
        let life = async {
            opened?;
            if slowly {
                tokio::select! {
                    () = tokio::time::sleep(conduct.start_delay) => self.open(&ports, &tasks).await?,
                    () = self.terminated() => {}
                }
            }
            self.drained(&tasks).await;
            Ok(i32::from(conduct.sigterm_exit_code))
        };
        let outcome: Result<i32, String> = tokio::select! {
            biased;
            () = self.signals.kill.cancelled() => Ok(KILLED),
            Some(code) = exits.recv() => Ok(code),
            code = at_its_end(conduct) => Ok(code),
            outcome = life => outcome,
        };
        end(&tasks, &self.signals).await;
        let (code, message) = outcome.map_or_else(|message| (1, Some(message)), |code| (code, None));
        let _ = reports.send(ContainerEvent::Exited { code, message }).await;
    }

    async fn open(&self, ports: &[u16], tasks: &TaskTracker) -> Result<(), String> {
        for port in ports {
            let address = SocketAddr::new(IpAddr::V4(self.identity.ip), *port);
            let listener =
                TcpListener::bind(address).await.map_err(|error| format!("listen tcp {address}: {error}"))?;
            let (identity, signals) = (Arc::clone(&self.identity), self.signals.clone());
            tasks.spawn(server::serve(listener, identity, signals, tasks.clone()));
        }
        Ok(())
    }

    /// Returns after a SIGTERM that the process does not ignore.
    async fn terminated(&self) {
        self.terminate.cancelled().await;
        if self.identity.conduct.on_sigterm == OnSigterm::Ignore {
            std::future::pending::<()>().await;
        }
    }

    /// Returns after the last answer that follows a SIGTERM.
    async fn drained(&self, tasks: &TaskTracker) {
        self.terminated().await;
        if let OnSigterm::Drain(length) = self.identity.conduct.on_sigterm {
            self.signals.drain.cancel();
            tokio::time::sleep(length).await;
        }
        self.signals.close.cancel();
        tasks.close();
        tasks.wait().await;
    }
}

/// Returns the exit code when the process exits on its own.
async fn at_its_end(conduct: Conduct) -> i32 {
    match conduct.ends {
        Some((after, code)) => {
            tokio::time::sleep(after).await;
            code
        }
        None => std::future::pending().await,
    }
}

/// Closes all open sockets, and waits until they are closed.
async fn end(tasks: &TaskTracker, signals: &Signals) {
    signals.kill.cancel();
    tasks.close();
    tasks.wait().await;
}

#[cfg(test)]
mod tests;
