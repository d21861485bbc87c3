//! Pods that nobody evicts from a node that is drained, as those of a DaemonSet.

use std::collections::{BTreeMap, BTreeSet};

use headgate_harness::{
    cluster::pod_spec, evictions::Stage, kubectl::Kubectl, scenario::targets, shared_world::alone, wait,
};
use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
use kube::api::DeleteParams;
use serde_json::json;

/// The pods of the DaemonSet that are not ending, by node: name and address.
async fn by_node(stage: &Stage) -> BTreeMap<String, (String, String)> {
    let pods = stage.cluster.pods_of("web").await;
    let alive = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let of = |pod: Pod| Some((pod.spec?.node_name?, (pod.metadata.name?, pod.status?.pod_ip?)));
    alive.filter_map(of).collect()
}

/// The targets that the pods on all nodes but this one are.
fn but(pods: &BTreeMap<String, (String, String)>, node: &str) -> BTreeSet<String> {
    let others = pods.iter().filter(|(on, _)| *on != node);
    targets(&others.map(|(_, pod)| pod.clone()).collect(), 8080)
}

#[test]
fn the_pods_of_a_daemon_set_leave_a_cordoned_node_before_it_ends() {
    alone(|world| async move {
        let stage = Stage::with_nodes(world, "passed-over", 2, &[]).await;
        let nodes: Vec<&String> = stage.s.facts().zones.iter().flat_map(|zone| &zone.nodes).collect();
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["readinessGates"] = json!([{"conditionType": "headgate.dev/target-health"}]);
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
        stage
            .cluster
            .create::<DaemonSet>(json!({
                "metadata": {"name": "web"},
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec},
                },
            }))
            .await;
        let running = stage.wait_asked("web", nodes.len()).await;
        stage.wait_healthy(nodes.len()).await;
        let (all, pods) = (targets(&running, 8080), by_node(&stage).await);
        let kubectl = Kubectl::new(stage.s.facts(), &stage.cluster.namespace);
        let node = nodes[0];

        kubectl.run(&["cordon", node]).await;
        stage.s.wait_targets(&stage.group, &but(&pods, node)).await;
        let (pod, _) = &pods[node];
        stage.cluster.wait_warning(pod, "NodeDisrupted", "whoever does that does not evict the pod").await;
        wait::until("its bound has passed", || async {
            let written = stage.annotations(pod).await;
            let may_go =
                written.get("headgate.dev/may-go").is_some_and(|text| text.contains("EvictionAllowed"));
            if may_go { Ok(()) } else { Err(written) }
        })
        .await;

        // The DaemonSet makes another one there.
        stage.cluster.api::<Pod>().delete(pod, &DeleteParams::default()).await.unwrap();
        let next = wait::until("the next one has its gate open", || async {
            let now = by_node(&stage).await;
            let next = now.get(node).filter(|(name, _)| name != pod).ok_or("no other one yet")?;
            let gates = stage.cluster.gates("web").await;
            let gate = gates.get(&next.0).cloned().flatten();
            let opens = gate
                .as_ref()
                .is_some_and(|gate| gate.status == "True" && gate.reason.as_deref() == Some("NodeDisrupted"));
            if opens { Ok(next.clone()) } else { Err("its gate is closed") }
        })
        .await;
        let there = stage.s.aws.targets(&stage.group.arn).await;
        assert!(!there.keys().any(|target| target.starts_with(&format!("{}:", next.1))), "{there:?}");
        let registered = stage.s.aws.calls("RegisterTargets", &stage.group.name).await;
        let registered: BTreeSet<String> = registered.into_iter().flat_map(|(targets, _)| targets).collect();
        assert_eq!(registered, all, "nor was it for a moment");

        kubectl.run(&["uncordon", node]).await;
        let now = by_node(&stage).await.into_values().collect();
        stage.s.wait_targets(&stage.group, &targets(&now, 8080)).await;
        stage.end().await;
    });
}
