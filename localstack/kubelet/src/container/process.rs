//! The process of one run of a container.
//!
//! Owns the listeners of a container's declared ports and the order in which they end. It reports when its
//! ports are open and when it has ended, each once; by then every socket is closed. A port that cannot be
//! opened ends it with exit code 1, as it would end a real server.

use crate::container::server::{self, Identity, Signals};
use crate::pod::lifecycle::ContainerEvent;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The exit code of a process that SIGKILL ended: 128 + 9.
const KILLED: i32 = 137;

/// A running container.
#[derive(Debug)]
pub struct Process {
    signals: Signals,
    exit: mpsc::Sender<i32>,
}

impl Process {
    /// Starts it. `reports` gets [`ContainerEvent::Started`] once and [`ContainerEvent::Exited`] once.
    pub fn spawn(identity: Arc<Identity>, ports: Vec<u16>, reports: mpsc::Sender<ContainerEvent>) -> Self {
        let signals = Signals::default();
        let (exit, exits) = mpsc::channel(1);
        tokio::spawn(run(identity, ports, signals.clone(), exits, reports).in_current_span());
        Self { signals, exit }
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signals.terminate.cancel();
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.signals.kill.cancel();
    }

    /// Makes it exit by itself with this code. A second wish before the first is carried out is dropped.
    pub fn exit(&self, code: i32) {
        let _ = self.exit.try_send(code);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signals.kill.cancel();
    }
}

async fn run(
    identity: Arc<Identity>,
    ports: Vec<u16>,
    signals: Signals,
    mut exits: mpsc::Receiver<i32>,
    reports: mpsc::Sender<ContainerEvent>,
) {
    let tasks = TaskTracker::new();
    for port in ports {
        let address = SocketAddr::new(IpAddr::V4(identity.ip), port);
        match TcpListener::bind(address).await {
            Ok(listener) => {
                tasks.spawn(server::serve(listener, Arc::clone(&identity), signals.clone(), tasks.clone()));
            }
            Err(error) => {
                let message = format!("listen tcp {address}: {error}");
                end(&tasks, &signals).await;
                let _ = reports.send(ContainerEvent::Exited { code: 1, message: Some(message) }).await;
                return;
            }
        }
    }
    if reports.send(ContainerEvent::Started).await.is_err() {
        return end(&tasks, &signals).await;
    }
    let code = tokio::select! {
        biased;
        () = signals.kill.cancelled() => KILLED,
        Some(code) = exits.recv() => code,
        () = drained(&tasks, &signals) => 0,
    };
    end(&tasks, &signals).await;
    let _ = reports.send(ContainerEvent::Exited { code, message: None }).await;
}

/// Ends when SIGTERM has come and the last answer is out.
async fn drained(tasks: &TaskTracker, signals: &Signals) {
    signals.terminate.cancelled().await;
    tasks.close();
    tasks.wait().await;
}

/// Closes what is still open, and waits until it is.
async fn end(tasks: &TaskTracker, signals: &Signals) {
    signals.kill.cancel();
    tasks.close();
    tasks.wait().await;
}

#[cfg(test)]
mod tests;
