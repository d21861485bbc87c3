//! The HTTP side of the AWS API: one address, every call a POST (or GET) of a form.
//!
//! A call that has arrived is carried out even if its caller goes away, as the real service does. While the API
//! is switched off its socket is closed, so that clients get a refused connection; calls that had arrived are
//! still answered.

use std::convert::Infallible;
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
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::form::Form;
use super::xml::Xml;
use super::{Api, dispatch, targets};
use crate::model::Refusal;
use crate::tasks::Tasks;
use crate::trace::Event;

/// The largest request read: some thousand targets in one call.
const LARGEST_BODY: usize = 8 << 20;
/// How long switching off waits for calls that have arrived.
const GRACE: Duration = Duration::from_secs(1);
/// Between two attempts at something that the system refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// Switches the API on and off.
#[derive(Debug)]
pub struct Switch {
    wanted: watch::Sender<bool>,
    actual: watch::Receiver<bool>,
}

impl Switch {
    /// Switches, and waits until the socket is open, or closed and the kept-alive connections with it.
    pub async fn set(&self, on: bool) {
        self.wanted.send_replace(on);
        let mut actual = self.actual.clone();
        // An error means that the server has gone, which its supervisor reports.
        let _ = actual.wait_for(|actual| *actual == on).await;
    }
}

/// Serves the API on a socket.
#[derive(Debug, Clone)]
struct Server {
    api: Api,
    tasks: Tasks,
}

/// Starts to serve the API on a socket.
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
            // Also when this task itself is ended.
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

    /// Answers the calls of one connection until its client, the switch or the stop ends it.
    async fn converse(self, stream: TcpStream, end: CancellationToken) {
        // Only a hint to the system.
        let _ = stream.set_nodelay(true);
        let stop = self.tasks.stop().clone();
        let service = service_fn(move |request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        // An error is the client's going away.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = end.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = stop.cancelled() => {}
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response {
        let form = match read(request).await {
            Ok(form) => form,
            Err(refused) => return refused,
        };
        let task = self.tasks.spawn(call(self.api.clone(), form));
        task.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a call failed");
            let id = request_id();
            let message = "The call failed inside the stand-in";
            render(500, Xml::error(500, "InternalFailure", message, &id), &id)
        })
    }
}

fn rebind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn read(request: Request<Incoming>) -> Result<Form, Response> {
    let (parts, body) = request.into_parts();
    if parts.method == Method::GET {
        return Ok(Form::parse(parts.uri.query().unwrap_or_default().as_bytes()));
    }
    to_bytes(Body::new(body), LARGEST_BODY).await.map(|body| Form::parse(&body)).map_err(|_| {
        let id = request_id();
        let message = format!("The request is larger than {LARGEST_BODY} bytes or was cut off");
        render(413, Xml::error(413, "RequestEntityTooLarge", &message, &id), &id)
    })
}

/// One call, from the moment it was read to the moment its answer is ready.
async fn call(api: Api, form: Form) -> Response {
    let id = request_id();
    let arrived = api.shared.clock.now();
    let latency = api.shared.with(|model, _| model.behaviour().api_latency_ms);
    let half = Duration::try_from_secs_f64(latency.at(rand::random()) / 2000.0).unwrap_or_default();
    pause(half).await;
    let action = form.get("Action").unwrap_or_default().to_owned();
    let result = dispatch(&api, &action, &form).await;
    pause(half).await;
    let (status, outcome, body) = match result {
        Ok(xml) => (200, "ok", xml.into_answer(&action, &id)),
        Err(refusal) => {
            let (status, code) = (Refusal::STATUS, refusal.code());
            (status, code, Xml::error(status, code, &refusal.to_string(), &id))
        }
    };
    let answered = api.shared.clock.now();
    let event = Event::Call {
        action,
        target_group: group_named(&form),
        targets: targets::named(&form),
        outcome: outcome.to_owned(),
        arrived: api.shared.clock.at(arrived),
        answered: api.shared.clock.at(answered),
    };
    api.shared.trace.record(api.shared.clock.at(answered), [event]);
    render(status, body, &id)
}

/// The target group that a call is about, as far as its parameters say.
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

/// Not drawn from the seeded generator: how often callers look must not change what happens.
fn request_id() -> String {
    let digits = format!("{:032x}", rand::random::<u128>());
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| digits.get(from..to).unwrap_or_default()).join("-")
}
