//! Connections that switch from HTTP to another protocol, such as websockets. The node forwards bytes in both
//! directions until one side closes the connection.
//!
//! At the end of the target's draining, the node closes the connection, as it closes every flow of an Application Load
//! Balancer.

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use crate::dataplane::side::{Quiet, Side};
use crate::dataplane::ticket::Ticket;
use crate::trace::Outcome;

/// Forwards bytes between a client and a target after an upgrade.
pub async fn carry(mut ticket: Ticket, client: OnUpgrade, target: OnUpgrade) {
    let Ok(client) = client.await else { return ticket.finish(Outcome::ClientGone) };
    let Ok(target) = target.await else { return ticket.finish(Outcome::Reset) };
    let quiet = Quiet::default();
    let mut near = Side::new(TokioIo::<Upgraded>::new(client), &quiet);
    let mut far = Side::new(TokioIo::<Upgraded>::new(target), &quiet);
    let cut = ticket.cut();
    let copied = tokio::select! {
        copied = copy_bidirectional(&mut near, &mut far) => copied,
        () = cut.cancelled() => return ticket.finish(Outcome::Terminated),
    };
    ticket.add_bytes(near.bytes + far.bytes);
    ticket.finish(match copied {
        Ok(_) => Outcome::Ok,
        Err(_) if near.failed => Outcome::ClientGone,
        Err(_) => Outcome::Reset,
    });
}
