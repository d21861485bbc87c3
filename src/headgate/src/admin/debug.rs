//! The debug endpoints `/debug/*`, which show people the state of Headgate. The endpoints are read-only.
//!
//! The server listens on loopback, because its answers contain the pods of each target group. Other pods of the cluster
//! must not read the debug endpoints. People use port-forwarding, with their own Kubernetes permissions.

use std::time::Duration;

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use headgate_core::{
    Origin, Reason,
    model::{
        grant::{GrantFacts, GroupPattern},
        health::HealthState,
        object::ObjectKey,
    },
    view::GateView,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    live, nodes, page,
    server::{self, LIMITS, Shown, misdirected},
};
use crate::{
    diff::{self, report::Differences},
    explain::{
        self,
        node::NodeReport,
        origin::{OriginReport, bound_targets},
        report::Report,
    },
    journal::{keeper::IN_ONE_ANSWER, report::Past},
    kube::grants::keeper,
    runtime::times::Times,
    serving::connections::Limits,
    status::{self, draw, problems::Known},
};

/// The object to explain: a pod, a Service or a TargetBinding of a namespace, or a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    namespace: String,
    pod: Option<String>,
    service: Option<String>,
    targetbinding: Option<String>,
    node: Option<String>,
}

/// A target group by its ARN.
#[derive(Debug, Deserialize)]
struct OneGroup {
    group: String,
}

/// The requested entries of the journal.
#[derive(Debug, Deserialize)]
struct Entries {
    /// The namespace. `None`: entries of all namespaces, and entries without a namespace.
    namespace: Option<String>,
    /// The number of the entry before the first requested entry. `None`: the latest entries are requested.
    after: Option<u64>,
    /// The maximum number of entries to return.
    most: Option<usize>,
}

/// Serves the debug endpoints until `stop`.
pub async fn serve(listener: TcpListener, shown: Shown, stop: CancellationToken) {
    let router = Router::new()
        .route("/debug/bindings", get(bindings))
        .route("/debug/leader", get(leader))
        .route(explain::PATH, get(explain))
        .route(status::PATH, get(status_of_all))
        .route(diff::PATH, get(differences))
        .route("/debug/journal", get(journal))
        .route("/debug/targets", get(targets))
        .route("/debug/replicas", get(replicas))
        .route("/debug/live", get(live::live))
        .route("/nodes/{name}", get(nodes::node))
        .merge(page::routes())
        .layer(middleware::from_fn(page::guard))
        .with_state(shown.clone());
    // Browser pages remain open for a long time, and all of them may share one forwarded port.
    let limits = Limits { of_an_address: LIMITS.connections, idle: Duration::from_secs(120), ..LIMITS };
    server::serve_router("debug", limits, router, listener, (shown.metrics.clone(), shown.clock), stop).await;
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

async fn status_of_all(State(shown): State<Shown>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let (aws, unable) = (shown.aws.borrow().clone(), shown.authority.unable());
    let known = Known { views: &shown.views, aws, unable };
    Json(draw::status(&known, shown.authority.holder().map(String::from), shown.clock.now())).into_response()
}

/// The engine's answer as JSON, or 503 if the engine is too busy.
fn in_time<T: Serialize>(answer: Option<T>) -> Response {
    let text = "the engine is too busy to answer within 2 s. Try again\n";
    answer.map_or_else(
        || (StatusCode::SERVICE_UNAVAILABLE, text).into_response(),
        |answer| Json(answer).into_response(),
    )
}

async fn explain(State(shown): State<Shown>, Query(asked): Query<Asked>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let holder = shown.authority.holder().map(String::from);
    let key = |name: String| ObjectKey::new(&*asked.namespace, name);
    let origin =
        |origin: Origin| Json(OriginReport::new(&origin, &shown.views, holder.clone())).into_response();
    match (asked.pod, asked.service, asked.targetbinding, asked.node) {
        (Some(pod), None, None, None) => {
            let pod = key(pod);
            let past = shown.journal.of_pod(&pod);
            let explanation = shown.asking.pod(pod).await;
            let times = Times::at(shown.clock.now());
            in_time(explanation.map(|explanation| Report::new(explanation, holder, past, times)))
        }
        (None, Some(service), None, None) => origin(Origin::Service(key(service))),
        (None, None, Some(binding), None) => origin(Origin::TargetBinding(key(binding))),
        (None, None, None, Some(node)) => {
            let past = shown.journal.of_node(&node);
            let explanation = shown.asking.node(node).await;
            let times = Times::at(shown.clock.now());
            let past_of = |pod: &ObjectKey| shown.journal.of_pod(pod);
            in_time(explanation.map(|node| NodeReport::new(node, holder, past, past_of, times)))
        }
        _ => {
            let text = "set namespace and one of pod, service and targetbinding, or node\n";
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

async fn differences(State(shown): State<Shown>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let holder = shown.authority.holder().map(String::from);
    let compared = shown.asking.compare().await;
    let times = Times::at(shown.clock.now());
    in_time(compared.map(|all| Differences::new(all, holder, times)))
}

/// Returns the targets of one target group, from all its bindings.
async fn targets(State(shown): State<Shown>, Query(OneGroup { group }): Query<OneGroup>) -> Response {
    if let Some(elsewhere) = misdirected(&shown) {
        return elsewhere;
    }
    let bindings = shown.views.all_bindings();
    let its = bindings.iter().filter(|view| view.key.group.as_str() == group);
    Json(its.flat_map(|view| bound_targets(view)).collect::<Vec<_>>()).into_response()
}

/// Returns the leader and the ready standbys.
async fn replicas(State(shown): State<Shown>) -> Response {
    match shown.standbys.ready(shown.authority.holder().as_deref()).await {
        Ok(all) => Json(all).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// Returns the journal of this replica, which may be the leader or a standby. Each replica has its own journal.
async fn journal(State(shown): State<Shown>, Query(asked): Query<Entries>) -> Json<Past> {
    let Entries { namespace, after, most } = asked;
    Json(shown.journal.entries(namespace.as_deref(), after, most.unwrap_or(IN_ONE_ANSWER)))
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
