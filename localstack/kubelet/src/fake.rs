//! An API server for tests: an in-process store of pods that accepts status patches and deletions.
//!
//! The store implements only the rules that the task of a pod needs. A wrong UID returns 422, a missing pod 404, and a
//! failed UID precondition 409. A patch without an effect does not change the resource version.

use crate::object::Pod;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, patch};
use kube::Client;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request that the store executed.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A status patch. Contains the resulting status.
    Status(Value),
    /// A deletion. Contains the body of the request.
    Delete(Value),
    /// An annotation patch. Contains the resulting annotations.
    Annotations(Value),
}

#[derive(Debug, Default)]
struct Store {
    pods: HashMap<String, Value>,
    calls: Vec<Call>,
    version: u64,
    failures: u32,
}

/// An in-process API server.
#[derive(Clone, Debug, Default)]
pub struct Fake(Arc<Mutex<Store>>);

impl Fake {
    /// Returns a client of the API server.
    pub fn client(&self) -> Client {
        let routes = Router::new()
            .route("/api/v1/namespaces/{namespace}/pods/{name}/status", patch(patch_status))
            .route("/api/v1/namespaces/{namespace}/pods/{name}", delete(delete_pod).patch(patch_annotations))
            .with_state(self.clone());
        Client::new(routes, "default")
    }

    /// Stores a pod, and returns the stored pod.
    pub fn create(&self, mut pod: Value) -> Arc<Pod> {
        let mut store = self.0.lock().unwrap();
        store.version += 1;
        pod["metadata"]["resourceVersion"] = json!(store.version.to_string());
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        store.pods.insert(name, pod.clone());
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    /// Changes a stored pod, and returns the changed pod as a watch event does.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
        let mut pod = self.0.lock().unwrap().pods[name].clone();
        change(&mut pod);
        self.create(pod)
    }

    /// Removes a pod without a deletion request.
    pub fn remove(&self, name: &str) {
        self.0.lock().unwrap().pods.remove(name);
    }

    /// Makes the next `times` requests fail with 500.
    pub fn fail(&self, times: u32) {
        self.0.lock().unwrap().failures = times;
    }

    /// Returns all requests that were executed so far.
    pub fn calls(&self) -> Vec<Call> {
        self.0.lock().unwrap().calls.clone()
    }

    /// Waits until the executed requests meet a condition.
    pub async fn until(&self, wanted: impl Fn(&[Call]) -> bool) -> Vec<Call> {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        loop {
            let calls = self.calls();
            if wanted(&calls) {
                return calls;
            }
            assert!(tokio::time::Instant::now() < deadline, "not reached; calls so far: {calls:#?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn refuse(code: StatusCode, message: &str) -> Response {
    let status = json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "message": message,
                        "reason": "Test"});
    (code, axum::Json(status)).into_response()
}

async fn patch_status(
    State(Fake(store)): State<Fake>,
    Path((_, name)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let patch: Value = serde_json::from_slice(&body).unwrap();
    let mut store = store.lock().unwrap();
    if store.failures > 0 {
        store.failures -= 1;
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "etcd is away");
    }
    let Some(stored) = store.pods.get(&name).cloned() else {
        return refuse(StatusCode::NOT_FOUND, "not found");
    };
    if patch["metadata"]["uid"] != stored["metadata"]["uid"] {
        return refuse(StatusCode::UNPROCESSABLE_ENTITY, "metadata.uid: field is immutable");
    }
    let mut pod = stored.clone();
    merge(&mut pod["status"], &patch["status"]);
    if pod != stored {
        store.version += 1;
        pod["metadata"]["resourceVersion"] = json!(store.version.to_string());
        store.pods.insert(name, pod.clone());
    }
    store.calls.push(Call::Status(pod["status"].clone()));
    axum::Json(pod).into_response()
}

async fn patch_annotations(
    State(Fake(store)): State<Fake>,
    Path((_, name)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let patch: Value = serde_json::from_slice(&body).unwrap();
    let mut store = store.lock().unwrap();
    let Some(mut pod) = store.pods.get(&name).cloned() else {
        return refuse(StatusCode::NOT_FOUND, "not found");
    };
    if patch["metadata"]["uid"] != pod["metadata"]["uid"] {
        return refuse(StatusCode::CONFLICT, "the UID in the precondition does not match");
    }
    for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    store.version += 1;
    pod["metadata"]["resourceVersion"] = json!(store.version.to_string());
    store.pods.insert(name, pod.clone());
    store.calls.push(Call::Annotations(pod["metadata"]["annotations"].clone()));
    axum::Json(pod).into_response()
}

async fn delete_pod(
    State(Fake(store)): State<Fake>,
    Path((_, name)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let options: Value = serde_json::from_slice(&body).unwrap();
    let mut store = store.lock().unwrap();
    let Some(stored) = store.pods.get(&name).cloned() else {
        return refuse(StatusCode::NOT_FOUND, "not found");
    };
    if options["preconditions"]["uid"] != stored["metadata"]["uid"] {
        return refuse(StatusCode::CONFLICT, "the UID in the precondition does not match");
    }
    store.pods.remove(&name);
    store.calls.push(Call::Delete(options));
    axum::Json(stored).into_response()
}

/// Merges two statuses strategically: conditions by type, and addresses by IP. Other fields are replaced.
fn merge(stored: &mut Value, patch: &Value) {
    for (field, value) in patch.as_object().unwrap() {
        let key = match field.as_str() {
            "conditions" => "type",
            "podIPs" | "hostIPs" => "ip",
            _ => {
                match (value.is_null(), stored.as_object_mut()) {
                    (true, Some(fields)) => _ = fields.remove(field),
                    _ => stored[field] = value.clone(),
                }
                continue;
            }
        };
        let mut list = stored[field].as_array().cloned().unwrap_or_default();
        for element in value.as_array().unwrap() {
            list.retain(|known| known[key] != element[key]);
            if element["$patch"] != "delete" {
                list.push(element.clone());
            }
        }
        stored[field] = Value::Array(list);
    }
}
