//! A real ingress, which only real nodes can run.

use std::collections::BTreeSet;

use headgate_harness::{
    http,
    scenario::{Scenario, http_port, targets},
    shared_world::on,
    wait,
};
use k8s_openapi::api::apps::v1::Deployment;
use localstack_world::Nodes;
use serde_json::json;

/// Skipper, which answers every request with its pod's name. It need not wait for a load balancer at its end, because
/// this test sends it no requests then.
fn skipper() -> serde_json::Value {
    json!({
        "metadata": {"name": "skipper"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "skipper"}},
            "template": {"metadata": {"labels": {"app": "skipper"}}, "spec": {"containers": [{
                "name": "skipper",
                "image": "headgate.local/skipper:1",
                "args": [
                    "-address=:8080",
                    "-support-listener=:9911",
                    "-wait-for-healthcheck-interval=0s",
                    "-inline-routes=all: * -> inlineContent(\"$(POD_NAME)\") -> <shunt>",
                ],
                "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "ports": [{"name": "http", "containerPort": 8080}],
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
            }]}},
        },
    })
}

#[test]
fn a_real_skipper_is_reached_through_the_load_balancer_and_rolls_on_real_nodes() {
    on(Nodes::Real, "a real Skipper behind the load balancer", |world| async move {
        let s = Scenario::new(world, "skipper").await;
        let group = s.group("web").await;
        s.cluster.create::<Deployment>(skipper()).await;
        s.cluster.service("web", "skipper", http_port(), Some(&format!("http={}", group.name))).await;
        let _headgate = s.headgate().await;
        let before = s.wait_registered(&group, "skipper", 2, 8080).await;
        let pods: BTreeSet<String> = before.keys().cloned().collect();
        wait::until("both answer through the load balancer", || async {
            let mut seen = BTreeSet::new();
            for node in headgate_harness::dns::resolve(s.facts(), &group.dns_name).await {
                for _ in 0..10 {
                    let address = format!("{node}:{}", group.listener_port);
                    seen.insert(http::request("GET", &address, "/", None).await?.1);
                }
            }
            if seen == pods { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;

        let template = json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "once"}}}}});
        s.cluster.patch::<Deployment>("skipper", &template).await;
        wait::until("the targets are the new pods", || async {
            let now = s.cluster.running("skipper").await;
            let new = now.len() == 2 && now.keys().all(|name| !pods.contains(name));
            if new && s.aws.registered(&group.arn).await == targets(&now, 8080) { Ok(()) } else { Err(now) }
        })
        .await;
    });
}
