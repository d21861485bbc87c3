//! Zones that are empty, not enabled, or shifted away from.

use std::net::SocketAddr;

use aws_sdk_elasticloadbalancingv2::types::{
    DescribeTargetHealthInputIncludeEnum, LoadBalancerAttribute, LoadBalancerTypeEnum,
};
use serde_json::{Value, json};

use crate::nlb::ask;
use crate::pod::Pod;
use crate::stand::{Kind, Stand};

async fn in_dns(stand: &Stand) -> Vec<String> {
    let balancers = stand.control("GET", "/load-balancers", None).await;
    let nodes = balancers[0]["nodes"].as_array().unwrap();
    let there = nodes.iter().filter(|node| node["in_dns"] == true);
    there.map(|node| node["zone"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn row_10_clients_that_remember_a_zone_without_targets_lose_what_they_send_there() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (_, group) = stand.edge(Kind::Network).await;
    let (one, two) = (Pod::start((stand.ip(0, 10), 8080)).await, Pod::start((stand.ip(1, 10), 8080)).await);
    stand.register(&group, &[one.at, two.at]).await;
    stand.until_settled().await;
    assert_eq!(in_dns(&stand).await, ["us-east-1a", "us-east-1b"]);
    let remembered = SocketAddr::new(stand.nodes().await[0], 8000);
    assert!(ask(remembered).await.is_some());
    stand.deregister(&group, &[one.at]).await;
    stand.until_settled().await;
    assert_eq!(in_dns(&stand).await, ["us-east-1b"]);
    assert_eq!(ask(remembered).await, None, "although a pod elsewhere is well");
    stand.group_attribute(&group, "load_balancing.cross_zone.enabled", "true").await;
    assert!(ask(remembered).await.is_some());
}

#[tokio::test]
async fn row_12_a_target_in_a_zone_that_is_not_enabled_is_not_in_use() {
    let stand = Stand::new().await;
    let created = stand.aws.create_load_balancer().name("edge").r#type(LoadBalancerTypeEnum::Network);
    let created = created.subnets("subnet-a").subnets("subnet-b").send().await.unwrap();
    let balancer = created.load_balancers()[0].load_balancer_arn().unwrap();
    let group = stand.group("web", Kind::Network).await;
    stand.listen(balancer, Kind::Network, 8000, &group).await;
    let target = SocketAddr::new(stand.ip(2, 10), 8080);
    stand.register(&group, &[target]).await;
    assert_eq!(stand.health(&group, target).await, "unused/Target.NotInUse");
    let answer = stand.aws.describe_target_health().target_group_arn(&group).send().await.unwrap();
    let health = answer.target_health_descriptions()[0].target_health().unwrap();
    let words = "Target is in an Availability Zone that is not enabled for the load balancer";
    assert_eq!(health.description(), Some(words));
}

#[tokio::test]
async fn row_12_an_address_of_a_load_balancer_is_unusable() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let target = SocketAddr::new(stand.nodes().await[1], 8080);
    stand.register(&group, &[target]).await;
    assert_eq!(stand.health(&group, target).await, "unused/Target.IpUnusable");
}

/// The override and the state of each target in the API.
async fn overrides(stand: &Stand, group: &str) -> Vec<(String, String)> {
    let call = stand.aws.describe_target_health().target_group_arn(group);
    let answer = call.include(DescribeTargetHealthInputIncludeEnum::All).send().await.unwrap();
    let described = answer.target_health_descriptions().iter().map(|described| {
        let over = described.administrative_override().and_then(|over| over.state());
        let over = over.map_or("none", |state| state.as_str()).to_owned();
        (over, described.target_health().unwrap().state().unwrap().as_str().to_owned())
    });
    described.collect()
}

#[tokio::test]
async fn row_17_a_zonal_shift_leaves_targets_healthy_without_new_traffic() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "instant"})).await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    stand.group_attribute(&group, "load_balancing.cross_zone.enabled", "true").await;
    let (one, two) = (Pod::start((stand.ip(0, 10), 8080)).await, Pod::start((stand.ip(1, 10), 8080)).await);
    stand.register(&group, &[one.at, two.at]).await;
    stand.until_settled().await;
    let shift = async |zones: Value| {
        stand.try_control("PUT", "/load-balancers/edge/zonal-shift", Some(json!({"zones": zones}))).await.0
    };
    assert_eq!(shift(json!(["us-east-1a"])).await, 400, "it is off by default");
    let enable = LoadBalancerAttribute::builder().key("zonal_shift.config.enabled").value("true").build();
    let call = stand.aws.modify_load_balancer_attributes().load_balancer_arn(&balancer).attributes(enable);
    call.send().await.unwrap();
    assert_eq!(shift(json!(["us-east-1a"])).await, 200);

    let expected =
        [("zonal_shift_active".to_owned(), "healthy".to_owned()), ("none".into(), "healthy".into())];
    assert_eq!(overrides(&stand, &group).await, expected);
    assert!(!in_dns(&stand).await.contains(&"us-east-1a".to_owned()));
    for node in stand.nodes().await {
        for _ in 0..5 {
            assert!(ask(SocketAddr::new(node, 8000)).await.is_some());
        }
    }
    assert_eq!((one.requests(), two.requests()), (0, 15));

    assert_eq!(shift(json!([])).await, 200);
    stand.set(json!({"no_override_shown": true})).await;
    let expected =
        [("no_override".to_owned(), "healthy".to_owned()), ("no_override".into(), "healthy".into())];
    assert_eq!(overrides(&stand, &group).await, expected);
    let node = SocketAddr::new(stand.nodes().await[0], 8000);
    stand
        .until("the zone has traffic again", async |_| {
            assert!(ask(node).await.is_some());
            one.requests() > 0
        })
        .await;
}
