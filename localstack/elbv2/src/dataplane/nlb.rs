//! Nodes of a Network Load Balancer: TCP, one target per connection, chosen by flow hash.
//!
//! The connection is accepted before the target is: a client of a real node would see the target's refusal as
//! its own, here it sees a reset right after the connect. An existing connection stays with its target when
//! that is deregistered.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

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
    let mut ticket = Ticket::open(&door, client, Some(flow_hash(client, door.local)));
    let Some(route) = ticket.route() else {
        reset(&stream);
        return ticket.finish(Outcome::NoTarget);
    };
    let limit = door.shared.with(|model, _| model.behaviour().time_out(CONNECT_TIMEOUT));
    let target = match dial(door.local.ip(), route.target, limit).await {
        Ok(target) => target,
        Err(outcome) => {
            reset(&stream);
            return ticket.finish(outcome);
        }
    };
    let _ = stream.set_nodelay(true);
    let (mut near, mut far) = (Side::new(stream), Side::new(target));
    let copied = copy_bidirectional(&mut near, &mut far).await;
    ticket.add_bytes(near.bytes + far.bytes);
    if copied.is_ok() {
        ticket.finish(Outcome::Ok);
    } else {
        reset(&near.stream);
        reset(&far.stream);
        ticket.finish(if near.failed { Outcome::ClientGone } else { Outcome::Reset });
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
}

impl Side {
    fn new(stream: TcpStream) -> Self {
        Self { stream, bytes: 0, failed: false }
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
