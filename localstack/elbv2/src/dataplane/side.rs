//! The two sides of a flow. Records the bytes from each side, the time of the last data, and which side broke the flow.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Measures how long a flow has carried no data.
#[derive(Debug, Clone)]
pub struct Quiet {
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

    /// Returns after the flow has carried no data for this long.
    pub async fn for_longer_than(&self, limit: Duration) {
        loop {
            let ends = self.begun + Duration::from_millis(self.since.load(Ordering::Relaxed)) + limit;
            if Instant::now() >= ends {
                return;
            }
            tokio::time::sleep_until(ends).await;
        }
    }
}

/// One side of a connection. Counts the bytes that are read from this side, and records whether this side broke the
/// flow.
pub struct Side<S> {
    /// The connection.
    pub stream: S,
    /// The number of bytes read from this side.
    pub bytes: u64,
    /// Whether this side broke the flow.
    pub failed: bool,
    quiet: Quiet,
}

impl<S> Side<S> {
    /// Creates a side of a flow.
    pub fn new(stream: S, quiet: &Quiet) -> Self {
        Self { stream, bytes: 0, failed: false, quiet: quiet.clone() }
    }

    fn noted<T>(&mut self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.failed |= matches!(poll, Poll::Ready(Err(_)));
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Side<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Side<S> {
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
