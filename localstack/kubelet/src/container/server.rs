//! The HTTP/1.1 server on one port of a pod.
//!
//! Manages a listener and its connections. On close, it closes the listener and idle connections at once. Requests in
//! progress are answered with `connection: close`, and then their connections end. While it drains, it continues to
//! serve, with `connection: close` in each answer. SIGKILL drops everything at once. A broken connection does not
//! affect others.

use crate::container::conduct::Conduct;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The longest delay of `?delay-ms=`.
const LONGEST_DELAY: Duration = Duration::from_mins(10);

/// The readiness of a pod. The control API sets it, and the pod's readiness paths return it.
#[derive(Debug)]
pub struct Readiness(AtomicBool);

impl Default for Readiness {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Readiness {
    /// Whether the readiness paths answer 200.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes the readiness paths answer 200 or 503 from now on.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }
}

/// The data in the answers of a pod's servers.
#[derive(Debug)]
pub struct Identity {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// Readiness paths with their ports. They answer 503 while the pod is not ready.
    pub readiness_paths: Vec<(u16, String)>,
    /// The readiness of the pod.
    pub readiness: Arc<Readiness>,
    /// Requests that all servers of the pod have answered.
    pub served: Arc<AtomicU64>,
    /// Requests that have reached this process. The count is the number of the next delay.
    pub received: AtomicU64,
    /// How the process behaves.
    pub conduct: Conduct,
    /// Whether it hangs.
    pub hanging: Arc<watch::Sender<bool>>,
}

/// The signals from a process to its servers.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Tell clients to reconnect elsewhere, and continue.
    pub drain: CancellationToken,
    /// Close.
    pub close: CancellationToken,
    /// SIGKILL, or the end of the process for another reason.
    pub kill: CancellationToken,
}

/// Accepts connections until a signal comes. They run on `tasks`, which is empty when the last one has ended.
pub async fn serve(listener: TcpListener, identity: Arc<Identity>, signals: Signals, tasks: TaskTracker) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = signals.kill.cancelled() => return,
            () = signals.close.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                tasks.spawn(connection(stream, Arc::clone(&identity), signals.clone()));
            }
            Err(error) => {
                // Usually a lack of file descriptors. After a pause, some connections may have ended.
                tracing::warn!(pod = identity.name, %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, identity: Arc<Identity>, signals: Signals) {
    let port = stream.local_addr().as_ref().map_or(0, SocketAddr::port);
    let under_way = AtomicU32::new(0);
    let service = service_fn(|request| {
        let (identity, under_way, signals) = (&identity, &under_way, &signals);
        async move {
            let _counted = Counted::new(under_way);
            let mut response = answer(identity, port, request).await;
            if signals.drain.is_cancelled() {
                response.headers_mut().insert("connection", HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    // No idle timeout: until SIGTERM, only clients close idle connections.
    let served = hyper::server::conn::http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    tokio::select! {
        biased;
        () = signals.kill.cancelled() => return,
        _ = served.as_mut() => return,
        () = signals.close.cancelled() => {}
    }
    served.as_mut().graceful_shutdown();
    // Once more, so that data that has already arrived counts as a request in progress.
    tokio::select! {
        biased;
        _ = served.as_mut() => return,
        () = std::future::ready(()) => {}
    }
    if under_way.load(Ordering::Relaxed) > 0 {
        tokio::select! {
            () = signals.kill.cancelled() => {}
            _ = served => {}
        }
    }
}

/// Counts a request until it is dropped.
struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicU32) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn answer(identity: &Identity, port: u16, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    // Read to the end, so that the connection can be reused.
    while let Some(Ok(_)) = body.frame().await {}
    let count = identity.received.fetch_add(1, Ordering::Relaxed);
    let own = identity.conduct.request_delay.draw(identity.conduct.seed, count);
    let wait = own.max(head.uri.query().and_then(delay).unwrap_or_default());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    if *identity.hanging.borrow() {
        // Fails only if the sender is dropped, and the identity holds it.
        let _ = identity.hanging.subscribe().wait_for(|hanging| !hanging).await;
    }
    identity.served.fetch_add(1, Ordering::Relaxed);
    let path = head.uri.path();
    let is_readiness_path = identity.readiness_paths.iter().any(|(at, known)| *at == port && known == path);
    let status = if is_readiness_path && !identity.readiness.is_ready() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    let text =
        json!({"pod": identity.name, "uid": identity.uid, "ip": identity.ip, "port": port, "path": path});
    let mut response = Response::new(Full::new(Bytes::from(text.to_string())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if let Ok(name) = HeaderValue::from_str(&identity.name) {
        headers.insert("x-pod", name);
    }
    response
}

/// `?delay-ms=N` requests an answer that takes N milliseconds, so that a test can catch a request in flight.
fn delay(query: &str) -> Option<Duration> {
    let milliseconds = query.split('&').find_map(|pair| pair.strip_prefix("delay-ms="))?.parse().ok()?;
    Some(Duration::from_millis(milliseconds).min(LONGEST_DELAY))
}
