//! The routes for pods.
//!
//! The routes send commands to the task of a pod. A pod that has terminated, or whose node is lost, accepts no
//! commands.

use super::{Controls, Optional, error};
use crate::pod::registry::{Command, Entry, View};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

type Name = Path<(String, String)>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ready {
    ready: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finish {
    exit_code: u8,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Crash {
    container: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hang {
    hanging: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Evict {
    grace_seconds: Option<u32>,
}

pub(super) async fn list(State(controls): State<Arc<Controls>>) -> Json<Vec<View>> {
    Json(controls.registry.views())
}

pub(super) async fn ready(
    State(controls): State<Arc<Controls>>,
    Path((namespace, name)): Name,
    Json(Ready { ready }): Json<Ready>,
) -> Response {
    with(&controls, &namespace, &name, |entry| {
        entry.readiness.set(ready);
        (StatusCode::OK, Json(json!({"uid": entry.uid, "ready": ready}))).into_response()
    })
}

pub(super) async fn finish(
    State(controls): State<Arc<Controls>>,
    Path((namespace, name)): Name,
    Json(Finish { exit_code }): Json<Finish>,
) -> Response {
    with(&controls, &namespace, &name, |entry| tell(entry, Command::Finish { exit_code: exit_code.into() }))
}

pub(super) async fn crash(
    State(controls): State<Arc<Controls>>,
    Path((namespace, name)): Name,
    Optional(Crash { container }): Optional<Crash>,
) -> Response {
    with(&controls, &namespace, &name, |entry| {
        if let Some(unknown) = container.as_ref().filter(|container| !entry.containers.contains(container)) {
            let known = entry.containers.join(", ");
            let sentence = format!("pod {namespace}/{name} has no container {unknown}; it has {known}");
            return error(StatusCode::NOT_FOUND, &sentence);
        }
        tell(entry, Command::Crash { container })
    })
}

pub(super) async fn hang(
    State(controls): State<Arc<Controls>>,
    Path((namespace, name)): Name,
    Json(Hang { hanging }): Json<Hang>,
) -> Response {
    with(&controls, &namespace, &name, |entry| tell(entry, Command::Hang(hanging)))
}

pub(super) async fn sandbox(
    State(controls): State<Arc<Controls>>,
    Path((namespace, name)): Name,
) -> Response {
    with(&controls, &namespace, &name, |entry| {
        if entry.host_network {
            let sentence =
                format!("pod {namespace}/{name} is on its node's network and has no sandbox of its own");
            return error(StatusCode::CONFLICT, &sentence);
        }
        tell(entry, Command::LoseSandbox)
    })
}

pub(super) async fn evict(
    State(controls): State<Arc<Controls>>,
    Path((namespace, name)): Name,
    Optional(Evict { grace_seconds }): Optional<Evict>,
) -> Response {
    let grace = grace_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    with(&controls, &namespace, &name, |entry| tell(entry, Command::Evict { grace }))
}

fn tell(entry: &Entry, command: Command) -> Response {
    let (namespace, name) = (&entry.namespace, &entry.name);
    let stage = entry.view().phase;
    if matches!(stage, "ended" | "lost") {
        return error(
            StatusCode::CONFLICT,
            &format!("pod {namespace}/{name} is {stage} and takes no commands"),
        );
    }
    if entry.commands.try_send(command).is_err() {
        let sentence = format!("pod {namespace}/{name} is ending or busy with earlier commands; try again");
        return error(StatusCode::CONFLICT, &sentence);
    }
    (StatusCode::ACCEPTED, Json(json!({"uid": entry.uid}))).into_response()
}

fn with(
    controls: &Controls,
    namespace: &str,
    name: &str,
    answer: impl FnOnce(&Entry) -> Response,
) -> Response {
    if let Some(entry) = controls.registry.find(namespace, name) {
        return answer(&entry);
    }
    let sentence = format!("no pod {namespace}/{name} runs on the nodes of this kubelet");
    error(StatusCode::NOT_FOUND, &sentence)
}
