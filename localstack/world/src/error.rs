//! Why a world could not be started, used or taken down.

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

/// Why a world could not be started, used or taken down. Every text says what can be done.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The cache folder cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// There are no Kubernetes programs.
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    /// There are no keys or certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// There can be no real nodes.
    #[error(transparent)]
    Missing(#[from] localstack_nodes::requirements::Missing),
    /// There is no network for real nodes.
    #[error(transparent)]
    Network(#[from] localstack_nodes::network::NetworkError),
    /// There are no images for real nodes.
    #[error(transparent)]
    Images(#[from] CompileError),
    /// There is no part of the loopback range left.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The facts of the world cannot be had.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// The control plane cannot be asked.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A world of this name lives already.
    #[error("world {0} is up already, or is starting or stopping: see `world status --name {0}`")]
    AlreadyUp(WorldName),
    /// The world has not written its facts yet, or not any more.
    #[error("world {0} is just starting or stopping: try again in a moment")]
    InBetween(WorldName),
    /// No world of this name lives.
    #[error("world {0} is not up: start it with `world up --name {0}`")]
    NotUp(WorldName),
    /// A program of ours has not been built.
    #[error(
        "there is no {program} for {component}: build it (`cargo build --workspace`), or leave it out (`--without {component}`)",
        program = program.display()
    )]
    NoProgram {
        /// The component.
        component: Component,
        /// Where its program should be.
        program: PathBuf,
    },
    /// The process could not be started.
    #[error("cannot start {component}: {source}")]
    Spawn {
        /// The component.
        component: Component,
        /// What the system said.
        source: io::Error,
    },
    /// A component ended or did not serve in time.
    #[error("{component} did not come up: {reason}; its log is {log} and ends with:\n{tail}", log = log.display())]
    DidNotStart {
        /// The component.
        component: Component,
        /// What was seen of it.
        reason: String,
        /// Its log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A component that this world was started without.
    #[error("this world was started without {0}")]
    LeftOut(Component),
    /// A start of a component that runs.
    #[error("{0} runs already: stop it first, or use restart")]
    AlreadyRuns(Component),
    /// The start was given up because the world was told to end.
    #[error("interrupted: everything that had been started was taken down again")]
    Interrupted,
    /// The world's own IP cannot be listened on.
    #[error(
        "cannot listen on {address} ({source}): the whole range 127.0.0.0/8 has to be on the loopback interface"
    )]
    NoAddress {
        /// The IP of the world's servers.
        address: std::net::Ipv4Addr,
        /// What the system said.
        source: io::Error,
    },
    /// A file or folder of the world cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// What could not be used.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The supervisor of a world does not answer.
    #[error(
        "the supervisor of world {name} does not answer ({reason}): `world down --name {name}` ends it by force"
    )]
    Silent {
        /// The world.
        name: WorldName,
        /// What was seen of it.
        reason: String,
    },
    /// The supervisor refused a request, or could not start its world; the text is its own.
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
        /// What the system said.
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
