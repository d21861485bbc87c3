//! The zone guard: evictions leave each zone with a healthy target.

use std::{net::Ipv4Addr, time::Duration};

use headgate_harness::{
    evictions::{Stage, hash_of},
    headgate::command,
    shared_world::alone,
    wait,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

async fn set_cordoned(nodes: &Api<Node>, name: &str, is: bool) {
    let patch = Patch::Merge(json!({"spec": {"unschedulable": is}}));
    nodes.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

#[test]
fn headgate_drain_empties_a_node_and_says_what_each_pod_waits_for() {
    alone(|world| async move {
        let stage = Stage::with_nodes(world, "hg-drain", 1, &[]).await;
        stage.cluster.deploy("web", 2, &[("http", 8080)]).await;
        stage.wait_asked("web", 2).await;
        let pods = stage.cluster.api::<Pod>();
        let all = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
        let pod = all.items[0].metadata.name.clone().unwrap();
        let namespace = format!("--namespace={}", stage.cluster.namespace);
        let dry = command(stage.s.facts(), &["drain", &pod, &namespace, "--dry-run"]).await;
        assert_eq!(dry.0, Some(0), "{}", dry.1);
        assert!(dry.1.contains("would be evicted"), "{}", dry.1);
        let node = all.items[0].spec.as_ref().unwrap().node_name.clone().unwrap();
        stage.remove_those_that_end_slowly(&node).await;
        let (code, said) =
            command(stage.s.facts(), &["drain", &format!("node/{node}"), "--timeout=60s", "--force"]).await;
        set_cordoned(&Api::all(stage.s.cluster.client.clone()), &node, false).await;
        assert_eq!(code, Some(0), "{said}");
        let line = |what: &str| said.lines().any(|line| line.contains(&pod) && line.contains(what));
        assert!(line("EvictionWaits") && line("gone"), "{said}");
        assert!(said.contains("is cordoned"), "{said}");
        let ip = all.items[0].status.as_ref().unwrap().pod_ip.clone().unwrap();
        assert!(stage.deregistered(&ip).await.is_some());
        let missing = command(stage.s.facts(), &["drain", "nobody", &namespace]).await;
        assert_eq!(missing.0, Some(2));
        assert!(missing.1.contains("there is no pod"), "{}", missing.1);
        stage.end().await;
    });
}

#[test]
fn kubectl_drains_half_of_the_nodes_without_force_and_every_zone_keeps_a_healthy_target() {
    alone(|world| async move {
        let stage = Stage::with_nodes(world, "half", 2, &[]).await;
        stage.cluster.deploy("web", 12, &[("http", 8080)]).await;
        stage.cluster.limit_disruptions("web", "maxUnavailable", 3, 3).await;
        let before = stage.wait_asked("web", 12).await;
        stage.wait_healthy(12).await;
        let nodes: Api<Node> = Api::all(stage.s.cluster.client.clone());
        let zones = &stage.s.facts().zones;
        assert!(zones.iter().all(|zone| zone.nodes.len() == 2));
        let firsts: Vec<&String> = zones.iter().map(|zone| &zone.nodes[0]).collect();
        // Skips the pods of other tests.
        let hash = hash_of(before.keys().next().unwrap());
        let only = format!("--pod-selector=app=web,pod-template-hash={hash}");
        let drains = firsts.iter().map(|node| {
            let mut kubectl = tokio::process::Command::new(&stage.s.facts().kubectl);
            kubectl.env("KUBECONFIG", &stage.s.facts().kubeconfig).kill_on_drop(true);
            kubectl.args(["drain", node.as_str(), "--ignore-daemonsets", &only]).output()
        });
        let mut drains =
            std::pin::pin!(tokio::time::timeout(wait::DEADLINE, futures::future::join_all(drains)));
        let mut look = tokio::time::interval(Duration::from_millis(200));
        let done = loop {
            tokio::select! {
                done = &mut drains => break done.expect("the drains end"),
                _ = look.tick() => {
                    let targets = stage.s.aws.targets(&stage.group.arn).await;
                    for zone in zones {
                        let is_here = |target: &str| zone.cidr.contains(&ip_of(target));
                        let healthy = |(target, state): (&String, &String)| state == "healthy" && is_here(target);
                        assert!(targets.iter().any(healthy), "{} {targets:?}", zone.name);
                    }
                }
            }
        };
        for node in firsts {
            set_cordoned(&nodes, node, false).await;
        }
        for drained in done {
            let drained = drained.unwrap();
            assert!(drained.status.success(), "{drained:?}");
        }
        let left = stage.cluster.wait_running("web", 12).await;
        let gone = before.iter().filter(|(pod, _)| !left.contains_key(*pod));
        let gone: Vec<&String> = gone.map(|(_, ip)| ip).collect();
        assert!(!gone.is_empty());
        for ip in gone {
            assert!(stage.deregistered(ip).await.is_some(), "{ip} was not deregistered");
        }
        stage.end().await;
    });
}

fn ip_of(target: &str) -> Ipv4Addr {
    target.split(':').next().unwrap().parse().unwrap()
}
