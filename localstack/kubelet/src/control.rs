//! The control API: what a test may ask of the pods and tell them.
//!
//! Owns the HTTP routes on `--control`. It reads the registry and passes wishes on to a pod's task; it never
//! touches the API server. A pod that is not there answers 404 with a JSON `error`.

use crate::pod::registry::{Command, Entry, Registry, View};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The routes over these pods.
pub fn routes(registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/pods", get(pods))
        .route("/pods/{namespace}/{name}/ready", post(ready))
        .route("/pods/{namespace}/{name}/finish", post(finish))
        .with_state(registry)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ready {
    ready: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Finish {
    exit_code: u8,
}

async fn health() -> Json<Value> {
    Json(json!({"ok": true}))
}

async fn pods(State(registry): State<Arc<Registry>>) -> Json<Vec<View>> {
    Json(registry.views())
}

async fn ready(
    State(registry): State<Arc<Registry>>,
    Path((namespace, name)): Path<(String, String)>,
    Json(Ready { ready }): Json<Ready>,
) -> Response {
    with(&registry, &namespace, &name, |entry| {
        entry.readiness.set(ready);
        (StatusCode::OK, Json(json!({"uid": entry.uid, "ready": ready})))
    })
}

async fn finish(
    State(registry): State<Arc<Registry>>,
    Path((namespace, name)): Path<(String, String)>,
    Json(Finish { exit_code }): Json<Finish>,
) -> Response {
    with(&registry, &namespace, &name, |entry| {
        let command = Command::Finish { exit_code: exit_code.into() };
        if entry.commands.try_send(command).is_ok() {
            (StatusCode::ACCEPTED, Json(json!({"uid": entry.uid, "exit_code": exit_code})))
        } else {
            let error = format!("pod {namespace}/{name} is ending or busy with earlier commands; try again");
            (StatusCode::CONFLICT, Json(json!({"error": error})))
        }
    })
}

fn with(
    registry: &Registry,
    namespace: &str,
    name: &str,
    answer: impl FnOnce(&Entry) -> (StatusCode, Json<Value>),
) -> Response {
    if let Some(entry) = registry.find(namespace, name) {
        return answer(&entry).into_response();
    }
    let error = format!("no pod {namespace}/{name} runs on the nodes of this kubelet");
    (StatusCode::NOT_FOUND, Json(json!({"error": error}))).into_response()
}
