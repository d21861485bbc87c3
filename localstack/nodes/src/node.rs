//! A node from the view of other programs. The machine of a node can be switched on and off, and receives requests.
//!
//! The module manages the process of the machine and its standard input. A switch-off kills every process of the node
//! immediately, without a shutdown. The disk of the node remains.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    cgroup, config,
    layout::{Families, Layout, NodeOption, Place},
    machine::{Answer, Wish},
    tied,
};

/// The timeout for the start of a machine, and for a request to a machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// The timeout for the exit of the machine's processes.
const END: Duration = Duration::from_secs(5);

/// One node.
#[derive(Debug)]
pub struct Node {
    option: NodeOption,
    cgroup: String,
    command: Vec<String>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    wishes: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Node {
    /// Writes the configuration of a node, but starts no process. `images` are packed images.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn prepare(layout: &Layout, option: &NodeOption, images: &[PathBuf]) -> io::Result<Self> {
        let place = Place::of(&layout.folder, &layout.logs, &option.name);
        for folder in place.folders() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(place.containerd_config(), config::containerd(&place))?;
        std::fs::write(place.kubelet_config(), config::kubelet(layout, option, &place).to_string())?;
        if let Some(zone) = layout.zones.iter().find(|zone| zone.name == option.zone) {
            for families in Families::ALL {
                let network = config::cni(layout, zone, families).to_string();
                std::fs::write(place.cni(families).join("10-vpc.conflist"), network)?;
            }
        }
        let cgroup = config::cgroup(layout, option);
        let NodeOption { name, zone, ip } = option;
        let mut command = vec![
            "machine".to_owned(),
            format!("--node={name}={zone}={ip}"),
            format!("--folder={}", layout.folder.display()),
            format!("--logs={}", layout.logs.display()),
            format!("--cgroup={cgroup}"),
            format!("--programs={}", layout.programs.display()),
            format!("--kubeconfig={}", layout.credentials.join(format!("{name}.kubeconfig")).display()),
        ];
        command.extend(images.iter().map(|image| format!("--image={}", image.display())));
        Ok(Self { option: option.clone(), cgroup, command, running: None })
    }

    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        &self.option.name
    }

    /// Returns the zone of the node.
    pub fn zone(&self) -> &str {
        &self.option.zone
    }

    /// Returns whether the node is switched on.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Switches on the node, and waits until its kubelet was started. Does nothing if the node is already on.
    ///
    /// # Errors
    /// The machine did not start. The node then remains off.
    pub async fn on(&mut self) -> Result<(), NodeError> {
        if self.is_on() {
            return Ok(());
        }
        let program = std::env::current_exe().map_err(|source| self.broken(source))?;
        let mut process = tied::in_own_namespaces(program)
            .args(&self.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| self.broken(source))?;
        let (Some(wishes), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(self.broken(io::Error::other("it has no pipes")));
        };
        self.running = Some(Running { process, wishes, answers: BufReader::new(output).lines() });
        match self.answer().await {
            Ok(Answer::Started | Answer::Done) => Ok(()),
            Ok(Answer::Failed(reason)) => {
                self.off().await?;
                Err(NodeError::Failed { node: self.option.name.clone(), reason })
            }
            Err(error) => {
                self.off().await?;
                Err(error)
            }
        }
    }

    /// Switches off the node, and waits until all its processes have exited. Does nothing if the node is already off.
    ///
    /// # Errors
    /// Some processes of the node still run.
    pub async fn off(&mut self) -> Result<(), NodeError> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let Running { mut process, wishes, .. } = running;
        drop(wishes);
        if timeout(END, process.wait()).await.is_err() {
            process.kill().await.map_err(|source| self.broken(source))?;
        }
        let cgroup = self.cgroup.clone();
        let removed = tokio::task::spawn_blocking(move || cgroup::remove_all(&cgroup)).await;
        removed.map_err(io::Error::other).and_then(|done| done).map_err(|source| self.broken(source))
    }

    /// Sends a request to the machine, and waits for the answer.
    ///
    /// # Errors
    /// The node is off, or the request failed.
    pub async fn tell(&mut self, wish: &Wish) -> Result<(), NodeError> {
        let mut line = serde_json::to_vec(wish).unwrap_or_default();
        line.push(b'\n');
        let Some(running) = &mut self.running else { return Err(NodeError::Off(self.option.name.clone())) };
        let written = running.wishes.write_all(&line).await;
        written.map_err(|source| self.broken(source))?;
        match self.answer().await? {
            Answer::Started | Answer::Done => Ok(()),
            Answer::Failed(reason) => Err(NodeError::Failed { node: self.option.name.clone(), reason }),
        }
    }

    async fn answer(&mut self) -> Result<Answer, NodeError> {
        let Some(running) = &mut self.running else { return Err(NodeError::Off(self.option.name.clone())) };
        let line = match timeout(PATIENCE, running.answers.next_line()).await {
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer")),
            Ok(Ok(None)) => Err(io::Error::other("its machine has ended")),
            Ok(line) => line.map(Option::unwrap_or_default),
        };
        let parsed = line.and_then(|line| Ok(serde_json::from_str(&line)?));
        parsed.map_err(|source| self.broken(source))
    }

    fn broken(&self, source: io::Error) -> NodeError {
        NodeError::Broken { node: self.option.name.clone(), source }
    }
}

/// The reason why an operation on a node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The node is off.
    #[error("{0} is off: switch it on first")]
    Off(String),
    /// The machine reported a failure.
    #[error("{node}: {reason}")]
    Failed {
        /// The name of the node.
        node: String,
        /// The reason that the machine reported.
        reason: String,
    },
    /// The machine of the node cannot be started, reached or stopped.
    #[error("the machine of {node} cannot be used: {source}; its logs may say why")]
    Broken {
        /// The name of the node.
        node: String,
        /// The error of the system.
        source: io::Error,
    },
}
