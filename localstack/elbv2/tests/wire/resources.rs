//! Load balancers, target groups, listeners, attributes and tags: create, find, change, and rejected calls.

use std::net::TcpListener;

use aws_sdk_elasticloadbalancingv2::operation::describe_target_groups::DescribeTargetGroupsError;
use aws_sdk_elasticloadbalancingv2::types::{
    LoadBalancerAttribute, LoadBalancerTypeEnum, ProtocolEnum, Tag, TargetDescription, TargetGroupAttribute,
    TargetTypeEnum,
};

use crate::stand::{Kind, Stand, code, forward};

const UNKNOWN: &str =
    "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/nobody/0123456789abcdef";

#[tokio::test]
async fn a_load_balancer_reads_back_with_its_zones_and_becomes_active() {
    let stand = Stand::new().await;
    let arn = stand.balancer("edge", Kind::Network).await;
    assert!(arn.contains(":loadbalancer/net/edge/"), "{arn}");
    let found = stand.aws.describe_load_balancers().names("edge").send().await.unwrap();
    let balancer = &found.load_balancers()[0];
    assert_eq!(balancer.load_balancer_arn(), Some(arn.as_str()));
    assert_eq!(balancer.availability_zones().len(), 3);
    assert_eq!(balancer.state().unwrap().code().unwrap().as_str(), "provisioning");
    assert!(balancer.created_time().is_some());
    stand
        .until("the load balancer is active", async |stand| {
            let found = stand.aws.describe_load_balancers().names("edge").send().await.unwrap();
            found.load_balancers()[0].state().unwrap().code().unwrap().as_str() == "active"
        })
        .await;
}

#[tokio::test]
async fn an_application_load_balancer_needs_two_zones() {
    let stand = Stand::new().await;
    let call = stand.aws.create_load_balancer().name("edge").r#type(LoadBalancerTypeEnum::Application);
    assert_eq!(code(call.subnets("subnet-a").send().await), "ValidationError");
}

#[tokio::test]
async fn creating_the_same_twice_gives_the_first_and_a_different_one_is_refused() {
    let stand = Stand::new().await;
    let first = stand.group("web", Kind::Network).await;
    assert_eq!(stand.group("web", Kind::Network).await, first);
    let other = stand.aws.create_target_group().name("web").protocol(ProtocolEnum::Tcp).port(9090);
    let other = other.vpc_id("vpc-1").target_type(TargetTypeEnum::Ip);
    assert_eq!(code(other.send().await), "DuplicateTargetGroupName");
}

#[tokio::test]
async fn an_unknown_group_is_not_found_and_a_malformed_one_is_invalid() {
    let stand = Stand::new().await;
    let unknown = stand.aws.describe_target_health().target_group_arn(UNKNOWN).send().await;
    assert!(unknown.unwrap_err().into_service_error().is_target_group_not_found_exception());
    let malformed = stand.aws.describe_target_health().target_group_arn("web").send().await;
    assert_eq!(code(malformed), "ValidationError");
    let by_name = stand.aws.describe_target_groups().names("nobody").send().await;
    let error = by_name.unwrap_err().into_service_error();
    assert!(matches!(error, DescribeTargetGroupsError::TargetGroupNotFoundException(_)));
}

#[tokio::test]
async fn a_group_in_use_cannot_be_deleted_until_its_listener_is() {
    let stand = Stand::new().await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    let delete = async || stand.aws.delete_target_group().target_group_arn(&group).send().await;
    assert_eq!(code(delete().await), "ResourceInUse");
    stand.aws.delete_load_balancer().load_balancer_arn(&balancer).send().await.unwrap();
    delete().await.unwrap();
    delete().await.unwrap();
}

#[tokio::test]
async fn groups_of_a_load_balancer_are_those_its_listeners_use() {
    let stand = Stand::new().await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    stand.group("spare", Kind::Network).await;
    let found = stand.aws.describe_target_groups().load_balancer_arn(&balancer).send().await.unwrap();
    assert_eq!(found.target_groups().len(), 1);
    assert_eq!(found.target_groups()[0].target_group_arn(), Some(group.as_str()));
    assert_eq!(found.target_groups()[0].load_balancer_arns(), [balancer]);
}

#[tokio::test]
async fn pages_of_groups_give_each_group_once() {
    let stand = Stand::new().await;
    for n in 0..7 {
        stand.group(&format!("group-{n}"), Kind::Network).await;
    }
    let mut pages = stand.aws.describe_target_groups().page_size(3).into_paginator().send();
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        sizes.push(page.target_groups().len());
        names.extend(page.target_groups().iter().map(|group| group.target_group_name().unwrap().to_owned()));
    }
    assert_eq!(sizes, [3, 3, 1]);
    names.dedup();
    assert_eq!(names.len(), 7);
}

#[tokio::test]
async fn groups_of_other_types_exist_but_take_no_addresses() {
    let stand = Stand::new().await;
    let created = stand.aws.create_target_group().name("nodes").protocol(ProtocolEnum::Tcp).port(80);
    let created = created.vpc_id("vpc-1").target_type(TargetTypeEnum::Instance).send().await.unwrap();
    let group = created.target_groups()[0].target_group_arn().unwrap();
    assert_eq!(created.target_groups()[0].target_type(), Some(&TargetTypeEnum::Instance));
    let address = TargetDescription::builder().id("10.0.0.1").build();
    let call = stand.aws.register_targets().target_group_arn(group).targets(address).send().await;
    assert!(call.unwrap_err().to_string().contains("service error"));
    let instance = TargetDescription::builder().id("i-0123456789abcdef0").build();
    let call = stand.aws.register_targets().target_group_arn(group).targets(instance);
    assert_eq!(code(call.send().await), "InvalidTarget");
}

#[tokio::test]
async fn health_checks_can_be_changed_within_their_ranges() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Application).await;
    let changed = stand
        .aws
        .modify_target_group()
        .target_group_arn(&group)
        .health_check_path("/ready")
        .health_check_interval_seconds(10)
        .send()
        .await
        .unwrap();
    let changed = &changed.target_groups()[0];
    assert_eq!(changed.health_check_path(), Some("/ready"));
    assert_eq!(changed.health_check_interval_seconds(), Some(10));
    let call = stand.aws.modify_target_group().target_group_arn(&group).health_check_interval_seconds(4);
    assert_eq!(code(call.send().await), "ValidationError");
}

#[tokio::test]
async fn a_listener_reads_back_with_both_forms_of_its_target_group() {
    let stand = Stand::new().await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    let found = stand.aws.describe_listeners().load_balancer_arn(&balancer).send().await.unwrap();
    let action = &found.listeners()[0].default_actions()[0];
    assert_eq!(action.target_group_arn(), Some(group.as_str()));
    let groups = action.forward_config().unwrap().target_groups();
    assert_eq!(groups[0].target_group_arn(), Some(group.as_str()));
}

#[tokio::test]
async fn a_listener_can_be_pointed_at_another_group() {
    let stand = Stand::new().await;
    let (balancer, old) = stand.edge(Kind::Network).await;
    let new = stand.group("new", Kind::Network).await;
    let found = stand.aws.describe_listeners().load_balancer_arn(&balancer).send().await.unwrap();
    let listener = found.listeners()[0].listener_arn().unwrap();
    let call = stand.aws.modify_listener().listener_arn(listener).default_actions(forward(&new));
    call.send().await.unwrap();
    let groups = stand.aws.describe_target_groups().target_group_arns(&old).target_group_arns(&new);
    let groups = groups.send().await.unwrap();
    let uses: Vec<usize> = groups.target_groups().iter().map(|g| g.load_balancer_arns().len()).collect();
    assert_eq!(uses, [0, 1]);
}

#[tokio::test]
async fn a_second_listener_on_a_port_is_a_duplicate() {
    let stand = Stand::new().await;
    let (balancer, group) = stand.edge(Kind::Network).await;
    assert_eq!(code(stand.try_listen(&balancer, Kind::Network, 8000, &group).await), "DuplicateListener");
}

#[tokio::test]
async fn a_port_that_another_process_has_is_refused_with_the_address() {
    let stand = Stand::new().await;
    let balancer = stand.balancer("edge", Kind::Network).await;
    let group = stand.group("web", Kind::Network).await;
    let address = format!("{}:8000", stand.nodes().await[1]);
    let _other = TcpListener::bind(&address).unwrap();
    let refused = stand.try_listen(&balancer, Kind::Network, 8000, &group).await.unwrap_err();
    let message = refused.into_service_error().to_string();
    assert!(message.contains(&address), "{message}");
    let found = stand.aws.describe_listeners().load_balancer_arn(&balancer).send().await.unwrap();
    assert_eq!(found.listeners().len(), 0);
}

#[tokio::test]
async fn a_deleted_listener_gives_its_port_back() {
    let stand = Stand::new().await;
    let balancer = stand.balancer("edge", Kind::Network).await;
    let group = stand.group("web", Kind::Network).await;
    for _ in 0..3 {
        let listener = stand.listen(&balancer, Kind::Network, 8000, &group).await;
        stand.aws.delete_listener().listener_arn(listener).send().await.unwrap();
    }
}

#[tokio::test]
async fn attributes_read_back_and_bad_ones_change_nothing() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    let attribute = |key: &str, value: &str| TargetGroupAttribute::builder().key(key).value(value).build();
    let read = async || {
        let call = stand.aws.describe_target_group_attributes().target_group_arn(&group).send();
        let found = call.await.unwrap();
        let wanted = "deregistration_delay.timeout_seconds";
        let found = found.attributes().iter().find(|a| a.key() == Some(wanted)).unwrap().clone();
        found.value().unwrap().to_owned()
    };
    assert_eq!(read().await, "300");
    stand.group_attribute(&group, "deregistration_delay.timeout_seconds", "30").await;
    let call = stand
        .aws
        .modify_target_group_attributes()
        .target_group_arn(&group)
        .attributes(attribute("deregistration_delay.timeout_seconds", "60"))
        .attributes(attribute("bogus", "1"));
    assert_eq!(code(call.send().await), "ValidationError");
    assert_eq!(read().await, "30");
}

#[tokio::test]
async fn deletion_protection_protects() {
    let stand = Stand::new().await;
    let balancer = stand.balancer("edge", Kind::Network).await;
    let protect = async |value: &str| {
        let attribute =
            LoadBalancerAttribute::builder().key("deletion_protection.enabled").value(value).build();
        let call = stand.aws.modify_load_balancer_attributes().load_balancer_arn(&balancer);
        call.attributes(attribute).send().await.unwrap();
    };
    let delete = async || stand.aws.delete_load_balancer().load_balancer_arn(&balancer).send().await;
    protect("true").await;
    assert_eq!(code(delete().await), "OperationNotPermitted");
    protect("false").await;
    delete().await.unwrap();
}

#[tokio::test]
async fn tags_are_added_replaced_removed_and_limited() {
    let stand = Stand::new().await;
    let group = stand.group("web", Kind::Network).await;
    let tag = |key: &str, value: &str| Tag::builder().key(key).value(value).build();
    let add =
        async |tags: Vec<Tag>| stand.aws.add_tags().resource_arns(&group).set_tags(Some(tags)).send().await;
    add(vec![tag("team", "edge"), tag("env", "test")]).await.unwrap();
    add(vec![tag("team", "core")]).await.unwrap();
    stand.aws.remove_tags().resource_arns(&group).tag_keys("env").send().await.unwrap();
    let found = stand.aws.describe_tags().resource_arns(&group).send().await.unwrap();
    let tags = found.tag_descriptions()[0].tags();
    assert_eq!(tags, [tag("team", "core")]);
    assert_eq!(code(add(vec![tag("a", "1"), tag("a", "2")]).await), "DuplicateTagKeys");
    let many = (0..50).map(|n| tag(&format!("k{n}"), "")).collect();
    assert_eq!(code(add(many).await), "TooManyTags");
    let call = stand.aws.describe_tags().set_resource_arns(Some(vec![group.clone(); 21]));
    assert_eq!(code(call.send().await), "ValidationError");
    assert_eq!(code(stand.aws.describe_tags().resource_arns(UNKNOWN).send().await), "TargetGroupNotFound");
}

#[tokio::test]
async fn an_action_that_does_not_exist_here_is_an_invalid_action() {
    let stand = Stand::new().await;
    assert_eq!(code(stand.aws.describe_ssl_policies().send().await), "InvalidAction");
}
