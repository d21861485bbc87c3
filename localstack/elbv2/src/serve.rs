//! Starts and stops the stand-in. The sockets are opened before the tasks start.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use tokio::net::{TcpListener, UdpSocket};

use crate::api::{Api, server};
use crate::behaviour::{BehaviourError, check_scale};
use crate::control::{self, Control};
use crate::dataplane::{Dataplane, probe};
use crate::dns;
use crate::model::Model;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::tasks::Tasks;

/// The addresses of a running stand-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// The HTTP address of the AWS Query API.
    pub api: SocketAddr,
    /// The HTTP address of the control API.
    pub control: SocketAddr,
    /// The UDP address of the DNS server.
    pub dns: SocketAddr,
}

/// The reason why the stand-in did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// One of the three sockets could not be opened.
    #[error("cannot listen on {address} for the {what}: {source}")]
    Bind {
        /// The purpose of the socket.
        what: &'static str,
        /// The address of the socket.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other machines could reach the node addresses.
    #[error(
        "node addresses {0} are not within 127.0.0.0/8; give a loopback range, such as 127.101.224.0/19, or --own-network"
    )]
    NodeAddresses(ipnet::IpNet),
    /// The settings contain no subnet.
    #[error("there is no subnet; give at least one as ID=ZONE=CIDR")]
    NoSubnet,
    /// The time scale is invalid.
    #[error(transparent)]
    TimeScale(#[from] BehaviourError),
}

/// A running stand-in.
#[derive(Debug)]
pub struct Running {
    addresses: Addresses,
    tasks: Tasks,
    dataplane: Arc<Dataplane>,
}

impl Running {
    /// Returns the addresses of the sockets.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the name of the first task that stopped early. While all tasks run, the function waits.
    pub async fn failed(&self) -> &'static str {
        self.tasks.stop().cancelled().await;
        self.tasks.failed().unwrap_or("unknown")
    }

    /// Closes all sockets, cuts all connections, and waits until all tasks have stopped.
    pub async fn shutdown(self) {
        self.tasks.shut_down().await;
        self.dataplane.shut_down().await;
    }
}

/// Starts a stand-in. Returns after all sockets are open.
pub async fn serve(settings: Settings) -> Result<Running, ServeError> {
    check_scale(settings.time_scale)?;
    let nodes = settings.node_addresses;
    let on_loopback = nodes.network().is_loopback() && nodes.broadcast().is_loopback();
    if !(on_loopback || settings.own_network) {
        return Err(ServeError::NodeAddresses(nodes));
    }
    if settings.subnets.is_empty() {
        return Err(ServeError::NoSubnet);
    }
    let failed = |what, address| move |source| ServeError::Bind { what, address, source };
    let at = settings.api;
    let api = TcpListener::bind(at).await.map_err(failed("AWS API", at))?;
    let at = settings.control;
    let control = TcpListener::bind(at).await.map_err(failed("control API", at))?;
    let at = settings.dns;
    let dns = UdpSocket::bind(at).await.map_err(failed("DNS server", at))?;
    let addresses = Addresses {
        api: api.local_addr().map_err(failed("AWS API", settings.api))?,
        control: control.local_addr().map_err(failed("control API", settings.control))?,
        dns: dns.local_addr().map_err(failed("DNS server", settings.dns))?,
    };

    let tasks = Tasks::default();
    let capacity = settings.trace_capacity;
    let shared = Arc::new(Shared::new(Model::new(settings), capacity));
    let dataplane = Arc::new(Dataplane::new(Arc::clone(&shared)));
    let timekeeper = Arc::clone(&shared);
    tasks.supervise("timers", async move { timekeeper.keep_time().await });
    tasks.supervise("probes", probe::run(Arc::clone(&shared), tasks.clone()));
    tasks.supervise("dns", dns::run(Arc::clone(&shared), dns));
    let actions = Api { shared: Arc::clone(&shared), dataplane: Arc::clone(&dataplane) };
    let switch = server::start(actions, api, addresses.api, &tasks);
    let shell = Control { shared, dataplane: Arc::clone(&dataplane), switch };
    tasks.supervise("control", control::run(Arc::new(shell), control));
    Ok(Running { addresses, tasks, dataplane })
}
