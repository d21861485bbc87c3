//! The HTTP server for probes, metrics and questions. Read-only.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use headgate_core::{Reason, health::HealthState, object::ObjectKey, view::GateView};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    admin::metrics::Metrics,
    app::{authority::Authority, clock::Clock, pulse::Pulse, views::Views},
    explain::{
        ask::Asking,
        command,
        report::{Report, Wall},
    },
    webhook::tls::Served,
};

/// An owner task that has not moved for this long is stuck.
const STUCK: Duration = Duration::from_secs(30);

/// What the server shows.
#[derive(Clone)]
pub struct Shown {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The views.
    pub views: Arc<Views>,
    /// Whether the engine moves, and has seen everything.
    pub pulse: Arc<Pulse>,
    /// Whether this replica leads.
    pub authority: Authority,
    /// The certificate of the webhook, if it is served.
    pub certificate: Option<watch::Receiver<Served>>,
    /// Answers about one pod.
    pub asking: Asking,
    /// The time.
    pub clock: Clock,
}

/// One pod.
#[derive(Debug, Deserialize)]
struct OnePod {
    namespace: String,
    pod: String,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/debug/bindings", get(bindings))
        .route("/debug/leader", get(leader))
        .route(command::PATH, get(explain))
        .with_state(shown);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn livez(State(shown): State<Shown>) -> Response {
    let still = shown.pulse.still_for();
    if still < STUCK {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        let text = format!("the engine has not moved for {still:?}; expected it to move every few seconds\n");
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}

async fn readyz(State(shown): State<Shown>) -> Response {
    if let Some(stranger) = shown.authority.shut_out() {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", stranger.said)).into_response()
    } else if !shown.pulse.is_synced() {
        let text = "not every watch has listed all there is yet; nothing is sent to AWS before that\n";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    } else if shown.certificate.is_some_and(|certificate| certificate.borrow().is_none()) {
        let text = "the webhook has no certificate yet, so new pods would be missed; the log says what it waits for\n";
        (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
    } else {
        (StatusCode::OK, "ok\n").into_response()
    }
}

async fn metrics(State(shown): State<Shown>) -> Response {
    match shown.metrics.page() {
        Ok(page) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], page).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn leader(State(shown): State<Shown>) -> Json<Value> {
    let reign = shown.authority.reign();
    Json(json!({
        "leading": reign.is_some(),
        "reign": reign.map(|reign| reign.number),
        "holder": shown.authority.holder(),
        "holderServes": shown.authority.stranger().map(|stranger| stranger.serves),
    }))
}

/// Only the leader knows what AWS was told.
async fn explain(State(shown): State<Shown>, Query(one): Query<OnePod>) -> Response {
    let holder = shown.authority.holder();
    if shown.authority.reign().is_none() {
        let leads = holder.map_or_else(|| "nobody leads".to_owned(), |holder| format!("{holder} leads"));
        let text = format!("this replica does not lead, {leads}; expected the question there\n");
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    let Some(explanation) = shown.asking.explain(ObjectKey::new(one.namespace, one.pod)).await else {
        let text = "the engine is too busy to say; expected an answer within 2 s; ask again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let wall = Wall::at(shown.clock.now());
    Json(Report::new(explanation, holder.map(String::from), wall)).into_response()
}

async fn bindings(State(shown): State<Shown>) -> Json<Value> {
    let views = &shown.views;
    let mut bindings: Vec<_> = views.bindings.iter().map(|entry| entry.value().clone()).collect();
    bindings.sort_by(|a, b| a.key.cmp(&b.key));
    let bindings = bindings.iter().map(|view| {
        let targets = view.targets.iter().map(|target| {
            json!({
                "target": target.target.to_string(),
                "pod": &*target.pod.name,
                "registered": target.registered,
                "state": target.state.map(HealthState::as_str),
                "gate": match target.gate {
                    GateView::None => Value::Null,
                    GateView::Closed => "closed".into(),
                    GateView::Open => "open".into(),
                },
                "ending": Value::Null,
            })
        });
        let ending = view.ending.iter().map(|target| {
            json!({
                "target": target.target.to_string(),
                "pod": &*target.pod.name,
                "registered": target.registered,
                "state": target.state.map(HealthState::as_str),
                "ending": target.reason.as_str(),
            })
        });
        json!({
            "namespace": &*view.key.origin.key().namespace,
            "kind": view.key.origin.kind(),
            "name": &*view.key.origin.key().name,
            "port": &*view.key.port,
            "targetGroup": view.key.group.as_str(),
            "targets": targets.chain(ending).collect::<Vec<_>>(),
            "hold": {"wanted": view.hold.seconds, "bound": view.hold.bound},
            "troubles": words(&view.said),
        })
    });
    let mut origins: Vec<_> = views.origins.iter().map(|entry| entry.value().clone()).collect();
    origins.sort_by(|a, b| a.origin.cmp(&b.origin));
    let origins = origins.iter().map(|view| {
        let problems = view.problems.iter().map(|problem| (problem.reason, problem.said.clone()));
        json!({
            "namespace": &*view.origin.key().namespace,
            "kind": view.origin.kind(),
            "name": &*view.origin.key().name,
            "problems": words(&problems.collect::<Vec<_>>()),
        })
    });
    Json(json!({ "bindings": bindings.collect::<Vec<_>>(), "origins": origins.collect::<Vec<_>>() }))
}

fn words(said: &[(Reason, String)]) -> Vec<Value> {
    said.iter().map(|(reason, message)| json!({"reason": reason.as_str(), "message": message})).collect()
}
