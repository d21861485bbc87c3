//! Traffic through an Application Load Balancer.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;

use crate::pod::Pod;
use crate::stand::{Kind, Stand};

/// A request over the client's kept-alive connections. Returns the status, and the body if it is complete.
async fn get(stand: &Stand, at: SocketAddr, path: &str) -> (u16, Option<String>) {
    let request = Request::get(format!("http://{at}{path}"))
        .header("x-forwarded-for", "192.0.2.7")
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = stand.http.request(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.ok().map(http_body_util::Collected::to_bytes);
    (status, body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

async fn node(stand: &Stand, n: usize) -> SocketAddr {
    SocketAddr::new(stand.nodes().await[n], 8000)
}

#[tokio::test]
async fn row_09_an_empty_group_is_503() {
    let stand = Stand::new().await;
    stand.edge(Kind::Application).await;
    let node = node(&stand, 0).await;
    assert_eq!(get(&stand, node, "/").await.0, 503);
    let requests = stand.trace("connection").await;
    assert_eq!((&requests[0]["status"], &requests[0]["outcome"]), (&503.into(), &"no-target".into()));
}

#[tokio::test]
async fn row_09_a_dead_target_is_502() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let dead = SocketAddr::new(stand.ip(0, 10), 8080);
    stand.register(&group, &[dead]).await;
    stand.until_health(&group, dead, "unhealthy/Target.FailedHealthChecks").await;
    let node = node(&stand, 1).await;
    assert_eq!(get(&stand, node, "/").await.0, 502);
    let requests = stand.trace("connection").await;
    assert_eq!((&requests[0]["status"], &requests[0]["outcome"]), (&502.into(), &"refused".into()));
}

#[tokio::test]
async fn row_09_a_target_that_does_not_answer_is_504() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = node(&stand, 0).await;
    assert_eq!(get(&stand, node, "/slow").await.0, 504);
    assert_eq!(stand.trace("connection").await[0]["outcome"], "timeout");
}

#[tokio::test]
async fn a_target_that_breaks_off_is_a_broken_answer() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = node(&stand, 0).await;
    assert_eq!(get(&stand, node, "/break").await, (200, None));
    assert_eq!(stand.trace("connection").await[0]["outcome"], "reset");
}

#[tokio::test]
async fn the_client_is_added_to_those_that_it_forwards_for() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = node(&stand, 0).await;
    let (status, head) = get(&stand, node, "/path?query=1").await;
    let head = head.unwrap();
    assert_eq!(status, 200);
    assert!(head.starts_with("GET /path?query=1 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("x-forwarded-for: 192.0.2.7, 127.0.0.1\r\n"), "{head}");
    assert!(head.contains("x-forwarded-proto: http\r\nx-forwarded-port: 8000\r\n"), "{head}");
    assert!(head.contains(&format!("host: {node}\r\n")), "{head}");
}

#[tokio::test]
async fn requests_take_turns_over_kept_alive_connections() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let (one, two) = (Pod::start((stand.ip(0, 10), 8080)).await, Pod::start((stand.ip(1, 10), 8080)).await);
    stand.register(&group, &[one.at, two.at]).await;
    stand.until_settled().await;
    let node = node(&stand, 0).await;
    for _ in 0..20 {
        assert_eq!(get(&stand, node, "/").await.0, 200);
    }
    assert_eq!((one.requests(), two.requests()), (10, 10));
    assert!(one.connections() < 10, "{} connections for 10 requests", one.connections());
}

#[tokio::test]
async fn a_target_that_closes_its_idle_connections_costs_no_request() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = node(&stand, 0).await;
    for _ in 0..50 {
        assert_eq!(get(&stand, node, "/last").await.0, 200);
    }
    assert_eq!(pod.requests(), 50);
}
