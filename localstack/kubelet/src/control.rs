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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::object::Pod;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    /// The code and body of one answer.
    async fn ask(registry: &Arc<Registry>, method: &str, path: &str, body: &str) -> (u16, Value) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let server = tokio::spawn(axum::serve(listener, routes(Arc::clone(registry))).into_future());
        let mut stream = TcpStream::connect(at).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        server.abort();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn one_pod() -> (Arc<Registry>, mpsc::Receiver<Command>) {
        let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
            "spec": {"nodeName": "n1", "containers": [{"name": "app", "ports": [{"containerPort": 80}]}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let (commands, obeyed) = mpsc::channel(1);
        let registry = Arc::<Registry>::default();
        registry.add(Arc::new(Entry::new(&pod, commands)));
        (registry, obeyed)
    }

    #[tokio::test]
    async fn a_pod_is_listed_and_told_to_be_unready_and_to_finish() {
        let (registry, mut obeyed) = one_pod();
        let told = ask(&registry, "POST", "/pods/shop/web/ready", r#"{"ready":false}"#).await;
        assert_eq!(told, (200, json!({"uid": "u-1", "ready": false})));
        let listed = json!([{"namespace": "shop", "name": "web", "uid": "u-1", "node": "n1", "ip": null,
            "ports": [80], "phase": "preparing", "ready": false, "requests": 0}]);
        assert_eq!(ask(&registry, "GET", "/pods", "").await, (200, listed));
        let finish = r#"{"exit_code":3}"#;
        assert_eq!(ask(&registry, "POST", "/pods/shop/web/finish", finish).await.0, 202);
        assert_eq!(ask(&registry, "POST", "/pods/shop/web/finish", finish).await.0, 409, "one at a time");
        assert_eq!(obeyed.recv().await, Some(Command::Finish { exit_code: 3 }));
    }

    #[tokio::test]
    async fn an_unknown_pod_is_404_with_its_name() {
        let (registry, _obeyed) = one_pod();
        let (code, body) = ask(&registry, "POST", "/pods/shop/other/ready", r#"{"ready":true}"#).await;
        assert_eq!(code, 404);
        assert!(body["error"].as_str().unwrap().contains("shop/other"), "{body}");
    }
}
