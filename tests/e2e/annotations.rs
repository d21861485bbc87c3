//! Bad input: one clear Event and log line each, and nothing else disturbed.

use std::collections::BTreeSet;

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use headgate_harness::{
    headgate::Headgate,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
};
use serde_json::json;

/// Asserts that there is exactly this Warning on the Service, as an Event and as one log line.
async fn assert_said_once(s: &Scenario, headgate: &Headgate, service: &str, reason: &str, part: &str) {
    s.cluster.wait_warning(service, reason, part).await;
    assert_eq!(s.cluster.warnings(service).await.len(), 1, "{:?}", s.cluster.warnings(service).await);
    let object = format!("{}/{service}", s.cluster.namespace);
    let lines = headgate.logged(|line| line["reason"] == reason && line["object"] == *object);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0]["message"].as_str().unwrap().contains(part), "{lines:?}");
}

#[test]
fn each_bad_part_is_said_and_disturbs_nothing() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "bad").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        let bad = [
            (
                "unknown-group",
                "http=no-such-group",
                "TargetGroupNotFound",
                "AWS knows no target group no-such-group",
            ),
            (
                "unknown-arn",
                "http=arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/gone/0123456789abcdef",
                "TargetGroupNotFound",
                "AWS knows no target group arn:aws",
            ),
            (
                "bad-arn",
                "http=arn:aws:elasticloadbalancing:us-east-1:12:x",
                "InvalidAnnotation",
                "is not the ARN of a target group",
            ),
            (
                "bad-port",
                &format!("htpt={}", group.name),
                "InvalidAnnotation",
                "the Service has no port \"htpt\"; it has: http (80)",
            ),
            ("empty", "", "InvalidAnnotation", "it is empty; expected <port>=<target group ARN or name>"),
            (
                "region",
                "http=arn:aws:elasticloadbalancing:eu-west-1:123456789012:targetgroup/x/0123456789abcdef",
                "TargetGroupUnsupported",
                "is in region eu-west-1",
            ),
        ];
        for (service, annotation, ..) in bad {
            s.cluster.service(service, "other", http_port(), Some(annotation)).await;
        }
        for (service, _, reason, part) in bad {
            assert_said_once(&s, &headgate, service, reason, part).await;
        }
        s.wait_registered(&group, "web", 2, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        assert!(s.cluster.warnings("web").await.is_empty());
    });
}

#[test]
fn what_was_valid_before_stays_in_force_when_an_annotation_becomes_bad() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "stays").await;
        let group = s.web(1).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 1, 8080).await;
        s.cluster.annotate("web", Some("http=no_name")).await;
        assert_said_once(&s, &headgate, "web", "InvalidAnnotation", "cannot be the name of a target group")
            .await;
        s.cluster.scale("web", 2).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        s.cluster.annotate("web", None).await;
        s.wait_targets(&group, &BTreeSet::new()).await;
    });
}

#[test]
fn a_service_without_selector_is_said() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "no-sel").await;
        let group = s.group("web").await;
        let headgate = s.headgate().await;
        let annotations = json!({"headgate.dev/target-groups": group.name});
        let service =
            json!({"metadata": {"name": "web", "annotations": annotations}, "spec": {"ports": http_port()}});
        s.cluster.create::<k8s_openapi::api::core::v1::Service>(service).await;
        assert_said_once(
            &s,
            &headgate,
            "web",
            "NoSelector",
            "expected spec.selector to have at least one label",
        )
        .await;
    });
}

#[test]
fn two_services_that_claim_one_target_are_told_and_it_stays() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "claims").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        s.cluster.service("twin", "web", http_port(), Some(&group.name)).await;
        let claimed = |by: &str| format!("is claimed by Service {}/{by} too", s.cluster.namespace);
        assert_said_once(&s, &headgate, "twin", "TargetClaimedTwice", &claimed("web")).await;
        assert_said_once(&s, &headgate, "web", "TargetClaimedTwice", &claimed("twin")).await;
        s.cluster.annotate("web", None).await;
        s.cluster.scale("web", 3).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
    });
}

#[test]
fn target_groups_that_cannot_be_served_are_refused_with_what_was_expected() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "refuse").await;
        let headgate = s.headgate().await;
        s.cluster.pod("web", "web", &[("http", 8080)]).await;
        s.cluster.wait_running("web", 1).await;
        let kinds = [
            ("instance", TargetTypeEnum::Instance, ProtocolEnum::Tcp, "has the target type instance"),
            ("lambda", TargetTypeEnum::Lambda, ProtocolEnum::Tcp, "has the target type lambda"),
            ("alb", TargetTypeEnum::Alb, ProtocolEnum::Tcp, "has the target type alb"),
            ("udp", TargetTypeEnum::Ip, ProtocolEnum::Udp, "expected a Service port of protocol UDP"),
        ];
        for (service, target_type, protocol, part) in kinds {
            let arn = s.aws.bare_group(&s.name(service), target_type, protocol).await;
            s.cluster.service(service, "web", http_port(), Some(&format!("http={arn}"))).await;
            assert_said_once(&s, &headgate, service, "TargetGroupUnsupported", part).await;
        }
        let v6 = s.aws.ipv6_group(&s.name("v6")).await;
        s.cluster.service("v6", "web", http_port(), Some(&v6)).await;
        assert_said_once(&s, &headgate, "v6", "WrongIpFamily", "takes ipv6 addresses, and pod web has none")
            .await;
        assert_eq!(headgate.logged(|line| line["message"] == "registering"), [] as [serde_json::Value; 0]);
    });
}

#[test]
fn a_target_group_made_later_is_found_by_itself() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "later").await;
        let name = s.name("web");
        s.cluster.deploy("web", 1, &[("http", 8080)]).await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={name}"))).await;
        let _headgate = s.headgate().await;
        s.cluster.wait_warning("web", "TargetGroupNotFound", &name).await;
        let group = s.group("web").await;
        s.wait_registered(&group, "web", 1, 8080).await;
    });
}
