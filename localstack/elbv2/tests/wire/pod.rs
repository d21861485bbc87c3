//! Pods: small servers, each on its own address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A pod that answers HTTP/1.1 with the request's head as the body, and keeps connections alive.
///
/// `/health` reports its health. `/slow` never gets an answer. `/break` ends the connection in the middle of the
/// answer, `/last` after it but without `connection: close`. `/held` is answered after [`Self::let_go`]. `/chat`
/// becomes a connection that returns what it gets.
pub struct Pod {
    pub at: SocketAddr,
    facts: Arc<Facts>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Facts {
    ill: AtomicBool,
    letting_go: CancellationToken,
    checks: AtomicUsize,
    requests: AtomicUsize,
    connections: AtomicUsize,
}

impl Pod {
    pub async fn start(at: impl Into<SocketAddr>) -> Self {
        let listener = TcpListener::bind(at.into()).await.unwrap();
        let at = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let facts = Arc::new(Facts::default());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accept(
            listener,
            Arc::clone(&facts),
            stop.clone(),
        )));
        Self { at, facts, _stop: stop.drop_guard() }
    }

    pub fn fall_ill(&self) {
        self.facts.ill.store(true, Ordering::SeqCst);
    }

    pub fn recover(&self) {
        self.facts.ill.store(false, Ordering::SeqCst);
    }

    /// Answers `/held`.
    pub fn let_go(&self) {
        self.facts.letting_go.cancel();
    }

    /// The number of health checks from all nodes.
    pub fn checks(&self) -> usize {
        self.facts.checks.load(Ordering::SeqCst)
    }

    /// The number of requests that were not health checks.
    pub fn requests(&self) -> usize {
        self.facts.requests.load(Ordering::SeqCst)
    }

    /// The number of connections with at least one request that was not a health check.
    pub fn connections(&self) -> usize {
        self.facts.connections.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, facts: Arc<Facts>, stop: CancellationToken) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(stop.clone().run_until_cancelled_owned(serve(stream, Arc::clone(&facts))));
    }
}

async fn serve(mut stream: TcpStream, facts: Arc<Facts>) {
    let mut used = false;
    while let Some(head) = read_head(&mut stream).await {
        let path = head.split(' ').nth(1).unwrap_or_default();
        if path == "/health" {
            facts.checks.fetch_add(1, Ordering::SeqCst);
            let status = if facts.ill.load(Ordering::SeqCst) { "503 Ill" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            continue;
        }
        facts.requests.fetch_add(1, Ordering::SeqCst);
        if !std::mem::replace(&mut used, true) {
            facts.connections.fetch_add(1, Ordering::SeqCst);
        }
        let promised = if path == "/break" { head.len() + 1 } else { head.len() };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {promised}\r\n\r\n{head}");
        if path == "/held" {
            facts.letting_go.cancelled().await;
        }
        if path == "/chat" {
            let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\n";
            stream.write_all(answer.as_bytes()).await.unwrap();
            let (mut from, mut to) = stream.split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
            return;
        }
        if path == "/slow" {
            return std::future::pending().await;
        }
        if stream.write_all(answer.as_bytes()).await.is_err() || matches!(path, "/break" | "/last") {
            return;
        }
    }
}

/// Reads up to the empty line. The requests of these tests have no body.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}
