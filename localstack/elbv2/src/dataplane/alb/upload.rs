//! Bodies of clients on their way to targets.
//!
//! hyper reports the same error if the client or the target breaks off: the connection to the target ended. So
//! [`Progress`] records what the client did, where it is visible first: in its body. The code that ends a request
//! checks it before it blames the target.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::Instant;

/// A client's body on its way to the target.
#[derive(Debug)]
pub struct Upload {
    body: Incoming,
    progress: Progress,
}

/// The progress of a client's body. Clones share the state of one body.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    stage: Stage,
    moved: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The node has not asked the client for more.
    Idle,
    /// The node waits for the client to send more.
    Awaited,
    /// The client closed or reset its connection before the end of the body, or sent invalid data.
    Broken,
}

impl Upload {
    /// The body, and a value that reports its progress.
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

    /// Whether the client caused the end of the request. The target is then not to blame.
    pub fn is_broken(&self) -> bool {
        self.state().stage == Stage::Broken
    }

    /// Whether the node waits for the client to send more of the body.
    pub fn is_awaited(&self) -> bool {
        self.state().stage == Stage::Awaited
    }

    /// When data of the body last arrived.
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
