//! The read-only HTTP server for probes and metrics.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use headgate_core::Reason;
use hyper::{
    Request,
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::service::TowerToHyperService;
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use super::standbys::Standbys;
use crate::{
    aws::reach::Trouble,
    explain::ask::Asking,
    journal::keeper::Kept,
    kube::grants,
    metrics::{Format, Metrics},
    runtime::{
        authority::{Authority, Unable},
        clock::Clock,
        outage::Spelled,
        pulse::Pulse,
        troubles::why,
        views::Views,
    },
    serving::{
        Server,
        connections::{Connection, Limits},
        tls::Served,
    },
};

/// The engine's owner counts as stuck if it has not progressed for this long.
const STUCK: Duration = Duration::from_secs(30);

/// The data that the servers return.
#[derive(Clone)]
pub struct Shown {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The views.
    pub views: Arc<Views>,
    /// Whether the engine is progressing, and whether its initial sync is complete.
    pub pulse: Arc<Pulse>,
    /// Whether this replica is the leader.
    pub authority: Authority,
    /// The problem that prevents Headgate from reaching AWS, if there is one.
    pub aws: watch::Receiver<Option<Trouble>>,
    /// The grants that are in effect.
    pub grants: watch::Receiver<grants::keeper::Shown>,
    /// The webhook's certificate, if this replica serves the webhook.
    pub certificate: Option<watch::Receiver<Served>>,
    /// Queries to the engine.
    pub asking: Asking,
    /// The journal.
    pub journal: Kept,
    /// The other replicas.
    pub standbys: Standbys,
    /// The time.
    pub clock: Clock,
}

/// The connection limits. Each kubelet probe and each metrics scraper uses one connection, and each person uses a few
/// connections. Any client in the cluster may connect, so each address can use only a part of the connections. The
/// server soon closes the connection of a client that does not read its answer, because the connection counts as idle
/// after the answer.
pub const LIMITS: Limits = Limits {
    connections: 256,
    of_an_address: 64,
    handshake: Duration::from_secs(5),
    header: Duration::from_secs(5),
    request: Duration::from_secs(30),
    idle: Duration::from_secs(15),
};

impl Shown {
    /// The answer of a standby, which directs the client to the leader. Only the leader has a record of the calls to
    /// AWS.
    pub fn elsewhere(&self) -> Option<String> {
        if self.authority.term().is_some() {
            return None;
        }
        let holder = self.authority.holder();
        let leads = holder.map_or_else(|| "nobody leads".to_owned(), |holder| format!("{holder} leads"));
        Some(format!("this replica does not lead, {leads}. Query the leader"))
    }
}

/// The answer of a replica that is not the leader.
pub fn misdirected(shown: &Shown) -> Option<Response> {
    let text = shown.elsewhere()? + "\n";
    Some((StatusCode::MISDIRECTED_REQUEST, text).into_response())
}

/// Serves probes and metrics until `stop`.
pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) {
    let (counted, clock) = (shown.metrics.clone(), shown.clock);
    let router = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(shown);
    serve_router("admin", LIMITS, router, listener, (counted, clock), stop).await;
}

/// Serves the routes of `router` until `stop`. A client counts as trusted after it has requested an existing route.
pub async fn serve_router(
    name: &'static str,
    limits: Limits,
    router: Router,
    listener: TcpListener,
    (metrics, clock): (Arc<Metrics>, Clock),
    stop: CancellationToken,
) {
    let server = Server { name, limits, metrics, clock };
    let service = |connection: Connection| {
        let router = TowerToHyperService::new(router.clone());
        service_fn(move |request: Request<Incoming>| {
            let (answer, connection) = (router.call(request), connection.clone());
            async move {
                let answer = answer.await;
                if answer.as_ref().is_ok_and(|answer: &Response| answer.status() != StatusCode::NOT_FOUND) {
                    connection.trust();
                }
                answer
            }
        })
    };
    server.serve(listener, None, service, stop).await;
}

/// The line of a probe's answer that explains why this replica cannot lead. The probe still succeeds: a restart would
/// not help, and the webhook must keep its endpoint.
fn unable(authority: &Authority, clock: Clock) -> String {
    let Some(Unable { reason, since, until }) = authority.unable() else { return String::new() };
    let now = clock.now();
    let then = match until {
        Some(until) => {
            format!("Lease released; this replica can lead again in {}", Spelled(until.since(now)))
        }
        None => "still leader, because no other replica can lead".to_owned(),
    };
    format!("{}, {reason} for {}: {}; {then}\n", Reason::CannotLead, Spelled(now.since(since)), why(reason))
}

async fn live(State(shown): State<Shown>) -> Response {
    livez(&shown.pulse, &shown.authority, shown.clock)
}

/// The answer to the liveness probe.
pub fn livez(pulse: &Pulse, authority: &Authority, clock: Clock) -> Response {
    let still = pulse.still_for();
    if still < STUCK {
        (StatusCode::OK, format!("ok\n{}", unable(authority, clock))).into_response()
    } else {
        let text =
            format!("the engine has not progressed for {}; it should every few seconds\n", Spelled(still));
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}

async fn readyz(State(shown): State<Shown>) -> Response {
    if let Some(stranger) = shown.authority.shut_out() {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", stranger.said)).into_response()
    } else if !shown.pulse.is_synced() {
        let text = "not every watch has listed all objects, or the TargetLedgers were not read; Headgate \
                    sends nothing to AWS before that\n";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    } else if shown.certificate.is_some_and(|certificate| certificate.borrow().is_none()) {
        let text = "the webhook has no certificate yet, so it would miss new pods. Check the logs of this \
                    replica and of `headgate certificates`\n";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    } else {
        // A replica that cannot reach AWS is still ready: it serves the webhook, and targets do not change.
        let aws = shown.aws.borrow().clone();
        let aws = aws.map(|trouble| {
            let Trouble { reason, sentence, since } = trouble;
            format!("{reason} for {}: {sentence}\n", Spelled(shown.clock.since(since)))
        });
        let unable = unable(&shown.authority, shown.clock);
        (StatusCode::OK, format!("ok\n{unable}{}", aws.unwrap_or_default())).into_response()
    }
}

async fn metrics(State(shown): State<Shown>, headers: HeaderMap) -> Response {
    metrics_page(&shown.metrics, headers.get(header::ACCEPT))
}

/// The metrics in the format that the client accepts.
pub fn metrics_page(metrics: &Metrics, accept: Option<&HeaderValue>) -> Response {
    let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
    match metrics.shared_page(format) {
        Ok(page) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
