//! A world for as long as a test needs it.
//!
//! Owns a supervisor process and the pipe to it. The supervisor takes everything down when the
//! pipe closes: when the [`World`] is dropped, when it is shut down, and when this process dies,
//! however that happens.

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

/// A start of a component may take its two minutes, and a stop before it some seconds.
const PATIENCE: Duration = Duration::from_secs(150);

/// What a supervisor with `--parent-pipe` says on its standard output, once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Announcement {
    /// Everything is up; the facts are in `world.json` of this folder.
    Ready(PathBuf),
    /// Nothing is up, and why.
    Failed(String),
}

/// What a supervisor is told through the pipe to live on when the pipe closes.
pub(crate) const DETACH: &str = "detach";

/// How to start a world.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// What the world is to be like.
    pub options: Options,
    /// The cache folder; `None`: the one that the environment asks for.
    pub cache: Option<PathBuf>,
    /// The `world` program; `None`: `HEADGATE_WORLD_BIN`, or beside this program or in the folder
    /// above, where Cargo puts it.
    pub program: Option<PathBuf>,
    /// Whether the supervisor leaves the session of this process, so that it survives a closed
    /// terminal. For [`World::detach`].
    pub new_session: bool,
}

impl From<Options> for Start {
    fn from(options: Options) -> Self {
        Self { options, ..Self::default() }
    }
}

/// A world that is up.
#[derive(Debug)]
pub struct World {
    facts: Facts,
    supervisor: Child,
    pipe: ChildStdin,
}

impl World {
    /// Starts a world, and waits until everything is up: about 10 s, and minutes when Kubernetes
    /// has to be built first.
    ///
    /// # Errors
    /// The world did not come up; nothing of it is left running. The text names the component
    /// and its log.
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

    /// The facts as they were when the world had come up; [`Self::status`] has the present ones.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Moves the calling thread, and whatever it starts from now on, into the network of a world
    /// with real nodes, outside of which nothing of the world answers. Without one: does nothing.
    /// A thread never comes back: give the world threads of its own.
    pub fn enter_network(&self) -> Result<(), WorldError> {
        Ok(self.facts.enter_network()?)
    }

    /// The facts as they are now.
    pub async fn status(&self) -> Result<Facts, WorldError> {
        status(&self.facts).await
    }

    /// Ends a component with SIGTERM, and with SIGKILL after 3 s; returns when it is gone. Its
    /// data are kept.
    pub async fn stop_component(&self, component: Component) -> Result<(), WorldError> {
        request(&self.facts, &Request::Stop { component }).await
    }

    /// Kills a component; returns when it is gone. Its data are kept.
    pub async fn kill_component(&self, component: Component) -> Result<(), WorldError> {
        request(&self.facts, &Request::Kill { component }).await
    }

    /// Starts a component that was stopped or killed, at the same address and with the same
    /// data; returns when it serves.
    pub async fn start_component(&self, component: Component) -> Result<(), WorldError> {
        request(&self.facts, &Request::Start { component }).await
    }

    /// Stops a component and starts it again; returns when it serves.
    pub async fn restart_component(&self, component: Component) -> Result<(), WorldError> {
        self.facts.restart_component(component).await
    }

    /// Takes everything down, and waits until nothing is left.
    pub async fn shutdown(mut self) -> Result<(), WorldError> {
        drop(self.pipe);
        let name = self.facts.name;
        match self.supervisor.wait().await {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(WorldError::Silent { name, reason: format!("it ended with {status}") }),
            Err(error) => Err(WorldError::Silent { name, reason: error.to_string() }),
        }
    }

    /// Lets the world live on without this process. From then on `world down` ends it.
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

/// Asks the supervisor of a world for the present facts.
pub(crate) async fn status(facts: &Facts) -> Result<Facts, WorldError> {
    let silent = |reason| WorldError::Silent { name: facts.name.clone(), reason };
    match control::ask(&facts.folder, &Request::Status, Duration::from_secs(10)).await {
        Ok(Response::Status(facts)) => Ok(*facts),
        Ok(other) => Err(silent(format!("it answered {other:?}"))),
        Err(error) => Err(silent(error.to_string())),
    }
}

/// Asks the supervisor of a world to do something, and waits until it is done.
pub(crate) async fn request(facts: &Facts, request: &Request) -> Result<(), WorldError> {
    match control::ask(&facts.folder, request, PATIENCE).await {
        Ok(Response::Refused(reason)) => Err(WorldError::Refused(reason)),
        Ok(_) => Ok(()),
        Err(error) => Err(WorldError::Silent { name: facts.name.clone(), reason: error.to_string() }),
    }
}
