//! Bodies of clients on their way to targets.
//!
//! A request fails in the same way for the node whether its target broke off or its client did: hyper reports the
//! end of the connection to the target. So what the client did is noted where it is seen first, in its body, and
//! whoever ends the request asks here before anything is said of the target.

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

/// How far a client's body has come. Clones tell of the same body.
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
    /// The client is to send more.
    Awaited,
    /// It has ended or reset its connection before the end of the body, or sent something that is no body.
    Broken,
}

impl Upload {
    /// The body, and what tells how far it has come.
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

    /// Whether the client is at fault that the request cannot go on: nothing then says anything about the target.
    pub fn is_broken(&self) -> bool {
        self.state().stage == Stage::Broken
    }

    /// Whether the target would take more, and the client sends nothing.
    pub fn is_awaited(&self) -> bool {
        self.state().stage == Stage::Awaited
    }

    /// When something of the body last came.
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
