//! Nodes of a Network Load Balancer: TCP, one target per connection, chosen by flow hash.
//!
//! The connection is accepted before the target is: a client of a real node would see the target's refusal as
//! its own, here it sees a reset right after the connect. An existing connection stays with its target when
//! that is deregistered; it is reset when the model says so, or when it has been idle and somebody speaks again.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::ticket::Ticket;
use super::{Door, dial, next};
use crate::trace::Outcome;

/// AWS seconds that a node waits for a target to accept.
const CONNECT_TIMEOUT: f64 = 10.0;

/// Accepts until the listener is closed.
pub async fn accept(door: Arc<Door>, socket: TcpListener) {
    while let Some((stream, client)) = next(&door, &socket).await {
        let carrier = Arc::clone(&door);
        door.connections.spawn(async move {
            let cut = carrier.cut.clone();
            tokio::select! {
                () = carry(carrier, stream, client) => {}
                () = cut.cancelled() => {}
            }
        });
    }
}

async fn carry(door: Arc<Door>, stream: TcpStream, client: SocketAddr) {
    let mut ticket = Ticket::open(&door, client, Some(flow_hash(client, door.local)), None);
    let chosen = ticket.choice().and_then(|c| Some((c.route?, c.preserve_client_ip, c.idle)));
    let Some((route, preserve_client_ip, idle)) = chosen else {
        reset(&stream);
        return ticket.finish(Outcome::NoTarget);
    };
    let limit = door.shared.with(|model, _| model.behaviour().time_out(CONNECT_TIMEOUT));
    if preserve_client_ip && client.ip() == route.target.ip() {
        // The target would get a packet with its own address as the source, and its answer would never leave it.
        tokio::time::sleep(limit).await;
        reset(&stream);
        return ticket.finish(Outcome::Timeout);
    }
    let source = if preserve_client_ip { client.ip() } else { door.local.ip() };
    let target = match dial(source, route.target, limit).await {
        Ok(target) => target,
        Err(outcome) => {
            reset(&stream);
            return ticket.finish(outcome);
        }
    };
    let _ = stream.set_nodelay(true);
    let (cut, quiet) = (ticket.cut(), Quiet::default());
    let (mut near, mut far) = (Side::new(stream, &quiet), Side::new(target, &quiet));
    let end = tokio::select! {
        copied = copy_bidirectional(&mut near, &mut far) => copied.map(|_| Outcome::Ok).map_err(|_| ()),
        () = cut.cancelled() => Ok(Outcome::Terminated),
        () = quiet.for_longer_than(idle) => Ok(Outcome::Idle),
    };
    ticket.add_bytes(near.bytes + far.bytes);
    let outcome = end.unwrap_or(if near.failed { Outcome::ClientGone } else { Outcome::Reset });
    if outcome == Outcome::Idle {
        // The flow is forgotten and nobody told: whoever speaks next is reset.
        let _ = tokio::select! {
            spoken = near.stream.readable() => spoken,
            spoken = far.stream.readable() => spoken,
        };
    }
    if outcome != Outcome::Ok {
        reset(&near.stream);
        reset(&far.stream);
    }
    ticket.finish(outcome);
}

/// How long nothing has moved on a flow.
#[derive(Debug, Clone)]
struct Quiet {
    since: Arc<AtomicU64>,
    begun: Instant,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { since: Arc::default(), begun: Instant::now() }
    }
}

impl Quiet {
    fn end(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(now, Ordering::Relaxed);
    }

    async fn for_longer_than(&self, limit: Duration) {
        loop {
            let ends = self.begun + Duration::from_millis(self.since.load(Ordering::Relaxed)) + limit;
            if Instant::now() >= ends {
                return;
            }
            tokio::time::sleep_until(ends).await;
        }
    }
}

/// Makes the coming close a reset: the other side must not take it for an orderly end.
fn reset(stream: &TcpStream) {
    // Where the system cannot, the close is an orderly one after all.
    let _ = stream.set_zero_linger();
}

/// Protocol aside, which is always TCP here, a flow is its two ends.
fn flow_hash(client: SocketAddr, local: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (client, local).hash(&mut hasher);
    hasher.finish()
}

/// One side of a connection: counts what is read from it and remembers whether it broke.
struct Side {
    stream: TcpStream,
    bytes: u64,
    failed: bool,
    quiet: Quiet,
}

impl Side {
    fn new(stream: TcpStream, quiet: &Quiet) -> Self {
        Self { stream, bytes: 0, failed: false, quiet: quiet.clone() }
    }

    fn noted<T>(&mut self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.failed |= matches!(poll, Poll::Ready(Err(_)));
        poll
    }
}

impl AsyncRead for Side {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.quiet.end();
        }
        self.bytes += u64::try_from(buf.filled().len() - before).unwrap_or_default();
        self.noted(poll)
    }
}

impl AsyncWrite for Side {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noted(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.noted(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.noted(poll)
    }
}
