//! The states of a target in DescribeTargetHealth.

use std::net::SocketAddr;

use aws_sdk_elasticloadbalancingv2::types::TargetDescription;

use crate::pod::Pod;
use crate::stand::{Kind, Stand, code, describe};

#[tokio::test]
async fn row_06_a_network_target_goes_from_registration_to_healthy_to_draining_to_gone() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    stand.deregister(&group, &[pod.at]).await;
    assert_eq!(stand.health(&group, pod.at).await, "draining/Target.DeregistrationInProgress");
    assert_eq!(stand.listed(&group).await, [pod.at]);
    stand.until_health(&group, pod.at, "unused/Target.NotRegistered").await;
    assert_eq!(stand.listed(&group).await, []);
    let steps: Vec<String> = stand
        .trace("target")
        .await
        .iter()
        .map(|step| format!("{}/{}", step["to"].as_str().unwrap(), step["reason"].as_str().unwrap_or("-")))
        .collect();
    assert_eq!(
        steps,
        [
            "initial/Elb.RegistrationInProgress",
            "initial/Elb.InitialHealthChecking",
            "healthy/-",
            "draining/Target.DeregistrationInProgress",
            "unused/Target.NotRegistered",
        ]
    );
}

#[tokio::test]
async fn row_03_an_application_target_tells_why_it_is_unhealthy() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Application).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    let closed = SocketAddr::new(stand.ip(0, 11), 8080);
    stand.register(&group, &[pod.at, closed]).await;
    stand.until_health(&group, pod.at, "healthy").await;
    stand.until_health(&group, closed, "unhealthy/Target.FailedHealthChecks").await;
    pod.fall_ill();
    stand.until_health(&group, pod.at, "unhealthy/Target.ResponseCodeMismatch").await;
}

#[tokio::test]
async fn row_12_a_target_without_listener_is_not_in_use_and_shows_no_health_check_port() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    stand.register(&group, &[target]).await;
    assert_eq!(stand.health(&group, target).await, "unused/Target.NotInUse");
    let answer = stand.aws.describe_target_health().target_group_arn(&group).send().await.unwrap();
    let description = &answer.target_health_descriptions()[0];
    assert_eq!(description.health_check_port(), None);
    assert_eq!(description.target().unwrap().availability_zone(), Some("us-east-1a"));
}

#[tokio::test]
async fn row_11_the_same_address_on_two_ports_is_two_targets() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let (one, two) = (SocketAddr::new(stand.ip(0, 10), 8080), SocketAddr::new(stand.ip(0, 10), 9090));
    stand.register(&group, &[one, two]).await;
    stand.deregister(&group, &[two]).await;
    assert_eq!(stand.health(&group, one).await, "initial/Elb.RegistrationInProgress");
    assert_eq!(stand.health(&group, two).await, "draining/Target.DeregistrationInProgress");
}

#[tokio::test]
async fn a_target_registered_without_port_has_the_port_of_the_group() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let target = TargetDescription::builder().id(stand.ip(0, 10).to_string()).build();
    stand.aws.register_targets().target_group_arn(&group).targets(target).send().await.unwrap();
    assert_eq!(stand.listed(&group).await, [SocketAddr::new(stand.ip(0, 10), 8080)]);
}

#[tokio::test]
async fn row_13_deregistering_a_target_that_is_not_there_succeeds() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    stand.deregister(&group, &[SocketAddr::new(stand.ip(0, 99), 8080)]).await;
}

#[tokio::test]
async fn row_13_deregistering_a_port_override_without_its_port_does_nothing() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let target = SocketAddr::new(stand.ip(0, 10), 9090);
    stand.register(&group, &[target]).await;
    let portless = TargetDescription::builder().id(target.ip().to_string()).build();
    stand.aws.deregister_targets().target_group_arn(&group).targets(portless).send().await.unwrap();
    assert_eq!(stand.health(&group, target).await, "initial/Elb.RegistrationInProgress");
}

#[tokio::test]
async fn row_13_a_batch_with_one_bad_target_registers_none() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let good = describe(&SocketAddr::new(stand.ip(0, 10), 8080));
    for bad in [("8.8.8.8", 80), ("10.0.0.1", 80), ("fd00::1", 80), ("pod.local", 80), ("10.0.0.1", 70_000)] {
        let bad = TargetDescription::builder().id(bad.0).port(bad.1).build();
        let call = stand.aws.register_targets().target_group_arn(&group).targets(good.clone()).targets(bad);
        assert_eq!(code(call.send().await), "ValidationError");
    }
    assert_eq!(stand.listed(&group).await, []);
}

#[tokio::test]
async fn row_13_a_call_without_targets_is_refused() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    let call = stand.aws.register_targets().target_group_arn(&group).set_targets(Some(Vec::new()));
    assert_eq!(code(call.send().await), "ValidationError");
}

#[tokio::test]
async fn row_12_asking_for_a_target_in_another_zone_than_its_own_finds_nothing() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    stand.register(&group, &[target]).await;
    let asked = TargetDescription::builder()
        .id(target.ip().to_string())
        .port(8080)
        .availability_zone("us-east-1b")
        .build();
    let answer =
        stand.aws.describe_target_health().target_group_arn(&group).targets(asked).send().await.unwrap();
    let health = answer.target_health_descriptions()[0].target_health().unwrap();
    assert_eq!(health.reason().unwrap().as_str(), "Target.NotRegistered");
}

#[tokio::test]
async fn fifteen_hundred_targets_come_in_one_answer() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    let targets: Vec<SocketAddr> =
        (0..1500_u16).map(|n| SocketAddr::new(stand.ip(0, 10), 10_000 + n)).collect();
    stand.register(&group, &targets).await;
    assert_eq!(stand.listed(&group).await.len(), 1500);
}
