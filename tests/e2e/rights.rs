//! Headgate's permissions, and its scope.

use std::{collections::BTreeSet, path::PathBuf};

use headgate_harness::{
    cluster::{OWN_GATE, pod_spec},
    headgate::{Headgate, command, command_as},
    rights::{
        CERTIFICATES, CLUSTER_ROLE, OWN_NAMESPACE, ROLE, grant, grant_in_all, let_read_grants, rules_of,
        service_account,
    },
    scenario::{Scenario, http_port, targets},
    shared_world::beside_others,
    wait,
    webhook::{Configuration, wait_secret},
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

/// A kubeconfig for a ServiceAccount with only a Role with these rules, the Role for its own namespace, and the
/// permission to read grants.
async fn role_only(s: &Scenario, rules: &Value) -> PathBuf {
    grant(s, "headgate", rules).await;
    grant(s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
    let_read_grants(s).await;
    service_account(s).await
}

/// A kubeconfig for a ServiceAccount with only a ClusterRole with these rules, and the Role for its own namespace.
async fn cluster_role_only(s: &Scenario, rules: &Value) -> PathBuf {
    grant_in_all(s, rules).await;
    grant(s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
    service_account(s).await
}

#[test]
fn with_named_namespaces_a_role_is_enough() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "role").await;
        let group = s.web(2).await;
        let kubeconfig = role_only(&s, &rules_of(ROLE)).await;
        let only = format!("--namespaces={}", s.cluster.namespace);
        let _headgate = Headgate::start(s.facts(), &kubeconfig, &[&only]).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        s.cluster.scale("web", 1).await;
        s.wait_registered(&group, "web", 1, 8080).await;
        s.cluster.deploy_gated("gated", 1, &[("http", 8080)]).await;
        s.cluster.service("gated", "gated", http_port(), Some(&format!("http={}", group.name))).await;
        s.cluster.wait_gates("gated", 1, "True", "TargetsHealthy").await;
        s.cluster.annotate("web", Some("http=")).await;
        s.cluster.wait_warning("web", "InvalidBinding", "no target group after the").await;
    });
}

#[test]
fn a_missing_right_is_said_with_what_was_expected_and_nothing_is_sent() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "no-right").await;
        let group = s.web(1).await;
        s.cluster.wait_running("web", 1).await;
        let pods_only = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]);
        let kubeconfig = role_only(&s, &pods_only).await;
        let only = format!("--namespaces={}", s.cluster.namespace);
        let headgate = Headgate::start_unready(s.facts(), &kubeconfig, &[&only]).await;
        headgate_harness::wait::until("the missing right is said", || async {
            let text = headgate.text();
            if text.contains("with the verbs list and watch on services") { Ok(()) } else { Err(text) }
        })
        .await;
        assert!(headgate.probe("/readyz").await.unwrap_err().contains("not every watch has listed"));
        assert_eq!(s.aws.registered(&group.arn).await, BTreeSet::new());
    });
}

#[test]
fn only_selected_namespaces_count_and_a_namespace_may_be_deselected() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "select").await;
        let (inside, outside) = (s.group("in").await, s.group("out").await);
        let label = s.name("serve");
        let selected = s.cluster.within(&s.name("yes"));
        s.cluster.create_namespace(&selected.namespace, &[(&label, "true")]).await;
        for (cluster, group) in [(&selected, &inside), (&s.cluster, &outside)] {
            cluster.write_binding("mine", group).await;
            cluster.deploy("web", 1, &[("http", 8080)]).await;
            cluster.service("web", "web", http_port(), Some(&group.name)).await;
        }
        let selector = format!("--namespace-selector={label}=true");
        let kubeconfig = cluster_role_only(&s, &rules_of(CLUSTER_ROLE)).await;
        let own = format!("--own-namespace={}", s.cluster.namespace);
        let _headgate = Headgate::start(s.facts(), &kubeconfig, &[&selector, &own]).await;
        let running = selected.wait_running("web", 1).await;
        s.wait_targets(&inside, &targets(&running, 8080)).await;
        s.cluster.wait_running("web", 1).await;
        wait::until("the written binding is kept by a finalizer, and the other one is made", || async {
            let all = selected.bindings().await;
            let kept =
                all.iter().any(|object| object.name_any() == "mine" && !object.finalizers().is_empty());
            if all.len() == 2 && kept { Ok(()) } else { Err(all) }
        })
        .await;
        let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> =
            kube::Api::all(s.cluster.client.clone());
        let label_gone = json!({"metadata": {"labels": {label: null}}});
        let patch = kube::api::Patch::Merge(&label_gone);
        namespaces.patch(&selected.namespace, &kube::api::PatchParams::default(), &patch).await.unwrap();
        s.wait_targets(&inside, &BTreeSet::new()).await;
        assert_eq!(s.aws.calls("RegisterTargets", &outside.name).await, []);
        wait::until("the made binding is gone, and the written one is free", || async {
            let all = selected.bindings().await;
            let free = all.iter().all(|object| object.name_any() == "mine" && object.finalizers().is_empty());
            if all.len() == 1 && free { Ok(()) } else { Err(all) }
        })
        .await;
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn who_may_not_open_the_gates_of_namespaces_that_it_has_left_says_what_to_run() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "left-role").await;
            let left = s.cluster.within(&s.name("pods"));
            left.create_namespace(&left.namespace, &[]).await;
            let (one, two) = (s.cluster.namespace.clone(), left.namespace.clone());
            let headgate = s.headgate_of(&[&format!("--namespaces={one},{two}")]).await;
            headgate.wait_leads().await;
            headgate.terminate().await;
            left.deploy_gated("late", 1, &[("http", 8080)]).await;
            left.wait_running("late", 1).await;

            let kubeconfig = role_only(&s, &rules_of(ROLE)).await;
            let headgate = Headgate::start(s.facts(), &kubeconfig, &[&format!("--namespaces={one}")]).await;
            wait::until("it says what to run", || async {
                let text = headgate.text();
                let run = format!("headgate uninstall --only-gates --namespaces={two}");
                if text.contains(&run) { Ok(()) } else { Err(text) }
            })
            .await;
            let only = format!("--namespaces={two}");
            let (code, said) = command(s.facts(), &["uninstall", "--only-gates", &only]).await;
            assert_eq!(code, Some(0), "{said}");
            left.wait_gates("late", 1, "True", "HeadgateLeft").await;
            assert!(headgate.leads().await, "the Headgate that goes on is left alone");
        });
    }

    #[test]
    fn without_the_right_to_write_gates_it_says_so_and_goes_on() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "no-gates").await;
            let mut rules = rules_of(ROLE);
            rules.as_array_mut().unwrap().retain(|rule| rule["resources"][0] != "pods/status");
            let kubeconfig = role_only(&s, &rules).await;
            let group = s.web(1).await;
            let mut spec = pod_spec(&[("http", 8080)]);
            spec["readinessGates"] = json!([{"conditionType": OWN_GATE}]);
            s.cluster.pod_with("gated", "web", spec).await;
            let only = format!("--namespaces={}", s.cluster.namespace);
            let _headgate = Headgate::start(s.facts(), &kubeconfig, &[&only]).await;
            s.cluster.wait_warning("gated", "RightMissing", "patch on pods/status").await;
            s.cluster.scale("web", 2).await;
            s.wait_registered(&group, "web", 3, 8080).await;
        });
    }

    #[test]
    fn people_who_may_not_forward_a_port_are_told_which_right_that_takes_and_what_else_there_is() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "no-forward").await;
            let headgate = s.headgate().await;
            headgate.wait_leads().await;
            let leases =
                json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]);
            let kubeconfig = role_only(&s, &leases).await;
            let own = format!("--own-namespace={}", s.cluster.namespace);
            let (code, said) = command_as(s.facts(), &kubeconfig, &["explain", "web", &own]).await;
            assert_eq!(code, Some(2), "{said}");
            for part in [
                "forbidden",
                "get and create on pods/portforward",
                "port-forward",
                "--address 127.0.0.1:8081",
            ] {
                assert!(said.contains(part), "{part} is not in {said}");
            }
        });
    }

    #[test]
    fn who_keeps_the_certificate_says_which_right_it_lacks_and_needs_its_two_roles_alone() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "role-keeper").await;
            let (cluster, own) = CERTIFICATES.split_once("---\n").unwrap();
            let mut cluster = rules_of(cluster);
            cluster[0]["resourceNames"] = json!([s.name("webhook")]);
            let headgate = s.headgate_with(&["--webhook-address=127.0.0.1:0"]).await;
            let configuration = Configuration::install_bare(&s, &[&headgate]).await;
            let kubeconfig = service_account(&s).await;
            let (own_namespace, names) =
                (format!("--own-namespace={}", s.cluster.namespace), "--webhook-names=127.0.0.1");
            let name = format!("--webhook-configuration={}", configuration.name);
            let arguments = [&*own_namespace, names, &*name];
            let keeper = Headgate::start_certificates(s.facts(), &kubeconfig, &arguments).await;
            let says = async |part: &str| {
                wait::until("it says what it waits for", || async {
                    let said = keeper.text();
                    if said.contains(part) { Ok(()) } else { Err(said) }
                })
                .await;
            };
            says("Grant the roles of config/rbac/certificates.yaml").await;
            grant_in_all(&s, &cluster).await;
            grant(&s, "headgate-certificates", &rules_of(own)).await;
            says("does not exist. Create it empty").await;
            s.cluster.create::<Secret>(json!({"metadata": {"name": "headgate-webhook-tls"}})).await;
            configuration.wait_trusted().await;
            wait_secret(&s.cluster.client, &configuration.name).await;
            configuration.remove().await;
            assert_eq!(keeper.terminate().await.0, Some(0));
        });
    }
}
