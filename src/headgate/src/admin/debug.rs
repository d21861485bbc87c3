//! What Headgate knows and does, for people: `/debug/*`, read-only.
//!
//! It listens on loopback: it says which pods are behind which load balancers, which is not for every pod of the cluster to
//! know. People come by port-forward, with their own Kubernetes rights.

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use headgate_core::{
    Reason,
    model::{
        grant::{GrantFacts, GroupPattern},
        health::HealthState,
        object::ObjectKey,
    },
    view::GateView,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::server::{self, Shown};
use crate::{
    explain::{
        command,
        report::{Report, Wall},
    },
    kube::grants::keeper,
    status::{self, draw, problems::Known},
};

/// One pod.
#[derive(Debug, Deserialize)]
struct OnePod {
    namespace: String,
    pod: String,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) {
    let router = Router::new()
        .route("/debug/bindings", get(bindings))
        .route("/debug/leader", get(leader))
        .route(command::PATH, get(explain))
        .route(status::command::PATH, get(status_of_all))
        .with_state(shown.clone());
    server::serve_router("debug", router, listener, &shown, stop).await;
}

async fn leader(State(shown): State<Shown>) -> Json<Value> {
    let term = shown.authority.term();
    Json(json!({
        "leading": term.is_some(),
        "term": term.map(|term| term.number),
        "holder": shown.authority.holder(),
        "holderServes": shown.authority.stranger().map(|stranger| stranger.serves),
    }))
}

/// Only the leader knows what AWS was told: what any other replica answers.
fn misdirected(shown: &Shown) -> Option<Response> {
    if shown.authority.term().is_some() {
        return None;
    }
    let holder = shown.authority.holder();
    let leads = holder.map_or_else(|| "nobody leads".to_owned(), |holder| format!("{holder} leads"));
    let text = format!("this replica does not lead, {leads}; expected the question there\n");
    Some((StatusCode::MISDIRECTED_REQUEST, text).into_response())
}

async fn status_of_all(State(shown): State<Shown>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let (aws, unable) = (shown.aws.borrow().clone(), shown.authority.unable());
    let known = Known { views: &shown.views, aws, unable };
    Json(draw::status(&known, shown.authority.holder().map(String::from), shown.clock.now())).into_response()
}

async fn explain(State(shown): State<Shown>, Query(one): Query<OnePod>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let holder = shown.authority.holder();
    let Some(explanation) = shown.asking.explain(ObjectKey::new(one.namespace, one.pod)).await else {
        let text = "the engine is too busy to say; expected an answer within 2 s; ask again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let wall = Wall::at(shown.clock.now());
    Json(Report::new(explanation, holder.map(String::from), wall)).into_response()
}

async fn bindings(State(shown): State<Shown>) -> Json<Value> {
    let views = &shown.views;
    let bindings = views.all_bindings();
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
                    GateView::Open | GateView::Unread => "open".into(),
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
    let origins = views.all_origins();
    let origins = origins.iter().map(|view| {
        let problems = view.problems.iter().map(|problem| (problem.reason, problem.said.clone()));
        json!({
            "namespace": &*view.origin.key().namespace,
            "kind": view.origin.kind(),
            "name": &*view.origin.key().name,
            "problems": words(&problems.collect::<Vec<_>>()),
        })
    });
    let aws = shown.aws.borrow().clone();
    let aws = aws.map(|trouble| json!({"reason": trouble.reason.as_str(), "message": trouble.sentence}));
    let grants = granted(&shown.grants.borrow());
    Json(json!({
        "aws": aws, "grants": grants, "bindings": bindings.collect::<Vec<_>>(), "origins": origins.collect::<Vec<_>>(),
    }))
}

fn granted(shown: &keeper::Shown) -> Value {
    let one = |grant: &GrantFacts| {
        json!({
            "name": &*grant.name,
            "targetGroups": grant.groups.iter().map(GroupPattern::as_str).collect::<Vec<_>>(),
            "namespaces": grant.namespaces.iter().map(|name| &**name).collect::<Vec<_>>(),
            "exclusive": grant.exclusive,
        })
    };
    let all = shown.all.as_ref().map(|all| all.iter().map(one).collect::<Vec<_>>());
    let problems = shown.problems.iter().map(|(object, said)| json!({"object": object, "said": said}));
    json!({
        "required": shown.required, "unread": shown.unread, "problems": problems.collect::<Vec<_>>(), "all": all,
    })
}

fn words(said: &[(Reason, String)]) -> Vec<Value> {
    said.iter().map(|(reason, message)| json!({"reason": reason.as_str(), "message": message})).collect()
}
