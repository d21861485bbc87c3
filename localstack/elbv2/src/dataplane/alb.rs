//! Nodes of an Application Load Balancer: HTTP/1.1, one target per request, targets taking turns.
//!
//! Connections are kept alive on both sides. One to a target is used again only for the same registration of
//! the same target, and only when this node's routing table has just named it, so a target that the node no
//! longer routes to gets no further request. 503 without a target, 502 if the target refuses or breaks off,
//! 504 if it does not answer in time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::ticket::Ticket;
use super::{Door, dial, next};
use crate::model::Route;
use crate::trace::Outcome;

/// AWS seconds that a node waits for a target to accept.
const CONNECT_TIMEOUT: f64 = 10.0;
/// How often idle connections to targets that are no longer routed to are closed.
const SWEEP: Duration = Duration::from_secs(1);

/// One listener on one node, with its idle connections to targets.
struct Gate {
    door: Arc<Door>,
    idle: Mutex<HashMap<Route, Vec<SendRequest<Incoming>>>>,
}

/// Accepts until the listener is closed.
pub async fn accept(door: Arc<Door>, socket: TcpListener) {
    let gate = Arc::new(Gate { door: Arc::clone(&door), idle: Mutex::default() });
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = next(&door, &socket) => accepted,
            _ = sweep.tick() => {
                gate.sweep();
                continue;
            }
        };
        let Some((stream, client)) = accepted else { return };
        let cut = door.cut.clone();
        let gate = Arc::clone(&gate);
        door.connections.spawn(async move {
            tokio::select! {
                () = serve(gate, stream, client) => {}
                () = cut.cancelled() => {}
            }
        });
    }
}

async fn serve(gate: Arc<Gate>, stream: TcpStream, client: SocketAddr) {
    // Only a hint to the system.
    let _ = stream.set_nodelay(true);
    let stop = gate.door.stop.clone();
    let service = service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, Infallible>(gate.forward(request, client).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error is the client's going away, which the ticket of its request tells.
    let _ = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}

type Answer = Response<Either<Full<Bytes>, Passing>>;

impl Gate {
    async fn forward(self: Arc<Self>, request: Request<Incoming>, client: SocketAddr) -> Answer {
        let ticket = Ticket::open(&self.door, client, None);
        let Some(route) = ticket.route() else {
            return refuse(ticket, StatusCode::SERVICE_UNAVAILABLE, Outcome::NoTarget);
        };
        let (connect_limit, answer_limit) = self.door.shared.with(|model, _| {
            (model.behaviour().time_out(CONNECT_TIMEOUT), model.idle_timeout(self.door.balancer))
        });
        let deadline = Instant::now() + answer_limit;
        let mut request = rewrite(request, client, self.door.local);
        loop {
            let (mut sender, reused) = match self.take(route) {
                Some(sender) => (sender, true),
                None => match self.connect(route, connect_limit).await {
                    Ok(sender) => (sender, false),
                    Err(Outcome::Timeout) => {
                        return refuse(ticket, StatusCode::GATEWAY_TIMEOUT, Outcome::Timeout);
                    }
                    Err(outcome) => return refuse(ticket, StatusCode::BAD_GATEWAY, outcome),
                },
            };
            match tokio::time::timeout_at(deadline, sender.try_send_request(request)).await {
                Err(_) => return refuse(ticket, StatusCode::GATEWAY_TIMEOUT, Outcome::Timeout),
                Ok(Ok(response)) => {
                    self.keep(route, sender);
                    return pass(ticket, response);
                }
                Ok(Err(mut error)) => match error.take_message() {
                    // Nothing of the request has left: the target had closed the idle connection.
                    Some(unsent) if reused => request = unsent,
                    _ => return refuse(ticket, StatusCode::BAD_GATEWAY, Outcome::Reset),
                },
            }
        }
    }

    async fn connect(&self, route: Route, limit: Duration) -> Result<SendRequest<Incoming>, Outcome> {
        let stream = dial(self.door.local.ip(), route.target, limit).await?;
        let (sender, connection) = timeout(limit, handshake(TokioIo::new(stream)))
            .await
            .map_err(|_| Outcome::Timeout)?
            .map_err(|_| Outcome::Reset)?;
        let cut = self.door.cut.clone();
        self.door.connections.spawn(async move {
            tokio::select! {
                // Errors reach the request that they concern.
                _ = connection => {}
                () = cut.cancelled() => {}
            }
        });
        Ok(sender)
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Route, Vec<SendRequest<Incoming>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, route: Route) -> Option<SendRequest<Incoming>> {
        let mut idle = self.idle();
        let senders = idle.get_mut(&route)?;
        while let Some(sender) = senders.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Keeps a connection once its answer has been read to the end.
    fn keep(self: &Arc<Self>, route: Route, mut sender: SendRequest<Incoming>) {
        let gate = Arc::clone(self);
        self.door.connections.spawn(async move {
            let cut = gate.door.cut.clone();
            let ready = tokio::select! {
                ready = sender.ready() => ready.is_ok(),
                () = cut.cancelled() => false,
            };
            if ready && gate.routes_to(route) {
                gate.idle().entry(route).or_default().push(sender);
            }
        });
    }

    fn routes_to(&self, route: Route) -> bool {
        let door = &self.door;
        !door.stop.is_cancelled()
            && door.shared.with(|model, _| model.still_routes(door.listener, door.node, route))
    }

    fn sweep(&self) {
        let kept: Vec<Route> = self.idle().keys().copied().collect();
        let gone: Vec<Route> = kept.into_iter().filter(|route| !self.routes_to(*route)).collect();
        let mut idle = self.idle();
        for route in gone {
            idle.remove(&route);
        }
        for senders in idle.values_mut() {
            senders.retain(|sender| !sender.is_closed());
        }
    }
}

/// Headers that concern one connection only (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn rewrite(mut request: Request<Incoming>, client: SocketAddr, local: SocketAddr) -> Request<Incoming> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    if request.headers().get(header::HOST).is_none() {
        let host = request.uri().authority().map_or_else(|| local.to_string(), ToString::to_string);
        set(request.headers_mut(), header::HOST, &host);
    }
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    *request.version_mut() = hyper::Version::HTTP_11;
    let headers = request.headers_mut();
    strip_hop_by_hop(headers);
    // This node has answered it by reading on.
    headers.remove(header::EXPECT);
    let forwarded_for = HeaderName::from_static("x-forwarded-for");
    let before = headers.get(&forwarded_for).and_then(|value| value.to_str().ok());
    let chain = before.map_or_else(|| client.ip().to_string(), |before| format!("{before}, {}", client.ip()));
    set(headers, forwarded_for, &chain);
    set(headers, HeaderName::from_static("x-forwarded-proto"), "http");
    set(headers, HeaderName::from_static("x-forwarded-port"), &local.port().to_string());
    request
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// An answer of the node's own.
fn refuse(mut ticket: Ticket, status: StatusCode, outcome: Outcome) -> Answer {
    let text = format!("{} {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let page = format!(
        "<html>\r\n<head><title>{text}</title></head>\r\n<body>\r\n<center><h1>{text}</h1></center>\r\n\
         </body>\r\n</html>\r\n"
    );
    ticket.set_status(status.as_u16());
    ticket.finish(outcome);
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(page))));
    *response.status_mut() = status;
    set(response.headers_mut(), header::SERVER, "awselb/2.0");
    set(response.headers_mut(), header::CONTENT_TYPE, "text/html");
    response
}

/// The target's answer.
fn pass(mut ticket: Ticket, response: Response<Incoming>) -> Answer {
    ticket.set_status(response.status().as_u16());
    let (mut parts, body) = response.into_parts();
    strip_hop_by_hop(&mut parts.headers);
    Response::from_parts(parts, Either::Right(Passing { body, ticket: Some(ticket) }))
}

/// A target's body on its way to the client; ends the request's ticket with itself.
struct Passing {
    body: Incoming,
    ticket: Option<Ticket>,
}

impl Passing {
    fn end(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(outcome);
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        match &poll {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or_default());
                if let Some(ticket) = &mut self.ticket {
                    ticket.add_bytes(bytes);
                }
            }
            Poll::Ready(Some(Err(_))) => self.end(Outcome::Reset),
            Poll::Ready(None) => self.end(Outcome::Ok),
            Poll::Pending => {}
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // The server does not read on once it has all the bytes that the length promised.
        if self.body.is_end_stream() {
            self.end(Outcome::Ok);
        }
    }
}
