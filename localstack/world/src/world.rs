//! A local cluster for the duration of a test.
//!
//! The module manages a supervisor process and a pipe to this process. When the pipe closes, the supervisor stops all
//! components. The pipe closes when the [`World`] is dropped or shut down, and when this process exits in any way.

use std::{path::PathBuf, process::Stdio, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
};

use crate::{
    component::Component,
    control::{self, Request, Response},
    error::WorldError,
    facts::Facts,
    options::Options,
    program,
};

/// The timeout of a request. The start of a component may take two minutes, and a preceding stop some seconds.
const PATIENCE: Duration = Duration::from_secs(150);

/// The only message of a supervisor with `--parent-pipe` on standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Announcement {
    /// All components are up. Contains the folder whose `world.json` has the facts.
    Ready(PathBuf),
    /// The start failed. Contains the reason.
    Failed(String),
}

/// The line in the pipe with which a supervisor continues after the pipe closes.
pub(crate) const DETACH: &str = "detach";

/// The parameters of a start.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// The options of the cluster.
    pub options: Options,
    /// The cache folder. `None`: the environment determines the folder.
    pub cache: Option<PathBuf>,
    /// The `world` program. `None`: the value of `HEADGATE_WORLD_BIN`, or a `world` in the folder of this program or in
    /// the parent folder, which Cargo uses.
    pub program: Option<PathBuf>,
    /// Whether the supervisor leaves the session of this process, so that it survives the end of the terminal. Needed
    /// for [`World::detach`].
    pub new_session: bool,
}

impl From<Options> for Start {
    fn from(options: Options) -> Self {
        Self { options, ..Self::default() }
    }
}

/// A running local cluster.
#[derive(Debug)]
pub struct World {
    facts: Facts,
    supervisor: Child,
    pipe: ChildStdin,
}

impl World {
    /// Starts a local cluster, and waits until all components are up. The start takes about 10 s, or minutes if
    /// Kubernetes must be built first.
    ///
    /// # Errors
    /// The start failed, and no process of the cluster remains. The error names the component and its log.
    pub async fn start(start: impl Into<Start>) -> Result<Self, WorldError> {
        let start = start.into();
        let program = match start.program {
            Some(program) => program,
            None => program::find().map_err(|looked_in| WorldError::NoWorldProgram { looked_in })?,
        };
        let mut command = Command::new(&program);
        command.arg("serve").arg("--parent-pipe").args(start.options.to_arguments());
        if start.new_session {
            command.arg("--new-session");
        }
        if let Some(cache) = start.cache {
            command.env("HEADGATE_CACHE", cache);
        }
        let failed = |source| WorldError::Supervisor { program: program.clone(), source };
        let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(pipe), Some(output)) = (supervisor.stdin.take(), supervisor.stdout.take()) else {
            return Err(failed(std::io::Error::other("it has no pipes")));
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await.map_err(failed)?;
        match serde_json::from_str(&line) {
            Ok(Announcement::Ready(folder)) => Ok(Self { facts: Facts::read(&folder)?, supervisor, pipe }),
            Ok(Announcement::Failed(reason)) => Err(WorldError::Refused(reason)),
            Err(_) => {
                let status = supervisor.wait().await.map_err(failed)?;
                Err(WorldError::Refused(format!("the supervisor ended before the world was up ({status})")))
            }
        }
    }

    /// Returns the facts from the completion of the start. [`Self::status`] returns the current facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Moves the calling thread into the network of a local cluster with real nodes. All threads and processes that the
    /// thread starts later are in the same network. From outside of the network, the cluster is not reachable. Without
    /// such a network, the call has no effect. A thread cannot leave the network, so use separate threads.
    pub fn enter_network(&self) -> Result<(), WorldError> {
        Ok(self.facts.enter_network()?)
    }

    /// Returns the current facts.
    pub async fn status(&self) -> Result<Facts, WorldError> {
        status(&self.facts).await
    }

    /// Stops a component with SIGTERM, and with SIGKILL after 3 s. Returns after the component has exited. The data of
    /// the component is kept.
    pub async fn stop_component(&self, component: Component) -> Result<(), WorldError> {
        request(&self.facts, &Request::Stop { component }).await
    }

    /// Kills a component. Returns after the component has exited. The data of the component is kept.
    pub async fn kill_component(&self, component: Component) -> Result<(), WorldError> {
        request(&self.facts, &Request::Kill { component }).await
    }

    /// Starts a component that was stopped or killed, at the same address and with the same data. Returns after the
    /// component serves.
    pub async fn start_component(&self, component: Component) -> Result<(), WorldError> {
        request(&self.facts, &Request::Start { component }).await
    }

    /// Stops and starts a component. Returns after the component serves.
    pub async fn restart_component(&self, component: Component) -> Result<(), WorldError> {
        self.facts.restart_component(component).await
    }

    /// Stops all components, and waits until no process remains.
    pub async fn shutdown(mut self) -> Result<(), WorldError> {
        drop(self.pipe);
        let name = self.facts.name;
        match self.supervisor.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(WorldError::Silent { name, reason: format!("it ended with {status}") }),
            Err(error) => Err(WorldError::Silent { name, reason: error.to_string() }),
        }
    }

    /// Lets the cluster continue without this process. From then on, `world down` stops the cluster.
    pub async fn detach(mut self) -> Result<Facts, WorldError> {
        let told = async {
            self.pipe.write_all(format!("{DETACH}\n").as_bytes()).await?;
            self.pipe.flush().await
        };
        let name = self.facts.name.clone();
        told.await.map_err(|error| WorldError::Silent { name, reason: error.to_string() })?;
        Ok(self.facts)
    }
}

impl Facts {
    /// See [`World::restart_component`].
    pub async fn restart_component(&self, component: Component) -> Result<(), WorldError> {
        request(self, &Request::Restart { component }).await
    }
}

/// Queries the supervisor of a local cluster for the current facts.
pub(crate) async fn status(facts: &Facts) -> Result<Facts, WorldError> {
    let silent = |reason| WorldError::Silent { name: facts.name.clone(), reason };
    match control::ask(&facts.folder, &Request::Status, Duration::from_secs(10)).await {
        Ok(Response::Status(facts)) => Ok(*facts),
        Ok(other) => Err(silent(format!("it answered {other:?}"))),
        Err(error) => Err(silent(error.to_string())),
    }
}

/// Sends a request to the supervisor of a local cluster, and waits for the response.
pub(crate) async fn request(facts: &Facts, request: &Request) -> Result<(), WorldError> {
    match control::ask(&facts.folder, request, PATIENCE).await {
        Ok(Response::Refused(reason)) => Err(WorldError::Refused(reason)),
        Ok(_) => Ok(()),
        Err(error) => Err(WorldError::Silent { name: facts.name.clone(), reason: error.to_string() }),
    }
}
