//! Another mutating webhook. It adds a container to a new pod, like a service mesh, or shortens its grace period, like
//! a policy.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use headgate::{certificates::certificate, serving::tls};
use headgate_core::inject::INJECTED;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use k8s_openapi::{ByteString, api::admissionregistration::v1::MutatingWebhookConfiguration};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

/// The container that it adds.
pub const SIDECAR: &str = "late-sidecar";

/// Its change of a new pod.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// It adds [`SIDECAR`], after Headgate's webhook was called.
    AddsContainer,
    /// It lowers longer grace periods to this many seconds on every call. It is called again if other webhooks have
    /// changed the pod.
    LowersGrace(i64),
}

/// Serves until it is removed.
pub struct OtherWebhook {
    api: Api<MutatingWebhookConfiguration>,
    name: String,
    serving: JoinHandle<()>,
}

impl OtherWebhook {
    /// Starts it for pods of namespaces with a label. The API server calls webhooks in the order of their
    /// configurations' names.
    pub async fn install(client: &Client, name: &str, label: &str, does: Does) -> Self {
        let issued =
            certificate::issue(&["127.0.0.1".into()], SystemTime::now(), Duration::from_secs(3600)).unwrap();
        let certified = tls::certified(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap();
        let (_, served) = watch::channel(Some(Arc::new(certified)));
        let acceptor = TlsAcceptor::from(tls::configuration(served).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(|request| answer(request, does)))
                        .await;
                });
            }
        });
        let trusted = issued.authority();
        let object = json!({"metadata": {"name": name}, "webhooks": [{
            "name": "other.example.com",
            "reinvocationPolicy": match does {
                Does::AddsContainer => "Never",
                Does::LowersGrace(_) => "IfNeeded",
            },
            "clientConfig": {"url": url, "caBundle": ByteString(trusted.as_bytes().to_vec())},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }]});
        let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        Self { api, name: name.into(), serving }
    }

    /// Removes it.
    pub async fn remove(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.serving.abort();
    }
}

async fn answer(request: Request<Incoming>, does: Does) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let (uid, pod) = (&review["request"]["uid"], &review["request"]["object"]);
    let mut response = json!({"uid": uid, "allowed": true});
    let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let seen_by_headgate = pod["metadata"]["annotations"][INJECTED].is_string();
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap();
    let change = match does {
        Does::AddsContainer => {
            let adds = seen_by_headgate && containers.all(|container| container["name"] != SIDECAR);
            let container = json!({"name": SIDECAR, "image": "headgate.local/web:1"});
            adds.then(|| json!({"op": "add", "path": "/spec/containers/-", "value": container}))
        }
        Does::LowersGrace(most) => (grace > most)
            .then(|| json!({"op": "replace", "path": "/spec/terminationGracePeriodSeconds", "value": most})),
    };
    if let Some(change) = change {
        let patch = json!([change]);
        response["patchType"] = "JSONPatch".into();
        response["patch"] = json!(ByteString(patch.to_string().into_bytes()));
    }
    let answer =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let mut response = Response::new(Full::from(answer.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
