//! The HTTP/1.1 server on one port of a pod.
//!
//! The module manages a listener and its connections. On close, the server closes the listener and all idle connections
//! immediately. Requests in progress are answered with `connection: close`, and then their connections are closed.
//! During a drain, the server continues to serve, with `connection: close` in each answer. SIGKILL closes all sockets
//! immediately. A broken connection does not affect other connections.

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

/// The maximum delay of `?delay-ms=`.
const LONGEST_DELAY: Duration = Duration::from_mins(10);

/// The readiness of a pod. The control API sets the readiness, and the pod's readiness paths return the readiness.
#[derive(Debug)]
pub struct Readiness(AtomicBool);

impl Default for Readiness {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Readiness {
    /// Returns whether the readiness paths answer 200.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets whether the readiness paths answer 200 or 503.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }
}

/// The data that the answers of a pod's servers contain.
#[derive(Debug)]
pub struct Identity {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// The address of the pod.
    pub ip: Ipv4Addr,
    /// The readiness paths and their ports. A readiness path answers 503 while the pod is not ready.
    pub readiness_paths: Vec<(u16, String)>,
    /// The readiness of the pod.
    pub readiness: Arc<Readiness>,
    /// The number of requests that all servers of the pod have answered.
    pub served: Arc<AtomicU64>,
    /// The number of requests that this process has received. The count selects the next random delay.
    pub received: AtomicU64,
    /// The behavior of the process.
    pub conduct: Conduct,
    /// Whether the process hangs.
    pub hanging: Arc<watch::Sender<bool>>,
}

/// The signals from a process to its servers.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Send `connection: close` in each answer, and continue to serve.
    pub drain: CancellationToken,
    /// Close the listener and the connections.
    pub close: CancellationToken,
    /// Close all sockets immediately, because the process has exited or got SIGKILL.
    pub kill: CancellationToken,
}

/// Accepts connections until a signal arrives. The connections run on `tasks`, which is empty after the last connection
/// is closed.
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
                // The usual cause is a lack of file descriptors. After a pause, some connections may be closed.
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
    // The server has no idle timeout: until SIGTERM, only clients close idle connections.
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
    // The second poll ensures that data which has already arrived counts as a request in progress.
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

/// Counts a request as in progress until the value is dropped.
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
    // The body is read completely, so that the connection can be reused.
    while let Some(Ok(_)) = body.frame().await {}
    let count = identity.received.fetch_add(1, Ordering::Relaxed);
    let own = identity.conduct.request_delay.draw(identity.conduct.seed, count);
    let wait = own.max(head.uri.query().and_then(delay).unwrap_or_default());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    if *identity.hanging.borrow() {
        // The wait fails only if the sender is dropped, and the identity holds the sender.
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

/// Parses `?delay-ms=N`. The answer then takes N milliseconds, so that a test can observe a request in flight.
fn delay(query: &str) -> Option<Duration> {
    let milliseconds = query.split('&').find_map(|pair| pair.strip_prefix("delay-ms="))?.parse().ok()?;
    Some(Duration::from_millis(milliseconds).min(LONGEST_DELAY))
}
