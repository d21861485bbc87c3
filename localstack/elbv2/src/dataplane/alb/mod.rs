//! Nodes of an Application Load Balancer: HTTP/1.1, one target per request, round robin.
//!
//! Connections are kept alive on both sides. A node reuses a connection to a target only for the same registration, and
//! only if the routing table has just chosen this target. A target that the node no longer routes to therefore gets no
//! further request. A request in progress continues until it completes or the draining of the target is over.
//!
//! The node answers 503 if it has no target, and 502 if the target refuses or breaks the connection. The node answers
//! 504 if the target does not answer in time. The node answers 400 if the client aborts the body or sends invalid data,
//! and 408 if the client stops sending.

mod headers;
mod passing;
mod upgrade;
mod upload;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use self::passing::Passing;
use self::upload::{Progress, Upload};
use super::ticket::Ticket;
use super::{Door, dial, next};
use crate::model::{Action, RequestFacts, Route};
use crate::trace::Outcome;

/// The maximum time in AWS seconds that a node waits for a target to accept a connection.
const CONNECT_TIMEOUT: f64 = 10.0;
/// The interval at which the node closes idle connections to targets that it no longer routes to.
const SWEEP: Duration = Duration::from_secs(1);

/// One listener on one node, and the node's idle connections to targets.
struct Gate {
    door: Arc<Door>,
    idle: Mutex<HashMap<Route, Vec<SendRequest<Upload>>>>,
}

/// Accepts connections until the listener is closed.
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
    // This setting is only a hint to the system.
    let _ = stream.set_nodelay(true);
    let stop = gate.door.stop.clone();
    let service = service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, Infallible>(gate.forward(request, client).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // An error means that the client disconnected. The ticket of the request records the disconnect.
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
    async fn forward(self: Arc<Self>, mut request: Request<Incoming>, client: SocketAddr) -> Answer {
        let facts = headers::facts(&request, client.ip());
        let ticket = Ticket::open(&self.door, client, None, Some(facts));
        if let Some(action) = ticket.choice().and_then(|choice| choice.answer.clone()) {
            return answer(ticket, &action, facts, self.door.local.port());
        }
        let Some(route) = ticket.route() else {
            return refuse(ticket, StatusCode::SERVICE_UNAVAILABLE, Outcome::NoTarget);
        };
        let (connect_limit, answer_limit) = self.door.shared.with(|model, _| {
            (model.behaviour().time_out(CONNECT_TIMEOUT), model.idle_timeout(self.door.balancer))
        });
        let cut = ticket.cut();
        let upgrade = headers::wants_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = headers::rewrite(request, client, self.door.local).into_parts();
        let (body, progress) = Upload::new(body);
        let mut request = Request::from_parts(parts, body);
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
            let answer = tokio::select! {
                answer = sender.try_send_request(request) => answer,
                () = silence(&progress, answer_limit) => return if progress.is_awaited() {
                    refuse(ticket, StatusCode::REQUEST_TIMEOUT, Outcome::ClientGone)
                } else {
                    refuse(ticket, StatusCode::GATEWAY_TIMEOUT, Outcome::Timeout)
                },
                () = cut.cancelled() => return refuse(ticket, StatusCode::BAD_GATEWAY, Outcome::Terminated),
            };
            match answer {
                Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                    return self.switch(ticket, upgrade, response);
                }
                Ok(response) => {
                    self.keep(route, sender);
                    return pass(ticket, response, progress);
                }
                Err(_) if progress.is_broken() => {
                    return refuse(ticket, StatusCode::BAD_REQUEST, Outcome::ClientGone);
                }
                Err(mut error) => match error.take_message() {
                    // The node sent nothing, because the target had already closed the idle connection.
                    Some(unsent) if reused => request = unsent,
                    _ => return refuse(ticket, StatusCode::BAD_GATEWAY, Outcome::Reset),
                },
            }
        }
    }

    /// Switches the client and the target to another protocol.
    fn switch(
        &self,
        mut ticket: Ticket,
        client: Option<OnUpgrade>,
        mut response: Response<Incoming>,
    ) -> Answer {
        let protocol = response.headers().get(header::UPGRADE).cloned();
        let (Some(client), Some(protocol)) = (client, protocol) else {
            // The client did not request an upgrade.
            return refuse(ticket, StatusCode::BAD_GATEWAY, Outcome::Reset);
        };
        let target = hyper::upgrade::on(&mut response);
        ticket.set_status(response.status().as_u16());
        let cut = self.door.cut.clone();
        self.door.connections.spawn(async move {
            tokio::select! {
                () = upgrade::carry(ticket, client, target) => {}
                () = cut.cancelled() => {}
            }
        });
        let (mut parts, _) = response.into_parts();
        headers::strip_hop_by_hop(&mut parts.headers);
        headers::keep_upgrade(&mut parts.headers, protocol);
        Response::from_parts(parts, Either::Left(Full::default()))
    }

    async fn connect(&self, route: Route, limit: Duration) -> Result<SendRequest<Upload>, Outcome> {
        let stream = dial(self.door.local.ip(), route.target, limit).await?;
        let (sender, connection) = timeout(limit, handshake(TokioIo::new(stream)))
            .await
            .map_err(|_| Outcome::Timeout)?
            .map_err(|_| Outcome::Reset)?;
        let cut = self.door.cut.clone();
        self.door.connections.spawn(async move {
            tokio::select! {
                // The request itself receives the errors of the connection.
                _ = connection.with_upgrades() => {}
                () = cut.cancelled() => {}
            }
        });
        Ok(sender)
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Route, Vec<SendRequest<Upload>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, route: Route) -> Option<SendRequest<Upload>> {
        let mut idle = self.idle();
        let senders = idle.get_mut(&route)?;
        while let Some(sender) = senders.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    /// Keeps a connection for reuse after the answer was read completely.
    fn keep(self: &Arc<Self>, route: Route, mut sender: SendRequest<Upload>) {
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

/// Returns after the client has sent no data for this long and the target has not answered.
async fn silence(progress: &Progress, limit: Duration) {
    loop {
        let ends = progress.moved() + limit;
        if Instant::now() >= ends {
            return;
        }
        sleep_until(ends).await;
    }
}

/// Returns an answer that the node itself generates.
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
    headers::set(response.headers_mut(), header::SERVER, "awselb/2.0");
    headers::set(response.headers_mut(), header::CONTENT_TYPE, "text/html");
    response
}

/// Returns the fixed response or redirect of the listener or rule.
fn answer(mut ticket: Ticket, action: &Action, request: RequestFacts, port: u16) -> Answer {
    let (status, name, value, body) = match action {
        Action::Fixed(fixed) => {
            let kind = fixed.content_type.clone().unwrap_or_else(|| "text/plain".to_owned());
            (fixed.status, header::CONTENT_TYPE, kind, fixed.body.clone())
        }
        Action::Redirect(redirect) => {
            let location = redirect.location(request.host, port, request.path, request.query);
            let status = if redirect.permanent { 301 } else { 302 };
            (status, header::LOCATION, location, String::new())
        }
        Action::Forward(_) => return refuse(ticket, StatusCode::SERVICE_UNAVAILABLE, Outcome::NoTarget),
    };
    ticket.set_status(status);
    ticket.finish(Outcome::Ok);
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(body))));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    headers::set(response.headers_mut(), header::SERVER, "awselb/2.0");
    headers::set(response.headers_mut(), name, &value);
    response
}

/// Returns the answer of the target.
fn pass(mut ticket: Ticket, response: Response<Incoming>, upload: Progress) -> Answer {
    ticket.set_status(response.status().as_u16());
    let (mut parts, body) = response.into_parts();
    headers::strip_hop_by_hop(&mut parts.headers);
    Response::from_parts(parts, Either::Right(Passing::new(body, ticket, upload)))
}
