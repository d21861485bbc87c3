use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{
    serving::tls,
    webhook::certificate::{authority, issue},
};

const PATH: &str = "/0123/evict";

/// A replica that answers every request with this status, and what is to be trusted.
async fn replica(status: u16) -> (SocketAddr, String) {
    let names = ["hook.own.svc".to_owned(), "127.0.0.1".to_owned()];
    let issued = issue(&names, std::time::SystemTime::now(), Duration::from_secs(60)).unwrap();
    let certified = tls::certified(issued.chain.as_bytes(), issued.key.as_bytes()).unwrap();
    let (_, served) = tokio::sync::watch::channel(Some(Arc::new(certified)));
    let acceptor = TlsAcceptor::from(tls::configuration(served).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let answer =
                hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| async move {
                    let asked = request.method() == "GET" && request.uri() == PATH;
                    let mut response = hyper::Response::new(Empty::<Bytes>::new());
                    *response.status_mut() = StatusCode::from_u16(if asked { status } else { 500 }).unwrap();
                    Ok::<_, std::convert::Infallible>(response)
                });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        }
    });
    (address, authority(&issued.chain).unwrap().to_owned())
}

/// An API server whose Service has these endpoints, each with a port and whether it is ready.
fn cluster(endpoints: &[(SocketAddr, bool)]) -> Client {
    let slices: Vec<Value> = endpoints
        .iter()
        .map(|(address, ready)| {
            json!({
                "metadata": {"name": "s", "namespace": "own"}, "addressType": "IPv4",
                "ports": [{"name": "https", "port": address.port()}],
                "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": ready},
                    "targetRef": {"kind": "Pod", "name": format!("headgate-{}", address.port())}}],
            })
        })
        .collect();
    let list = json!({
        "kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {}, "items": slices,
    });
    let router = Router::new().fallback(move |uri: Uri| async move {
        let wanted = "/apis/discovery.k8s.io/v1/namespaces/own/endpointslices";
        assert_eq!(uri.path(), wanted);
        assert!(
            uri.query().unwrap_or_default().contains("labelSelector=kubernetes.io%2Fservice-name%3Dhook")
        );
        Json(list)
    });
    Client::new(router, "own")
}

fn entry(call: Call) -> Entry {
    let config = match call {
        Call::Service { namespace, name, path } => {
            json!({"service": {"namespace": namespace, "name": name, "path": path}})
        }
        Call::Url(url) => json!({ "url": url }),
    };
    let config = serde_json::from_value(config).unwrap();
    super::super::own_entries([("pods.evict.headgate.dev", &config)].into_iter()).pop().unwrap()
}

fn service() -> Entry {
    entry(Call::Service { namespace: "own".into(), name: "hook".into(), path: "/".into() })
}

async fn asked(endpoints: &[(SocketAddr, bool)], bundles: &[&str]) -> Result<(), String> {
    all_serve(&cluster(endpoints), &service(), bundles.concat().as_bytes(), PATH).await
}

#[tokio::test]
async fn a_path_is_served_when_every_replica_says_so() {
    let (new, trusted) = replica(405).await;
    let (old, trusted_too) = replica(404).await;
    let both = [&*trusted, &*trusted_too];
    assert_eq!(asked(&[(new, true)], &both).await, Ok(()));
    for ready in [true, false] {
        let said = asked(&[(new, true), (old, ready)], &both).await.unwrap_err();
        assert!(said.contains("does not serve the path yet (404)") && !said.contains(PATH), "{said}");
        assert!(said.contains(&format!("headgate-{}", old.port())), "{said}");
    }
}

#[tokio::test]
async fn who_cannot_be_called_holds_up_nothing_unless_it_is_ready() {
    let (new, trusted) = replica(405).await;
    // Bound, so that nobody else gets the port, and never listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let gone = socket.local_addr().unwrap();
    assert_eq!(asked(&[(new, true), (gone, false)], &[&trusted]).await, Ok(()));
    let said = asked(&[(new, true), (gone, true)], &[&trusted]).await.unwrap_err();
    assert!(said.contains("cannot be asked"), "{said}");
    let said = asked(&[(new, false)], &[&trusted]).await.unwrap_err();
    assert!(said.contains("has no ready endpoint"), "{said}");
}

#[tokio::test]
async fn nobody_is_told_the_path_who_has_no_certificate_that_the_api_server_trusts() {
    let (imposter, _) = replica(405).await;
    let (_, trusted) = replica(405).await;
    let said = asked(&[(imposter, true)], &[&trusted]).await.unwrap_err();
    assert!(said.contains("invalid peer certificate"), "{said}");
    let said = asked(&[(imposter, true)], &[]).await.unwrap_err();
    assert!(said.contains("its caBundle is empty"), "{said}");
}

#[tokio::test]
async fn whoever_answers_at_a_url_is_asked_too() {
    let (new, trusted) = replica(405).await;
    let (old, trusted_too) = replica(404).await;
    let both = [trusted, trusted_too].concat();
    let url = |address: SocketAddr| entry(Call::Url(format!("https://{address}/evict")));
    let client = cluster(&[]);
    assert_eq!(all_serve(&client, &url(new), both.as_bytes(), PATH).await, Ok(()));
    let said = all_serve(&client, &url(old), both.as_bytes(), PATH).await.unwrap_err();
    assert!(said.contains("does not serve it (404)"), "{said}");
}
