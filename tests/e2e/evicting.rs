//! Evictions wait for the load balancer, and for nothing without end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use headgate_harness::{
    cluster::pod_spec,
    evictions::{Answer, Stage, hash_of},
    headgate::Headgate,
    scenario::targets,
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use serde_json::json;

/// For so long a load balancer may go on sending, as the Service says.
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
        assert!(said.contains("EvictionWaitsForLoadBalancer"), "{said}");
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
fn of_ten_evictions_at_once_under_a_budget_of_one_one_pod_leaves_after_the_other() {
    beside_others(|world| async move {
        let (stage, running) = Stage::deployed(world, "evict-pdb", 2, 10).await;
        stage.cluster.limit_disruptions("web", "maxUnavailable", 1, 1).await;
        let gone = wait::until("three pods have left", || async {
            let mut gone = BTreeSet::new();
            let options = json!({});
            let all: Vec<_> = running.keys().map(|pod| stage.try_evict(pod, &options)).collect();
            for (pod, answer) in running.keys().zip(futures::future::join_all(all).await) {
                match answer {
                    Ok(Answer::Wait(..)) => {}
                    Ok(Answer::Done) | Err(_) => _ = gone.insert(pod.clone()),
                }
            }
            let pods = stage.cluster.api::<Pod>().list(&ListParams::default()).await.unwrap();
            let leaving = pods.items.iter().filter(|pod| {
                let annotations = pod.metadata.annotations.as_ref();
                pod.metadata.deletion_timestamp.is_none()
                    && annotations.is_some_and(|all| all.contains_key("headgate.dev/deregistered-at"))
            });
            let leaving = leaving.count();
            assert!(leaving <= 1, "{leaving} are on their way out");
            if gone.len() >= 3 { Ok(gone) } else { Err(gone) }
        })
        .await;
        for pod in &gone {
            let deregistered = stage.deregistered(&running[pod]).await;
            assert!(deregistered.is_some(), "{pod} was not deregistered");
        }
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
        // The pods of other tests are left out.
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
        for (pod, reason) in [("held", "HoldIsEnough"), ("other", "NotATarget")] {
            let pod = format!("{}/{pod}", stage.cluster.namespace);
            let said = stage.headgates[0].logged(|line| line["pod"] == pod && line["reason"] == reason);
            assert_eq!(said.len(), 1, "{reason}");
        }
        let short = stage.try_evict("hurried", &json!({"gracePeriodSeconds": 4})).await.unwrap();
        assert_eq!(short, Answer::Done, "whoever evicts says how much time it gets: {}", stage.said());
        stage.cluster.wait_warning("hurried", "GraceCutsHold", "requests may be lost").await;
        wait::until("it is deregistered, because it ends", || async {
            stage.deregistered(&running["hurried"]).await.ok_or("it is not")
        })
        .await;
        stage.end().await;
    });
}

#[test]
fn a_replica_that_has_just_started_leaves_a_pod_whose_removal_is_held_to_the_leader() {
    beside_others(|world| async move {
        let mut stage = Stage::new(world, "evict-started", 1, &[]).await;
        stage.cluster.pod("blue", "web", &[("http", 8080)]).await;
        let blue = stage.wait_asked("web", 1).await;
        stage.wait_healthy(1).await;
        // What replaces it never serves.
        let metadata = json!({
            "name": "green", "labels": {"app": "green"}, "annotations": {"sim.headgate.dev/start-delay": "2h"},
        });
        let green = json!({"metadata": metadata, "spec": pod_spec(&[("http", 8080)])});
        stage.cluster.create::<Pod>(green).await;
        stage.cluster.wait_running("green", 1).await;
        stage.cluster.patch::<Service>("web", &json!({"spec": {"selector": {"app": "green"}}})).await;
        stage.cluster.wait_warning("web", "RemovalHeld", &stage.group.name).await;

        let leader = stage.ask_another("blue").await;
        assert!(leader[0].leads().await && !stage.headgates[0].leads().await);
        assert_eq!(stage.deregistered(&blue["blue"]).await, None);
        let evicted = stage.evict_until_done("blue").await;
        let removed = stage.deregistered(&blue["blue"]).await.expect("it is taken out before its eviction");
        assert!(evicted.duration_since(removed).unwrap() >= BOUND, "{}", stage.said());
        stage.end().await;
    });
}

#[test]
fn an_eviction_that_nobody_asks_for_any_more_is_undone() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "evict-undo", 1, &["--eviction-given-up-after=6s"]).await;
        stage.cluster.pod("web", "web", &[("http", 8080)]).await;
        let running = stage.wait_asked("web", 1).await;
        stage.must_wait("web").await;
        stage.s.wait_targets(&stage.group, &BTreeSet::new()).await;
        stage.s.wait_targets(&stage.group, &targets(&running, 8080)).await;
        assert_eq!(stage.annotations("web").await, BTreeMap::new());
        stage.cluster.wait_warning("web", "EvictionGivenUp", "the pod stays").await;
        let put_back = stage.headgates[0]
            .logged(|line| line["message"] == "registering" && line["reason"] == "EvictionGivenUp");
        assert_eq!(put_back.len(), 1);
        stage.end().await;
    });
}

#[test]
fn an_eviction_is_let_through_when_aws_does_not_take_the_removal_in_time() {
    beside_others(|world| async move {
        let stage = Stage::new(world, "evict-slow", 1, &["--eviction-patience=2s"]).await;
        stage.cluster.pod("web", "web", &[("http", 8080)]).await;
        stage.wait_asked("web", 1).await;
        let refused = json!({"refuse": {"code": "ServiceUnavailable", "message": "later"}});
        let fault = json!({
            "action": "DeregisterTargets", "target_group": stage.group.name, "times": 1000, "effect": refused,
        });
        stage.s.aws.control("POST", "/faults", Some(&fault)).await;
        stage.evict_until_done("web").await;
        stage.cluster.wait_warning("web", "DeregistrationTooSlow", "let through").await;
        stage.end().await;
    });
}

#[test]
fn an_eviction_is_let_through_when_no_leader_says_a_word() {
    beside_others(|world| async move {
        let arguments = ["--eviction-patience=1s", "--lease-duration=24s", "--lease-renew-deadline=20s"];
        let stage = Stage::new(world, "evict-unheard", 2, &arguments).await;
        stage.cluster.pod("web", "web", &[("http", 8080)]).await;
        stage.wait_asked("web", 1).await;
        let leads = stage.headgates[0].leads().await;
        let leader = &stage.headgates[usize::from(!leads)];
        assert!(leader.leads().await);
        leader.signal("STOP").await;
        // The one that is stopped does not answer: that it is waited for is within the client's time.
        stage.evict_until_done("web").await;
        leader.signal("CONT").await;
        stage.cluster.wait_warning("web", "NobodyDecides", "no leader has said a word").await;
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

#[test]
fn kubectl_drains_a_node_and_each_pod_is_deregistered_for_long_enough_before_it_goes() {
    alone(|world| async move {
        let (stage, running) = Stage::deployed(world, "drain", 2, 12).await;
        stage.cluster.limit_disruptions("web", "maxUnavailable", 2, 2).await;
        let api = stage.cluster.api::<Pod>();
        let pod = running.keys().next().unwrap();
        let node = api.get(pod).await.unwrap().spec.unwrap().node_name.unwrap();
        let here = ListParams::default().fields(&format!("spec.nodeName={node}")).labels("app=web");
        let here: Vec<String> =
            api.list(&here).await.unwrap().items.into_iter().filter_map(|pod| pod.metadata.name).collect();
        assert!(!here.is_empty());
        let kubectl = |arguments: Vec<String>| {
            let mut command = tokio::process::Command::new(&stage.s.facts().kubectl);
            command.env("KUBECONFIG", &stage.s.facts().kubeconfig).args(arguments).kill_on_drop(true);
            command
        };
        let only = format!("--pod-selector=app=web,pod-template-hash={}", hash_of(pod));
        let arguments = ["drain", &node, "--ignore-daemonsets", &only].map(str::to_owned);
        let drain = tokio::time::timeout(wait::DEADLINE, kubectl(arguments.to_vec()).output());
        let done = drain.await.expect("the drain ends").unwrap();
        kubectl(["uncordon".to_owned(), node.clone()].to_vec()).output().await.unwrap();
        assert!(done.status.success(), "{done:?}");
        for pod in &here {
            let at = stage
                .deregistered(&running[pod])
                .await
                .unwrap_or_else(|| panic!("{pod} was not deregistered"));
            let allowed = format!("{}/{pod}", stage.cluster.namespace);
            let passed = stage.headgates.iter().flat_map(|it| {
                it.logged(|line| line["pod"] == allowed && line["message"] == "an eviction is let through")
            });
            let last = passed.map(|line| line["timestamp"].as_str().unwrap().to_owned()).max().unwrap();
            let last: k8s_openapi::jiff::Timestamp = last.parse().unwrap();
            let waited = SystemTime::from(last).duration_since(at).unwrap();
            assert!(waited >= BOUND, "{pod}: {waited:?}");
        }
        stage.end().await;
    });
}
