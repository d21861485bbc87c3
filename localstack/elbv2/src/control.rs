//! The control API with functions that the AWS API does not have. The control API uses JSON over HTTP on a separate
//! socket.
//!
//! The control API returns settings, routing tables and the trace. The control API also changes the behavior at run
//! time, and resets the stand-in. A rejected change returns 400 with `{"error": …}` and changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::api::server::Switch;
use crate::behaviour::Fault;
use crate::dataplane::Dataplane;
use crate::model::GroupSettings;
use crate::shared::Shared;

/// The state, the sockets and the switch that the control API uses.
#[derive(Debug)]
pub struct Control {
    pub shared: Arc<Shared>,
    pub dataplane: Arc<Dataplane>,
    /// Switches the AWS API on or off.
    pub switch: Switch,
}

type Shell = State<Arc<Control>>;

/// Serves the control API until the task is cancelled.
pub async fn run(control: Arc<Control>, listener: TcpListener) {
    let router = Router::new()
        .route("/health", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/settings", get(settings).patch(change_settings))
        .route("/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/target-groups/{name}/settings", get(group_settings).patch(change_group_settings))
        .route("/trace", get(trace))
        .route("/load-balancers", get(load_balancers))
        .route("/load-balancers/{name}/zonal-shift", put(shift))
        .route("/reset", post(reset))
        .with_state(control);
    if let Err(error) = axum::serve(listener, router).await {
        tracing::error!(%error, "the control API failed");
    }
}

/// An error answer that contains the cause.
struct Refused(StatusCode, String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

fn bad(why: impl Into<String>) -> Refused {
    Refused(StatusCode::BAD_REQUEST, why.into())
}

fn body<T>(json: Result<Json<T>, JsonRejection>) -> Result<T, Refused> {
    json.map(|Json(value)| value).map_err(|rejection| bad(rejection.body_text()))
}

async fn settings(State(control): Shell) -> Response {
    Json(control.shared.with(|model, _| model.behaviour().clone())).into_response()
}

async fn change_settings(
    State(control): Shell,
    patch: Result<Json<Value>, JsonRejection>,
) -> Result<Response, Refused> {
    let patch = body(patch)?;
    let behaviour = control.shared.with(|model, _| {
        let next = model.behaviour().patched(&patch).map_err(|error| bad(error.to_string()))?;
        model.set_behaviour(next.clone());
        Ok(next)
    })?;
    control.switch.set(behaviour.api_available).await;
    Ok(Json(behaviour).into_response())
}

async fn faults(State(control): Shell) -> Response {
    Json(control.shared.with(|model, _| model.behaviour().faults.clone())).into_response()
}

async fn add_fault(
    State(control): Shell,
    fault: Result<Json<Fault>, JsonRejection>,
) -> Result<Response, Refused> {
    let fault = body(fault)?;
    fault.check().map_err(|error| bad(error.to_string()))?;
    Ok(change_faults(&control, |faults| faults.push(fault)))
}

async fn clear_faults(State(control): Shell) -> Response {
    change_faults(&control, Vec::clear)
}

fn change_faults(control: &Control, change: impl FnOnce(&mut Vec<Fault>)) -> Response {
    let faults = control.shared.with(|model, _| {
        let mut behaviour = model.behaviour().clone();
        change(&mut behaviour.faults);
        model.set_behaviour(behaviour.clone());
        behaviour.faults
    });
    Json(faults).into_response()
}

async fn group_settings(State(control): Shell, Path(name): Path<String>) -> Result<Response, Refused> {
    control.shared.with(|model, _| {
        let group = model.group_by_name(&name).and_then(|id| model.group(id));
        group.map(|group| Json(group.settings).into_response()).map_err(no_group(&name))
    })
}

/// Merges a patch. An absent key does not change, and a key with null gets the default of the kind again.
async fn change_group_settings(
    State(control): Shell,
    Path(name): Path<String>,
    patch: Result<Json<serde_json::Map<String, Value>>, JsonRejection>,
) -> Result<Response, Refused> {
    let patch = body(patch)?;
    control.shared.with(|model, _| {
        let id = model.group_by_name(&name).map_err(no_group(&name))?;
        let current = model.group(id).map_err(no_group(&name))?.settings;
        let mut merged = serde_json::to_value(current).map_err(|error| bad(error.to_string()))?;
        if let Some(object) = merged.as_object_mut() {
            object.extend(patch);
        }
        let next: GroupSettings = serde_json::from_value(merged).map_err(|error| bad(error.to_string()))?;
        model.set_group_settings(id, next).map_err(|error| bad(error.to_string()))?;
        Ok(Json(next).into_response())
    })
}

fn no_group<E>(name: &str) -> impl Fn(E) -> Refused + use<'_, E> {
    move |_| Refused(StatusCode::NOT_FOUND, format!("there is no target group called '{name}'"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceQuery {
    #[serde(default)]
    since: u64,
    limit: Option<usize>,
    #[serde(default)]
    settled: bool,
}

async fn trace(
    State(control): Shell,
    query: Result<Query<TraceQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let Query(query) = query.map_err(|rejection| bad(rejection.body_text()))?;
    if query.settled {
        control.shared.trace.settled().await;
    }
    // Adds all events that are due by now to the trace.
    control.shared.with(|_, _| ());
    Ok(Json(control.shared.trace.page(query.since, query.limit.unwrap_or(usize::MAX))).into_response())
}

async fn load_balancers(State(control): Shell) -> Response {
    Json(control.shared.with(|model, _| model.snapshot())).into_response()
}

/// The zones that get no new traffic. All other zones get new traffic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shift {
    zones: BTreeSet<String>,
}

async fn shift(
    State(control): Shell,
    Path(name): Path<String>,
    shift: Result<Json<Shift>, JsonRejection>,
) -> Result<Response, Refused> {
    let Shift { zones } = body(shift)?;
    control.shared.with(|model, _| {
        let missing =
            |_| Refused(StatusCode::NOT_FOUND, format!("there is no load balancer called '{name}'"));
        let id = model.balancer_by_name(&name).map_err(missing)?;
        model.shift(id, zones.clone()).map_err(|error| bad(error.to_string()))
    })?;
    Ok(Json(json!({"zones": zones})).into_response())
}

async fn reset(State(control): Shell) -> Response {
    // Both changes use the same lock, so no listener can be created in between.
    let closing = control.shared.reset(|| control.dataplane.clear());
    closing.closed().await;
    control.switch.set(true).await;
    control.shared.trace.clear();
    Json(json!({"status": "ok"})).into_response()
}
