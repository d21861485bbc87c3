//! Traffic through a Network Load Balancer.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::pod::Pod;
use crate::stand::{Kind, Stand};

/// One request on a new connection. Returns the answer, or `None` if the connection broke.
pub async fn ask(at: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(at).await.ok()?;
    exchange(&mut stream).await
}

pub async fn exchange(stream: &mut TcpStream) -> Option<String> {
    stream.write_all(b"GET /ask HTTP/1.1\r\nhost: test\r\n\r\n").await.ok()?;
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.ok().filter(|length| *length > 0)?;
    Some(String::from_utf8_lossy(&answer[..length]).into_owned())
}

#[tokio::test]
async fn row_10_a_node_carries_connections_to_the_targets_of_its_zone() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let (near, far) = (Pod::start((stand.ip(0, 10), 8080)).await, Pod::start((stand.ip(1, 10), 8080)).await);
    stand.register(&group, &[near.at, far.at]).await;
    stand.until_settled().await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    for _ in 0..10 {
        assert!(ask(node).await.unwrap().starts_with("HTTP/1.1 200"));
    }
    assert_eq!((near.requests(), far.requests()), (10, 0));
}

#[tokio::test]
async fn row_09_a_node_of_a_zone_without_targets_resets_connections() {
    let stand = Stand::new().await;
    stand.edge(Kind::Network).await;
    let node = SocketAddr::new(stand.nodes().await[2], 8000);
    assert_eq!(ask(node).await, None);
    let connections = stand.trace("connection").await;
    assert_eq!(connections[0]["outcome"], "no-target");
    assert_eq!(connections[0]["node"], node.ip().to_string());
}

#[tokio::test]
async fn a_connection_to_a_dead_target_is_reset_and_traced_as_refused() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let dead = SocketAddr::new(stand.ip(0, 10), 8080);
    stand.register(&group, &[dead]).await;
    stand.until_health(&group, dead, "unhealthy/Target.FailedHealthChecks").await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    assert_eq!(ask(node).await, None);
    let connections = stand.trace("connection").await;
    assert_eq!(connections[0]["outcome"], "refused");
    assert_eq!(connections[0]["target"], dead.to_string());
}

#[tokio::test]
async fn row_07_an_open_connection_outlives_the_deregistration_of_its_target() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    let mut stream = TcpStream::connect(SocketAddr::new(stand.nodes().await[0], 8000)).await.unwrap();
    assert!(exchange(&mut stream).await.is_some());
    stand.deregister(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "unused/Target.NotRegistered").await;
    assert!(exchange(&mut stream).await.is_some());
}

#[tokio::test]
async fn a_pod_that_ends_breaks_its_connections_through_the_node() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    let mut stream = TcpStream::connect(SocketAddr::new(stand.nodes().await[0], 8000)).await.unwrap();
    assert!(exchange(&mut stream).await.is_some());
    drop(pod);
    assert_eq!(exchange(&mut stream).await, None);
}
