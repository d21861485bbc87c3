//! Evictions wait for the load balancer, and every wait has a limit.

use std::{collections::BTreeMap, time::Duration};

use headgate_harness::{
    certificates::Files,
    cluster::pod_spec,
    evictions::{Answer, Stage, hash_of},
    headgate::Headgate,
    intruder::{Intruder, forged_eviction},
    kubectl::Kubectl,
    rights::{CLUSTER_ROLE, grant_in_all, rules_of, service_account},
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// The propagation delay in the Service's annotation.
const BOUND: Duration = Duration::from_secs(3);

#[test]
fn a_pod_without_a_hold_is_evicted_when_its_load_balancer_has_stopped_sending() {
    beside_others(|world| async move {
        let (stage, running) = Stage::deployed(world, "evict", 2, 2).await;
        let (pod, ip) = running.iter().next().unwrap();
        stage.must_wait(pod).await;
        wait::until("the load balancer's time is written down", || async {
            let written = stage.annotations(pod).await;
            let deregistered = written.get("headgate.dev/deregistered-at").cloned();
            deregistered.filter(|text| text.ends_with("bound 3s")).ok_or(written)
        })
        .await;
        let said = stage.must_wait(pod).await;
        assert!(said.contains("EvictionWaits"), "{said}");
        let alive = stage.cluster.running("web").await;
        assert_eq!(alive.get(pod), Some(ip), "it serves meanwhile");
        let done = stage.evict_until_done(pod).await;
        let deregistered = stage.deregistered(ip).await.unwrap();
        let waited = done.duration_since(deregistered).unwrap();
        assert!(waited >= BOUND, "{waited:?}");
        let reasons = |word: &str| {
            let said = |it: &Headgate| it.logged(|line| line["reason"] == word).len();
            stage.headgates.iter().map(said).sum::<usize>()
        };
        assert_eq!(reasons("PodEvicting"), 2, "deregistered once, and noted once");
        assert_eq!(stage.s.aws.calls("DeregisterTargets", &stage.group.name).await.len(), 1);
        stage.end().await;
    });
}

#[test]
fn a_forged_review_of_pods_whose_nodes_stay_changes_nothing_and_a_drain_waits() {
    alone(|world| async move {
        let stage = Stage::with_nodes(world, "evict-nodes", 2, &[]).await;
        stage.cluster.deploy("web", 2, &[("http", 8080)]).await;
        let running = stage.wait_asked("web", 2).await;
        let files = Files::shared();
        let (intruder, address) = (Intruder::new(&files.trusted), stage.headgates[0].webhook().await);
        for pod in running.keys() {
            let mut forged = forged_eviction(&stage.cluster.namespace, pod);
            forged["request"]["object"]["deleteOptions"] = json!({});
            for _ in 0..2 {
                let (status, said, _) = intruder.send("POST", &address, &files.path, &forged).await;
                assert_eq!(status, 200, "{said}");
                assert!(said.contains("\"allowed\":true"), "{said}");
            }
            stage.cluster.wait_warning(pod, "HoldMissing", "requests may be lost").await;
        }
        let (pod, ip) = running.iter().next().unwrap();
        let node = stage.cluster.api::<Pod>().get(pod).await.unwrap().spec.unwrap().node_name.unwrap();
        for pod in running.keys() {
            assert_eq!(stage.annotations(pod).await, BTreeMap::new(), "nothing is noted on {pod}");
        }
        assert_eq!(stage.s.aws.calls("DeregisterTargets", &stage.group.name).await, []);
        grant_in_all(&stage.s, &rules_of(CLUSTER_ROLE)).await;
        let kubeconfig = service_account(&stage.s).await;
        wait::until("Headgate's own role allows reading the node", || async {
            let mut command = tokio::process::Command::new(&stage.s.facts().kubectl);
            command.env("KUBECONFIG", &kubeconfig).args(["get", "node", &node]).kill_on_drop(true);
            let read = command.output().await.unwrap();
            if read.status.success() { Ok(()) } else { Err(read) }
        })
        .await;

        // Like kubectl drain: the watch of nodes may not have shown the cordon yet.
        let kubectl = Kubectl::new(stage.s.facts(), &stage.cluster.namespace);
        kubectl.run(&["cordon", &node]).await;
        let said = stage.must_wait(pod).await;
        assert!(said.contains("retry"), "{said}");
        let done = stage.evict_until_done(pod).await;
        kubectl.run(&["uncordon", &node]).await;
        let waited = done.duration_since(stage.deregistered(ip).await.unwrap()).unwrap();
        assert!(waited >= BOUND, "{waited:?}");
        stage.end().await;
    });
}

#[test]
fn a_dry_run_of_either_form_changes_nothing() {
    beside_others(|world| async move {
        let (stage, running) = Stage::deployed(world, "evict-dry", 1, 1).await;
        let pod = running.keys().next().unwrap();
        let before = stage.cluster.api::<Pod>().get(pod).await.unwrap().metadata.resource_version;
        assert_eq!(stage.try_evict(pod, &json!({"dryRun": ["All"]})).await.unwrap(), Answer::Done);
        let kubectl = |arguments: &[&str]| {
            let mut command = tokio::process::Command::new(&stage.s.facts().kubectl);
            command.env("KUBECONFIG", &stage.s.facts().kubeconfig).args(arguments).kill_on_drop(true);
            command.output()
        };
        let api = stage.cluster.api::<Pod>();
        let node = api.get(pod).await.unwrap().spec.unwrap().node_name.unwrap();
        // Skips the pods of other tests.
        let only = format!("--pod-selector=app=web,pod-template-hash={}", hash_of(pod));
        let done =
            kubectl(&["drain", &node, "--dry-run=server", "--ignore-daemonsets", &only]).await.unwrap();
        assert!(done.status.success(), "{done:?}");
        let after = api.get(pod).await.unwrap().metadata.resource_version;
        assert_eq!((before, stage.annotations(pod).await), (after, BTreeMap::new()));
        assert_eq!(stage.deregistered(&running[pod]).await, None);
        stage.end().await;
    });
}

#[test]
fn a_pod_with_its_hold_and_one_that_is_no_target_pass_at_once() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "evict-hold", 1, &[]).await;
        let mut held = pod_spec(&[("http", 8080)]);
        held["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
        for pod in ["held", "hurried"] {
            stage.cluster.pod_with(pod, "web", held.clone()).await;
        }
        let running = stage.wait_asked("web", 2).await;
        stage.cluster.pod("other", "other", &[("http", 8080)]).await;
        stage.cluster.wait_running("other", 1).await;
        assert_eq!(stage.evict("held").await, Answer::Done);
        assert_eq!(stage.evict("other").await, Answer::Done);
        for (pod, why) in [("held", "the pod has its hold"), ("other", "no load balancer sends to the pod")] {
            let pod = format!("{}/{pod}", stage.cluster.namespace);
            let said = stage.headgates[0].logged(|line| line["pod"] == pod && line["why"] == why);
            assert_eq!(said.len(), 1, "{why}");
            assert_eq!(said[0]["reason"], "EvictionAllowed");
        }
        let short = stage.try_evict("hurried", &json!({"gracePeriodSeconds": 4})).await.unwrap();
        assert_eq!(short, Answer::Done, "whoever evicts says how much time it gets: {}", stage.said());
        stage.cluster.wait_warning("hurried", "EvictionUnsafe", "Requests may be lost").await;
        wait::until("it is deregistered, because it ends", || async {
            stage.deregistered(&running["hurried"]).await.ok_or("it is not")
        })
        .await;
        stage.end().await;
    });
}

#[test]
fn with_every_replica_down_evictions_pass() {
    beside_others(|world| async move {
        let (mut stage, running) = Stage::deployed(world, "evict-down", 2, 1).await;
        for headgate in std::mem::take(&mut stage.headgates) {
            headgate.kill().await;
        }
        let pod = running.keys().next().unwrap();
        assert_eq!(stage.evict(pod).await, Answer::Done);
        stage.end().await;
    });
}
