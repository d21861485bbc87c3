//! Limits the total memory of all request bodies.
//!
//! Memory is reserved as bytes arrive, so a large `Content-Length` alone reserves no memory. Connections that have not
//! sent a valid request share a separate part of the memory, so they cannot block other connections. If no memory is
//! free, the request waits until memory becomes free or the server's timeout ends the request.
//!
//! The server rejects a request with an unknown path before it reads the body. The webhook's path is not secret before
//! the first secret path is in use, and after a user replaced the webhook configurations. While the path is not secret,
//! the server reads the body of every request to the webhook's path.

use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory for all bodies, in bytes.
pub const ROOM: u32 = 32 * 1024 * 1024;
/// The part of the memory for connections that have not sent a valid request yet.
const UNPROVEN: u32 = 8 * 1024 * 1024;

/// The memory that request bodies share.
#[derive(Clone, Debug)]
pub struct Bodies {
    proven: Arc<Semaphore>,
    unproven: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        let room = |bytes: u32| Arc::new(Semaphore::new(bytes as usize));
        Self { proven: room(ROOM - UNPROVEN), unproven: room(UNPROVEN) }
    }
}

/// A completely received body. Dropping the body frees the memory.
#[derive(Debug)]
pub struct Whole {
    /// The content.
    pub bytes: Vec<u8>,
    taken: Option<OwnedSemaphorePermit>,
}

/// The reason why a body could not be received.
#[derive(Debug, Error)]
pub enum BadBody {
    /// The body is larger than allowed.
    #[error("the body is too large; send at most {0} bytes")]
    TooLarge(usize),
    /// The connection failed before the body was complete.
    #[error("the body did not arrive ({0}); send it completely")]
    Broken(String),
}

impl Bodies {
    /// Reads a body of at most `largest` bytes. `trusted` states whether the connection has sent a valid request.
    ///
    /// # Errors
    /// The body is too large, or the connection fails.
    pub async fn read<B>(&self, body: B, largest: usize, trusted: bool) -> Result<Whole, BadBody>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if body.size_hint().lower() > largest as u64 {
            return Err(BadBody::TooLarge(largest));
        }
        let room = if trusted { &self.proven } else { &self.unproven };
        let broken = |error: String| BadBody::Broken(error);
        let mut whole = Whole { bytes: Vec::new(), taken: None };
        let mut body = std::pin::pin!(body);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| broken(error.into().to_string()))?;
            let Ok(data) = frame.into_data() else { continue };
            if whole.bytes.len() + data.len() > largest {
                return Err(BadBody::TooLarge(largest));
            }
            let length = u32::try_from(data.len()).map_err(|_| BadBody::TooLarge(largest))?;
            let more = room.clone().acquire_many_owned(length).await;
            let more = more.map_err(|error| broken(error.to_string()))?;
            match &mut whole.taken {
                Some(taken) => taken.merge(more),
                none => *none = Some(more),
            }
            whole.bytes.extend_from_slice(&data);
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, time::Duration};

    use futures::{StreamExt, stream};
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio::time::timeout;

    use super::*;

    const LARGEST: usize = 4 * 1024 * 1024;

    fn full(length: usize) -> Full<Bytes> {
        Full::from(vec![b'x'; length])
    }

    /// A body that sends `length` bytes, and then neither continues nor ends.
    fn stuck(length: usize) -> impl Body<Data = Bytes, Error = Infallible> {
        let first = stream::iter([Ok(Frame::data(Bytes::from(vec![b'x'; length])))]);
        StreamBody::new(first.chain(stream::pending()))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit_and_one_byte_more_is_refused() {
        let bodies = Bodies::default();
        assert_eq!(bodies.read(full(10), 10, false).await.unwrap().bytes, b"xxxxxxxxxx");
        let error = bodies.read(full(11), 10, false).await.unwrap_err().to_string();
        assert!(error.contains("at most 10 bytes"), "{error}");
        let error = bodies.read(stuck(11), 10, false).await.unwrap_err().to_string();
        assert!(error.contains("at most 10 bytes"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_never_end_leave_room_for_connections_that_have_proven_themselves() {
        let bodies = Bodies::default();
        let slow: Vec<_> = (0..20).map(|_| bodies.read(stuck(LARGEST), LARGEST, false)).collect();
        let slow = futures::future::join_all(slow);
        let soon = Duration::from_secs(1);
        let (slow, ours, theirs) = tokio::join!(
            timeout(3 * soon, slow),
            timeout(soon, bodies.read(full(LARGEST), LARGEST, true)),
            timeout(soon, bodies.read(full(LARGEST), LARGEST, false)),
        );
        assert!(slow.is_err() && theirs.is_err(), "they wait for room");
        assert_eq!(ours.unwrap().unwrap().bytes.len(), LARGEST);
        let theirs = timeout(soon, bodies.read(full(LARGEST), LARGEST, false)).await;
        assert_eq!(theirs.unwrap().unwrap().bytes.len(), LARGEST, "their time-out has made room");
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_together_never_take_more_than_the_room() {
        let bodies = Bodies::default();
        let mut kept = Vec::new();
        for trusted in [true, false] {
            while let Ok(whole) =
                timeout(Duration::from_secs(1), bodies.read(full(LARGEST), LARGEST, trusted)).await
            {
                kept.push(whole.unwrap());
            }
        }
        assert_eq!(kept.len() * LARGEST, ROOM as usize);
        kept.clear();
        assert!(bodies.read(full(LARGEST), LARGEST, true).await.is_ok());
    }
}
