//! Pods stop being targets.

use std::collections::BTreeSet;

use headgate_harness::{
    aws::Group,
    cluster::pod_spec,
    http, on_both_kinds_of_nodes,
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
};
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;

/// Asserts that each of these targets was deregistered exactly once.
async fn assert_deregistered_once(s: &Scenario, group: &Group, gone: &BTreeSet<String>) {
    let calls = s.aws.calls("DeregisterTargets", &group.name).await;
    let mut all: Vec<String> = calls.into_iter().flat_map(|(targets, _)| targets).collect();
    all.sort();
    assert_eq!(all, gone.iter().cloned().collect::<Vec<_>>());
}

on_both_kinds_of_nodes! {
    async fn a_graceful_delete_deregisters_while_the_pod_still_serves(world: World) {
        let s = Scenario::new(world, "delete").await;
        let group = s.group("web").await;
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 20}}});
        s.cluster.pod_with("web", "web", spec).await;
        s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
        let headgate = s.headgate().await;
        let running = s.wait_registered(&group, "web", 1, 8080).await;
        s.cluster.delete_pod("web", 30).await;
        s.wait_targets(&group, &BTreeSet::new()).await;
        let pod = s.cluster.api::<Pod>().get("web").await.unwrap();
        assert!(pod.metadata.deletion_timestamp.is_some(), "the pod is still there");
        let (status, _) = http::request("GET", &format!("{}:8080", running["web"]), "/", None).await.unwrap();
        assert_eq!(status, 200);
        assert_deregistered_once(&s, &group, &targets(&running, 8080)).await;
        assert_eq!(headgate.metric("headgate_deletion_to_deregister_seconds_count").await, Some(1.0));
        let said = headgate.logged(|line| line["message"] == "deregistering");
        assert_eq!(
            (&said[0]["reason"], &said[0]["uid"]),
            (&"PodTerminating".into(), &pod.metadata.uid.into())
        );
    }
}

#[test]
fn a_changed_selector_port_or_annotation_and_a_deleted_service_move_the_targets() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "service").await;
        let (group, other) = (s.web(2).await, s.group("other").await);
        s.cluster.pod("lone", "lone", &[("http", 8080), ("alt", 8081)]).await;
        let _headgate = s.headgate_with(&["--service-grace=1s"]).await;
        let web = s.wait_registered(&group, "web", 2, 8080).await;

        s.cluster.patch::<Service>("web", &json!({"spec": {"selector": {"app": "lone"}}})).await;
        s.wait_registered(&group, "lone", 1, 8080).await;

        let ports = json!([{"name": "http", "port": 80, "targetPort": 8081}]);
        s.cluster
            .patch::<Service>("web", &json!({"spec": {"selector": {"app": "lone"}, "ports": ports}}))
            .await;
        s.wait_registered(&group, "lone", 1, 8081).await;

        s.cluster
            .patch::<Service>("web", &json!({"spec": {"selector": {"app": "web"}, "ports": http_port()}}))
            .await;
        s.wait_targets(&group, &targets(&web, 8080)).await;

        s.cluster.annotate("web", Some(&format!("http={}", other.name))).await;
        s.wait_targets(&other, &targets(&web, 8080)).await;
        s.wait_targets(&group, &BTreeSet::new()).await;

        s.cluster.api::<Service>().delete("web", &kube::api::DeleteParams::default()).await.unwrap();
        s.wait_targets(&other, &BTreeSet::new()).await;
    });
}
