//! A malicious client: it opens connections as fast as it can, sends little, and reopens closed ones.
//!
//! It has a separate thread, so that it does not delay the test's other tasks. It has its own address like a pod,
//! different from that of the kubelet and the API server.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink},
    net::{TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::{interval, sleep},
};
use tokio_rustls::TlsConnector;

/// A header without an end.
const HALF: &[u8] = b"POST /inject HTTP/1.1\r\nHost: headgate\r\nContent-Type: appl";
/// The beginning of a request whose body is sent byte by byte.
const SLOW: &[u8] = b"POST /inject HTTP/1.1\r\nHost: headgate\r\nContent-Type: application/json\r\n\
                      Content-Length: 1000000\r\n\r\n{";
/// The pause between two of these bytes.
const DRIP: Duration = Duration::from_millis(100);
/// The pause after a refused connection.
const REFUSED: Duration = Duration::from_millis(10);

/// The address of the client.
const ADDRESS: &str = "127.0.0.2:0";

async fn connect(to: &str) -> io::Result<TcpStream> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (from, to): (SocketAddr, SocketAddr) =
        (ADDRESS.parse().map_err(invalid)?, to.parse().map_err(invalid)?);
    let socket = TcpSocket::new_v4()?;
    // Many connections can share a port if they have different destinations, or follow each other.
    socket.set_reuseaddr(true)?;
    socket.bind(from)?;
    socket.connect(to).await
}

/// The number of concurrent connections.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Connections that send nothing, or half a header.
    pub silent: usize,
    /// Connections that send the body of a request slowly.
    pub slow: usize,
}

/// 2,000 connections, 500 of which are slow POSTs.
pub const LARGE: Size = Size { silent: 1500, slow: 500 };

/// Statistics of the client.
#[derive(Debug, Default)]
pub struct Counts {
    /// Accepted connections, including the TLS handshake if there is one.
    pub opened: AtomicU64,
    /// The accepted connections that the other side closed.
    pub closed: AtomicU64,
}

/// The client. It ends when this is dropped.
pub struct Crowd {
    /// The statistics so far.
    pub counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Crowd {
    /// Connects to an HTTPS server whose certificate is signed by one of these authorities (PEM).
    pub fn at_https(address: &str, authorities: &str, size: Size) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self::start(address, TlsConnector::from(Arc::new(config)), size)
    }

    fn start(address: &str, tls: TlsConnector, size: Size) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let counts: Arc<Counts> = Arc::default();
        let client = Client { address: address.to_owned(), tls, counts: counts.clone() };
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let mut tasks = JoinSet::new();
                for at in 0..size.silent + size.slow {
                    let what = match at {
                        at if at < size.slow => What::Slow,
                        at if at % 2 == 0 => What::Half,
                        _ => What::Nothing,
                    };
                    tasks.spawn(client.clone().again_and_again(what));
                }
                let _ = stopped.await;
            });
        });
        Self { counts, stop: Some(stop), thread: Some(thread) }
    }
}

/// What a connection sends.
#[derive(Clone, Copy)]
enum What {
    Nothing,
    Half,
    Slow,
}

#[derive(Clone)]
struct Client {
    address: String,
    tls: TlsConnector,
    counts: Arc<Counts>,
}

impl Client {
    async fn again_and_again(self, what: What) {
        loop {
            let Ok(stream) = connect(&self.address).await else {
                sleep(REFUSED).await;
                continue;
            };
            // A silent connection does not even begin a handshake.
            if matches!(what, What::Nothing) {
                self.say(what, stream).await;
                continue;
            }
            let name = ServerName::try_from("127.0.0.1").unwrap();
            if let Ok(stream) = self.tls.connect(name, stream).await {
                self.say(what, stream).await;
            }
        }
    }

    /// Sends until the other side closes the connection.
    async fn say(&self, what: What, stream: impl AsyncRead + AsyncWrite) {
        self.counts.opened.fetch_add(1, Relaxed);
        let (mut reader, mut writer) = tokio::io::split(stream);
        let hung_up = async {
            let mut nothing = sink();
            let _ = copy(&mut reader, &mut nothing).await;
        };
        let says = async {
            let begun = match what {
                What::Nothing => Ok(()),
                What::Half => writer.write_all(HALF).await,
                What::Slow => writer.write_all(SLOW).await,
            };
            let mut ticks = interval(DRIP);
            while begun.is_ok() && matches!(what, What::Slow) {
                ticks.tick().await;
                if writer.write_all(b" ").await.is_err() || writer.flush().await.is_err() {
                    return;
                }
            }
            let _ = writer.flush().await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = hung_up => {}
            () = says => {}
        }
        self.counts.closed.fetch_add(1, Relaxed);
    }
}

/// Connections that remain open until this is dropped, each with half a header.
pub async fn half_sent(address: &str, count: usize) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut stream = connect(address).await.unwrap();
        // A connection that was closed before is the expected result.
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: head").await;
        all.push(stream);
    }
    all
}
