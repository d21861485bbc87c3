//! Nodes of a Network Load Balancer: TCP, one target per connection, chosen by a hash of the flow.
//!
//! The node accepts the client's connection before the node connects to the target. With a real node, the client's
//! connection would be refused. With the stand-in, the client sees a reset just after the connect. When a target is
//! deregistered, existing connections continue. The node resets a connection if the model decides so, or if one side
//! sends data after the idle timeout.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::side::{Quiet, Side};
use super::ticket::Ticket;
use super::{Door, dial, next};
use crate::trace::Outcome;

/// The maximum time in AWS seconds that a node waits for a target to accept a connection.
const CONNECT_TIMEOUT: f64 = 10.0;

/// Accepts connections until the listener is closed.
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
        // The target would receive a packet with its own address as the source, so the target's answer would never
        // reach the client.
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
        // The node drops the flow silently. The next side that sends data gets a reset.
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

/// Makes the next close a reset, so that the other side does not see a normal close.
fn reset(stream: &TcpStream) {
    // If the system rejects this setting, the connection closes normally.
    let _ = stream.set_zero_linger();
}

/// Returns a hash of the two ends of a flow. The protocol is always TCP.
fn flow_hash(client: SocketAddr, local: SocketAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    (client, local).hash(&mut hasher);
    hasher.finish()
}
