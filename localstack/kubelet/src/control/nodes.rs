//! The routes for nodes.
//!
//! The routes send commands to the switch of a node. The heartbeat and the pods of the node watch the switch.

use super::{Controls, Optional, error};
use crate::node::state::{Refusal, Switch, View};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Restart {
    memory_pressure: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShutDown {
    seconds: u32,
}

pub(super) async fn list(State(controls): State<Arc<Controls>>) -> Json<BTreeMap<String, View>> {
    Json(controls.switches.iter().map(|(name, switch)| (name.clone(), switch.view())).collect())
}

pub(super) async fn lose(State(controls): State<Arc<Controls>>, Path(name): Path<String>) -> Response {
    turn(&controls, &name, Switch::lose)
}

pub(super) async fn restore(State(controls): State<Arc<Controls>>, Path(name): Path<String>) -> Response {
    turn(&controls, &name, Switch::restore)
}

pub(super) async fn restart_kubelet(
    State(controls): State<Arc<Controls>>,
    Path(name): Path<String>,
    Optional(Restart { memory_pressure }): Optional<Restart>,
) -> Response {
    turn(&controls, &name, |switch| switch.restart_kubelet(memory_pressure))
}

pub(super) async fn shut_down(
    State(controls): State<Arc<Controls>>,
    Path(name): Path<String>,
    Json(ShutDown { seconds }): Json<ShutDown>,
) -> Response {
    let grace = Duration::from_secs(seconds.into());
    turn(&controls, &name, |switch| switch.shut_down(grace, Instant::now()))
}

fn turn(controls: &Controls, name: &str, act: impl FnOnce(&Switch) -> Result<(), Refusal>) -> Response {
    let Some(switch) = controls.switches.get(name) else {
        return error(StatusCode::NOT_FOUND, &format!("{name} is not a node of this kubelet"));
    };
    match act(switch) {
        Ok(()) => {
            (StatusCode::ACCEPTED, Json(json!({"node": name, "power": switch.view().power}))).into_response()
        }
        Err(refusal) => error(StatusCode::CONFLICT, &format!("node {name}: {refusal}")),
    }
}
