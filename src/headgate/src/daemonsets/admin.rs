//! Serves the probes and metrics of `headgate daemonsets`.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    admin::server::{LIMITS, livez, metrics_page, serve_router},
    metrics::Metrics,
    runtime::{authority::Authority, clock::Clock, pulse::Pulse},
};

/// The data that the server returns.
#[derive(Clone)]
pub struct Shown {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Whether the task that owns the core is progressing.
    pub pulse: Arc<Pulse>,
    /// Whether this replica is the leader.
    pub authority: Authority,
    /// The time.
    pub clock: Clock,
}

/// Serves probes and metrics until `stop`.
pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) {
    let (metrics, clock) = (shown.metrics.clone(), shown.clock);
    let router = Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(page))
        .with_state(shown);
    serve_router("admin", LIMITS, router, listener, (metrics, clock), stop).await;
}

async fn live(State(shown): State<Shown>) -> Response {
    livez(&shown.pulse, &shown.authority, shown.clock)
}

/// Returns 200 if this replica is a standby or its initial sync is complete.
async fn ready(State(shown): State<Shown>) -> Response {
    if let Some(stranger) = shown.authority.shut_out() {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", stranger.said)).into_response();
    }
    if shown.pulse.is_synced() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    let text = "this replica leads, and not every watch has listed all objects; it sends no requests before \
                that\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn page(State(shown): State<Shown>, headers: HeaderMap) -> Response {
    metrics_page(&shown.metrics, headers.get(header::ACCEPT))
}
