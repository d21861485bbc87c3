//! A server that follows a script for each request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::wait::until;

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A pod's answer.
    Right,
    /// A pod's answer with `connection: close`.
    RightAndClose,
    /// A pod's answer after [`Server::release`].
    Held,
    /// A pod's answer with another status.
    Status(u16),
    /// A pod's answer to another request.
    WrongContent,
    /// A correct body without a content-length.
    NoLength,
    /// Not HTTP.
    Garbage,
    /// The connection is closed instead of an answer.
    EndBeforeAnswer,
    /// The connection is reset instead of an answer.
    ResetBeforeAnswer,
    /// The connection is closed within the head.
    EndWithinHead,
    /// The connection is closed within the body.
    EndWithinBody,
    /// The connection is reset within the body.
    ResetWithinBody,
    /// No answer.
    Hang,
    /// The head of an answer, and nothing more.
    HangWithinBody,
}

/// A request, as passed to the script.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Its number in the run.
    pub index: usize,
    /// Its number on its connection, from 1.
    pub nth: usize,
}

type Script = Arc<dyn Fn(Seen) -> Act + Send + Sync>;

/// The server. It ends when this value is dropped.
pub struct Server {
    address: SocketAddr,
    counts: Arc<Counters>,
    release: watch::Sender<bool>,
    close_idle: watch::Sender<u32>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Counters {
    accepted: AtomicU32,
    open: AtomicU32,
    requests: AtomicUsize,
}

#[derive(Clone)]
struct Serving {
    script: Script,
    counts: Arc<Counters>,
    released: watch::Receiver<bool>,
    close_idle: watch::Receiver<u32>,
}

impl Server {
    /// A server on 127.0.0.1.
    pub async fn start(script: impl Fn(Seen) -> Act + Send + Sync + 'static) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), script).await
    }

    /// A server somewhere on loopback.
    pub async fn start_at(at: SocketAddr, script: impl Fn(Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counters::default());
        let (release, released) = watch::channel(false);
        let (close, close_idle) = watch::channel(0);
        let serving = Serving { script: Arc::new(script), counts: Arc::clone(&counts), released, close_idle };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = stopped.cancelled() => return,
                };
                let (stream, _) = accepted.unwrap();
                serving.counts.accepted.fetch_add(1, Ordering::SeqCst);
                serving.counts.open.fetch_add(1, Ordering::SeqCst);
                let (mut serving, stopped) = (serving.clone(), stopped.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = serving.connection(stream) => {}
                        () = stopped.cancelled() => {}
                    }
                    serving.counts.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, counts, release, close_idle: close, _stop: stop.drop_guard() }
    }

    /// A server whose script is a list: request `k` gets `acts[k]`. Later requests get a correct answer.
    pub async fn acting(acts: Vec<Act>) -> Self {
        Self::start(move |seen| acts.get(seen.index).copied().unwrap_or(Act::Right)).await
    }

    pub fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u32 {
        self.counts.accepted.load(Ordering::SeqCst)
    }

    /// Requests read so far.
    pub fn requests(&self) -> usize {
        self.counts.requests.load(Ordering::SeqCst)
    }

    /// Releases the held answers, and all later ones.
    pub fn release(&self) {
        self.release.send_replace(true);
    }

    /// Closes all idle connections, and returns when no connection is open.
    pub async fn close_idle(&self) {
        self.close_idle.send_modify(|closed| *closed += 1);
        until("all connections are closed", || self.counts.open.load(Ordering::SeqCst) == 0).await;
    }
}

impl Serving {
    async fn connection(&mut self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        for nth in 1.. {
            self.close_idle.mark_unchanged();
            let head = tokio::select! {
                head = read_head(&mut stream) => head,
                _ = self.close_idle.changed() => return,
            };
            let Some(path) = head else { return };
            self.counts.requests.fetch_add(1, Ordering::SeqCst);
            let index = path.rsplit('/').next().unwrap().parse().unwrap();
            let act = (self.script)(Seen { index, nth });
            if act == Act::Held {
                self.released.wait_for(|released| *released).await.unwrap();
            }
            if !act.perform(&mut stream, &path).await {
                return;
            }
        }
    }
}

impl Act {
    /// Performs the act. Returns whether the connection continues.
    async fn perform(self, stream: &mut TcpStream, path: &str) -> bool {
        let body = format!(r#"{{"pod":"web-0","path":"{path}"}}"#);
        let head = |status: u16, more: &str| {
            format!("HTTP/1.1 {status} X\r\nx-pod: web-0\r\ncontent-length: {}\r\n{more}\r\n", body.len())
        };
        let half = body.split_at(body.len() / 2).0;
        let text = match self {
            Self::Right | Self::Held => head(200, "") + &body,
            Self::RightAndClose => head(200, "connection: close\r\n") + &body,
            Self::Status(status) => head(status, "") + &body,
            Self::WrongContent => head(200, "") + &"x".repeat(body.len()),
            Self::NoLength => format!("HTTP/1.1 200 X\r\nx-pod: web-0\r\n\r\n{body}"),
            Self::Garbage => "garbage\r\n\r\n".to_owned(),
            Self::EndBeforeAnswer | Self::ResetBeforeAnswer | Self::Hang => String::new(),
            Self::EndWithinHead => "HTTP/1.1 20".to_owned(),
            Self::EndWithinBody | Self::ResetWithinBody => head(200, "") + half,
            Self::HangWithinBody => head(200, ""),
        };
        // The client may have disconnected already.
        let _ = stream.write_all(text.as_bytes()).await;
        match self {
            Self::Right | Self::Held | Self::Status(_) | Self::WrongContent => true,
            Self::Hang | Self::HangWithinBody => std::future::pending().await,
            Self::ResetBeforeAnswer | Self::ResetWithinBody => {
                stream.set_zero_linger().unwrap();
                false
            }
            _ => false,
        }
    }
}

/// The path of the next request. `None` at the end of the connection.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    Some(head.split(' ').nth(1).unwrap().to_owned())
}
