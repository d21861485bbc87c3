//! The control API, with which tests query and control the pods, the nodes and the address pools.
//!
//! The control API serves HTTP on `--control`. The control API reads the registry, and sends commands to the task of a
//! pod, the switch of a node, or a pool. The control API never calls the API server. An unknown object returns 404 with
//! a JSON `error`. An impossible command returns 409, and an invalid body returns 4xx.

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

/// The address pool of one zone, which all nodes of the zone share.
pub type Pool = Arc<Mutex<IpPool>>;

/// The objects that the control API controls.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    /// The registry of the pods.
    pub registry: Arc<Registry>,
    /// The switches of the nodes.
    pub switches: Switches,
    /// The address pools of all zones.
    pub pools: Vec<Pool>,
}

/// Returns the routes of the control API.
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
