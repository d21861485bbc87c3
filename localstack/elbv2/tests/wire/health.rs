//! How many checks are needed, which nodes check, and who acts first.

use std::net::SocketAddr;

use aws_sdk_elasticloadbalancingv2::types::ProtocolEnum;
use serde_json::{Value, json};

use crate::pod::Pod;
use crate::stand::{Kind, Stand};

/// A load balancer without delays, with a group whose targets decide on their own health.
async fn with_group(stand: &Stand, kind: Kind, interval: i32) -> String {
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(kind).await;
    let change = stand.aws.modify_target_group().target_group_arn(&group).healthy_threshold_count(5);
    let change = change.health_check_protocol(ProtocolEnum::Http).health_check_path("/health");
    change.health_check_interval_seconds(interval).send().await.unwrap();
    group
}

#[tokio::test]
async fn row_02_a_new_target_of_an_application_load_balancer_needs_one_check_whatever_the_threshold() {
    let stand = Stand::new().await;
    // Long enough that no node checks twice during the test: three real seconds.
    let group = with_group(&stand, Kind::Application, 300).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    assert!((2..=3).contains(&pod.checks()), "{} checks by three nodes", pod.checks());
}

#[tokio::test]
async fn row_02_and_03_a_majority_of_the_nodes_checks_a_network_target_as_often_as_the_threshold() {
    let stand = Stand::new().await;
    let group = with_group(&stand, Kind::Network, 5).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    assert!(pod.checks() >= 2 * 5, "{} checks", pod.checks());
}

#[tokio::test]
async fn row_04_nodes_follow_the_api_or_the_api_follows_the_nodes() {
    for (skew, api_first) in [(100, true), (-100, false)] {
        let stand = Stand::new().await;
        let group = with_group(&stand, Kind::Network, 5).await;
        let skew = json!({"health_skew": [skew, skew]});
        stand.control("PATCH", "/target-groups/web/settings", Some(skew)).await;
        // Nothing listens there. Nodes send to it only while no target is healthy.
        let ill = SocketAddr::new(stand.ip(0, 11), 8080);
        let pod = Pod::start((stand.ip(0, 10), 8080)).await;
        stand.register(&group, &[pod.at, ill]).await;
        stand.until_health(&group, pod.at, "healthy").await;
        stand.until_settled().await;
        let (shown, routes) = (stand.trace("target").await, stand.trace("route").await);
        let first = |entries: &[Value], wanted: &dyn Fn(&Value) -> bool| {
            entries.iter().find(|entry| wanted(entry)).unwrap()["seq"].as_u64().unwrap()
        };
        let shown = first(&shown, &|entry| entry["target"] == pod.at.to_string() && entry["to"] == "healthy");
        let acted = first(&routes, &|entry| entry["target"] == ill.to_string() && entry["routing"] == false);
        assert_eq!(shown < acted, api_first);
        stand.running.shutdown().await;
    }
}
