//! Uninstalling Headgate from a cluster.

use std::collections::BTreeSet;

use headgate_harness::{
    cluster::pod_spec,
    headgate::command,
    scenario::{Scenario, targets},
    shared_world::beside_others,
    wait,
    webhook::{Configuration, bare_pod},
};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

fn api(s: &Scenario, kind: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", kind));
    Api::namespaced_with(s.cluster.client.clone(), &s.cluster.namespace, &kind)
}

/// The objects of a kind, each with its finalizers.
async fn all(s: &Scenario, kind: &str) -> Vec<(String, Vec<String>)> {
    let all = api(s, kind).list(&ListParams::default()).await.unwrap();
    all.iter().map(|object| (object.name_any(), object.finalizers().to_vec())).collect()
}

async fn uninstall(s: &Scenario, more: &[&str]) -> (Option<i32>, String) {
    uninstall_of(s, &format!("--namespaces={}", s.cluster.namespace), more).await
}

/// The same for a Headgate with these namespaces.
async fn uninstall_of(s: &Scenario, serves: &str, more: &[&str]) -> (Option<i32>, String) {
    let own = format!("--own-namespace={}", s.cluster.namespace);
    let arguments: Vec<&str> = ["uninstall", &own, serves].into_iter().chain(more.iter().copied()).collect();
    command(s.facts(), &arguments).await
}

#[test]
fn uninstall_removes_exactly_what_is_headgates_own_if_told_to_and_lets_the_bindings_go() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "uninstall").await;
        let group = s.web(2).await;
        let foreign_target = s.foreign_target(&group).await;
        let headgate = s.headgate().await;
        s.cluster.deploy("mine", 1, &[("http", 8080)]).await;
        s.cluster.write_binding("mine", &group).await;
        let mut wanted = targets(&s.cluster.wait_running("web", 2).await, 8080);
        wanted.extend(targets(&s.cluster.wait_running("mine", 1).await, 8080));
        wanted.insert(foreign_target.clone());
        s.wait_targets(&group, &wanted).await;
        wait::until("both bindings are shown, and the written one is kept by a finalizer", || async {
            let all = all(&s, "TargetBinding").await;
            let kept = all.iter().any(|(name, finalizers)| name == "mine" && !finalizers.is_empty());
            if all.len() == 2 && kept { Ok(()) } else { Err(all) }
        })
        .await;

        let (code, said) = uninstall(&s, &["--remove-targets"]).await;
        assert_eq!(code, Some(2), "a Headgate runs: {said}");
        assert!(said.contains("Scale `headgate run` to 0 first"), "{said}");
        assert_eq!(s.aws.registered(&group.arn).await, wanted);

        headgate.terminate().await;
        let (code, said) = uninstall(&s, &["--remove-targets"]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("3 targets are removed"), "{said}");
        s.wait_targets(&group, &BTreeSet::from([foreign_target])).await;
        assert_eq!(all(&s, "TargetLedger").await, []);
        assert_eq!(all(&s, "TargetBinding").await, [("mine".to_owned(), vec![])]);

        let (code, said) = uninstall(&s, &[]).await;
        assert_eq!(code, Some(0), "it may be done again: {said}");
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn uninstall_leaves_the_targets_says_which_and_the_next_installation_goes_on_with_them() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "keep").await;
            let group = s.web(2).await;
            // The address of a terminated pod soon belongs to another test's pod and is healthy again. A Headgate that
            // does not see that pod leaves such a target alone.
            let serves = format!("--namespace-selector=kubernetes.io/metadata.name={}", s.cluster.namespace);
            let headgate = s.headgate_that_sees_all(&s.facts().kubeconfig, &[]).await;
            let running = s.wait_registered(&group, "web", 2, 8080).await;
            headgate.terminate().await;
            let (code, said) = uninstall_of(&s, &serves, &[]).await;
            assert_eq!(code, Some(0), "{said}");
            assert!(said.contains(&format!("target group {}: 2 targets remain: ", group.name)), "{said}");
            assert!(targets(&running, 8080).iter().all(|target| said.contains(target)), "{said}");
            assert!(said.contains("headgate uninstall --remove-targets"), "{said}");
            assert_eq!(all(&s, "TargetBinding").await, []);
            assert_eq!(all(&s, "TargetLedger").await.len(), 1);
            assert_eq!(s.aws.registered(&group.arn).await, targets(&running, 8080));
            assert_eq!(s.aws.calls("DeregisterTargets", &group.name).await, []);

            // If a pod is deleted while no replica runs, the next replica knows it as Headgate's own target.
            s.cluster.scale("web", 1).await;
            s.wait_quiet("web", 1).await;
            let headgate = s.headgate_that_sees_all(&s.facts().kubeconfig, &[]).await;
            let running = s.wait_registered(&group, "web", 1, 8080).await;
            headgate.terminate().await;
            let (code, said) = uninstall_of(&s, &serves, &[]).await;
            assert_eq!(code, Some(0), "{said}");
            assert_eq!(s.aws.registered(&group.arn).await, targets(&running, 8080));
            let (code, said) = uninstall_of(&s, &serves, &["--remove-targets"]).await;
            assert_eq!(code, Some(0), "{said}");
            s.wait_targets(&group, &BTreeSet::new()).await;
            assert_eq!(all(&s, "TargetLedger").await, []);
        });
    }

    #[test]
    fn uninstall_opens_the_gates_that_wait_and_rolls_go_on_with_pods_that_have_none() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "stuck").await;
            let pods = s.cluster.within(&s.name("pods"));
            let labels = [(&*s.name("mine"), ""), ("headgate.dev/inject", "true")];
            pods.create_namespace(&pods.namespace, &labels).await;
            let group = s.group("web").await;
            // Nothing listens there, so no target becomes healthy.
            let ports = json!([{"name": "http", "port": 80, "targetPort": 8081}]);
            pods.service("web", "web", ports, Some(&format!("http={}", group.name))).await;
            let only = format!("--namespaces={},{}", s.cluster.namespace, pods.namespace);
            let configuration = format!("--webhook-configuration={}", s.name("webhook"));
            let headgate = s.headgate_of(&["--webhook-address=127.0.0.1:0", &*only]).await;
            let webhook = Configuration::install(&s, &[&headgate]).await;
            let has_gate = async || {
                let probe = serde_json::from_value(bare_pod("probe", &json!({"app": "web"}))).unwrap();
                let dry_run = PostParams { dry_run: true, ..PostParams::default() };
                let pod = pods.api::<Pod>().create(&dry_run, &probe).await.unwrap();
                pod.spec.unwrap().readiness_gates.is_some()
            };
            wait::until_equal("new pods are given the gate", &true, &has_gate).await;
            let mut spec = pod_spec(&[("http", 8080)]);
            spec["terminationGracePeriodSeconds"] = 1.into();
            pods.create::<Deployment>(json!({
                "metadata": {"name": "web", "annotations": {}},
                "spec": {
                    "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                    "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}, "annotations": {"headgate.dev/hold": "1s"}},
                        "spec": spec,
                    },
                },
            }))
            .await;
            wait::until("both gates are closed", || async {
                let gates = pods.gates("web").await;
                let closed = gates.values().flatten().filter(|gate| gate.status == "False").count();
                if closed == 2 { Ok(()) } else { Err(gates) }
            })
            .await;
            headgate.terminate().await;

            let own = format!("--own-namespace={}", s.cluster.namespace);
            let (code, said) = command(s.facts(), &["uninstall", &own, &only, &configuration]).await;
            assert_eq!(code, Some(0), "{said}");
            let opened = format!("namespace {}: opened 2 closed readiness gates", pods.namespace);
            assert!(said.contains(&opened), "{said}");
            assert!(
                said.contains(&format!(
                    "ValidatingWebhookConfiguration {} calls no webhook",
                    s.name("webhook")
                )),
                "{said}"
            );
            let why = pods.wait_gates("web", 2, "True", "HeadgateLeft").await;
            assert!(why.values().all(|why| why.contains("Headgate no longer manages this pod")), "{why:?}");
            assert!(webhook.clients().await.is_empty());
            wait::until_equal("new pods have no gate", &false, &has_gate).await;

            pods.restart("web").await;
            wait::until("the roll ends", || async {
                let gates = pods.gates("web").await;
                let status = pods.api::<Deployment>().get("web").await.unwrap().status.unwrap();
                let done = status.updated_replicas == Some(2) && status.available_replicas == Some(2);
                if done && status.replicas == Some(2) { Ok(gates) } else { Err(status) }
            })
            .await;
            webhook.remove().await;
        });
    }

    #[test]
    fn gates_in_a_namespace_that_is_no_longer_served_are_opened_and_its_healthy_targets_stay() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "left").await;
            let pods = s.cluster.within(&s.name("pods"));
            pods.create_namespace(&pods.namespace, &[]).await;
            let (healthy, never) = (s.group("ok").await, s.group("never").await);
            for (name, group, port) in [("web", &healthy, 8080), ("stuck", &never, 8081)] {
                let ports = json!([{"name": "http", "port": 80, "targetPort": port}]);
                pods.service(name, name, ports, Some(&format!("http={}", group.name))).await;
                pods.deploy_gated(name, 1, &[("http", 8080)]).await;
            }
            let (one, two) = (&s.cluster.namespace, &pods.namespace);
            let headgate = s.headgate_of(&[&format!("--namespaces={one},{two}")]).await;
            pods.wait_gates("web", 1, "True", "TargetsHealthy").await;
            wait::until("one gate is closed", || async {
                let gates = pods.gates("stuck").await;
                if gates.values().flatten().any(|gate| gate.status == "False") { Ok(()) } else { Err(gates) }
            })
            .await;
            let running = pods.running("web").await;
            headgate.terminate().await;

            let headgate = s.headgate_of(&[&format!("--namespaces={one}")]).await;
            pods.wait_gates("stuck", 1, "True", "HeadgateLeft").await;
            s.wait_targets(&never, &BTreeSet::new()).await;
            wait::until("the group of the other was read", || async {
                let read =
                    headgate.logged(|line| line["message"] == "reading" && line["group"] == healthy.name);
                if read.len() > 1 { Ok(()) } else { Err(headgate.text()) }
            })
            .await;
            assert_eq!(s.aws.registered(&healthy.arn).await, targets(&running, 8080));
            assert_eq!(s.aws.calls("DeregisterTargets", &healthy.name).await, []);
            let leases = s.cluster.api::<Lease>();
            wait::until("there is nothing left to see to", || async {
                let lease = leases.get("headgate").await.unwrap();
                let before = lease.annotations().get("headgate.dev/served-before").cloned();
                before.map_or(Ok(()), Err)
            })
            .await;
            headgate.terminate().await;
        });
    }
}
