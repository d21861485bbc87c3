//! The HTTPS server. What it cannot read it answers with a 4xx; it never refuses a pod, and lets an eviction wait only
//! as [`headgate_core::leaving`] says.
//!
//! Whoever can reach it may ask: it tells nothing but which target groups pods with given labels would be in, and why a
//! pod may not be evicted yet; and it can be made to note on a pod that it is to leave. Each connection has bounds of its own, so that one that says nothing, or too much, takes nothing from the others.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request as HttpRequest, Response, StatusCode,
    body::{Body, Bytes},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{ask::Asking, evict::Evicting, patch, pod, review::Request, tls, tls::Served};
use crate::{admin::metrics::Metrics, app::clock::Clock};
use headgate_core::inject;

/// The path that is asked about new pods.
pub const INJECT: &str = "/inject";
/// The path that is asked about evictions.
pub const EVICT: &str = "/evict";
/// Larger than any object that an API server takes (3 MiB).
const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// Connections at once; an API server keeps a few open.
const CONNECTIONS: usize = 256;
/// Questions that are read and answered at once: with the largest bodies they hold 64 MiB.
const QUESTIONS: usize = 16;
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The API server keeps an idle connection for 90 s; one that it may be about to use is not closed.
const IDLE: Duration = Duration::from_secs(120);
/// To receive a body and to answer. The API server waits 2 s.
const PATIENCE: Duration = Duration::from_secs(3);
/// After being told to stop: how long questions under way may take.
const FAREWELL: Duration = Duration::from_secs(2);

/// What answers need.
#[derive(Clone)]
pub struct Webhook {
    /// What would bind a pod.
    pub asking: Asking,
    /// What evictions need besides.
    pub evicting: Evicting,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
}

/// Serves until `stop`, and then until the questions under way are answered.
///
/// # Errors
/// If TLS cannot be set up.
pub async fn serve(
    listener: TcpListener,
    served: watch::Receiver<Served>,
    webhook: Webhook,
    stop: CancellationToken,
) -> Result<(), String> {
    let tls = TlsAcceptor::from(tls::configuration(served).map_err(|error| error.to_string())?);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let questions = Arc::new(Semaphore::new(QUESTIONS));
    let tracker = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = async {
                let place = room.clone().acquire_owned().await;
                (place, listener.accept().await)
            } => accepted,
        };
        let (Ok(place), Ok((stream, _))) = accepted else {
            // Out of file descriptors, or the like: it passes.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (tls, webhook, stop) = (tls.clone(), webhook.clone(), stop.clone());
        let questions = questions.clone();
        tracker.spawn(async move {
            let _place = place;
            connection(stream, &tls, webhook, questions, stop).await;
        });
    }
    tracker.close();
    let _ = timeout(FAREWELL, tracker.wait()).await;
    Ok(())
}

async fn connection(
    stream: TcpStream,
    tls: &TlsAcceptor,
    webhook: Webhook,
    questions: Arc<Semaphore>,
    stop: CancellationToken,
) {
    let stream = match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return warn!(%error, "a connection to the webhook failed; expected a client that trusts its certificate");
        }
        Err(_) => return debug!("a connection to the webhook said nothing"),
    };
    let service = service_fn(move |request| {
        let (webhook, questions) = (webhook.clone(), questions.clone());
        async move { Ok::<_, Infallible>(webhook.respond(request, &questions).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection to the webhook broke");
    }
}

impl Webhook {
    /// Answers one request, whatever it is.
    pub async fn respond<B>(&self, request: HttpRequest<B>, questions: &Semaphore) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let began = self.clock.now();
        let answered = timeout(PATIENCE, async {
            let _place = questions.acquire().await;
            self.answer(request).await
        });
        let answer = answered.await.unwrap_or_else(|_| {
            Err((StatusCode::REQUEST_TIMEOUT, format!("no whole request within {PATIENCE:?}")))
        });
        let took = self.clock.since(began);
        let (status, kind, body) = match answer {
            Ok(review) => (StatusCode::OK, "application/json", review.to_string()),
            Err((status, said)) => {
                warn!(status = status.as_u16(), error = %said, "a request to the webhook was refused");
                (status, "text/plain; charset=utf-8", said + "\n")
            }
        };
        self.metrics.webhook_answered(status.as_u16(), took);
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
        response
    }

    async fn answer<B>(&self, request: HttpRequest<B>) -> Result<Value, (StatusCode, String)>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path();
        let evicts = path == EVICT;
        if path != INJECT && !evicts {
            let said = format!("there is nothing here; expected {INJECT} or {EVICT}");
            return Err((StatusCode::NOT_FOUND, said));
        }
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "expected POST".into()));
        }
        let body = Limited::new(request.into_body(), LARGEST_BODY).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let said = format!("the body is too large; expected at most {LARGEST_BODY} bytes");
                (StatusCode::PAYLOAD_TOO_LARGE, said)
            } else {
                (StatusCode::BAD_REQUEST, format!("the body did not arrive ({error}); expected it whole"))
            }
        })?;
        let review =
            Request::read(&body.to_bytes()).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        Ok(if evicts { self.evict(&review).await } else { self.review(&review).await })
    }

    async fn review(&self, request: &Request) -> Value {
        if !request.creates_a_pod() {
            return request.allow(Vec::new(), &[]);
        }
        let Some(pod) = pod::read(&request.object) else { return request.allow(Vec::new(), &[]) };
        let namespace = request.namespace();
        let known = self.asking.would_bind(namespace, &pod.labels, &pod.ports).await;
        let injection = inject::decide(&pod, &known);
        let dry_run = request.dry_run.unwrap_or_default();
        let name = request.name.as_deref().filter(|name| !name.is_empty());
        let name = name.or_else(|| request.object["metadata"]["generateName"].as_str()).unwrap_or_default();
        let reasons: Vec<&str> = injection.reasons.iter().map(|reason| reason.as_str()).collect();
        info!(
            reason = reasons.join(","),
            pod = format!("{namespace}/{name}"),
            seconds = injection.seconds,
            grace = injection.grace,
            changed = !injection.is_empty(),
            dry_run,
            "a new pod"
        );
        if !dry_run {
            self.metrics.injected(&injection.news);
        }
        request.allow(patch::render(&request.object, &injection), &injection.warnings)
    }
}

#[cfg(test)]
mod tests;
