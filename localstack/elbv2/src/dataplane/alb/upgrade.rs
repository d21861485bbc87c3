//! Connections that become something else than HTTP, such as websockets: bytes both ways until one side ends.
//!
//! As with every flow of an Application Load Balancer, the end of the target's draining ends them.

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

use crate::dataplane::ticket::Ticket;
use crate::trace::Outcome;

/// Carries bytes between a client and a target that have agreed to.
pub async fn carry(mut ticket: Ticket, client: OnUpgrade, target: OnUpgrade) {
    let (Ok(client), Ok(target)) = (client.await, target.await) else {
        return ticket.finish(Outcome::Reset);
    };
    let (mut near, mut far) = (TokioIo::<Upgraded>::new(client), TokioIo::<Upgraded>::new(target));
    let cut = ticket.cut();
    let copied = tokio::select! {
        copied = copy_bidirectional(&mut near, &mut far) => copied,
        () = cut.cancelled() => return ticket.finish(Outcome::Terminated),
    };
    match copied {
        Ok((up, down)) => {
            ticket.add_bytes(up + down);
            ticket.finish(Outcome::Ok);
        }
        Err(_) => ticket.finish(Outcome::Reset),
    }
}
