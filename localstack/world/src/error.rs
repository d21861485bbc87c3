//! Why a world could not be started, used or stopped.

use std::{io, path::PathBuf};

use crate::{
    cache::{CacheError, WorldName},
    compile::CompileError,
    component::Component,
    facts::FactsError,
    kubernetes::KubernetesError,
    pki::PkiError,
    probe::ProbeError,
    slot::SlotError,
};

/// Why a world could not be started, used or stopped. Every message ends with what to do.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The cache folder cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// There are no Kubernetes programs.
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    /// Keys or certificates could not be created.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// Real nodes are impossible here.
    #[error(transparent)]
    Missing(#[from] localstack_nodes::requirements::Missing),
    /// The network for real nodes could not be created.
    #[error(transparent)]
    Network(#[from] localstack_nodes::network::NetworkError),
    /// The images for real nodes could not be built.
    #[error(transparent)]
    Images(#[from] CompileError),
    /// There is no free slot of the loopback range.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The facts of the world are not available.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// The control plane cannot be queried.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A world with this name is up already.
    #[error("world {0} is up already, or is starting or stopping: see `world status --name {0}`")]
    AlreadyUp(WorldName),
    /// The world is starting or stopping, so it has no facts.
    #[error("world {0} is just starting or stopping: try again in a moment")]
    InBetween(WorldName),
    /// No world with this name is up.
    #[error("world {0} is not up: start it with `world up --name {0}`")]
    NotUp(WorldName),
    /// A program of this workspace has not been built.
    #[error(
        "there is no {program} for {component}: build it (`cargo build --workspace`), or leave it out (`--without {component}`)",
        program = program.display()
    )]
    NoProgram {
        /// The component.
        component: Component,
        /// The expected path of its program.
        program: PathBuf,
    },
    /// The process could not be started.
    #[error("cannot start {component}: {source}")]
    Spawn {
        /// The component.
        component: Component,
        /// The error of the system.
        source: io::Error,
    },
    /// A component ended, or did not serve in time.
    #[error("{component} did not come up: {reason}; its log is {log} and ends with:\n{tail}", log = log.display())]
    DidNotStart {
        /// The component.
        component: Component,
        /// The observed failure.
        reason: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// This world was started without the component.
    #[error("this world was started without {0}")]
    LeftOut(Component),
    /// The component to start already runs.
    #[error("{0} runs already: stop it first, or use restart")]
    AlreadyRuns(Component),
    /// The start was cancelled, because the world was stopped.
    #[error("interrupted: everything that had been started was taken down again")]
    Interrupted,
    /// The world's own IP cannot be bound.
    #[error(
        "cannot listen on {address} ({source}): the whole range 127.0.0.0/8 has to be on the loopback interface"
    )]
    NoAddress {
        /// The IP of the world's servers.
        address: std::net::Ipv4Addr,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or folder of the world cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The supervisor of a world does not respond.
    #[error(
        "the supervisor of world {name} does not answer ({reason}): `world down --name {name}` ends it by force"
    )]
    Silent {
        /// The world.
        name: WorldName,
        /// The observed failure.
        reason: String,
    },
    /// The supervisor rejected a request, or could not start its world. Contains its message.
    #[error("{0}")]
    Refused(String),
    /// The `world` program cannot be found.
    #[error(
        "cannot find the `world` program in {looked_in}: build it (`cargo build --workspace`), or set HEADGATE_WORLD_BIN to its path"
    )]
    NoWorldProgram {
        /// The folders that were searched, separated by commas.
        looked_in: String,
    },
    /// The supervisor cannot be started.
    #[error("cannot run {program}: {source}", program = program.display())]
    Supervisor {
        /// The `world` program.
        program: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl WorldError {
    /// Adds the path to an error of the system.
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
