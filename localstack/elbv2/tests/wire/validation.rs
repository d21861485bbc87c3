//! Rejected calls: their codes and messages, and that they change nothing.

use std::net::SocketAddr;

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetDescription, TargetTypeEnum};
use serde_json::json;

use crate::stand::{Kind, Stand, code, describe, message};

fn target(id: &str, port: i32, zone: Option<&str>) -> TargetDescription {
    TargetDescription::builder().id(id).port(port).set_availability_zone(zone.map(str::to_owned)).build()
}

#[tokio::test]
async fn row_13_targets_are_refused_in_the_words_of_the_service() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let inside = stand.ip(0, 10).to_string();
    let cases = [
        (
            target("10.4.40.87", 80, None),
            "The Availability Zone is required for IP address '10.4.40.87' because it is not in the VPC"
                .into(),
        ),
        (
            target(&inside, 80, Some("all")),
            format!(
                "The IP address '{inside}' is within the VPC, and cannot have its Availability Zone overridden to \
                 'all' from 'us-east-1a'"
            ),
        ),
        (target("fd00::1", 80, None), "The IP address 'fd00::1' is not a valid IPv4 address".into()),
        (target("i-0123", 80, None), "The IP address 'i-0123' is not a valid IPv4 address".into()),
    ];
    for (target, words) in cases {
        let call = async || {
            stand.aws.register_targets().target_group_arn(&group).targets(target.clone()).send().await
        };
        assert_eq!(code(call().await), "ValidationError", "{target:?}");
        assert_eq!(message(call().await), words);
    }
    for port in [0, -1, 70_000] {
        let call = stand.aws.register_targets().target_group_arn(&group).targets(target(&inside, port, None));
        assert_eq!(code(call.send().await), "ValidationError", "port {port}");
    }
}

#[tokio::test]
async fn row_13_addresses_outside_the_vpc_are_taken_from_private_ranges_with_a_zone_only() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let register = async |id: &str, zone: &str| {
        let call = stand.aws.register_targets().target_group_arn(&group).targets(target(id, 80, Some(zone)));
        call.send().await.is_ok()
    };
    for id in ["10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "100.64.0.1", "100.127.0.1"] {
        assert!(register(id, "all").await, "{id}");
    }
    assert!(register("10.0.0.2", "us-east-1b").await);
    assert!(!register("10.0.0.3", "eu-west-1a").await);
    for id in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "192.169.0.1", "169.254.169.254"] {
        assert!(!register(id, "all").await, "{id}");
    }
}

#[tokio::test]
async fn row_13_an_address_in_an_instance_group_is_no_instance() {
    let stand = Stand::new().await;
    let created = stand.aws.create_target_group().name("nodes").protocol(ProtocolEnum::Tcp).port(80);
    let created = created.vpc_id("vpc-1").target_type(TargetTypeEnum::Instance).send().await.unwrap();
    let group = created.target_groups()[0].target_group_arn().unwrap().to_owned();
    let call = stand.aws.register_targets().target_group_arn(group).targets(target("10.19.173.98", 80, None));
    assert_eq!(message(call.send().await), "Instance ID '10.19.173.98' is not valid");
}

#[tokio::test]
async fn row_13_a_batch_is_applied_in_part_only_where_the_switch_says_so() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let good = SocketAddr::new(stand.ip(0, 10), 8080);
    let batch = async || {
        let call = stand.aws.register_targets().target_group_arn(&group);
        call.targets(describe(&good)).targets(target("8.8.8.8", 80, None)).send().await
    };
    assert_eq!(code(batch().await), "ValidationError");
    assert_eq!(stand.listed(&group).await, []);
    stand.control("PATCH", "/target-groups/web/settings", Some(json!({"batches": "partial"}))).await;
    assert_eq!(code(batch().await), "ValidationError");
    assert_eq!(stand.listed(&group).await, [good]);
}

#[tokio::test]
async fn row_13_names_arns_and_attributes_are_refused_in_the_words_of_the_service() {
    let stand = Stand::new().await;
    let create = async |name: &str| {
        let call = stand.aws.create_target_group().name(name).protocol(ProtocolEnum::Tcp).port(80);
        call.vpc_id("vpc-1").target_type(TargetTypeEnum::Ip).send().await
    };
    assert_eq!(message(create("-web").await), "Target group name '-web' cannot begin or end with '-'");
    assert!(create("w--b").await.is_ok());
    let malformed = stand.aws.describe_target_health().target_group_arn("x").send().await;
    assert_eq!(message(malformed), "'x' is not a valid target group ARN");
    let group = stand.group("web", Kind::Application).await;
    for (matcher, taken) in [("200-499", true), ("500", false), ("199", false)] {
        let codes = aws_sdk_elasticloadbalancingv2::types::Matcher::builder().http_code(matcher).build();
        let call = stand.aws.modify_target_group().target_group_arn(&group).matcher(codes);
        assert_eq!(call.send().await.is_ok(), taken, "{matcher}");
    }
}

#[tokio::test]
async fn row_13_an_error_has_its_type_status_and_request_id() {
    let stand = Stand::new().await;
    let (status, body) = stand.raw("Action=DescribeTargetHealth&Version=2015-12-01", None).await;
    assert_eq!(status, 400);
    assert!(body.contains("<Type>Sender</Type><Code>ValidationError</Code>"), "{body}");
    assert!(body.contains("<RequestId>"), "{body}");
    let (status, body) = stand.raw("Version=2015-12-01", None).await;
    assert_eq!((status, body.contains("<Code>MissingAction</Code>")), (400, true), "{body}");
    let (status, body) = stand.raw("Action=DescribeLoadBalancers&Version=2012-06-01", None).await;
    assert_eq!((status, body.contains("<Code>InvalidAction</Code>")), (400, true), "{body}");
}

#[tokio::test]
async fn row_13_a_target_in_the_query_with_another_zone_is_not_registered() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let at = SocketAddr::new(stand.ip(0, 10), 8080);
    stand.register(&group, &[at]).await;
    let ask = target(&at.ip().to_string(), 8080, Some("us-east-1b"));
    let answer =
        stand.aws.describe_target_health().target_group_arn(&group).targets(ask).send().await.unwrap();
    let health = answer.target_health_descriptions()[0].target_health().unwrap();
    assert_eq!(health.description(), Some("Target is not registered to the target group"));
}
