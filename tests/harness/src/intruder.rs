//! A client that reaches a webhook over the network and is not the API server.

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client that trusts these certificates, PEM.
pub struct Intruder(TlsConnector);

impl Intruder {
    /// Creates it. The certificate of a webhook is not secret.
    pub fn new(trusted: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Self(TlsConnector::from(Arc::new(config)))
    }

    /// Sends one request on a new connection. Returns the status, the body, and whether the server closes the
    /// connection.
    pub async fn send(&self, method: &str, address: &str, path: &str, body: &Value) -> (u16, String, bool) {
        let exchange = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let stream = self.0.connect(name, stream).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            let driver = tokio::spawn(connection);
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(HOST, address)
                .body(Full::new(Bytes::from(body.to_string())))
                .unwrap();
            let answer = sender.send_request(request).await.unwrap();
            let closes = answer.headers().get("connection").is_some_and(|is| is == "close");
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            driver.abort();
            (status, String::from_utf8_lossy(&body).into_owned(), closes)
        };
        tokio::time::timeout(PATIENCE, exchange).await.expect("the webhook answers")
    }
}

/// A forged eviction review in the API server's format.
pub fn forged_eviction(namespace: &str, pod: &str) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "forged", "operation": "CREATE", "namespace": namespace, "name": pod, "dryRun": false,
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": "eviction",
            "userInfo": {"username": "nobody"},
            "object": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": namespace, "name": pod},
                "deleteOptions": {"gracePeriodSeconds": 1}},
        },
    })
}
