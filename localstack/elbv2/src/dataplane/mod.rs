//! The data plane: the sockets of listeners on node addresses, and the connections of clients and targets.
//!
//! The data plane owns sockets and connections, but it makes no routing decisions. For each connection or request, the
//! data plane queries the model for the target. Nodes on loopback contact only loopback addresses, and all other
//! targets count as unreachable. When the stand-in stops or is reset, open connections are cut.

mod alb;
mod nlb;
pub mod probe;
mod side;
mod ticket;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::model::{BalancerId, ListenerId, Node, Protocol};
use crate::shared::Shared;
use crate::trace::Outcome;

/// The length of the system's queue for pending connections of a listener.
const BACKLOG: u32 = 4096;

/// All open listeners and their connections.
#[derive(Debug)]
pub struct Dataplane {
    shared: Arc<Shared>,
    connections: TaskTracker,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    doors: HashMap<ListenerId, Closer>,
    /// The token that cuts all connections. A reset replaces the token.
    cut: CancellationToken,
}

#[derive(Debug)]
struct Closer {
    stop: CancellationToken,
    accepting: Vec<JoinHandle<()>>,
}

/// One listener on one node.
#[derive(Debug)]
pub struct Door {
    shared: Arc<Shared>,
    listener: ListenerId,
    balancer: BalancerId,
    /// The index of the node in its load balancer.
    node: usize,
    /// The address of the node and the port of the listener.
    local: SocketAddr,
    connections: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

/// The error for a listener port that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("The stand-in cannot listen on {address}: {source}{hint}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
    hint: &'static str,
}

impl Dataplane {
    /// Creates a data plane without listeners.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, connections: TaskTracker::new(), open: Mutex::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections on the sockets of a listener. A listener has one socket per node.
    pub fn serve(
        &self,
        listener: ListenerId,
        balancer: BalancerId,
        protocol: Protocol,
        sockets: Vec<TcpListener>,
    ) {
        let mut open = self.open();
        let stop = CancellationToken::new();
        let accepting = sockets
            .into_iter()
            .enumerate()
            .filter_map(|(node, socket)| Some((node, socket.local_addr().ok()?, socket)))
            .map(|(node, local, socket)| {
                let door = Arc::new(Door {
                    shared: Arc::clone(&self.shared),
                    listener,
                    balancer,
                    node,
                    local,
                    connections: self.connections.clone(),
                    stop: stop.clone(),
                    cut: open.cut.clone(),
                });
                match protocol {
                    Protocol::Http => self.connections.spawn(alb::accept(door, socket)),
                    _ => self.connections.spawn(nlb::accept(door, socket)),
                }
            })
            .collect();
        open.doors.insert(listener, Closer { stop, accepting });
    }

    /// Closes the sockets of a listener. Returns after the sockets are closed. Open connections continue.
    pub async fn close(&self, listener: ListenerId) {
        let closer = self.open().doors.remove(&listener);
        if let Some(closer) = closer {
            closer.close().await;
        }
    }

    /// Cuts all connections and begins to close all sockets. [`Closing::closed`] waits until the sockets are closed.
    pub fn clear(&self) -> Closing {
        let old = std::mem::take(&mut *self.open());
        old.cut.cancel();
        for closer in old.doors.values() {
            closer.stop.cancel();
        }
        Closing(old.doors.into_values().collect())
    }

    /// Cuts all connections and closes all sockets. Returns after the last connection is closed.
    pub async fn shut_down(&self) {
        self.clear().closed().await;
        self.connections.close();
        self.connections.wait().await;
    }
}

/// Sockets that are being closed.
#[derive(Debug)]
pub struct Closing(Vec<Closer>);

impl Closing {
    /// Waits until the sockets are closed.
    pub async fn closed(self) {
        for closer in self.0 {
            closer.close().await;
        }
    }
}

impl Closer {
    async fn close(self) {
        self.stop.cancel();
        for accepting in self.accepting {
            // The task can only fail with a panic, which also closes the socket.
            let _ = accepting.await;
        }
    }
}

/// Opens a port on all nodes. If a port cannot be opened, no port remains open.
pub fn bind_all(nodes: &[Node], port: u16) -> Result<Vec<TcpListener>, BindError> {
    nodes.iter().map(|node| bind(SocketAddr::new(node.address, port))).collect()
}

fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let open = || {
        let socket = TcpSocket::new_v4()?;
        // Connections of an earlier listener may still occupy the port.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|source: io::Error| BindError {
        address,
        hint: match source.kind() {
            io::ErrorKind::PermissionDenied => {
                "; ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE"
            }
            io::ErrorKind::AddrInUse => "; another process, or another stand-in, has the port",
            _ => "",
        },
        source,
    })
}

/// Returns the next connection of a listener. `None`: the listener was stopped. Failed connections are skipped.
async fn next(door: &Door, socket: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    // The usual cause is a lack of file descriptors. An immediate retry would only waste CPU time.
    const PAUSE: Duration = Duration::from_millis(10);
    loop {
        let accepted = tokio::select! {
            biased;
            () = door.stop.cancelled() => return None,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                tracing::warn!(local = %door.local, %error, "cannot accept");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Connects to a target from the address of a node.
async fn dial(source: IpAddr, target: SocketAddr, limit: Duration) -> Result<TcpStream, Outcome> {
    // Nodes with other addresses are in a network namespace without a route out, so they cannot disturb other machines.
    if source.is_loopback() && !target.ip().is_loopback() {
        return Err(Outcome::Timeout);
    }
    match timeout(limit, connect(source, target)).await {
        Ok(Ok(stream)) => {
            // This setting is only a hint to the system.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Err(Outcome::Refused),
        Ok(Err(_)) => Err(Outcome::Reset),
        Err(_) => Err(Outcome::Timeout),
    }
}

async fn connect(source: IpAddr, target: SocketAddr) -> io::Result<TcpStream> {
    if source.is_ipv4() && target.is_ipv4() {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // If the node's address has no free port, the system chooses another loopback address.
        if socket.bind(SocketAddr::new(source, 0)).is_ok() {
            match socket.connect(target).await {
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
                connected => return connected,
            }
        }
    }
    TcpStream::connect(target).await
}
