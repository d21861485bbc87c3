//! The HTTP side of the AWS API: one address, every call a POST (or GET) of a form.
//!
//! A call that has arrived is carried out even if its caller goes away, as the real service does. While the API
//! is switched off its socket is closed, so that clients get a refused connection; calls that had arrived are
//! still answered.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::form::Form;
use super::xml::Xml;
use super::{Api, dispatch, targets};
use crate::model::Refusal;
use crate::tasks::Tasks;
use crate::trace::Event;

/// The largest request read: some thousand targets in one call.
const LARGEST_BODY: usize = 8 << 20;

/// Switches the API on and off.
#[derive(Debug)]
pub struct Switch {
    wanted: watch::Sender<bool>,
    actual: watch::Receiver<bool>,
}

impl Switch {
    /// Switches, and waits until the socket is open or closed.
    pub async fn set(&self, on: bool) {
        self.wanted.send_replace(on);
        let mut actual = self.actual.clone();
        // An error means that the server has gone, which its supervisor reports.
        let _ = actual.wait_for(|actual| *actual == on).await;
    }
}

/// Starts to serve the API on a socket.
pub fn start(api: Api, listener: TcpListener, address: SocketAddr, tasks: &Tasks) -> Switch {
    let (wanted, wanted_changes) = watch::channel(true);
    let (actual, actual_changes) = watch::channel(true);
    let router = Router::new().fallback(answer).with_state((api, tasks.clone()));
    tasks.supervise("api", run(router, listener, address, wanted_changes, actual));
    Switch { wanted, actual: actual_changes }
}

async fn run(
    router: Router,
    listener: TcpListener,
    address: SocketAddr,
    mut wanted: watch::Receiver<bool>,
    actual: watch::Sender<bool>,
) {
    let mut open = Some(listener);
    loop {
        if wanted.wait_for(|on| *on).await.is_err() {
            return;
        }
        let listener = match open.take().map_or_else(|| rebind(address), Ok) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%address, %error, "cannot open the API's socket again, trying on");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        actual.send_replace(true);
        let mut off = wanted.clone();
        let until_off = async move {
            // An error means that nobody can switch any more: the end.
            let _ = off.wait_for(|on| !*on).await;
        };
        if let Err(error) = axum::serve(listener, router.clone()).with_graceful_shutdown(until_off).await {
            tracing::error!(%error, "the API server failed");
            return;
        }
        actual.send_replace(false);
        if wanted.has_changed().is_err() {
            return;
        }
    }
}

fn rebind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn answer(State((api, tasks)): State<(Api, Tasks)>, request: Request) -> Response {
    let form = match read(request).await {
        Ok(form) => form,
        Err(refused) => return refused,
    };
    let task = tasks.spawn(call(api, form));
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a call failed");
        render(500, Xml::error(500, "InternalFailure", "The call failed inside the stand-in", "none"), "none")
    })
}

async fn read(request: Request) -> Result<Form, Response> {
    let (parts, body) = request.into_parts();
    if parts.method == Method::GET {
        return Ok(Form::parse(parts.uri.query().unwrap_or_default().as_bytes()));
    }
    to_bytes(body, LARGEST_BODY).await.map(|body| Form::parse(&body)).map_err(|_| {
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
