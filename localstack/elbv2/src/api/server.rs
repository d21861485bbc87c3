//! The HTTP server of the AWS API. Every call is a POST or GET request with a form, and all calls have the same URL.
//!
//! As AWS does, the server completes a call that has arrived even if the client disconnects. While the API is switched
//! off, the socket is closed, so clients get a refused connection. The server still answers calls that arrived earlier.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::form::Form;
use super::xml::Xml;
use super::{Api, dispatch, targets};
use crate::gate::{Caller, Fate, Signature, TurnedAway};
use crate::model::Refusal;
use crate::tasks::Tasks;
use crate::trace::Event;

/// The maximum size of a request. A call with some thousand targets fits.
const LARGEST_BODY: usize = 8 << 20;
/// The maximum time that a client may take to send a request, from the first byte.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum time that a switch-off waits for calls in progress.
const GRACE: Duration = Duration::from_secs(1);
/// The pause before the next attempt at an operation that the system rejected.
const PAUSE: Duration = Duration::from_millis(100);

/// Switches the API on or off.
#[derive(Debug)]
pub struct Switch {
    wanted: watch::Sender<bool>,
    actual: watch::Receiver<bool>,
}

impl Switch {
    /// Switches the API on or off. Waits until the socket is open, or until the socket and all idle connections are
    /// closed.
    pub async fn set(&self, on: bool) {
        self.wanted.send_replace(on);
        let mut actual = self.actual.clone();
        // An error means that the server task has terminated. The supervisor reports this failure.
        let _ = actual.wait_for(|actual| *actual == on).await;
    }
}

/// A server of the API on one socket.
#[derive(Debug, Clone)]
struct Server {
    api: Api,
    tasks: Tasks,
}

/// Starts the server on a socket.
pub fn start(api: Api, listener: TcpListener, address: SocketAddr, tasks: &Tasks) -> Switch {
    let (wanted, wanted_changes) = watch::channel(true);
    let (actual, actual_changes) = watch::channel(true);
    let server = Server { api, tasks: tasks.clone() };
    tasks.supervise("api", server.run(listener, address, wanted_changes, actual));
    Switch { wanted, actual: actual_changes }
}

impl Server {
    async fn run(
        self,
        listener: TcpListener,
        address: SocketAddr,
        mut wanted: watch::Receiver<bool>,
        actual: watch::Sender<bool>,
    ) {
        let mut open = Some(listener);
        while wanted.wait_for(|on| *on).await.is_ok() {
            let listener = match open.take().map_or_else(|| rebind(address), Ok) {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::warn!(%address, %error, "cannot open the API's socket again, trying on");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            actual.send_replace(true);
            let (end, connections) = (CancellationToken::new(), TaskTracker::new());
            // The guard also stops the connections if this task is cancelled.
            let ending = end.clone().drop_guard();
            tokio::select! {
                _ = wanted.wait_for(|on| !*on) => {}
                () = self.accept(&listener, &end, &connections) => {}
            }
            drop(listener);
            drop(ending);
            connections.close();
            if timeout(GRACE, connections.wait()).await.is_err() {
                tracing::warn!("calls are still under way while the API is off");
            }
            actual.send_replace(false);
        }
    }

    async fn accept(&self, listener: &TcpListener, end: &CancellationToken, connections: &TaskTracker) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = self.clone().converse(stream, end.clone());
                    self.tasks.spawn(connections.track_future(connection));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a call");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Answers the calls on one connection until the client disconnects, the API is switched off, or the stand-in
    /// stops.
    async fn converse(self, stream: TcpStream, end: CancellationToken) {
        // This setting is only a hint to the system.
        let _ = stream.set_nodelay(true);
        let stop = self.tasks.stop().clone();
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { server.answer(request).await }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        let mut connection = builder.serve_connection(TokioIo::new(stream), service);
        // All other errors mean that the client disconnected.
        let ended = tokio::select! {
            ended = &mut connection => Some(ended),
            () = end.cancelled() => {
                std::pin::Pin::new(&mut connection).graceful_shutdown();
                None
            }
        };
        let ended = if let Some(ended) = ended {
            ended
        } else {
            tokio::select! {
                ended = &mut connection => ended,
                () = stop.cancelled() => return,
            }
        };
        let broken = ended.as_ref().err().and_then(|error| error.source()?.downcast_ref::<Broken>());
        if matches!(broken, Some(Broken::Reset)) {
            // If the system rejects this setting, the connection closes normally.
            let _ = connection.into_parts().io.into_inner().set_zero_linger();
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response, Broken> {
        let signature = Signature::read(request.headers());
        let form = match read(request).await {
            Ok(form) => form,
            Err(away) => return Ok(refuse(&away, &request_id())),
        };
        let task = self.tasks.spawn(call(self.api.clone(), form, signature));
        match task.await {
            Ok(Err(Broken::Hang)) => std::future::pending().await,
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(%error, "a call failed");
                let id = request_id();
                let message = "The call failed inside the stand-in";
                Ok(render(500, Xml::error(500, "InternalFailure", message, &id), &id))
            }
        }
    }
}

/// A call that gets no normal answer.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum Broken {
    #[error("a fault closes the connection")]
    Close,
    #[error("a fault resets the connection")]
    Reset,
    #[error("a fault keeps the client waiting")]
    Hang,
}

fn rebind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn read(request: Request<Incoming>) -> Result<Form, TurnedAway> {
    let refuse = |status, code: &str, message: String| TurnedAway { status, code: code.to_owned(), message };
    let (parts, body) = request.into_parts();
    let parse = |form: &[u8]| Form::parse(form).map_err(turned_away);
    if parts.method == Method::GET {
        return parse(parts.uri.query().unwrap_or_default().as_bytes());
    }
    match timeout(PATIENCE, to_bytes(Body::new(body), LARGEST_BODY)).await {
        Ok(Ok(body)) => parse(&body),
        Ok(Err(_)) => {
            let message = format!("The request is larger than {LARGEST_BODY} bytes or was cut off");
            Err(refuse(413, "RequestEntityTooLarge", message))
        }
        Err(_) => Err(refuse(408, "RequestTimeout", "The request was not sent in time".to_owned())),
    }
}

#[allow(clippy::needless_pass_by_value)] // for map_err
fn turned_away(refusal: Refusal) -> TurnedAway {
    TurnedAway { status: Refusal::STATUS, code: refusal.code().to_owned(), message: refusal.to_string() }
}

fn refuse(away: &TurnedAway, request_id: &str) -> Response {
    render(away.status, Xml::error(away.status, &away.code, &away.message, request_id), request_id)
}

/// Handles one call from the end of the request until the answer is ready.
async fn call(api: Api, form: Form, signature: Signature) -> Result<Response, Broken> {
    let id = request_id();
    let arrived = api.shared.clock.now();
    let action = form.get("Action").unwrap_or_default().to_owned();
    let (target_group, targets) = (group_named(&form), targets::named(&form));
    let arns = ["TargetGroupArn", "LoadBalancerArn", "ListenerArn"];
    let caller = Caller {
        action: &action,
        target_group: target_group.as_deref(),
        resource: arns.into_iter().find_map(|name| form.get(name)).unwrap_or("*"),
        targets: targets.len(),
        signature: &signature,
    };
    let (fate, latency) = api.shared.judge(caller);
    let half = latency / 2;
    pause(half).await;
    let underway = api.shared.trace.begin();
    let ago = if let Fate::Stale(ago) = fate { ago } else { Duration::ZERO };
    let result = match &fate {
        Fate::Proceed | Fate::LoseAnswer | Fate::Stale(_) => {
            dispatch(&api, &action, &form, ago).await.map_err(turned_away)
        }
        Fate::TurnedAway(away) => Err(away.clone()),
        Fate::Page(_) | Fate::Reset | Fate::Hang => Ok(Xml::default()),
    };
    pause(half).await;
    let outcome = match (&fate, &result) {
        (Fate::Page(status), _) => status.to_string(),
        (Fate::LoseAnswer, _) => "answer-lost".to_owned(),
        (Fate::Reset, _) => "reset".to_owned(),
        (Fate::Hang, _) => "hang".to_owned(),
        (_, Err(away)) => away.code.clone(),
        (_, Ok(_)) => "ok".to_owned(),
    };
    let answered = api.shared.clock.now();
    let event = Event::Call {
        target_group,
        targets,
        outcome,
        arrived: api.shared.clock.at(arrived),
        answered: api.shared.clock.at(answered),
        action: action.clone(),
    };
    api.shared.trace.record(api.shared.clock.at(answered), [event]);
    drop(underway);
    match (fate, result) {
        (Fate::LoseAnswer, _) => Err(Broken::Close),
        (Fate::Reset, _) => Err(Broken::Reset),
        (Fate::Hang, _) => Err(Broken::Hang),
        (Fate::Page(status), _) => Ok(page(status)),
        (_, Err(away)) => Ok(refuse(&away, &id)),
        (_, Ok(xml)) => Ok(render(200, xml.into_answer(&action, &id), &id)),
    }
}

/// Returns the error page that a proxy returns if the service behind it does not answer.
fn page(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = format!("<html><body><h1>{status}</h1></body></html>");
    (status, [(header::CONTENT_TYPE, "text/html")], Body::from(body)).into_response()
}

/// Returns the name of the target group in the parameters of a call.
fn group_named(form: &Form) -> Option<String> {
    let by_arn = form.get("TargetGroupArn").and_then(|arn| arn.split('/').nth(1));
    let created = form.get("Name").filter(|_| form.get("Action") == Some("CreateTargetGroup"));
    by_arn.or(created).map(str::to_owned)
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn render(status: u16, body: String, request_id: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [(header::CONTENT_TYPE, "text/xml"), (REQUEST_ID, request_id)];
    (status, headers, Body::from(body)).into_response()
}

const REQUEST_ID: header::HeaderName = header::HeaderName::from_static("x-amzn-requestid");

/// Returns a random request ID. The seeded generator is not used, because the number of read calls must not change the
/// simulation.
fn request_id() -> String {
    let digits = format!("{:032x}", rand::random::<u128>());
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| digits.get(from..to).unwrap_or_default()).join("-")
}
