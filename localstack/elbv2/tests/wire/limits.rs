//! Quotas of targets and rate limits of calls.

use std::net::SocketAddr;

use serde_json::json;

use crate::stand::{Kind, Stand, code, describe, message};

/// `count` targets of one zone.
fn targets(stand: &Stand, zone: u8, count: u16) -> Vec<SocketAddr> {
    (0..count).map(|n| SocketAddr::new(stand.ip(zone, 10), 10_000 + n)).collect()
}

#[tokio::test]
async fn row_14_the_thousand_and_first_target_of_a_group_is_one_too_many() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "typical-nlb", "throttling": null})).await;
    let group = stand.group("web", Kind::Network).await;
    stand.register(&group, &targets(&stand, 0, 1000)).await;
    let more = describe(&SocketAddr::new(stand.ip(1, 10), 8080));
    let call = stand.aws.register_targets().target_group_arn(&group).targets(more);
    assert_eq!(code(call.send().await), "TooManyTargets");
    // Targets that are registered already can be registered again.
    stand.register(&group, &targets(&stand, 0, 10)).await;
}

#[tokio::test]
async fn row_14_a_network_load_balancer_takes_so_many_per_zone_and_fewer_across_zones() {
    let stand = Stand::new().await;
    stand.set(json!({"quotas": {
        "targets_per_group": 100, "targets_per_zone": 3, "targets_cross_zone": 5, "targets_per_network": 8,
        "targets_per_application": 2, "target_groups": 10
    }})).await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    let register = async |targets: &[SocketAddr]| {
        let targets = targets.iter().map(describe).collect();
        stand.aws.register_targets().target_group_arn(&group).set_targets(Some(targets)).send().await
    };
    assert_eq!(code(register(&targets(&stand, 0, 4)).await), "TooManyTargets");
    assert_eq!(stand.listed(&group).await, []);
    register(&targets(&stand, 0, 3)).await.unwrap();
    register(&targets(&stand, 1, 3)).await.unwrap();
    let refused = message(register(&targets(&stand, 2, 3)).await);
    let words = format!(
        "The maximum number of targets per load balancer '8' has been reached on load balancer '{balancer}'"
    );
    assert_eq!(refused, words);
    stand.group_attribute(&group, "load_balancing.cross_zone.enabled", "true").await;
    let refused = message(register(&targets(&stand, 2, 1)).await);
    let words = "You cannot have more than 5 targets per network load balancer with cross-zone load balancing enabled.";
    assert_eq!(refused, words);
}

#[tokio::test]
async fn row_14_an_application_load_balancer_counts_all_its_groups() {
    let stand = Stand::new().await;
    stand
        .set(json!({"quotas": {
            "targets_per_group": 100, "targets_per_zone": 100, "targets_cross_zone": 100,
            "targets_per_network": 100, "targets_per_application": 3, "target_groups": 2
        }}))
        .await;
    let (balancer, group) = stand.edge(Kind::Application).await;
    let other = stand.group("api", Kind::Application).await;
    stand.listen(&balancer, Kind::Application, 8001, &other).await;
    stand.register(&group, &targets(&stand, 0, 2)).await;
    let both = targets(&stand, 1, 2).iter().map(describe).collect();
    let call = stand.aws.register_targets().target_group_arn(&other).set_targets(Some(both));
    assert_eq!(code(call.send().await), "TooManyTargets");
    let third = stand.aws.create_target_group().name("third").send().await;
    assert!(third.is_err());
}

#[tokio::test]
async fn row_15_each_kind_of_call_has_a_bucket_and_both_codes_come_back() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    // Slow enough that no token is added during the test.
    let bucket = json!([3, 0.001]);
    stand
        .set(json!({"throttling": {"registration": bucket, "describe": bucket, "modify": bucket, "create": bucket}}))
        .await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    let deregister = async || {
        let call = stand.aws.deregister_targets().target_group_arn(&group).targets(describe(&target));
        call.send().await
    };
    for _ in 0..3 {
        deregister().await.unwrap();
    }
    let codes = [code(deregister().await), code(deregister().await)];
    assert_eq!(codes, ["Throttling", "ThrottlingException"]);
    assert_eq!(message(deregister().await), "Rate exceeded");
    stand.aws.describe_target_groups().send().await.unwrap();
    stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "1").await;
    let other = stand.client_with_key("other");
    other.deregister_targets().target_group_arn(&group).targets(describe(&target)).send().await.unwrap();
}

#[tokio::test]
async fn row_15_the_buckets_of_the_profile_are_those_of_the_service() {
    let stand = Stand::new().await;
    let settings = stand.set(json!({"profile": "typical-nlb"})).await;
    let throttling = &settings["throttling"];
    assert_eq!(throttling["registration"], json!([20.0, 4.0]));
    assert_eq!(throttling["describe"], json!([200.0, 50.0]));
    assert_eq!(throttling["modify"], json!([20.0, 3.0]));
    stand.set(json!({"api_latency_ms": [0, 0]})).await;
    let mut passed = 0;
    loop {
        let (status, body) = stand.raw("Action=DescribeLoadBalancers&Version=2015-12-01", None).await;
        if status != 200 {
            assert!(body.contains("<Message>Rate exceeded</Message>"), "{body}");
            break;
        }
        passed += 1;
        assert!(passed < 20_000, "calls in a row were never too many");
    }
    assert!(passed >= 200, "{passed}");
}
