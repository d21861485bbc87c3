//! How a Service wants its pods registered.

use std::{collections::BTreeSet, time::Duration};

use headgate_harness::{
    aws::Group,
    cluster::{Running, pod_spec},
    grants,
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::core::v1::Service;
use kube::api::DeleteParams;
use serde_json::json;

const WARM: &str = "example.com/warm";

/// A pod with a readiness gate that the test looks after.
async fn gated_pod(s: &Scenario, name: &str) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["readinessGates"] = json!([{"conditionType": WARM}]);
    s.cluster.pod_with(name, "web", spec).await;
}

#[test]
fn a_pod_is_registered_when_it_is_as_ready_as_its_service_asks_for() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "when").await;
        let (early, late) = (s.group("early").await, s.group("late").await);
        for (service, group, when) in [("early", &early, "containers-ready"), ("late", &late, "ready")] {
            s.cluster.service(service, "web", http_port(), Some(&group.name)).await;
            s.cluster.set_annotation(service, "headgate.dev/register-when", Some(when)).await;
        }
        let headgate = s.headgate().await;
        gated_pod(&s, "web").await;
        let running = s.wait_registered(&early, "web", 1, 8080).await;
        assert_eq!(s.aws.calls("RegisterTargets", &late.name).await, []);
        s.cluster.set_condition("web", WARM, true).await;
        s.wait_targets(&late, &targets(&running, 8080)).await;
        let said = headgate.logged(|line| line["message"] == "registering" && line["group"] == *late.name);
        assert_eq!(said[0]["reason"], "PodReady");
    });
}

#[test]
fn a_pod_that_is_not_ready_any_more_is_deregistered_where_its_service_asks_for_that() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "unready").await;
        let (kept, left) = (s.group("kept").await, s.group("left").await);
        s.cluster.service("kept", "web", http_port(), Some(&kept.name)).await;
        s.cluster.service("left", "web", http_port(), Some(&left.name)).await;
        s.cluster.set_annotation("left", "headgate.dev/when-not-ready", Some("deregister")).await;
        let headgate = s.headgate_with(&["--not-ready-for=500ms"]).await;
        gated_pod(&s, "web").await;
        s.cluster.wait_running("web", 1).await;
        s.cluster.set_condition("web", WARM, true).await;
        let running = s.wait_registered(&left, "web", 1, 8080).await;
        s.wait_targets(&kept, &targets(&running, 8080)).await;
        s.cluster.set_condition("web", WARM, false).await;
        s.wait_targets(&left, &BTreeSet::new()).await;
        let said = headgate.logged(|line| line["message"] == "deregistering");
        assert_eq!(said[0]["reason"], "NotReady");
        assert_eq!(s.aws.calls("DeregisterTargets", &kept.name).await, []);
        s.cluster.set_condition("web", WARM, true).await;
        s.wait_targets(&left, &targets(&running, 8080)).await;
    });
}

#[test]
fn a_policy_that_cannot_be_read_is_said_and_what_was_valid_stays() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "policy").await;
        let group = s.web(1).await;
        let headgate = s.headgate().await;
        s.wait_registered(&group, "web", 1, 8080).await;
        for (annotation, value) in
            [("headgate.dev/register-when", "sometimes"), ("headgate.dev/when-not-ready", "drop")]
        {
            s.cluster.set_annotation("web", annotation, Some(value)).await;
            let part = format!("{annotation}: \"{value}\" is none of its values; expected");
            s.cluster.wait_warning("web", "InvalidAnnotation", &part).await;
        }
        assert_eq!(headgate.logged(|line| line["reason"] == "InvalidAnnotation").len(), 2);
        s.cluster.scale("web", 2).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
    });
}

#[test]
fn a_service_that_is_deleted_and_made_again_keeps_its_targets() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "again").await;
        let group = s.web(2).await;
        let _headgate = s.headgate().await;
        s.wait_registered(&group, "web", 2, 8080).await;
        s.cluster.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
        s.cluster.wait_warning("web", "ServiceDeleted", "should it be made again").await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        s.cluster.scale("web", 3).await;
        s.wait_registered(&group, "web", 3, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
    });
}

/// Two healthy pods that also listen on 8081, bound by their port 8080.
async fn two_healthy(s: &Scenario) -> (Group, Running) {
    let group = s.group("web").await;
    s.cluster.deploy("web", 2, &[("http", 8080), ("alt", 8081)]).await;
    s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
    let running = s.wait_registered(&group, "web", 2, 8080).await;
    wait::until("both are healthy", || async {
        let states = s.aws.targets(&group.arn).await;
        if states.values().all(|state| state == "healthy") { Ok(()) } else { Err(states) }
    })
    .await;
    (group, running)
}

async fn set_target_port(s: &Scenario, port: u16) {
    let ports = json!([{"name": "http", "port": 80, "targetPort": port}]);
    s.cluster.patch::<Service>("web", &json!({"spec": {"ports": ports}})).await;
}

#[test]
fn of_targets_that_are_all_replaced_one_goes_for_each_new_one_that_is_healthy() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "replaced").await;
        let headgate = s.headgate().await;
        let (group, running) = two_healthy(&s).await;
        set_target_port(&s, 8081).await;
        s.cluster.wait_warning("web", "RemovalHeld", &group.name).await;
        s.wait_targets(&group, &targets(&running, 8081)).await;
        let healthy = s.aws.turned(&group.name, "healthy").await;
        let new: Vec<_> = healthy.iter().filter(|(target, _)| target.ends_with(":8081")).collect();
        let removals = s.aws.calls("DeregisterTargets", &group.name).await;
        let removed = removals.iter().flat_map(|(targets, arrived)| targets.iter().map(move |_| arrived));
        // The first one not before the first of the new was healthy, and the second one not before the second.
        for (nth, arrived) in removed.enumerate() {
            assert!(arrived > &new[nth].1, "{removals:?} {healthy:?}");
        }
        let said = headgate.logged(|line| line["message"] == "deregistering");
        assert_eq!(said[0]["reason"], "PortChanged");
        let held = format!("headgate_held_removals{{target_group=\"{}\"}}", group.name);
        wait::until_equal("nothing is held", &Some(0.0), || headgate.metric(&held)).await;
    });
}

#[test]
fn targets_that_are_replaced_by_what_never_gets_healthy_stay_and_those_of_ended_pods_go_at_once() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "deaf").await;
        let headgate = s.headgate_with(&["--replacement-grace=15s"]).await;
        let (group, running) = two_healthy(&s).await;
        set_target_port(&s, 9).await;
        let held = format!("headgate_held_removals{{target_group=\"{}\"}}", group.name);
        wait::until_equal("both are held", &Some(2.0), || headgate.metric(&held)).await;
        let (first, ip) = running.first_key_value().unwrap();
        s.cluster.end_pod(first).await;
        wait::until_equal("the pod that ends is not", &Some(1.0), || headgate.metric(&held)).await;
        wait::until("the pod that ended is out", || async {
            let there = s.aws.targets(&group.arn).await;
            let old = there.keys().filter(|target| target.ends_with(":8080")).count();
            let ended = there.keys().any(|target| target.starts_with(&format!("{ip}:")));
            if old == 1 && !ended { Ok(()) } else { Err(there) }
        })
        .await;
        // That nothing comes of it can only be seen when the grace is over.
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(headgate.metric(&held).await, Some(1.0));
        set_target_port(&s, 8081).await;
        let now = s.wait_registered(&group, "web", 2, 8081).await;
        assert!(!now.contains_key(first));
    });
}

#[test]
fn a_paused_service_is_planned_for_and_not_written_until_the_pause_ends() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "paused").await;
        let group = s.web(2).await;
        let headgate = s.headgate().await;
        let before = s.wait_registered(&group, "web", 2, 8080).await;
        s.cluster.set_annotation("web", "headgate.dev/paused", Some("true")).await;
        let removals =
            format!("headgate_paused_changes{{target_group=\"{}\",kind=\"removals\"}}", group.name);
        wait::until_equal("the pause is in force", &Some(0.0), || headgate.metric(&removals)).await;
        s.cluster.end_pod(before.keys().next().unwrap()).await;
        s.cluster.wait_warning("web", "RemovalsPaused", &group.name).await;
        let removals =
            format!("headgate_paused_changes{{target_group=\"{}\",kind=\"removals\"}}", group.name);
        wait::until_equal("the waiting removals", &Some(1.0), || headgate.metric(&removals)).await;
        assert_eq!(headgate.logged(|line| line["message"] == "would deregister, but is paused").len(), 1);
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);
        s.cluster.set_annotation("web", "headgate.dev/paused", None).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await.len(), 1);
    });
}

#[test]
fn read_only_says_what_it_would_do() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "read-only").await;
        let group = s.web(1).await;
        let headgate = s.headgate_with(&["--read-only"]).await;
        s.cluster.wait_running("web", 1).await;
        wait::until("the plan is logged", || async {
            let logged = headgate.logged(|line| line["message"] == "would register, but is paused");
            if logged.is_empty() { Err(headgate.text()) } else { Ok(()) }
        })
        .await;
        assert_eq!(s.aws.calls("RegisterTargets", &group.name).await, []);
    });
}

#[test]
fn a_foreign_target_stays_in_a_shared_group_and_goes_from_an_exclusive_one() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "owner").await;
        let group = s.web(1).await;
        let foreign_target = s.foreign_target(&group).await;
        let headgate = s.headgate_with(&["--read-interval=1s"]).await;
        let running = s.cluster.wait_running("web", 1).await;
        let own = targets(&running, 8080);
        let both: BTreeSet<String> = own.iter().cloned().chain([foreign_target.clone()]).collect();
        s.wait_targets(&group, &both).await;
        let foreign = format!("headgate_foreign_targets{{target_group=\"{}\"}}", group.name);
        wait::until_equal("the foreign target is seen", &Some(1.0), || headgate.metric(&foreign)).await;
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

        s.cluster.set_annotation("web", "headgate.dev/ownership", Some("exclusive")).await;
        s.cluster.wait_warning("web", "ExclusiveNotGranted", "with allow: [Exclusive]").await;
        assert!(s.aws.registered(&group.arn).await.contains(&foreign_target));
        let mut granted = grants::of(&group.name, &[&s.cluster.namespace]);
        granted["allow"] = json!(["Exclusive"]);
        grants::write(&s.cluster, &s.name("grant"), &granted).await.unwrap();
        s.wait_targets(&group, &own).await;
        let said = headgate.logged(|line| line["message"] == "deregistering");
        assert_eq!(
            (&said[0]["reason"], &said[0]["target"]),
            (&json!("ForeignTarget"), &json!(foreign_target))
        );

        s.cluster.set_annotation("web", "headgate.dev/ownership", None).await;
        wait::until_equal("it is gone", &Some(0.0), || headgate.metric(&foreign)).await;
        let again = s.foreign_target(&group).await;
        wait::until_equal("it is seen again", &Some(1.0), || headgate.metric(&foreign)).await;
        assert!(s.aws.registered(&group.arn).await.contains(&again));
        assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await.len(), 1);
    });
}
