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
