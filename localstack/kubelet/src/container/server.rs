//! The HTTP/1.1 server on one port of a pod.
//!
//! Owns a listener and its connections. It closes the way a plain server does: the listener at once and idle
//! connections with it; a request that is being answered is answered, with `connection: close`, and then its
//! connection ends. While it drains, it goes on, with `connection: close` on each answer. On SIGKILL
//! everything is dropped where it is. A connection that breaks concerns nobody else.

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

/// The longest answer that `?delay-ms=` may ask for.
const LONGEST_DELAY: Duration = Duration::from_mins(10);

/// Whether a pod says that it is ready; set through the control API, read by its readiness paths.
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

/// What a pod's servers answer with.
#[derive(Debug)]
pub struct Identity {
    /// The pod's name.
    pub name: String,
    /// The pod's UID.
    pub uid: String,
    /// Its address.
    pub ip: Ipv4Addr,
    /// The port of a readiness path, and the path: these answer 503 while the pod says it is not ready.
    pub readiness_paths: Vec<(u16, String)>,
    /// What the pod says about its readiness.
    pub readiness: Arc<Readiness>,
    /// Requests answered by all servers of the pod.
    pub served: Arc<AtomicU64>,
    /// Requests that have come to this process: the number of the next delay.
    pub received: AtomicU64,
    /// How the process behaves.
    pub conduct: Conduct,
    /// Whether it hangs.
    pub hanging: Arc<watch::Sender<bool>>,
}

/// What a process tells its servers.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Ask clients to go elsewhere, and go on.
    pub drain: CancellationToken,
    /// Close.
    pub close: CancellationToken,
    /// SIGKILL, and the end of the process for any other reason.
    pub kill: CancellationToken,
}

/// Accepts until a signal comes. The connections run on `tasks`, which is empty once the last one has ended.
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
                // Out of file descriptors, mostly: a pause lets some connections end first.
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
    // No limit on how long a connection may be idle: closing one is the client's business until SIGTERM.
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
    // Once more, so that what has already arrived counts as under way.
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

/// Counts a request for as long as it lives.
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
    // Read to its end, so that the connection can carry the next request.
    while let Some(Ok(_)) = body.frame().await {}
    let count = identity.received.fetch_add(1, Ordering::Relaxed);
    let own = identity.conduct.request_delay.draw(identity.conduct.seed, count);
    let wait = own.max(head.uri.query().and_then(delay).unwrap_or_default());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    if *identity.hanging.borrow() {
        // Fails only when the sender is gone, which the identity itself holds.
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

/// `?delay-ms=N` asks for an answer that takes N milliseconds, so that a request can be caught in flight.
fn delay(query: &str) -> Option<Duration> {
    let milliseconds = query.split('&').find_map(|pair| pair.strip_prefix("delay-ms="))?.parse().ok()?;
    Some(Duration::from_millis(milliseconds).min(LONGEST_DELAY))
}
