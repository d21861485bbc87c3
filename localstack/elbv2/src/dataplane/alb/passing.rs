//! Response bodies on their way from targets to clients.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::upload::Progress;
use crate::dataplane::ticket::Ticket;
use crate::trace::Outcome;

/// A response body on its way to the client. The end of the body also closes the ticket of the request.
pub struct Passing {
    body: Incoming,
    ticket: Option<Ticket>,
    /// The progress of the request body, which the client may still be sending.
    upload: Progress,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// An aborted response body.
#[derive(Debug, thiserror::Error)]
pub enum BrokenBody {
    /// The connection to the target broke, because of the target or because of an invalid request body.
    #[error("the connection to the target ended: {0}")]
    Target(#[from] hyper::Error),
    /// The node closed the connection.
    #[error("the draining of the target has ended")]
    Cut,
}

impl Passing {
    /// Creates a body whose end also closes the ticket of the request.
    pub fn new(body: Incoming, ticket: Ticket, upload: Progress) -> Self {
        let cut = Box::pin(ticket.cut().cancelled_owned());
        Self { body, ticket: Some(ticket), upload, cut }
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(outcome);
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BrokenBody;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        match &poll {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or_default());
                if let Some(ticket) = &mut self.ticket {
                    ticket.add_bytes(bytes);
                }
            }
            Poll::Ready(Some(Err(_))) if self.upload.is_broken() => self.end(Outcome::ClientGone),
            Poll::Ready(Some(Err(_))) => self.end(Outcome::Reset),
            Poll::Ready(None) => self.end(Outcome::Ok),
            Poll::Pending => {
                if self.cut.as_mut().poll(cx).is_ready() {
                    self.end(Outcome::Terminated);
                    return Poll::Ready(Some(Err(BrokenBody::Cut)));
                }
            }
        }
        poll.map(|frame| frame.map(|frame| frame.map_err(BrokenBody::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // The server stops reading after it has received all bytes of the declared length.
        if self.body.is_end_stream() {
            self.end(Outcome::Ok);
        }
    }
}
