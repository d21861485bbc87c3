//! Pods that the drain of a node does not evict, such as those of a DaemonSet.

use std::collections::{BTreeMap, BTreeSet};

use headgate_harness::{
    cluster::pod_spec, evictions::Stage, headgate::command, kubectl::Kubectl, scenario::targets,
    shared_world::alone, wait,
};
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

/// The running pods of the DaemonSet by node: name and address.
async fn by_node(stage: &Stage) -> BTreeMap<String, (String, String)> {
    let pods = stage.cluster.pods_of("web").await;
    let alive = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let of = |pod: Pod| Some((pod.spec?.node_name?, (pod.metadata.name?, pod.status?.pod_ip?)));
    alive.filter_map(of).collect()
}

/// The targets of the pods on all other nodes.
fn but(pods: &BTreeMap<String, (String, String)>, node: &str) -> BTreeSet<String> {
    let others = pods.iter().filter(|(on, _)| *on != node);
    targets(&others.map(|(_, pod)| pod.clone()).collect(), 8080)
}

/// Waits until a node has or lacks the annotation that no load balancer sends to it.
async fn wait_detached(stage: &Stage, node: &str, detached: bool) {
    let nodes: Api<Node> = Api::all(stage.s.cluster.client.clone());
    wait::until(&format!("node {node} is detached: {detached}"), || async {
        let node = nodes.get(node).await.unwrap();
        let written = node.annotations().get("headgate.dev/detached-at").cloned();
        if written.is_some() == detached { Ok(()) } else { Err(written) }
    })
    .await;
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
        stage.cluster.wait_warning(pod, "NodeDisrupted", "skip this pod").await;
        wait::until("its bound has passed", || async {
            let written = stage.annotations(pod).await;
            let may_go =
                written.get("headgate.dev/may-go").is_some_and(|text| text.contains("EvictionAllowed"));
            if may_go { Ok(()) } else { Err(written) }
        })
        .await;

        wait_detached(&stage, node, true).await;

        // The DaemonSet creates another pod there.
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
        wait_detached(&stage, node, true).await;

        kubectl.run(&["uncordon", node]).await;
        let now = by_node(&stage).await.into_values().collect();
        stage.s.wait_targets(&stage.group, &targets(&now, 8080)).await;
        wait_detached(&stage, node, false).await;
        stage.wait_healthy(nodes.len()).await;

        // The drain tool waits until its machine may end. An older annotation does not count.
        let node = nodes[1];
        let forged =
            json!({"metadata": {"annotations": {"headgate.dev/detached-at": "2027-01-15T08:00:00Z"}}});
        let api: Api<Node> = Api::all(stage.s.cluster.client.clone());
        api.patch(node, &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
        let place = format!("node/{node}");
        stage.remove_those_that_end_slowly(node).await;
        let (code, said) =
            command(stage.s.facts(), &["drain", &place, "--daemonsets", "--force", "--timeout=90s"]).await;
        assert_eq!(code, Some(0), "{said}");
        let (pod, ip) = &by_node(&stage).await[node];
        for expected in [
            format!("{pod}: not evicted, of a DaemonSet"),
            format!("{pod}: no load balancer sends to it any more (EvictionAllowed: "),
            format!("node {node}: no load balancer sends to a pod there since 20"),
        ] {
            assert!(said.contains(&expected), "{expected} is not in:\n{said}");
        }
        let there = stage.s.aws.targets(&stage.group.arn).await;
        let left = there.get(&format!("{ip}:8080")).map(String::as_str);
        assert!(matches!(left, None | Some("draining")), "{left:?}");
        let (code, said) = command(stage.s.facts(), &["drain", &format!("pod/{pod}"), "--daemonsets"]).await;
        assert!(code == Some(2) && said.contains("Name a node: node/NAME"), "{said}");
        kubectl.run(&["uncordon", node]).await;
        wait_detached(&stage, node, false).await;
        stage.end().await;
    });
}
