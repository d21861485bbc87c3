//! A server that behaves like the Kubernetes API for Headgate, with any number of pods.
//!
//! It lists and watches pods and Services, completely, in pages or as a stream. It stores what is written to it without
//! checks, and answers everything else with an empty list. It has no permissions, versions and conflicts.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{Method, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// The resource version of the lists. Each event has the next one.
const LISTED: usize = 1000;
const PAGE: usize = 500;

/// The server.
pub struct Replay {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    pods: usize,
    /// Returns a pod as JSON.
    pod: Box<dyn Fn(usize) -> String + Send + Sync>,
    services: Vec<Value>,
    /// Events of pods, one per line.
    events: Mutex<Vec<Bytes>>,
    length: watch::Sender<usize>,
    written: Mutex<BTreeMap<String, Value>>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Replay {
    /// A server with this many pods, each made from its number as JSON, and these Services.
    pub async fn start(
        pods: usize,
        pod: impl Fn(usize) -> String + Send + Sync + 'static,
        services: Vec<Value>,
    ) -> Self {
        let shared = Arc::new(Shared {
            pods,
            pod: Box::new(pod),
            services,
            events: Mutex::default(),
            length: watch::Sender::new(0),
            written: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    /// A kubeconfig for this server.
    pub fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "replay",
            "clusters": [{"name": "replay", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "replay", "user": {}}],
            "contexts": [{"name": "replay", "context": {"cluster": "replay", "user": "replay"}}],
        });
        let path = folder.join(format!("replay-{}.kubeconfig", self.address.port()));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Sends these events of pods to all watches.
    pub fn say(&self, events: impl IntoIterator<Item = (&'static str, Value)>) {
        let mut all = self.shared.events.lock().unwrap();
        for (kind, mut object) in events {
            object["metadata"]["resourceVersion"] = (LISTED + all.len() + 1).to_string().into();
            all.push(line(kind, &object.to_string()));
        }
        self.shared.length.send_replace(all.len());
    }
}

fn line(kind: &str, object: &str) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

/// The pod in the form of lists and events.
pub fn as_served(mut pod: Value, number: usize) -> Value {
    let name = pod["metadata"]["name"].clone();
    let metadata = &mut pod["metadata"];
    metadata["uid"] = format!("{number:08x}-1c5e-4f60-a1b2-5d8f7c9b64aa").into();
    metadata["resourceVersion"] = (LISTED - 1).to_string().into();
    metadata["creationTimestamp"] = "2026-01-02T03:04:05Z".into();
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "x", "controller": true}]);
    metadata["managedFields"] = json!([
        {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {"f:env": {}}}}}},
        {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:status": {"f:conditions": {}, "f:podIP": {}, "f:podIPs": {}}}, "subresource": "status"},
    ]);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod
}

type Asked = BTreeMap<String, String>;

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    Query(asked): Query<Asked>,
    body: Bytes,
) -> Response {
    let path = uri.path();
    if method == Method::GET && path == "/version" {
        return json_answer(&json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}));
    }
    let is_watch = asked.get("watch").is_some_and(|value| value == "1" || value == "true");
    match (method, path.rsplit('/').next().unwrap_or_default()) {
        (Method::GET, "pods") if is_watch => watch_pods(shared, &asked),
        (Method::GET, "pods") => list_pods(&shared, &asked),
        (Method::GET, "services") if is_watch => {
            let services = shared.services.clone();
            let services = services.into_iter().map(|service| service.to_string());
            let listed = stream::iter(initial(&asked, "Service", services));
            streaming(listed.chain(stream::pending()), &asked)
        }
        (Method::GET, "services") => {
            list("ServiceList", shared.services.iter().map(Value::to_string), None)
        },
        (Method::GET, _) if is_watch => {
            let none = stream::iter(initial(&asked, "List", std::iter::empty()));
            streaming(none.chain(stream::pending()), &asked)
        }
        (Method::GET, _) => match shared.written.lock().unwrap().get(path) {
            Some(written) => json_answer(written),
            None if is_item(path) => (
                StatusCode::NOT_FOUND,
                json_answer(&json!({
                    "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
                    "message": format!("nothing was written to {path}"), "metadata": {},
                })),
            )
                .into_response(),
            None => list("List", std::iter::empty(), None),
        },
        (Method::DELETE, _) => {
            shared.written.lock().unwrap().remove(path);
            json_answer(&json!({"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}}))
        }
        (method, _) => write(&shared, &method, path, &body),
    }
}

/// Paths of collections end with a plural that is not a name: after the group's version, or after a namespace.
fn is_item(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let after_version = if parts.first() == Some(&"api") { 2 } else { 3 };
    let rest = parts.get(after_version..).unwrap_or_default();
    let rest = if rest.len() > 2 && rest[0] == "namespaces" { &rest[2..] } else { rest };
    rest.len() > 1
}

fn write(shared: &Shared, method: &Method, path: &str, body: &Bytes) -> Response {
    let mut object: Value = serde_json::from_slice(body).unwrap_or_else(|_| json!({}));
    let mut written = shared.written.lock().unwrap();
    let name = object["metadata"]["name"].as_str().map(ToOwned::to_owned);
    let at = match (method, name) {
        (&Method::POST, Some(name)) => format!("{path}/{name}"),
        _ => path.to_owned(),
    };
    object["metadata"]["resourceVersion"] = (LISTED + written.len()).to_string().into();
    object["metadata"]["uid"] = format!("written-{}", written.len()).into();
    written.insert(at, object.clone());
    json_answer(&object)
}

fn json_answer(value: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn list(kind: &str, items: impl Iterator<Item = String>, next: Option<usize>) -> Response {
    let next = next.map(|next| next.to_string());
    let metadata = json!({"resourceVersion": LISTED.to_string(), "continue": next.unwrap_or_default()});
    let items: Vec<String> = items.collect();
    let items = items.join(",");
    let text =
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"{kind}\",\"metadata\":{metadata},\"items\":[{items}]}}");
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

fn list_pods(shared: &Shared, asked: &Asked) -> Response {
    let from = asked.get("continue").and_then(|from| from.parse().ok()).unwrap_or(0);
    let most = asked.get("limit").and_then(|most| most.parse().ok()).unwrap_or(PAGE).min(PAGE);
    let to = shared.pods.min(from + most);
    list("PodList", (from..to).map(|number| (shared.pod)(number)), (to < shared.pods).then_some(to))
}

/// The first lines of a watch that begins with the whole list.
fn initial<I: Iterator<Item = String>>(
    asked: &Asked,
    kind: &'static str,
    objects: I,
) -> impl Iterator<Item = Bytes> + use<I> {
    let wanted = asked.get("sendInitialEvents").is_some_and(|value| value == "true");
    let end = json!({
        "apiVersion": "v1", "kind": kind,
        "metadata": {
            "resourceVersion": LISTED.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    });
    let all = objects
        .map(|object| line("ADDED", &object))
        .chain(std::iter::once(line("BOOKMARK", &end.to_string())));
    all.filter(move |_| wanted)
}

fn watch_pods(shared: Arc<Shared>, asked: &Asked) -> Response {
    let version: usize = asked.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
    let next = version.saturating_sub(LISTED);
    let (pods, make) = (shared.pods, shared.clone());
    let listed = initial(asked, "Pod", (0..pods).map(move |number| (make.pod)(number)));
    let length = shared.length.subscribe();
    let events = stream::unfold((shared, length, next), |(shared, mut length, next)| async move {
        length.wait_for(|length| *length > next).await.ok()?;
        let event = shared.events.lock().unwrap()[next].clone();
        Some((event, (shared, length, next + 1)))
    });
    streaming(stream::iter(listed).chain(events), asked)
}

/// Streams the lines for the requested duration of a watch.
fn streaming(lines: impl futures::Stream<Item = Bytes> + Send + 'static, asked: &Asked) -> Response {
    let seconds = asked.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).unwrap_or(300);
    let end = Box::pin(tokio::time::sleep(Duration::from_secs(seconds)));
    let lines = lines.map(Ok::<_, Infallible>).take_until(end);
    ([(CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_collections_are_told_apart() {
        for collection in
            ["/api/v1/nodes", "/api/v1/namespaces/a/events", "/apis/x.dev/v1/namespaces/a/leases"]
        {
            assert!(!is_item(collection), "{collection}");
        }
        for item in
            ["/api/v1/namespaces/a", "/api/v1/namespaces/a/pods/b", "/apis/x.dev/v1/namespaces/a/leases/b"]
        {
            assert!(is_item(item), "{item}");
        }
    }
}
