//! Faults of calls on request, and permissions.

use std::net::SocketAddr;

use aws_sdk_elasticloadbalancingv2::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_elasticloadbalancingv2::types::TargetDescription;
use serde_json::json;

use crate::pod::Pod;
use crate::stand::{Kind, PATIENCE, Stand, code, describe, message};

async fn fault(stand: &Stand, fault: serde_json::Value) {
    stand.control("POST", "/faults", Some(fault)).await;
}

#[tokio::test]
async fn row_16_a_lost_answer_leaves_the_call_done() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    fault(&stand, json!({"action": "RegisterTargets", "times": 1, "effect": "lose-answer"})).await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    let call = stand.aws.register_targets().target_group_arn(&group).targets(describe(&target));
    assert!(matches!(call.send().await, Err(SdkError::DispatchFailure(_))));
    assert_eq!(stand.listed(&group).await, [target]);
    stand.register(&group, &[target]).await;
}

#[tokio::test]
async fn row_16_a_call_refused_reset_or_failed_before_it_is_applied_leaves_nothing() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    let effects = [
        (json!("reset"), None, None),
        (
            json!({"refuse": {"code": "Throttling", "message": "Rate exceeded"}}),
            Some("Throttling"),
            Some(400),
        ),
        (json!({"fail": {"status": 500, "xml": true}}), Some("InternalFailure"), Some(500)),
        (json!({"fail": {"status": 503, "xml": false}}), None, Some(503)),
    ];
    for (effect, code, status) in effects {
        fault(&stand, json!({"target_group": "web", "times": 1, "effect": effect})).await;
        let call = stand.aws.register_targets().target_group_arn(&group).targets(describe(&target));
        let error = call.send().await.unwrap_err();
        assert_eq!(error.code(), code, "{effect}");
        assert_eq!(error.raw_response().map(|answer| answer.status().as_u16()), status, "{effect}");
        assert_eq!(stand.listed(&group).await, [], "{effect}");
    }
}

#[tokio::test]
async fn row_16_a_hanging_call_is_not_answered_and_ends_with_its_client() {
    let stand = Stand::new().await;
    fault(&stand, json!({"action": "DescribeTags", "effect": "hang"})).await;
    let call = stand.raw("Action=DescribeTags&Version=2015-12-01", None);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), call).await.is_err());
    stand.control("DELETE", "/faults", None).await;
    let call = stand.raw("Action=DescribeTags&Version=2015-12-01", None);
    assert_eq!(tokio::time::timeout(PATIENCE, call).await.unwrap().0, 400);
}

#[tokio::test]
async fn row_16_health_can_be_unavailable() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    fault(&stand, json!({"times": 1, "effect": "health-unavailable"})).await;
    stand.register(&group, &[SocketAddr::new(stand.ip(0, 10), 8080)]).await;
    let error = stand.aws.describe_target_health().target_group_arn(&group).send().await.unwrap_err();
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 500);
    assert!(error.into_service_error().is_health_unavailable_exception());
    assert_eq!(stand.listed(&group).await.len(), 1);
}

#[tokio::test]
async fn row_16_a_stale_answer_is_one_that_was_true() {
    let stand = Stand::new().await;
    stand.prompt().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    fault(&stand, json!({"probability": 1.0, "effect": {"stale": 300}})).await;
    stand.register(&group, &[pod.at]).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let health = stand.health(&group, pod.at).await;
        seen.insert(health);
    }
    assert!(seen.contains("unused/Target.NotRegistered"), "{seen:?}");
    stand.control("DELETE", "/faults", None).await;
    assert_ne!(stand.health(&group, pod.at).await, "unused/Target.NotRegistered");
}

#[tokio::test]
async fn row_16_calls_with_many_targets_can_be_refused_and_smaller_ones_taken() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    fault(&stand, json!({"effect": {"refuse-chunks-over": 100}})).await;
    let targets: Vec<TargetDescription> =
        (0..101_u16).map(|n| describe(&SocketAddr::new(stand.ip(0, 10), 10_000 + n))).collect();
    let register = async |targets: &[TargetDescription]| {
        stand.aws.register_targets().target_group_arn(&group).set_targets(Some(targets.to_vec())).send().await
    };
    assert!(register(&targets).await.is_err());
    register(&targets[..100]).await.unwrap();
}

#[tokio::test]
async fn row_16_a_fault_counts_down_and_a_wrong_one_is_refused() {
    let stand = Stand::new().await;
    fault(&stand, json!({"times": 2, "effect": {"delay": [1, 2]}})).await;
    stand.aws.describe_target_groups().send().await.unwrap();
    assert_eq!(stand.control("GET", "/faults", None).await[0]["times"], 1);
    for wrong in [json!({"effect": "explode"}), json!({"probability": 2, "effect": "hang"}), json!({})] {
        assert_eq!(stand.try_control("POST", "/faults", Some(wrong)).await.0, 400);
    }
}

#[tokio::test]
async fn a_key_with_a_list_of_actions_may_call_those_and_is_denied_the_rest() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    stand.set(json!({"permissions": {"reader": ["elasticloadbalancing:Describe*"]}})).await;
    let reader = stand.client_with_key("reader");
    reader.describe_target_groups().send().await.unwrap();
    let target = describe(&SocketAddr::new(stand.ip(0, 10), 8080));
    let call =
        async || reader.register_targets().target_group_arn(&group).targets(target.clone()).send().await;
    assert_eq!(code(call().await), "AccessDenied");
    assert_eq!(call().await.unwrap_err().raw_response().unwrap().status().as_u16(), 403);
    assert!(message(call().await).contains("elasticloadbalancing:RegisterTargets on resource: arn:aws:"));
    stand.register(&group, &[SocketAddr::new(stand.ip(0, 10), 8080)]).await;
}

#[tokio::test]
async fn signatures_are_checked_for_form_and_scope() {
    let stand = Stand::new().await;
    let form = "Action=DescribeTargetGroups&Version=2015-12-01";
    let signed = |region: &str| {
        let scope = format!("AKID/20261121/{region}/elasticloadbalancing/aws4_request");
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature={}", "a".repeat(64))
    };
    assert_eq!(stand.raw(form, Some(&signed("us-east-1"))).await.0, 200);
    assert_eq!(stand.raw(form, None).await.0, 200);
    let (status, body) = stand.raw(form, Some(&signed("eu-west-1"))).await;
    assert_eq!((status, body.contains("<Code>SignatureDoesNotMatch</Code>")), (403, true), "{body}");
    let (status, body) = stand.raw(form, Some("Basic x")).await;
    assert_eq!((status, body.contains("<Code>IncompleteSignature</Code>")), (400, true), "{body}");
    stand.set(json!({"signatures": "required"})).await;
    let (status, body) = stand.raw(form, None).await;
    assert_eq!((status, body.contains("<Code>MissingAuthenticationToken</Code>")), (403, true), "{body}");
    stand.aws.describe_target_groups().send().await.unwrap();
}

#[tokio::test]
async fn row_16_a_patient_client_gets_through_the_pessimistic_profile() {
    let stand = Stand::new().await;
    let (_, group) = stand.edge(Kind::Network).await;
    let settings = stand.set(json!({"profile": "pessimistic"})).await;
    assert_eq!(settings["quotas"]["targets_per_group"], 5);
    // Rate limits and latencies are in real time, and this test has too little of it.
    stand.set(json!({"throttling": null, "api_latency_ms": [0, 0]})).await;
    let mut outcomes = std::collections::BTreeSet::new();
    let target = SocketAddr::new(stand.ip(0, 10), 8080);
    for _ in 0..300 {
        let call = stand.aws.register_targets().target_group_arn(&group).targets(describe(&target)).send();
        let outcome = match tokio::time::timeout(std::time::Duration::from_millis(500), call).await {
            Err(_) => "hang".to_owned(),
            Ok(Ok(_)) => "ok".to_owned(),
            Ok(Err(error)) => error.code().unwrap_or("no answer").to_owned(),
        };
        outcomes.insert(outcome);
    }
    assert!(outcomes.len() >= 4, "{outcomes:?}");
    stand.control("DELETE", "/faults", None).await;
    assert_eq!(stand.listed(&group).await, [target]);
    let six = (20..26).map(|n| describe(&SocketAddr::new(stand.ip(0, n), 8080))).collect();
    let call = stand.aws.register_targets().target_group_arn(&group).set_targets(Some(six));
    assert_eq!(code(call.send().await), "TooManyTargets");
    assert_eq!(stand.listed(&group).await.len(), 5, "as many as fit, and an error");
}
