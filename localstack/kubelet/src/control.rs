//! The control API: tests query and control the pods, the nodes and the address pools with it.
//!
//! Serves HTTP on `--control`. It reads the registry, and passes commands to a pod's task, a node's switch or a pool.
//! It never calls the API server. An unknown object answers 404 with a JSON `error`, an impossible command 409, an
//! invalid body 4xx.

mod nodes;
mod pods;
mod settings;
#[cfg(test)]
mod tests;

use crate::address::IpPool;
use crate::node::state::Switches;
use crate::pod::registry::Registry;
use axum::extract::FromRequest;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The addresses of one zone, shared by the pods of its nodes.
pub type Pool = Arc<Mutex<IpPool>>;

/// What the control API controls.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    /// The pods.
    pub registry: Arc<Registry>,
    /// The nodes.
    pub switches: Switches,
    /// The address pools of all zones.
    pub pools: Vec<Pool>,
}

/// The routes of the control API.
pub fn routes(controls: Controls) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/pods", get(pods::list))
        .route("/pods/{namespace}/{name}/ready", post(pods::ready))
        .route("/pods/{namespace}/{name}/finish", post(pods::finish))
        .route("/pods/{namespace}/{name}/crash", post(pods::crash))
        .route("/pods/{namespace}/{name}/hang", post(pods::hang))
        .route("/pods/{namespace}/{name}/sandbox", post(pods::sandbox))
        .route("/pods/{namespace}/{name}/pressure-evict", post(pods::evict))
        .route("/nodes", get(nodes::list))
        .route("/nodes/{name}/lose", post(nodes::lose))
        .route("/nodes/{name}/restore", post(nodes::restore))
        .route("/nodes/{name}/restart-kubelet", post(nodes::restart_kubelet))
        .route("/nodes/{name}/shutdown", post(nodes::shut_down))
        .route("/settings", get(settings::read).post(settings::change))
        .with_state(Arc::new(controls))
}

async fn health() -> Json<Value> {
    Json(json!({"ok": true}))
}

fn error(code: StatusCode, sentence: &str) -> Response {
    (code, Json(json!({"error": sentence}))).into_response()
}

/// An optional JSON body, with any content type.
#[derive(Debug, Default)]
struct Optional<T>(T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for Optional<T> {
    type Rejection = Response;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Response> {
        let body =
            axum::body::Bytes::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        if body.is_empty() {
            return Ok(Self(T::default()));
        }
        serde_json::from_slice(&body).map(Self).map_err(|unreadable| {
            error(StatusCode::UNPROCESSABLE_ENTITY, &format!("the body cannot be used: {unreadable}"))
        })
    }
}
