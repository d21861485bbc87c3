//! The control API.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::nlb::ask;
use crate::pod::Pod;
use crate::stand::{Kind, Stand};

#[tokio::test]
async fn switching_the_api_off_refuses_connections_while_traffic_goes_on() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);

    stand.control("PATCH", "/settings", Some(json!({"api_available": false}))).await;
    let refused = TcpStream::connect(stand.running.addresses().api).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let failed = stand.aws.describe_target_groups().send().await.unwrap_err();
    assert!(matches!(failed, aws_sdk_elasticloadbalancingv2::error::SdkError::DispatchFailure(_)));
    assert!(ask(node).await.is_some());

    stand.control("PATCH", "/settings", Some(json!({"api_available": true}))).await;
    assert_eq!(stand.health(&group, pod.at).await, "healthy");
}

#[tokio::test]
async fn a_reset_leaves_nothing_and_the_ports_can_be_used_again() {
    let stand = Stand::new().await;
    let before = stand.control("GET", "/settings", None).await;
    stand.edge(Kind::Network).await;
    stand.prompt().await;
    stand.control("POST", "/reset", None).await;
    assert_eq!(stand.control("GET", "/settings", None).await, before);
    assert_eq!(stand.control("GET", "/trace", None).await["entries"], json!([]));
    let groups = stand.aws.describe_target_groups().send().await.unwrap();
    assert_eq!(groups.target_groups().len(), 0);
    stand.edge(Kind::Network).await;
}

#[tokio::test]
async fn a_reset_cuts_open_connections() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let stream = TcpStream::connect(SocketAddr::new(stand.nodes().await[0], 8000)).await.unwrap();
    stand.control("POST", "/reset", None).await;
    stream.readable().await.unwrap();
    assert!(matches!(stream.try_read(&mut [0; 1]), Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_change_of_settings_that_cannot_be_made_changes_nothing() {
    let stand = Stand::new().await;
    let before = stand.control("GET", "/settings", None).await;
    let bad = json!({"time_scale": 1.0, "network": {"registration": [90, 30]}});
    let (status, answer) = stand.try_control("PATCH", "/settings", Some(bad)).await;
    assert_eq!(status, 400);
    assert!(answer["error"].as_str().unwrap().starts_with("registration"), "{answer}");
    assert_eq!(stand.control("GET", "/settings", None).await, before);
}

#[tokio::test]
async fn settings_of_a_group_merge_and_null_takes_one_back() {
    let stand = Stand::new().await;
    stand.group("web", Kind::Application).await;
    let path = "/target-groups/web/settings";
    stand.control("PATCH", path, Some(json!({"on_draining": "revive"}))).await;
    let both = stand.control("PATCH", path, Some(json!({"registration": [1, 2]}))).await;
    assert_eq!((&both["on_draining"], &both["registration"]), (&json!("revive"), &json!([1.0, 2.0])));
    let one = stand.control("PATCH", path, Some(json!({"registration": null}))).await;
    assert_eq!((&one["on_draining"], &one["registration"]), (&json!("revive"), &json!(null)));
    assert_eq!(stand.try_control("PATCH", path, Some(json!({"typo": 1}))).await.0, 400);
    assert_eq!(stand.try_control("GET", "/target-groups/nobody/settings", None).await.0, 404);
}

#[tokio::test]
async fn row_19_calls_are_traced_with_their_targets_and_outcome() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    stand.register(&group, &[target]).await;
    let calls = stand.trace("call").await;
    let call = calls.last().unwrap();
    assert_eq!(call["action"], "RegisterTargets");
    assert_eq!(call["target_group"], "web");
    assert_eq!(call["targets"], json!([target.to_string()]));
    assert_eq!(call["outcome"], "ok");
}

#[tokio::test]
async fn row_16_latency_is_added_to_calls() {
    let stand = Stand::new().await;
    stand.control("PATCH", "/settings", Some(json!({"api_latency_ms": [40, 40]}))).await;
    stand.aws.describe_target_groups().send().await.unwrap();
    let calls = stand.trace("call").await;
    let at = |key: &str| calls[0][key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert!(at("answered").duration_since(at("arrived")).as_millis() >= 40);
}

#[tokio::test]
async fn a_client_that_never_ends_its_request_does_not_keep_the_api_on() {
    let stand = Stand::new().await;
    let mut client = TcpStream::connect(stand.running.addresses().api).await.unwrap();
    client.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nAct").await.unwrap();
    stand.control("PATCH", "/settings", Some(json!({"api_available": false}))).await;
    assert!(TcpStream::connect(stand.running.addresses().api).await.is_err());
}

#[tokio::test]
async fn a_shutdown_ends_kept_alive_calls_and_open_connections() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    let stream = TcpStream::connect(node).await.unwrap();
    stand.running.shutdown().await;
    assert!(stand.aws.describe_target_groups().send().await.is_err());
    assert!(TcpStream::connect(node).await.is_err());
    stream.readable().await.unwrap();
    assert!(matches!(stream.try_read(&mut [0; 1]), Ok(0) | Err(_)));
}
