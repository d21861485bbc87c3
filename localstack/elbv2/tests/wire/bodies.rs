//! Traffic of an Application Load Balancer: requests in flight, bodies, upgrades.

use std::convert::Infallible;
use std::net::SocketAddr;

use futures::stream;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::pod::Pod;
use crate::stand::{Kind, PATIENCE, Stand};

async fn with_pod(stand: &Stand) -> (String, Pod, SocketAddr) {
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    (group, pod, SocketAddr::new(stand.nodes().await[0], 8000))
}

/// Sends a request that the pod does not answer yet. Returns when the request has reached the pod.
async fn hold(stand: &Stand, pod: &Pod, node: SocketAddr) -> tokio::task::JoinHandle<u16> {
    let request = Request::get(format!("http://{node}/held")).body(Full::<Bytes>::default()).unwrap();
    let http = stand.http.clone();
    let answer = tokio::spawn(async move { http.request(request).await.unwrap().status().as_u16() });
    stand.until("the request has reached the pod", async |_| pod.requests() == 1).await;
    answer
}

#[tokio::test]
async fn row_07_a_request_in_flight_is_finished_while_its_target_drains() {
    let stand = Stand::new().await;
    let (group, pod, node) = with_pod(&stand).await;
    let answer = hold(&stand, &pod, node).await;
    stand.deregister(&group, &[pod.at]).await;
    stand.until_settled().await;
    pod.let_go();
    assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap(), 200);
}

#[tokio::test]
async fn row_07_a_request_still_in_flight_at_the_end_of_draining_is_502() {
    let stand = Stand::new().await;
    let (group, pod, node) = with_pod(&stand).await;
    let answer = hold(&stand, &pod, node).await;
    stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "1").await;
    stand.deregister(&group, &[pod.at]).await;
    assert_eq!(timeout(PATIENCE, answer).await.unwrap().unwrap(), 502);
    assert_eq!(stand.trace("connection").await[0]["outcome"], "terminated");
}

#[tokio::test]
async fn row_07_an_upgraded_connection_carries_both_ways_until_the_end_of_draining() {
    let stand = Stand::new().await;
    let (group, pod, node) = with_pod(&stand).await;
    let mut stream = TcpStream::connect(node).await.unwrap();
    let request = "GET /chat HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: chat\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("upgrade: chat\r\n"), "{head}");
    let mut echo = [0; 5];
    for _ in 0..3 {
        stream.write_all(b"hello").await.unwrap();
        timeout(PATIENCE, stream.read_exact(&mut echo)).await.unwrap().unwrap();
        assert_eq!(&echo, b"hello");
    }
    stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "300").await;
    stand.deregister(&group, &[pod.at]).await;
    stream.write_all(b"still").await.unwrap();
    timeout(PATIENCE, stream.read_exact(&mut echo)).await.unwrap().unwrap();
    let end = timeout(PATIENCE, stream.read_u8()).await.expect("an end in time");
    assert!(end.is_err(), "{end:?}");
}

/// A target that returns every body.
pub async fn echo(at: SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: Request<Incoming>| async move {
                let kind = request.headers().get("transfer-encoding").cloned();
                let mut response = Response::new(request.into_body());
                if let Some(kind) = kind {
                    response.headers_mut().insert("x-request-encoding", kind);
                }
                Ok::<_, Infallible>(response)
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
}

#[tokio::test]
async fn large_and_chunked_bodies_arrive_whole_both_ways() {
    const CHUNK: usize = 64 << 10;
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(Kind::Application).await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    echo(target).await;
    stand.register(&group, &[target]).await;
    stand.until_settled().await;
    let uri = format!("http://{}:8000/", stand.nodes().await[0]);
    let large = Bytes::from((0..20 * CHUNK).map(|n| u8::try_from(n % 251).unwrap()).collect::<Vec<u8>>());

    let request = Request::post(&uri).body(Full::new(large.clone())).unwrap();
    let response = stand.http.request(request).await.unwrap();
    assert_eq!(response.headers()["content-length"], large.len().to_string());
    assert!(response.into_body().collect().await.unwrap().to_bytes() == large);

    let chunks: Vec<Bytes> = large.chunks(CHUNK).map(Bytes::copy_from_slice).collect();
    let body = StreamBody::new(stream::iter(chunks.into_iter().map(|c| Ok::<_, Infallible>(Frame::data(c)))));
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(Request::post(&uri).body(body).unwrap()).await.unwrap();
    assert_eq!(response.headers()["x-request-encoding"], "chunked");
    assert!(response.into_body().collect().await.unwrap().to_bytes() == large);
}
