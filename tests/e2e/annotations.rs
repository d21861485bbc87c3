//! Invalid input: one clear Event and one log line for each case, and no other effect.

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use headgate_harness::{
    headgate::Headgate,
    scenario::{Scenario, http_port},
    shared_world::beside_others,
};

/// Asserts that the Service has exactly this Warning, as an Event and as one log line.
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
                "target group no-such-group does not exist",
            ),
            (
                "unknown-arn",
                "http=arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/gone/0123456789abcdef",
                "TargetGroupNotFound",
                "target group gone does not exist",
            ),
            (
                "bad-arn",
                "http=arn:aws:elasticloadbalancing:us-east-1:12:x",
                "InvalidBinding",
                "is no target group ARN",
            ),
            (
                "bad-port",
                &format!("htpt={}", group.name),
                "InvalidBinding",
                "names port \"htpt\", which the Service lacks. Name one of: http (80)",
            ),
            ("empty", "", "InvalidBinding", "is empty. Write <port>=<target group ARN or name>"),
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
fn target_groups_that_cannot_be_served_are_refused_with_what_was_expected() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "refuse").await;
        let headgate = s.headgate().await;
        s.cluster.pod("web", "web", &[("http", 8080)]).await;
        s.cluster.wait_running("web", 1).await;
        let kinds = [
            ("instance", TargetTypeEnum::Instance, ProtocolEnum::Tcp, "has target type instance"),
            ("lambda", TargetTypeEnum::Lambda, ProtocolEnum::Tcp, "has target type lambda"),
            ("alb", TargetTypeEnum::Alb, ProtocolEnum::Tcp, "has target type alb"),
            ("udp", TargetTypeEnum::Ip, ProtocolEnum::Udp, "Use a UDP port"),
        ];
        for (service, target_type, protocol, part) in kinds {
            let arn = s.aws.bare_group(&s.name(service), target_type, protocol).await;
            s.cluster.service(service, "web", http_port(), Some(&format!("http={arn}"))).await;
            assert_said_once(&s, &headgate, service, "TargetGroupUnsupported", part).await;
        }
        let v6 = s.aws.ipv6_group(&s.name("v6")).await;
        s.cluster.service("v6", "web", http_port(), Some(&v6)).await;
        assert_said_once(&s, &headgate, "v6", "InvalidBinding", "no ipv6 address").await;
        assert_eq!(headgate.logged(|line| line["message"] == "registering"), [] as [serde_json::Value; 0]);
    });
}
