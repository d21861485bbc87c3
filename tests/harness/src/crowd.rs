//! A client that means no good: it opens connections as fast as it can, says little on them, and opens again what is
//! closed.
//!
//! It has a thread of its own, so what it does costs the test's other tasks no turn of theirs. And it has an address of its
//! own, as a pod has: whoever else calls, the kubelet or the API server, calls from another one.

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

/// A header that does not end.
const HALF: &[u8] = b"POST /inject HTTP/1.1\r\nHost: headgate\r\nContent-Type: appl";
/// The beginning of a request whose body comes byte by byte.
const SLOW: &[u8] = b"POST /inject HTTP/1.1\r\nHost: headgate\r\nContent-Type: application/json\r\n\
                      Content-Length: 1000000\r\n\r\n{";
/// Between two bytes of it.
const DRIP: Duration = Duration::from_millis(100);
/// After a connection that was refused.
const REFUSED: Duration = Duration::from_millis(10);

/// Where the crowd calls from.
const ADDRESS: &str = "127.0.0.2:0";

async fn connect(to: &str) -> io::Result<TcpStream> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (from, to): (SocketAddr, SocketAddr) =
        (ADDRESS.parse().map_err(invalid)?, to.parse().map_err(invalid)?);
    let socket = TcpSocket::new_v4()?;
    // Many connections share a port as long as they go to different places, or follow each other.
    socket.set_reuseaddr(true)?;
    socket.bind(from)?;
    socket.connect(to).await
}

/// Connections that are tried at once.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// That say nothing, or send half a header.
    pub silent: usize,
    /// That send the body of a request slowly.
    pub slow: usize,
}

/// 2,000 connections, 500 of which are slow POSTs.
pub const LARGE: Size = Size { silent: 1500, slow: 500 };

/// What it has done.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that were accepted, with their handshake if there is one.
    pub opened: AtomicU64,
    /// Of those, how many were closed by the other side.
    pub closed: AtomicU64,
}

/// The crowd. Dropping it ends it.
pub struct Crowd {
    /// What it has done so far.
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
    /// At an HTTPS server whose certificate one of these authorities (PEM) has signed.
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

/// What is said on a connection.
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
            // Who says nothing does not even begin a handshake.
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

    /// Until the other side hangs up.
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

/// Connections that stay open until this is dropped, each with half a header.
pub async fn half_sent(address: &str, count: usize) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut stream = connect(address).await.unwrap();
        // One that has been closed already has been closed: that is what is asked for.
        let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nHost: head").await;
        all.push(stream);
    }
    all
}
