//! The errors of a cluster's start, use and stop.

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

/// The reason why a local cluster could not be started, used or stopped. Every message ends with a suggestion.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The cache folder cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The Kubernetes programs are not available.
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    /// Keys or certificates could not be created.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// Real nodes cannot be started on this machine.
    #[error(transparent)]
    Missing(#[from] localstack_nodes::requirements::Missing),
    /// The network for real nodes could not be created.
    #[error(transparent)]
    Network(#[from] localstack_nodes::network::NetworkError),
    /// The images for real nodes could not be built.
    #[error(transparent)]
    Images(#[from] CompileError),
    /// The loopback range has no free slot.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The facts of the cluster are not available.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// The control plane cannot be queried.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A local cluster with this name is already up.
    #[error("world {0} is up already, or is starting or stopping: see `world status --name {0}`")]
    AlreadyUp(WorldName),
    /// The cluster is starting or stopping, so it has no facts.
    #[error("world {0} is just starting or stopping: try again in a moment")]
    InBetween(WorldName),
    /// No local cluster with this name is up.
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
        /// The expected path of the component's program.
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
    /// A component exited, or did not serve in time.
    #[error("{component} did not come up: {reason}; its log is {log} and ends with:\n{tail}", log = log.display())]
    DidNotStart {
        /// The component.
        component: Component,
        /// The observed failure.
        reason: String,
        /// The log of the component.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// This cluster was started without the component.
    #[error("this world was started without {0}")]
    LeftOut(Component),
    /// The component already runs.
    #[error("{0} runs already: stop it first, or use restart")]
    AlreadyRuns(Component),
    /// The start was cancelled because the cluster was stopped.
    #[error("interrupted: everything that had been started was taken down again")]
    Interrupted,
    /// The IP address of the cluster cannot be bound.
    #[error(
        "cannot listen on {address} ({source}): the whole range 127.0.0.0/8 has to be on the loopback interface"
    )]
    NoAddress {
        /// The IP address of the cluster's servers.
        address: std::net::Ipv4Addr,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or folder of the cluster cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The supervisor of a local cluster does not respond.
    #[error(
        "the supervisor of world {name} does not answer ({reason}): `world down --name {name}` ends it by force"
    )]
    Silent {
        /// The name of the cluster.
        name: WorldName,
        /// The observed failure.
        reason: String,
    },
    /// The supervisor rejected a request, or could not start the local cluster. Contains the supervisor's message.
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
