//! Request bodies on their way from clients to targets.
//!
//! If the client or the target aborts, hyper reports the same error: the connection to the target was closed.
//! [`Progress`] therefore records what happened on the client's side of the body. The code that closes a request checks
//! [`Progress`] before it blames the target.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::Instant;

/// A request body on its way to the target.
#[derive(Debug)]
pub struct Upload {
    body: Incoming,
    progress: Progress,
}

/// The progress of a request body. All clones share the same state.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    stage: Stage,
    moved: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The node is not waiting for data from the client.
    Idle,
    /// The node waits for more data from the client.
    Awaited,
    /// The client closed or reset the connection before the end of the body, or sent invalid data.
    Broken,
}

impl Upload {
    /// Creates the body and a value that reports the progress of the body.
    pub fn new(body: Incoming) -> (Self, Progress) {
        let state = State { stage: Stage::Idle, moved: Instant::now() };
        let progress = Progress(Arc::new(Mutex::new(state)));
        (Self { body, progress: progress.clone() }, progress)
    }
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the client aborted the request, so that the target is not to blame.
    pub fn is_broken(&self) -> bool {
        self.state().stage == Stage::Broken
    }

    /// Returns whether the node waits for more data of the body.
    pub fn is_awaited(&self) -> bool {
        self.state().stage == Stage::Awaited
    }

    /// Returns when data of the body last arrived.
    pub fn moved(&self) -> Instant {
        self.state().moved
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        let mut state = self.progress.state();
        state.stage = match &poll {
            Poll::Pending => Stage::Awaited,
            Poll::Ready(Some(Err(_))) => Stage::Broken,
            Poll::Ready(_) => {
                state.moved = Instant::now();
                Stage::Idle
            }
        };
        drop(state);
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
