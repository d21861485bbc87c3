//! The zone guard: evictions leave each zone with a healthy target.

use std::{collections::BTreeSet, net::Ipv4Addr, time::Duration};

use headgate_harness::{
    cluster::{Running, pod_spec},
    evictions::{Answer, Stage, hash_of},
    headgate::command,
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use localstack_world::World;
use serde_json::json;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Pods with their hold in the first zone of the world, healthy.
async fn in_one_zone(
    world: &'static World,
    test: &str,
    pods: usize,
    arguments: &[&str],
) -> (Stage, Running, String) {
    let stage = Stage::with_nodes(world, test, 2, arguments).await;
    let zone = stage.s.facts().zones[0].name.clone();
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["nodeSelector"] = json!({ZONE: zone});
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    stage.cluster.create::<Deployment>(deployment).await;
    let running = stage.wait_asked("web", pods).await;
    stage.wait_healthy(pods).await;
    (stage, running, zone)
}

#[test]
fn of_the_last_two_pods_of_a_zone_asked_at_once_one_is_let_go() {
    beside_others(|world| async move {
        let (stage, running, _) = in_one_zone(world, "zone", 2, &["--eviction-patience=60s"]).await;
        let pods: Vec<&String> = running.keys().collect();
        let gone = wait::until("one of the two is evicted", || async {
            let (a, b) = tokio::join!(stage.evict(pods[0]), stage.evict(pods[1]));
            match (&a, &b) {
                (Answer::Done, Answer::Done) => panic!("both were let go: {}", stage.said()),
                (Answer::Done, _) => Ok(0),
                (_, Answer::Done) => Ok(1),
                _ => Err(format!("{a:?} {b:?}")),
            }
        })
        .await;
        let other = pods[1 - gone];
        let said = wait::until("the other one waits for the zone", || async {
            match stage.evict(other).await {
                Answer::Done => panic!("both were let go, {} healthy", stage.healthy().await),
                Answer::Wait(_, said) if said.contains("EvictionWaitsForZone") => Ok(said),
                Answer::Wait(_, said) => Err(said),
            }
        })
        .await;
        assert!(said.contains("a replacement there is waited for"), "{said}");
        wait::until("it is let go when the replacement is healthy", || async {
            match stage.evict(other).await {
                Answer::Done => {
                    // The answer comes the moment that the replacement turns healthy.
                    let targets = stage.s.aws.targets(&stage.group.arn).await;
                    let own = format!("{}:8080", running[other]);
                    let replacement =
                        |(target, state): &(&String, &String)| **target != own && **state == "healthy";
                    assert!(targets.iter().any(|each| replacement(&each)), "{targets:?}: {}", stage.said());
                    Ok(())
                }
                Answer::Wait(_, said) => Err(said),
            }
        })
        .await;
        let allowed = |it: &headgate_harness::headgate::Headgate| {
            it.logged(|line| {
                line["reason"] == "ZoneAllows" && line["message"] == "an eviction is let through"
            })
            .len()
        };
        assert!(stage.headgates.iter().map(allowed).sum::<usize>() >= 2);
        stage.end().await;
    });
}

#[test]
fn a_zone_without_room_holds_a_drain_up_for_a_while_only() {
    alone(|world| async move {
        let (stage, running, zone) = in_one_zone(world, "zone-full", 2, &["--eviction-patience=5s"]).await;
        let nodes: Api<Node> = Api::all(stage.s.cluster.client.clone());
        let here = nodes.list(&ListParams::default().labels(&format!("{ZONE}={zone}"))).await.unwrap();
        let here: Vec<String> = here.items.into_iter().filter_map(|node| node.metadata.name).collect();
        for node in &here {
            set_cordoned(&nodes, node, true).await;
        }
        // As a drain of all nodes of the zone asks.
        let (first, second) = {
            let mut pods = running.keys();
            (pods.next().unwrap(), pods.next().unwrap())
        };
        stage.evict_until_done(first).await;
        let asked = std::time::Instant::now();
        stage.evict_until_done(second).await;
        assert!(asked.elapsed() >= Duration::from_secs(4), "{:?}", asked.elapsed());
        stage.cluster.wait_warning(second, "ZoneHasNoRoom", "no node of the zone takes new pods").await;
        for node in &here {
            set_cordoned(&nodes, node, false).await;
        }
        stage.end().await;
    });
}

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
        assert!(line("EvictionWaitsForLoadBalancer") && line("gone"), "{said}");
        assert!(said.contains("takes no new pods"), "{said}");
        let ip = all.items[0].status.as_ref().unwrap().pod_ip.clone().unwrap();
        assert!(stage.deregistered(&ip).await.is_some());
        let missing = command(stage.s.facts(), &["drain", "nobody", &namespace]).await;
        assert_eq!(missing.0, Some(1));
        assert!(missing.1.contains("there is no pod"), "{}", missing.1);
        stage.end().await;
    });
}

const WARM: &str = "example.com/warm";

#[test]
fn pods_that_are_not_ready_any_more_leave_a_zone_one_after_the_other() {
    beside_others(|world| async move {
        let stage = Stage::with_nodes(world, "zone-unready", 1, &["--not-ready-for=500ms"]).await;
        stage.cluster.set_annotation("web", "headgate.dev/when-not-ready", Some("deregister")).await;
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["nodeSelector"] = json!({ZONE: stage.s.facts().zones[0].name});
        spec["readinessGates"] = json!([{"conditionType": WARM}]);
        for pod in ["p1", "p2"] {
            stage.cluster.pod_with(pod, "web", spec.clone()).await;
        }
        stage.wait_asked("web", 2).await;
        let set_warm = |pod: &'static str, is| stage.cluster.set_condition(pod, WARM, is);
        for pod in ["p1", "p2"] {
            set_warm(pod, true).await;
        }
        stage.wait_healthy(2).await;
        for pod in ["p1", "p2"] {
            set_warm(pod, false).await;
        }
        stage.cluster.wait_warning("web", "RemovalHeld", "are not ready any more").await;
        let removals = || stage.s.aws.calls("DeregisterTargets", &stage.group.name);
        wait::until_equal("one of the two", &1, || async { removals().await.len() }).await;
        let held = format!("headgate_held_removals{{target_group=\"{}\"}}", stage.group.name);
        wait::until_equal("the other one is held", &Some(1.0), || stage.headgates[0].metric(&held)).await;
        stage.cluster.pod_with("p3", "web", spec).await;
        let running = stage.cluster.wait_running("web", 3).await;
        set_warm("p3", true).await;
        let third: BTreeSet<String> = [format!("{}:8080", running["p3"])].into();
        stage.s.wait_targets(&stage.group, &third).await;
        let healthy = stage.s.aws.turned(&stage.group.name, "healthy").await;
        let (_, at) = healthy.iter().find(|(target, _)| third.contains(target)).unwrap();
        let (_, second) = removals().await[1];
        assert!(*at < second, "the second one left before another one was healthy");
        wait::until_equal("nothing is held", &Some(0.0), || stage.headgates[0].metric(&held)).await;
        let warnings = stage.cluster.warnings("web").await;
        assert!(warnings.iter().all(|(reason, _)| reason == "RemovalHeld"), "{warnings:?}");
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
        // The pods of other tests are left out.
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
