//! A simulated kubelet for many pods on loopback addresses.
//!
//! One process simulates several nodes in several zones of a real Kubernetes control plane. The process manages the
//! Node objects and Leases of these nodes, and runs the pods that the scheduler binds to the nodes. Each pod gets an
//! address in its zone, an HTTP server on each declared TCP port, real probes and hooks. The status of a pod changes in
//! the same order as with a kubelet of v1.36.
//!
//! The process never runs an image, and contacts only the API server and loopback addresses. While the API server is
//! unavailable, pods continue unchanged. When the process stops, its pods stop too, and the Node objects remain.
//!
//! [`pod::dispatch`] watches pods and starts one [`pod::worker`] per pod. The worker drives [`pod::lifecycle`], a pure
//! state machine. [`pod::status`] builds the status from this state machine, and the worker writes the status.

pub mod address;
pub mod clock;
pub mod container;
pub mod control;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod network;
pub mod node;
pub mod object;
pub mod options;
pub mod pod;
pub mod span;

pub use options::{NodeOption, Options, Ready, ZoneOption};

use crate::address::IpPool;
use crate::control::{Controls, Pool};
use crate::node::heartbeat::Heartbeat;
use crate::node::object::Node;
use crate::node::state::{Switch, Switches};
use crate::options::OptionError;
use crate::pod::dispatch::{Dispatcher, Home};
use crate::pod::registry::Registry;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The reason why a kubelet could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is invalid.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The kubeconfig cannot be read or is invalid.
    #[error("the kubeconfig {0} cannot be used: {1}")]
    Kubeconfig(PathBuf, kube::config::KubeconfigError),
    /// No client can be created from the kubeconfig.
    #[error("no client can be made from the kubeconfig {0}: {1}")]
    Client(PathBuf, kube::Error),
    /// The control API cannot listen.
    #[error("the control API cannot listen on {0}: {1}")]
    Control(SocketAddr, std::io::Error),
    /// A zone has no free address for its nodes.
    #[error("zone {0} has no address left for node {1}; give it a larger range")]
    NoNodeAddress(String, String),
    /// A task that must run until the shutdown has stopped early.
    #[error("the {0} ended by itself; the log says why")]
    Ended(&'static str),
}

/// Runs until `shutdown` is cancelled, and then closes the sockets of every pod. The Node objects remain.
pub async fn run(options: Options, shutdown: CancellationToken) -> Result<(), Error> {
    options.check()?;
    let client = client(&options.kubeconfig).await?;
    let listener =
        TcpListener::bind(options.control).await.map_err(|error| Error::Control(options.control, error))?;
    let control = listener.local_addr().map_err(|error| Error::Control(options.control, error))?;
    let Places { nodes, homes, pools } = place(&options)?;
    let switches: Switches = homes.iter().map(|(name, home)| (name.clone(), home.switch.clone())).collect();

    let registry = Arc::new(Registry::default());
    let stop = shutdown.child_token();
    let mut tasks: JoinSet<&'static str> = JoinSet::new();
    let mut registered = Vec::new();
    for node in nodes {
        let (done, waits) = oneshot::channel();
        registered.push(waits);
        let switch = switches.get(&node.name).cloned().unwrap_or_default();
        let (heartbeat, stop) = (Heartbeat::new(node, switch, client.clone()), stop.clone());
        tasks.spawn(async move {
            heartbeat.run(done, stop).await;
            "heartbeat of a node"
        });
    }
    let dispatcher = Dispatcher::new(client, homes, Arc::clone(&registry));
    let watch_stop = stop.clone();
    tasks.spawn(async move {
        dispatcher.run(watch_stop).await;
        "pod watch"
    });
    let routes = control::routes(Controls { registry, switches, pools });
    let control_stop = stop.clone();
    tasks.spawn(async move {
        if let Err(error) =
            axum::serve(listener, routes).with_graceful_shutdown(control_stop.cancelled_owned()).await
        {
            tracing::error!(%error, "the control API failed");
        }
        "control API"
    });
    tracing::info!(%control, nodes = options.nodes.len(), "the kubelet runs");

    let mut ready = options.ready;
    let mut all_registered = std::pin::pin!(futures::future::join_all(registered));
    let ended = loop {
        tokio::select! {
            () = shutdown.cancelled() => break None,
            Some(ended) = tasks.join_next() => break Some(ended.unwrap_or("task that failed")),
            _ = &mut all_registered, if ready.is_some() => {
                if let Some(ready) = ready.take() {
                    let _ = ready.send(Ready { control });
                }
            }
        }
    };
    stop.cancel();
    while tasks.join_next().await.is_some() {}
    ended.filter(|_| !shutdown.is_cancelled()).map_or(Ok(()), |part| Err(Error::Ended(part)))
}

/// Creates a client without a client-side rate limit. Each call sets its own timeout.
async fn client(path: &PathBuf) -> Result<Client, Error> {
    let unusable = |error| Error::Kubeconfig(path.clone(), error);
    let file = Kubeconfig::read_from(path).map_err(unusable)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(unusable)?;
    // Each caller retries with its current state, so the client itself does not retry.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| Error::Client(path.clone(), error))
}

/// The address of each node, and the address pool of each zone.
struct Places {
    nodes: Vec<Node>,
    homes: HashMap<String, Home>,
    pools: Vec<Pool>,
}

/// Assigns an address to each node, and creates the address pool of each zone.
fn place(options: &Options) -> Result<Places, Error> {
    let now = tokio::time::Instant::now();
    let cool_down = address::COOL_DOWN.mul_f64(options.time_scale);
    let pools: HashMap<&str, Pool> = options
        .zones
        .iter()
        .map(|zone| (zone.name.as_str(), Arc::new(Mutex::new(IpPool::new(zone.range, cool_down)))))
        .collect();
    let mut nodes = Vec::new();
    let mut homes = HashMap::new();
    for NodeOption { name, zone } in &options.nodes {
        let full = || Error::NoNodeAddress(zone.clone(), name.clone());
        let pool = pools.get(zone.as_str()).cloned().ok_or_else(full)?;
        let address = pool.lock().unwrap_or_else(PoisonError::into_inner).allocate(now).ok_or_else(full)?;
        let (name, zone) = (name.clone(), zone.clone());
        let (max_pods, version) = (options.max_pods, options.kubelet_version.clone());
        nodes.push(Node { name: name.clone(), zone, address, max_pods, version });
        homes.insert(name, Home { address, switch: Switch::default(), pool });
    }
    Ok(Places { nodes, homes, pools: pools.into_values().collect() })
}
