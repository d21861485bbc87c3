//! The HTTP server of the webhooks. An invalid request gets a 4xx response. The server never rejects a new pod, and
//! delays an eviction only as [`headgate_core::model::eviction::Ruling`] decides.
//!
//! A client must request the [path](super::path) in the webhook configurations. If a request has another path, the
//! server closes the connection and does not read the body. The content of the request determines which of the two
//! webhooks answers. [`crate::serving`] accepts and closes connections.
//!
//! A request gets a permit for its decision only after the whole request has arrived, so slow clients use no permits.
//! The server releases the permit before the request waits for anything except the engine. Without a permit, the server
//! answers without information: a new pod is treated as unbound, and an eviction gets 429.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::future::join;
use http_body_util::Full;
use hyper::{
    Method, Request as HttpRequest, Response, StatusCode,
    body::{Body, Bytes, Incoming},
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, SemaphorePermit, watch},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Webhook, patch, pod, review::Request};
use crate::serving::{
    Server,
    bodies::{BadBody, Bodies},
    connections::{Connection, Limits},
    seldom::Seldom,
    tls::{self, Served},
};
use headgate_core::{
    Moment, inject,
    model::{excerpt::excerpt, injection::Terms},
};

/// The maximum size of a body, which is larger than any object that an API server accepts (3 MiB).
const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// The maximum number of requests that are decided at the same time.
const DECISIONS: usize = 16;
/// The connection limits. An API server keeps dozens of connections open, each for 90 s after its last request. The API
/// server opens another connection for each further concurrent request, so a thousand evictions may need a thousand
/// connections. Before its first request, a connection of the API server looks like a connection of any other client.
const LIMITS: Limits = Limits {
    connections: 1280,
    // All connections of an API server have the same address.
    of_an_address: 1280,
    handshake: Duration::from_secs(5),
    header: Duration::from_secs(5),
    request: Duration::from_secs(10),
    idle: Duration::from_secs(120),
};
/// The timeout for the whole request, including its body. The API server waits 2 s for an answer about a new pod, and
/// 10 s for an answer about an eviction.
const PATIENCE: Duration = Duration::from_secs(8);
/// The longest wait for a permit.
const IN_LINE: Duration = Duration::from_millis(1_400);
/// The longest wait for the engine's answer about a new pod. The engine answers queries between two steps, each of
/// which takes milliseconds.
const DEADLINE: Duration = Duration::from_millis(500);
/// The latest time of an answer after an eviction request has arrived. The API server's own timeout starts when it
/// opens the connection.
const EVICTION: Duration = Duration::from_secs(2);

/// The pause between two log lines about requests with an unknown path.
const STRANGE_PAUSE: Duration = Duration::from_secs(60);

/// The shared data of all requests.
#[derive(Clone, Debug)]
pub struct Room {
    bodies: Bodies,
    decisions: Arc<Semaphore>,
    refused: Arc<Seldom>,
    /// Limits the log lines about requests with another path.
    strange: Arc<Seldom>,
}

impl Default for Room {
    fn default() -> Self {
        let decisions = Arc::new(Semaphore::new(DECISIONS));
        let strange = Arc::new(Seldom::with_pause(STRANGE_PAUSE));
        Self { bodies: Bodies::default(), decisions, refused: Arc::default(), strange }
    }
}

/// Serves until `stop`, and then waits until the requests in flight are answered.
///
/// # Errors
/// TLS cannot be set up.
pub async fn serve(
    listener: TcpListener,
    served: watch::Receiver<Served>,
    webhook: Webhook,
    stop: CancellationToken,
) -> Result<(), String> {
    let tls = TlsAcceptor::from(tls::configuration(served).map_err(|error| error.to_string())?);
    let room = Room::default();
    let service = |connection: Connection| {
        let (webhook, room) = (webhook.clone(), room.clone());
        service_fn(move |request: HttpRequest<Incoming>| {
            let (webhook, room, connection) = (webhook.clone(), room.clone(), connection.clone());
            async move { Ok::<_, Infallible>(webhook.respond(request, &connection, &room).await) }
        })
    };
    let (limits, metrics, clock) = (LIMITS, webhook.metrics.clone(), webhook.clock);
    let listening = Server { name: "webhook", limits, metrics, clock };
    listening.serve(listener, Some(tls), service, stop).await;
    Ok(())
}

impl Webhook {
    /// Answers one request of any kind.
    pub async fn respond<B>(
        &self,
        request: HttpRequest<B>,
        connection: &Connection,
        room: &Room,
    ) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let began = self.clock.now();
        let path = self.path.borrow().clone();
        let Some(path) = path.filter(|path| path.is(request.uri().path())) else {
            return self.refuse(connection, room);
        };
        // Any client may know a path that is not secret, so such a path proves nothing.
        if path.is_secret() {
            connection.trust();
        }
        let answer = timeout(PATIENCE, self.answer(request, connection, room, began)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err((StatusCode::REQUEST_TIMEOUT, format!("no complete request within {PATIENCE:?}")))
        });
        let took = self.clock.since(began);
        let (status, kind, body) = match answer {
            Ok(review) => (StatusCode::OK, "application/json", review.to_string()),
            Err((status, said)) => {
                if let Some(others) = room.refused.say(self.clock.now()) {
                    let status = status.as_u16();
                    warn!(status, error = %said, others, "rejected a request to the webhook");
                }
                (status, "text/plain; charset=utf-8", said + "\n")
            }
        };
        self.metrics.webhook_answered(status.as_u16(), took);
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    /// Rejects a request with an unknown path, without reading its body. The answer and the log line omit the path,
    /// because it may be an earlier secret path.
    fn refuse(&self, connection: &Connection, room: &Room) -> Response<Full<Bytes>> {
        let now = self.clock.now();
        self.metrics.webhook_answered(StatusCode::NOT_FOUND.as_u16(), Duration::ZERO);
        if let Some(others) = room.strange.say(now) {
            warn!(
                from = %connection.peer(),
                others,
                "rejected a request to the webhook unread, because its path is not served: only the API \
                 server should call it, on the path in the webhook configurations"
            );
        }
        let mut response = Response::new(Full::from("there is nothing here\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }

    async fn answer<B>(
        &self,
        request: HttpRequest<B>,
        connection: &Connection,
        room: &Room,
        began: Moment,
    ) -> Result<Value, (StatusCode, String)>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "expected POST".into()));
        }
        let body = room.bodies.read(request.into_body(), LARGEST_BODY, connection.is_trusted()).await;
        let body = body.map_err(|error| {
            let status = match error {
                BadBody::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
                BadBody::Broken(_) => StatusCode::BAD_REQUEST,
            };
            (status, error.to_string())
        })?;
        let place = timeout(IN_LINE, room.decisions.acquire()).await.ok().and_then(Result::ok);
        let review =
            Request::read(&body.bytes).map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        connection.trust();
        drop(body);
        Ok(if review.evicts_a_pod() {
            self.evict(&review, place, began + EVICTION).await
        } else {
            self.review(&review, place).await
        })
    }

    /// Answers a request about a new pod. Without a permit, the engine is not queried.
    async fn review(&self, request: &Request, place: Option<SemaphorePermit<'_>>) -> Value {
        if !request.creates_a_pod() {
            return request.allow(Vec::new(), &[]);
        }
        let Some(pod) = pod::read(&request.object) else { return request.allow(Vec::new(), &[]) };
        let namespace = request.namespace();
        let patience = place.as_ref().map_or(Duration::ZERO, |_| DEADLINE);
        let dry_run = request.dry_run.unwrap_or_default();
        let ((known, is_refused), limit) = join(
            self.asking.would_bind(namespace, &pod, dry_run, patience),
            self.namespaces.max_grace(namespace),
        )
        .await;
        let terms = self.giving.terms();
        let terms = Terms { is_refused, max_grace: limit.or(terms.max_grace), ..terms };
        let injection = inject::decide(&pod, &known, terms);
        let name = request.name.as_deref().filter(|name| !name.is_empty());
        let name = name.or_else(|| request.object["metadata"]["generateName"].as_str()).unwrap_or_default();
        let decisions: Vec<&str> = injection.decisions.iter().map(|decision| decision.as_str()).collect();
        info!(
            decisions = decisions.join(","),
            pod = format!("{}/{}", excerpt(namespace), excerpt(name)),
            seconds = injection.seconds,
            grace = injection.grace,
            changed = !injection.is_empty(),
            dry_run,
            "a new pod"
        );
        if !dry_run {
            self.metrics.injected(&injection.news);
            for notice in injection.notices.iter().cloned() {
                // If the queue is full, the Event is dropped, because an Event about another pod of the owner suffices.
                let _ = self.evicting.notices.send(notice);
            }
        }
        request.allow(patch::render(&request.object, &injection, self.giving.image()), &injection.warnings)
    }
}

#[cfg(test)]
mod tests;
