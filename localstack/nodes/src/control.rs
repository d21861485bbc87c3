//! The control API, with which tests control the nodes.
//!
//! The control API serves HTTP on `--control`. The control API has the same paths as the control API of the simulated
//! kubelets for the same functions. An unknown object returns 404 with a JSON `error`, and a failure returns 500.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{
    image,
    machine::Wish,
    node::{Node, NodeError},
};

/// The objects that the control API controls.
#[derive(Debug)]
pub struct Controls {
    /// The nodes.
    pub nodes: Vec<Mutex<Node>>,
    /// The folder for packed images.
    pub images: PathBuf,
}

/// Returns the routes of the control API.
pub fn routes(controls: Arc<Controls>) -> Router {
    Router::new()
        .route("/health", get(async || Json(json!({"ok": true}))))
        .route("/nodes", get(list))
        .route("/nodes/{name}/lose", post(lose))
        .route("/nodes/{name}/restore", post(restore))
        .route("/nodes/{name}/restart-kubelet", post(restart_kubelet))
        .route("/images", post(load))
        .with_state(controls)
}

async fn list(State(controls): State<Arc<Controls>>) -> Json<Value> {
    let mut nodes = Vec::new();
    for node in &controls.nodes {
        let node = node.lock().await;
        nodes.push(json!({"name": node.name(), "zone": node.zone(), "on": node.is_on()}));
    }
    Json(nodes.into())
}

async fn lose(State(controls): State<Arc<Controls>>, Path(name): Path<String>) -> Response {
    controls.with(&name, async |node| node.off().await).await
}

async fn restore(State(controls): State<Arc<Controls>>, Path(name): Path<String>) -> Response {
    controls.with(&name, async |node| node.on().await).await
}

async fn restart_kubelet(State(controls): State<Arc<Controls>>, Path(name): Path<String>) -> Response {
    controls.with(&name, async |node| node.tell(&Wish::RestartKubelet).await).await
}

/// An image to import on all nodes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Load {
    /// An OCI layout in a tar file. The `index.json` of the layout contains the image name for containerd.
    Archive { archive: PathBuf },
    /// An image that must be packed first.
    Packing(Packing),
}

/// The contents of an image to pack.
#[derive(Debug, Deserialize)]
struct Packing {
    name: String,
    binary: PathBuf,
    /// Other files in the image. The key is the path in the image, and the value is a file on this machine.
    #[serde(default)]
    files: BTreeMap<String, PathBuf>,
    /// The signal that stops the containers of the image.
    #[serde(default)]
    stop_signal: Option<String>,
}

async fn load(State(controls): State<Arc<Controls>>, Json(load): Json<Load>) -> Response {
    let file = match load {
        Load::Archive { archive } => archive,
        Load::Packing(packing) => match packed(&controls.images, packing).await {
            Ok(file) => file,
            Err((code, sentence)) => return failed(code, &sentence),
        },
    };
    for node in &controls.nodes {
        let mut node = node.lock().await;
        if let (true, Err(error)) = (node.is_on(), node.tell(&Wish::Import(file.clone())).await) {
            return failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string());
        }
    }
    Json(json!({"loaded": file})).into_response()
}

/// Packs an image into a file in this folder.
async fn packed(folder: &std::path::Path, packing: Packing) -> Result<PathBuf, (StatusCode, String)> {
    let file = folder.join(format!("{}.tar", packing.name.replace(['/', ':'], "_")));
    let into = file.clone();
    let pack = move || {
        let Packing { name, binary, files, stop_signal } = packing;
        image::pack(&name, &binary, &files, stop_signal.as_deref(), &into)
    };
    match tokio::task::spawn_blocking(pack).await {
        Ok(Ok(())) => Ok(file),
        Ok(Err(error)) => Err((StatusCode::UNPROCESSABLE_ENTITY, error.to_string())),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

impl Controls {
    async fn with(&self, name: &str, work: impl AsyncFnOnce(&mut Node) -> Result<(), NodeError>) -> Response {
        for node in &self.nodes {
            let mut node = node.lock().await;
            if node.name() == name {
                return match work(&mut node).await {
                    Ok(()) => Json(json!({"name": name, "on": node.is_on()})).into_response(),
                    Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
                };
            }
        }
        failed(StatusCode::NOT_FOUND, &format!("there is no node {name:?}: see /nodes"))
    }
}

fn failed(code: StatusCode, sentence: &str) -> Response {
    (code, Json(json!({"error": sentence}))).into_response()
}
