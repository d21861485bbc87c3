//! The HTTP servers of the program: one accept loop for the webhook and the admin server, with protection against
//! malicious clients.
//!
//! ```text
//!  listen ─► serve: accept ─► TLS ─► hyper (HTTP/1.1) ─► the service of the server
//!              │                          │
//!              └────► connections ◄───────┘   the phase of each connection, and which connection to close next
//!                                  bodies     the memory of all request bodies
//! ```
//!
//! **Guarantees.** The server always accepts a new connection. At the limit, the server closes another connection
//! first. The server first closes connections without a valid request, beginning with the address that has the most
//! such connections. If every connection has sent a valid request, the server closes the connection with the longest
//! idle time. The server never closes a connection while it answers a valid request.
//!
//! Each phase of a connection (handshake, header, request, idle) has a timeout. Three limits bound the memory that
//! clients can use: the number of connections, hyper's buffers of [`BUFFER`], and [`bodies`].
//!
//! **Assumptions.** Each server decides which requests are valid ([`Connection::trust`]). hyper's header timeout begins
//! when hyper waits for a request, so hyper cannot distinguish a slow header from an idle connection. The module
//! [`connections`] distinguishes slow headers from idle connections.

pub mod bodies;
pub mod connections;
pub mod listen;
pub mod seldom;
pub mod tls;
pub mod validity;

use std::{fmt::Display, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::yield_now,
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{io::InspectReader, sync::CancellationToken};
use tracing::{debug, warn};

use self::{
    connections::{Connection, Connections, Limits, Phase},
    seldom::Seldom,
};
use crate::{metrics::Metrics, runtime::clock::Clock};

/// The maximum size of hyper's buffers for one connection. The server rejects a longer header.
pub const BUFFER: usize = 16 * 1024;
/// The interval between checks of the timeouts.
const SWEEP: Duration = Duration::from_secs(1);
/// The timeout for requests in flight after the signal to stop.
const FAREWELL: Duration = Duration::from_secs(2);

/// A listening server.
#[derive(Clone)]
pub struct Server {
    /// The server's name in logs and metrics.
    pub name: &'static str,
    /// The limits of connections.
    pub limits: Limits,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
}

impl Server {
    /// Serves until `stop`, and then waits until the requests in flight are answered. `service` creates the service for
    /// one connection.
    pub async fn serve<S, B>(
        self,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        service: impl Fn(Connection) -> S,
        stop: CancellationToken,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Future: Send> + Send + Sync + 'static,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
        B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let connections = Connections::new(self.name, self.limits, self.metrics, self.clock);
        let graceful = GracefulShutdown::new();
        let failed = Arc::new(Seldom::default());
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                _ = sweep.tick() => {
                    connections.close_overdue();
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = connections.enter(peer.ip());
                    let service = service(connection.clone());
                    let exchange = Exchange {
                        connection,
                        failed: failed.clone(),
                        watcher: graceful.watcher(),
                        peer,
                        clock: self.clock,
                    };
                    tokio::spawn(exchange.run(stream, tls.clone(), service));
                }
                Err(error) => {
                    // The process has no file descriptors or memory left.
                    debug!(%error, server = self.name, "cannot accept a connection");
                    connections.close_one();
                    sleep(Duration::from_millis(100)).await;
                }
            }
            // The loop yields first, so that accepted connections are served before new connections are accepted.
            yield_now().await;
        }
        connections.close_all_but_requests();
        let _ = timeout(FAREWELL, graceful.shutdown()).await;
    }
}

/// The task that serves one connection.
struct Exchange {
    connection: Connection,
    failed: Arc<Seldom>,
    watcher: Watcher,
    peer: SocketAddr,
    clock: Clock,
}

impl Exchange {
    async fn run<S, B>(self, stream: TcpStream, tls: Option<TlsAcceptor>, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
    {
        let connection = self.connection.clone();
        let exchange = async move {
            match tls {
                None => self.http(stream, service).await,
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => self.http(stream, service).await,
                    Err(error) => self.fails(&error),
                },
            }
        };
        tokio::select! {
            biased;
            () = connection.closed() => {}
            () = exchange => {}
        }
    }

    async fn http<S, B>(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
    {
        let connection = self.connection;
        connection.is(Phase::Idle);
        let reading = connection.clone();
        let stream = InspectReader::new(stream, move |read: &[u8]| {
            if !read.is_empty() {
                reading.reads();
            }
        });
        let service = service_fn(move |request| {
            connection.is(Phase::Request);
            let (answer, connection) = (service.call(request), connection.clone());
            async move {
                let answer = answer.await;
                connection.is(Phase::Idle);
                answer
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(BUFFER);
        let exchange = http.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = self.watcher.watch(exchange).await {
            debug!(%error, peer = %self.peer, "a connection broke");
        }
    }

    fn fails(&self, error: &impl Display) {
        if let Some(others) = self.failed.say(self.clock.now()) {
            warn!(
                %error,
                peer = %self.peer.ip(),
                others,
                "a connection to the webhook failed. Make the client trust its certificate"
            );
        }
    }
}

#[cfg(test)]
mod tests;
