//! Somebody else's mutating webhook: it gives a new pod one more container, as service meshes do, after Headgate has been
//! asked about it.

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

/// Serves until it is removed.
pub struct SidecarWebhook {
    api: Api<MutatingWebhookConfiguration>,
    name: String,
    serving: JoinHandle<()>,
}

impl SidecarWebhook {
    /// Starts it for pods of namespaces with a label. The API server asks in the order of the names of configurations.
    pub async fn install(client: &Client, name: &str, label: &str) -> Self {
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
                        .serve_connection(TokioIo::new(stream), service_fn(answer))
                        .await;
                });
            }
        });
        let trusted = issued.authority();
        let object = json!({"metadata": {"name": name}, "webhooks": [{
            "name": "sidecar.example.com",
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

    /// Takes it away.
    pub async fn remove(self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        self.serving.abort();
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let (uid, pod) = (&review["request"]["uid"], &review["request"]["object"]);
    let mut response = json!({"uid": uid, "allowed": true});
    let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
    let seen_by_headgate = pod["metadata"]["annotations"][INJECTED].is_string();
    if seen_by_headgate && containers.all(|container| container["name"] != SIDECAR) {
        let container = json!({"name": SIDECAR, "image": "headgate.local/web:1"});
        let patch = json!([{"op": "add", "path": "/spec/containers/-", "value": container}]);
        response["patchType"] = "JSONPatch".into();
        response["patch"] = json!(ByteString(patch.to_string().into_bytes()));
    }
    let answer =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let mut response = Response::new(Full::from(answer.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
