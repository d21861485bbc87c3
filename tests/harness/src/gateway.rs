//! A gateway in front of the API server that can return wrong lists, like one that has lost data or uses another API
//! server. It can also reject and delay requests.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
};
use http_body_util::BodyExt;
use hyper::{
    Method,
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HOST},
};
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A list or watch: the end of its path, and a part of its query.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    path: &'static str,
    query: &'static str,
}

/// The pods.
pub const PODS: Listed = Listed { path: "/pods", query: "" };
/// The TargetBindings that users created.
pub const WRITTEN_BINDINGS: Listed = Listed { path: "/targetbindings", query: "made-from" };

impl Listed {
    fn is_asked_for(self, request: &Request) -> bool {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        request.method() == Method::GET && path.ends_with(self.path) && query.contains(self.query)
    }
}

/// The gateway. It calls the API server as an administrator.
#[derive(Clone)]
pub struct Gateway {
    client: Client,
    address: String,
    /// The lists that are wrong.
    misled: Arc<Mutex<Option<Listed>>>,
    /// Whether the next watch of them gets the error that its version is too old.
    expires: Arc<AtomicBool>,
    /// How many more of these lists are empty.
    empty_lists: Arc<AtomicU32>,
    /// Requests whose path has this end get this status.
    refusals: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Gateway {
    /// A gateway to the API server of `client`.
    pub async fn to(client: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let gateway = Self {
            client,
            address,
            misled: Arc::default(),
            expires: Arc::default(),
            empty_lists: Arc::default(),
            refusals: Arc::default(),
        };
        let router = Router::new().fallback(answer).with_state(gateway.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        gateway
    }

    /// Makes the watchers of these objects list them again, and makes the next `lists` lists empty.
    pub fn mislead(&self, listed: Listed, lists: u32) {
        *self.misled.lock().unwrap() = Some(listed);
        self.empty_lists.store(lists, SeqCst);
        self.expires.store(true, SeqCst);
    }

    /// Rejects requests whose path has this end, with a code and a message.
    pub fn refuse(&self, end: &str, code: u16, message: &str) {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": message,
        });
        self.refusals.lock().unwrap().push((end.to_owned(), status));
    }

    /// Rejects no more requests.
    pub fn relent(&self) {
        self.refusals.lock().unwrap().clear();
    }

    fn refusal(&self, path: &str) -> Option<Value> {
        let refusals = self.refusals.lock().unwrap();
        refusals.iter().find(|(end, _)| path.ends_with(end)).map(|(_, status)| status.clone())
    }

    /// Writes a kubeconfig for this gateway.
    pub fn kubeconfig(&self, folder: &Path) -> PathBuf {
        let here = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "gateway",
            "clusters": [{"name": "gateway", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "gateway", "context": {"cluster": "gateway", "user": "nobody"}}],
        });
        let path = folder.join(format!("gateway-{}.kubeconfig", self.address.replace(':', "-")));
        std::fs::write(&path, here.to_string()).unwrap();
        path
    }

    async fn forward(&self, request: Request) -> Result<hyper::Response<kube::client::Body>, kube::Error> {
        let (mut head, body) = request.into_parts();
        // The client sets host and encoding.
        head.headers.remove(HOST);
        head.headers.remove(ACCEPT_ENCODING);
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        self.client.send(Request::from_parts(head, body.to_vec().into())).await
    }
}

async fn answer(State(gateway): State<Gateway>, request: Request) -> Response {
    let uri = request.uri();
    let is_misled = gateway.misled.lock().unwrap().is_some_and(|listed| listed.is_asked_for(&request));
    if let Some(status) = gateway.refusal(uri.path()) {
        let code = u16::try_from(status["code"].as_u64().unwrap()).unwrap();
        let answer = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
        return answer.body(status.to_string().into()).unwrap();
    }
    let watches = uri.query().is_some_and(|query| query.contains("watch=true"));
    if is_misled && watches && gateway.expires.swap(false, SeqCst) {
        let status = json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
            "message": "too old resource version",
        });
        return json_answer(&json!({"type": "ERROR", "object": status}));
    }
    let Ok(answer) = gateway.forward(request).await else {
        return Response::builder().status(502).body(Body::empty()).unwrap();
    };
    let (head, body) = answer.into_parts();
    let one_less = |lists: u32| lists.checked_sub(1);
    if is_misled && !watches && gateway.empty_lists.fetch_update(SeqCst, SeqCst, one_less).is_ok() {
        let list = body.collect().await.unwrap().to_bytes();
        let mut list: Value = serde_json::from_slice(&list).unwrap();
        list["items"] = json!([]);
        return json_answer(&list);
    }
    Response::from_parts(head, Body::new(body))
}

/// One line of JSON, which is also the format of a watch event.
fn json_answer(value: &Value) -> Response {
    let line = value.to_string() + "\n";
    Response::builder().header(CONTENT_TYPE, "application/json").body(line.into()).unwrap()
}
