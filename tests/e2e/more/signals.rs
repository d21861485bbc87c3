//! Early signals: nodes that signal their removal, and the targets of their pods.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use headgate_harness::{
    cluster::{Running, pod_spec},
    evictions::Stage,
    headgate::command,
    kubectl::Kubectl,
    scenario::targets,
    shared_world::{alone, beside_others},
    wait,
};
use localstack_world::World;
use serde_json::json;
use tokio::sync::Mutex;

/// Signals that no other test's Headgate uses.
const DYING: &str = "test.headgate.dev/dying";
const DISRUPTED: &str = "test.headgate.dev/disrupted";

/// A pod of the app `web` on a node, with or without its hold.
async fn pod_on(stage: &Stage, name: &str, node: &str, is_held: bool) {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["nodeName"] = json!(node);
    if is_held {
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
    }
    stage.cluster.pod_with(name, "web", spec).await;
}

/// Two nodes of one zone.
fn nodes(stage: &Stage) -> [String; 2] {
    let [first, second, ..] = &stage.s.facts().zones[0].nodes[..] else { panic!("one node in a zone") };
    [first.clone(), second.clone()]
}

fn kubectl(stage: &Stage) -> Kubectl {
    Kubectl::new(stage.s.facts(), &stage.cluster.namespace)
}

/// One after the other, because kubectl replaces the whole list of taints, and several tests share a node.
async fn taint(stage: &Stage, node: &str, taint: &str) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let _held = ONE_AT_A_TIME.lock().await;
    kubectl(stage).run(&["taint", "node", node, taint]).await;
}

/// Pods with these names on one of two nodes, with or without their hold, all healthy for the leader too. The replicas
/// only use the signals of these tests.
async fn with_pods(
    world: &'static World,
    test: &str,
    replicas: usize,
    pods: &[(&str, usize, bool)],
) -> (Stage, Running, [String; 2]) {
    let (dying, disrupted) = (
        format!("--dying-node-taints={DYING}-{test}"),
        format!("--disrupted-node-taints={DISRUPTED}-{test}"),
    );
    let stage = Stage::with_nodes(world, test, replicas, &[&dying, &disrupted]).await;
    fill(stage, pods).await
}

async fn fill(stage: Stage, pods: &[(&str, usize, bool)]) -> (Stage, Running, [String; 2]) {
    let nodes = nodes(&stage);
    for (name, node, is_held) in pods {
        pod_on(&stage, name, &nodes[*node], *is_held).await;
    }
    let running = stage.wait_asked("web", pods.len()).await;
    stage.wait_healthy(pods.len()).await;
    (stage, running, nodes)
}

/// The targets of these pods.
fn only(running: &Running, pods: &[&str]) -> BTreeSet<String> {
    let these = running.iter().filter(|(name, _)| pods.contains(&name.as_str()));
    targets(&these.map(|(name, ip)| (name.clone(), ip.clone())).collect(), 8080)
}

/// The number of log lines of all replicas with this message and reason.
fn logged(stage: &Stage, message: &str, reason: &str) -> usize {
    let of = |it: &headgate_harness::headgate::Headgate| {
        it.logged(|line| line["message"] == message && line["reason"] == reason).len()
    };
    stage.headgates.iter().map(of).sum()
}

#[test]
fn each_taint_of_a_node_that_goes_takes_targets_out_and_its_end_puts_them_back() {
    alone(|world| async move {
        let stage = Stage::with_nodes(world, "taints", 1, &[]).await;
        let pods = [("held", 0, true), ("plain", 0, false), ("other", 1, true)];
        let (stage, running, [node, _]) = fill(stage, &pods).await;
        let all = targets(&running, 8080);
        // One key of each kind. A unit test of the core covers every key.
        let (disrupted, dying) = (["karpenter.sh/disrupted"], ["node.kubernetes.io/out-of-service"]);
        for (keys, stay, reason) in [
            (&disrupted[..], &["held", "other"][..], "NodeDisrupted"),
            (&dying[..], &["other"][..], "NodeDying"),
        ] {
            for key in keys {
                let before = logged(&stage, "registering", "RegisteredAgain");
                taint(&stage, &node, &format!("{key}=x:NoSchedule")).await;
                stage.s.wait_targets(&stage.group, &only(&running, stay)).await;
                let count = format!("headgate_nodes_leaving{{reason=\"{reason}\"}}");
                assert_eq!(stage.headgates[0].metric(&count).await, Some(1.0), "{key}");
                taint(&stage, &node, &format!("{key}-")).await;
                stage.s.wait_targets(&stage.group, &all).await;
                let put_back = logged(&stage, "registering", "RegisteredAgain") - before;
                assert_eq!(put_back, 3 - stay.len(), "{key}");
                // It may be the last healthy target next time.
                stage.wait_healthy(2).await;
            }
        }
        stage.cluster.wait_warning("plain", "NodeDisrupted", "will be drained").await;
        stage.cluster.wait_warning("held", "NodeDying", "is about to fail").await;
        stage.cluster.wait_warning("plain", "RegisteredAgain", "registered again").await;
        assert!(stage.cluster.warnings("other").await.is_empty());
        wait::until("nothing is left on the pod", || async {
            let left = stage.annotations("plain").await;
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
        stage.end().await;
    });
}

#[test]
fn of_three_on_a_disrupted_node_under_a_budget_of_one_one_leaves_early() {
    beside_others(|world| async move {
        let pods = [("p1", 0, false), ("p2", 0, false), ("p3", 0, false), ("other", 1, false)];
        let (stage, running, [node, _]) = with_pods(world, "early-pdb", 2, &pods).await;
        stage.cluster.limit_disruptions("web", "minAvailable", 3, 1).await;
        taint(&stage, &node, &format!("{DISRUPTED}-early-pdb=x:PreferNoSchedule")).await;
        let states = || async {
            let mut out = Vec::new();
            let mut waiting = 0;
            for pod in ["p1", "p2", "p3"] {
                let annotations = stage.annotations(pod).await;
                if annotations.contains_key("headgate.dev/deregistered-at") {
                    out.push(pod);
                }
                let waits = annotations.get("headgate.dev/leaving-waits");
                waiting += usize::from(waits.is_some_and(|text| text.contains("EvictionWaitsForDeparture")));
            }
            (out, waiting)
        };
        let gone = wait::until("one is out and the others wait for it", || async {
            let (out, waiting) = states().await;
            assert!(out.len() <= 1, "{out:?}");
            if out.len() == 1 && waiting == 2 { Ok(out[0]) } else { Err((out, waiting)) }
        })
        .await;
        let stay: Vec<&str> = running.keys().map(String::as_str).filter(|pod| *pod != gone).collect();
        stage.s.wait_targets(&stage.group, &only(&running, &stay)).await;
        // The eviction of the deregistered pod is allowed. Then the next one may be deregistered.
        stage.evict_until_done(gone).await;
        let deregistered = stage.deregistered(&running[gone]).await.unwrap();
        let waited = SystemTime::now().duration_since(deregistered).unwrap();
        assert!(waited >= Duration::from_secs(3), "{waited:?}");
        let shown = async || {
            for headgate in &stage.headgates {
                let address = format!("--address={}", headgate.debug());
                if let (Some(0), said) = command(stage.s.facts(), &["status", &address]).await {
                    return said;
                }
            }
            String::new()
        };
        let two = format!("Pods that are targets on nodes that will be removed: 2: {node} 2 (NodeDisrupted)");
        wait::until("the status counts what is left there", || async {
            let said = shown().await;
            if said.contains(&two) { Ok(()) } else { Err(said) }
        })
        .await;
        taint(&stage, &node, &format!("{DISRUPTED}-early-pdb-")).await;
        wait::until("the status says nothing of nodes", || async {
            let said = shown().await;
            if said.contains("on nodes that will be removed") { Err(said) } else { Ok(()) }
        })
        .await;
        stage.end().await;
    });
}
