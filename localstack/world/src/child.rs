//! One running component with its process, log, ready line and exit.
//!
//! Only this module waits for the process, so a signal never reaches another process with the same PID. When the
//! component exits, all holders of a handle can read the exit status.

use std::{
    fs::File,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdout},
    sync::{mpsc, watch},
};

use crate::{plan::CommandLine, process::Process, reexec};

/// A handle of a running component. After the handle is dropped, the process continues until its supervisor exits.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    process: Process,
    signals: mpsc::Sender<Signal>,
    ended: watch::Receiver<Option<ExitStatus>>,
    announced: watch::Receiver<bool>,
}

impl Running {
    /// Starts a component and appends its output to the log. With `watch_output`, the standard output is also searched
    /// for the ready line.
    pub(crate) fn start(command: &CommandLine, log: &Path, watch_output: bool) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut wrapped = reexec::dependent(command);
        wrapped.stdin(Stdio::null()).stderr(output.try_clone()?);
        if watch_output {
            wrapped.stdout(Stdio::piped());
        } else {
            wrapped.stdout(output.try_clone()?);
        }
        let mut child = wrapped.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();

        let (announce, announced) = watch::channel(false);
        if let Some(lines) = child.stdout.take() {
            tokio::spawn(copy_lines(lines, output, announce));
        }
        let (signals, wanted) = mpsc::channel(4);
        let (end, ended) = watch::channel(None);
        tokio::spawn(own(child, wanted, end));
        Ok(Self { process: Process::of(pid), signals, ended, announced })
    }

    /// Returns the process of the component.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Sends a signal to the component, unless the component has exited.
    pub(crate) async fn signal(&self, signal: Signal) {
        // An error means that the process has exited.
        let _ = self.signals.send(signal).await;
    }

    /// Waits until the component exits.
    pub(crate) async fn ended(&self) -> Option<ExitStatus> {
        let mut ended = self.ended.clone();
        ended.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// Waits for the ready line of the component. Never returns if the component exits without a ready line.
    pub(crate) async fn announced(&self) {
        let mut announced = self.announced.clone();
        if announced.wait_for(|ready| *ready).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn own(mut child: Child, mut wanted: mpsc::Receiver<Signal>, end: watch::Sender<Option<ExitStatus>>) {
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            Some(signal) = wanted.recv() => {
                let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    let _ = kill_process(pid, signal);
                }
            }
        }
    };
    match status {
        Ok(status) => {
            end.send_replace(Some(status));
        }
        // This error occurs only if other code waited for the child process. Dropping `end` then reports the exit.
        Err(error) => tracing::error!(%error, "cannot wait for a component"),
    }
}

async fn copy_lines(output: ChildStdout, log: File, announce: watch::Sender<bool>) {
    let mut log = tokio::fs::File::from_std(log);
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if !*announce.borrow() && says_ready(&line) {
            announce.send_replace(true);
        }
        // If the disk is full, the component must continue. Without this loop, the component would block on a full
        // pipe.
        let _ = log.write_all(format!("{line}\n").as_bytes()).await;
        let _ = log.flush().await;
    }
}

fn says_ready(line: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(line)
        .is_ok_and(|value| value.get("ready").and_then(serde_json::Value::as_bool) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_of_json_that_says_so_means_ready() {
        assert!(says_ready(r#"{"ready":true,"api":"127.0.0.1:1"}"#));
        for other in ["ready", r#"{"ready":false}"#, r#"{"level":"info","message":"ready"}"#, ""] {
            assert!(!says_ready(other), "{other}");
        }
    }
}
