//! Rules, fixed responses, redirects and account limits: calls of set-up tools that do not concern targets.

use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, FixedResponseActionConfig, ForwardActionConfig, PathPatternConditionConfig,
    QueryStringConditionConfig, QueryStringKeyValuePair, RedirectActionConfig, RedirectActionStatusCodeEnum,
    RuleCondition, RulePriorityPair, TargetGroupTuple,
};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use serde_json::json;

use crate::pod::Pod;
use crate::stand::{Kind, Stand, code, forward};

fn fixed(status: &str, body: &str) -> Action {
    let config = FixedResponseActionConfig::builder().status_code(status).message_body(body).build();
    Action::builder().r#type(ActionTypeEnum::FixedResponse).fixed_response_config(config).build()
}

fn path(pattern: &str) -> RuleCondition {
    let config = PathPatternConditionConfig::builder().values(pattern).build();
    RuleCondition::builder().field("path-pattern").path_pattern_config(config).build()
}

async fn rule(
    stand: &Stand,
    listener: &str,
    priority: i32,
    condition: RuleCondition,
    action: Action,
) -> String {
    let call = stand.aws.create_rule().listener_arn(listener).priority(priority).conditions(condition);
    call.actions(action).send().await.unwrap().rules()[0].rule_arn().unwrap().to_owned()
}

/// A listener that forwards to a pod.
async fn listener(stand: &Stand) -> (String, Pod) {
    stand.set(json!({"profile": "instant"})).await;
    let balancer = stand.balancer("edge", Kind::Application).await;
    let group = stand.group("web", Kind::Application).await;
    let listener = stand.listen(&balancer, Kind::Application, 8000, &group).await;
    let pod = Pod::start((stand.ip(0, 10), 8080)).await;
    stand.register(&group, &[pod.at]).await;
    stand.until_settled().await;
    (listener, pod)
}

async fn get(stand: &Stand, path: &str) -> (u16, String, Option<String>) {
    let uri = format!("http://{}:8000{path}", stand.nodes().await[0]);
    let response =
        stand.http.request(Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let location = headers.get("location").map(|value| value.to_str().unwrap().to_owned());
    (status, String::from_utf8_lossy(&body).into_owned(), location)
}

#[tokio::test]
async fn the_first_rule_that_fits_answers_and_the_default_takes_the_rest() {
    let stand = Stand::new().await;
    let (listener, pod) = listener(&stand).await;
    let late = rule(&stand, &listener, 20, path("/api/*"), fixed("418", "late")).await;
    rule(&stand, &listener, 10, path("/api/v1/*"), fixed("200", "early")).await;
    assert_eq!(get(&stand, "/api/v1/x").await.1, "early");
    assert_eq!(get(&stand, "/api/v2/x").await.0, 418);
    assert_eq!((get(&stand, "/other").await.0, pod.requests()), (200, 1));

    let pair = RulePriorityPair::builder().rule_arn(&late).priority(5).build();
    stand.aws.set_rule_priorities().rule_priorities(pair).send().await.unwrap();
    assert_eq!(get(&stand, "/api/v1/x").await.1, "late");
    stand.aws.delete_rule().rule_arn(&late).send().await.unwrap();
    assert_eq!(get(&stand, "/api/v1/x").await.1, "early");
    assert_eq!(code(stand.aws.delete_rule().rule_arn(&late).send().await), "RuleNotFound");
}

#[tokio::test]
async fn rules_read_back_with_the_default_last_and_a_priority_is_taken_once() {
    let stand = Stand::new().await;
    let (listener, _pod) = listener(&stand).await;
    let pair = QueryStringKeyValuePair::builder().key("version").value("v2").build();
    let config = QueryStringConditionConfig::builder().values(pair).build();
    let query = RuleCondition::builder().field("query-string").query_string_config(config).build();
    let arn = rule(&stand, &listener, 7, query.clone(), fixed("404", "no")).await;
    assert!(arn.contains(":listener-rule/app/edge/"), "{arn}");
    let again = stand.aws.create_rule().listener_arn(&listener).priority(7).conditions(query);
    assert_eq!(code(again.actions(fixed("404", "no")).send().await), "PriorityInUse");
    let found = stand.aws.describe_rules().listener_arn(&listener).send().await.unwrap();
    let priorities: Vec<_> = found.rules().iter().map(|rule| rule.priority().unwrap()).collect();
    assert_eq!(
        {
            let mut sorted = priorities.clone();
            sorted.sort_unstable();
            sorted
        },
        ["7", "default"]
    );
    let default = found.rules().iter().find(|rule| rule.is_default() == Some(true)).unwrap();
    let call = stand.aws.delete_rule().rule_arn(default.rule_arn().unwrap());
    assert_eq!(code(call.send().await), "OperationNotPermitted");
    assert_eq!(get(&stand, "/?a=1&version=v2").await.0, 404);
    assert_eq!(get(&stand, "/?version=v1").await.0, 200);
}

#[tokio::test]
async fn a_rule_forwards_by_weight_and_brings_its_groups_into_use() {
    let stand = Stand::new().await;
    let (listener, web) = listener(&stand).await;
    let group = stand.group("blue", Kind::Application).await;
    let green = stand.group("green", Kind::Application).await;
    let (blue_pod, green_pod) =
        (Pod::start((stand.ip(0, 11), 8080)).await, Pod::start((stand.ip(0, 12), 8080)).await);
    stand.register(&group, &[blue_pod.at]).await;
    stand.register(&green, &[green_pod.at]).await;
    assert_eq!(stand.health(&group, blue_pod.at).await, "unused/Target.NotInUse");
    let share = |arn: &str, weight| TargetGroupTuple::builder().target_group_arn(arn).weight(weight).build();
    let weighted = |blue, green_weight| {
        let config = ForwardActionConfig::builder()
            .target_groups(share(&group, blue))
            .target_groups(share(&green, green_weight));
        Action::builder().r#type(ActionTypeEnum::Forward).forward_config(config.build()).build()
    };
    let arn = rule(&stand, &listener, 1, path("/new"), weighted(1, 0)).await;
    stand.until_settled().await;
    for _ in 0..10 {
        assert_eq!(get(&stand, "/new").await.0, 200);
    }
    assert_eq!((blue_pod.requests(), green_pod.requests(), web.requests()), (10, 0, 0));
    stand.aws.modify_rule().rule_arn(&arn).actions(weighted(1, 1)).send().await.unwrap();
    for _ in 0..100 {
        assert_eq!(get(&stand, "/new").await.0, 200);
    }
    assert!((20..=80).contains(&green_pod.requests()), "{} of 100", green_pod.requests());
    assert_eq!(code(stand.aws.delete_target_group().target_group_arn(&green).send().await), "ResourceInUse");
    stand.aws.delete_rule().rule_arn(&arn).send().await.unwrap();
    stand.aws.delete_target_group().target_group_arn(&green).send().await.unwrap();
}

#[tokio::test]
async fn a_default_action_can_answer_or_send_elsewhere() {
    let stand = Stand::new().await;
    let (listener, _pod) = listener(&stand).await;
    let set = async |action: Action| {
        stand.aws.modify_listener().listener_arn(&listener).default_actions(action).send().await
    };
    set(fixed("503", "closed")).await.unwrap();
    assert_eq!(get(&stand, "/").await.1, "closed");
    let config = RedirectActionConfig::builder()
        .protocol("HTTPS")
        .port("443")
        .status_code(RedirectActionStatusCodeEnum::Http301)
        .build();
    let redirect = Action::builder().r#type(ActionTypeEnum::Redirect).redirect_config(config).build();
    set(redirect).await.unwrap();
    let (status, _, location) = get(&stand, "/a/b?c=d").await;
    let host = stand.nodes().await[0];
    assert_eq!((status, location), (301, Some(format!("https://{host}:443/a/b?c=d"))));
    assert!(set(fixed("302", "")).await.is_err());
    assert_eq!(get(&stand, "/").await.0, 301);
}

#[tokio::test]
async fn listeners_of_network_load_balancers_have_no_rules_and_only_forward() {
    let stand = Stand::new().await;
    let balancer = stand.balancer("edge", Kind::Network).await;
    let group = stand.group("web", Kind::Network).await;
    let listener = stand.listen(&balancer, Kind::Network, 8000, &group).await;
    let call = stand.aws.create_rule().listener_arn(&listener).priority(1).conditions(path("/"));
    assert_eq!(code(call.actions(forward(&group)).send().await), "UnsupportedProtocol");
    let call = stand.aws.modify_listener().listener_arn(&listener).default_actions(fixed("200", ""));
    assert_eq!(code(call.send().await), "InvalidLoadBalancerAction");
}

#[tokio::test]
async fn row_14_account_limits_are_those_that_are_held_to() {
    let stand = Stand::new().await;
    stand.set(json!({"profile": "typical-nlb", "quotas": {"targets_per_zone": 7}})).await;
    let found = stand.aws.describe_account_limits().send().await.unwrap();
    let limit = |name: &str| {
        let limit = found.limits().iter().find(|limit| limit.name() == Some(name)).unwrap();
        limit.max().unwrap().to_owned()
    };
    assert_eq!(limit("targets-per-availability-zone-per-network-load-balancer"), "7");
    assert_eq!(limit("target-groups"), "3000");
}
