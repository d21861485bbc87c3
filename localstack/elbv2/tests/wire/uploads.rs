//! Who is at fault when a request ends in the middle of its body. Other tests count lost requests from the trace.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::bodies::echo;
use crate::pod::Pod;
use crate::stand::{Kind, PATIENCE, Stand};

static NEXT: AtomicU8 = AtomicU8::new(20);

const HALF: &str = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf";
const CHUNKED: &str = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";

/// A target that answers when it has the complete body.
async fn collect(at: SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: Request<Incoming>| async move {
                let body = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(Response::new(Full::new(body)))
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
        }
    });
}

/// A target that resets the connection when it has the beginning of a body. It answers requests without a body.
async fn break_off(at: SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !seen.ends_with(b"half") {
                    seen.push(stream.read_u8().await.unwrap_or(b'x'));
                }
                stream.set_zero_linger().unwrap();
            });
        }
    });
}

/// A stand-in with one target, and the address of one of the nodes that send to it.
async fn with_target(kind: Kind) -> (Stand, SocketAddr, SocketAddr) {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(kind).await;
    // Targets run until the process ends, and the next stand-in may get the same range of addresses.
    let target = SocketAddr::new(stand.ip(0, NEXT.fetch_add(1, Ordering::Relaxed)), 8080);
    stand.register(&group, &[target]).await;
    stand.until_settled().await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    (stand, target, node)
}

/// The outcome and status of the only connection.
async fn ended(stand: &Stand) -> (Value, Value) {
    stand.until("the end is traced", async |stand| !stand.trace("connection").await.is_empty()).await;
    let entry = stand.trace("connection").await.remove(0);
    (entry["outcome"].clone(), entry["status"].clone())
}

async fn sent(node: SocketAddr, text: &str) -> TcpStream {
    let mut client = TcpStream::connect(node).await.unwrap();
    client.write_all(text.as_bytes()).await.unwrap();
    client
}

/// All bytes until the node ends the connection.
async fn answer(mut client: TcpStream) -> String {
    let mut all = Vec::new();
    let _ = timeout(PATIENCE, client.read_to_end(&mut all)).await.expect("an end in time");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn a_client_that_ends_in_the_middle_of_its_body_is_gone_and_gets_400() {
    for half in [HALF, CHUNKED] {
        let (stand, target, node) = with_target(Kind::Application).await;
        collect(target).await;
        let mut client = sent(node, half).await;
        client.shutdown().await.unwrap();
        let answer = answer(client).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert_eq!(ended(&stand).await, (json!("client-gone"), json!(400)), "{half}");
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_that_resets_in_the_middle_of_its_body_is_gone() {
    for half in [HALF, CHUNKED] {
        let (stand, target, node) = with_target(Kind::Application).await;
        collect(target).await;
        let client = sent(node, half).await;
        client.set_zero_linger().unwrap();
        drop(client);
        assert_eq!(ended(&stand).await.0, "client-gone", "{half}");
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_whose_body_is_none_gets_400() {
    for odd in ["zz\r\n", "ffffffffffffffffff\r\n", "2\r\nabcd\r\n", "\r\n"] {
        let (stand, target, node) = with_target(Kind::Application).await;
        collect(target).await;
        let answer = answer(sent(node, &format!("{CHUNKED}{odd}")).await).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{odd:?}: {answer}");
        assert_eq!(ended(&stand).await, (json!("client-gone"), json!(400)), "{odd:?}");
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_that_breaks_off_after_the_answer_has_begun_is_gone_too() {
    for odd in ["", "zz\r\n"] {
        let (stand, target, node) = with_target(Kind::Application).await;
        // It returns each byte that it gets.
        echo(target).await;
        let mut client = sent(node, CHUNKED).await;
        let mut seen = Vec::new();
        while !seen.ends_with(b"half") {
            seen.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        client.write_all(odd.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(ended(&stand).await, (json!("client-gone"), json!(200)), "{odd:?}");
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_client_that_sends_no_more_of_its_body_gets_408() {
    let (stand, target, node) = with_target(Kind::Application).await;
    collect(target).await;
    let client = sent(node, HALF).await;
    let answer = answer(client).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(ended(&stand).await, (json!("client-gone"), json!(408)));
}

#[tokio::test]
async fn a_target_that_breaks_off_in_the_middle_of_a_body_is_blamed() {
    for half in [HALF, CHUNKED] {
        let half = half.trim_end();
        let (stand, target, node) = with_target(Kind::Application).await;
        break_off(target).await;
        let mut client = sent(node, half).await;
        let mut answer = [0; 13];
        timeout(PATIENCE, client.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 502 ");
        // Later actions of the client have no effect.
        client.set_zero_linger().unwrap();
        drop(client);
        assert_eq!(ended(&stand).await, (json!("reset"), json!(502)), "{half}");
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn whoever_breaks_an_upgraded_connection_is_named() {
    for (by_client, outcome) in [(true, "client-gone"), (false, "reset")] {
        let (stand, target, node) = with_target(Kind::Application).await;
        let listener = TcpListener::bind(target).await.unwrap();
        let upgrade = "GET /chat HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: chat\r\n\r\n";
        let mut client = sent(node, upgrade).await;
        let (mut far, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(PATIENCE, far.read_u8()).await.unwrap().unwrap());
        }
        let switched =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\nhello";
        far.write_all(switched.as_bytes()).await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"hello") {
            seen.push(timeout(PATIENCE, client.read_u8()).await.unwrap().unwrap());
        }
        let breaks = if by_client { client } else { far };
        breaks.set_zero_linger().unwrap();
        drop(breaks);
        assert_eq!(ended(&stand).await, (json!(outcome), json!(101)));
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn row_10_a_client_that_resets_a_flow_is_gone_and_a_target_that_does_is_blamed() {
    for (by_client, outcome) in [(true, "client-gone"), (false, "reset")] {
        let (stand, target, node) = with_target(Kind::Network).await;
        if by_client {
            collect(target).await;
        } else {
            break_off(target).await;
        }
        let client = sent(node, HALF).await;
        if by_client {
            client.set_zero_linger().unwrap();
            drop(client);
        }
        assert_eq!(ended(&stand).await.0, outcome);
        stand.running.shutdown().await;
    }
}

#[tokio::test]
async fn a_request_after_one_that_broke_off_is_answered() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    for _ in 0..10 {
        let client = sent(node, HALF).await;
        client.set_zero_linger().unwrap();
        drop(client);
        let request = Request::get(format!("http://{node}/")).body(Full::<Bytes>::default()).unwrap();
        assert_eq!(stand.http.request(request).await.unwrap().status(), 200);
    }
}
