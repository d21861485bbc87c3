//! What Headgate may do, and where it looks.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use headgate_harness::{
    cluster::{OWN_GATE, pod_spec},
    headgate::{Headgate, command, command_as},
    rights::{
        CLUSTER_ROLE, OWN_NAMESPACE, ROLE, WEBHOOK, grant, grant_in_all, let_read_grants, rules_of,
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

/// A kubeconfig for a ServiceAccount that has nothing but a Role with these rules, that for its own namespace, and the
/// right to read grants.
async fn role_only(s: &Scenario, rules: &Value) -> PathBuf {
    grant(s, "headgate", rules).await;
    grant(s, "headgate-own-namespace", &rules_of(OWN_NAMESPACE)).await;
    let_read_grants(s).await;
    service_account(s).await
}

/// A kubeconfig for a ServiceAccount that has nothing but a ClusterRole with these rules, and the
/// Role for its own namespace.
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
        s.cluster.wait_warning("web", "InvalidAnnotation", "no target group after").await;
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

/// The Secret of a webhook that Headgate serves.
const SECRET: &str = "headgate-webhook-tls";

async fn uninstall(s: &Scenario, kubeconfig: &Path) -> (Option<i32>, String) {
    let own = format!("--own-namespace={}", s.cluster.namespace);
    let only = format!("--namespaces={}", s.cluster.namespace);
    command_as(s.facts(), kubeconfig, &["uninstall", &own, &only]).await
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
            s.cluster.wait_warning("gated", "GateRefused", "the verb patch on pods/status").await;
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
            assert_eq!(code, Some(1), "{said}");
            for part in [
                "forbidden",
                "get and to create pods/portforward",
                "port-forward",
                "--address 127.0.0.1:8081",
            ] {
                assert!(said.contains(part), "{part} is not in {said}");
            }
        });
    }

    #[test]
    fn the_webhooks_own_certificate_needs_its_two_roles_and_nothing_else() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "role-hook").await;
            let (cluster, own) = WEBHOOK.split_once("---\n").unwrap();
            let mut cluster = rules_of(cluster);
            cluster[0]["resourceNames"] = json!([s.name("webhook")]);
            let kubeconfig = role_only(&s, &rules_of(ROLE)).await;
            let only = format!("--namespaces={}", s.cluster.namespace);
            let configuration = format!("--webhook-configuration={}", s.name("webhook"));
            let address = "--webhook-address=127.0.0.1:0";
            let arguments =
                [&*only, address, &configuration, "--webhook-names=127.0.0.1", "--webhook-cert-lifetime=5m"];
            let headgate = Headgate::start_unready(s.facts(), &kubeconfig, &arguments).await;
            wait::until("it says that nobody could call its webhook", || async {
                match headgate.probe("/readyz").await {
                    Err(said) if said.contains("the webhook has no certificate yet") => Ok(()),
                    other => Err(other),
                }
            })
            .await;
            assert!(headgate.text().contains("expected the roles of config/rbac/webhook.yaml"));

            grant_in_all(&s, &cluster).await;
            grant(&s, "headgate-webhook", &rules_of(own)).await;
            wait::until("it has made its certificate", || headgate.probe("/readyz")).await;
            let configuration = Configuration::install(&s, &[&headgate]).await;
            configuration.wait_trusted().await;
            wait_secret(&s.cluster.client, &configuration.name).await;
            configuration.remove().await;
            headgate.terminate().await;
            let (code, said) = uninstall(&s, &kubeconfig).await;
            assert_eq!(code, Some(0), "{said}");
            assert!(s.cluster.api::<Secret>().get_opt(SECRET).await.unwrap().is_none(), "{said}");
        });
    }

    #[test]
    fn uninstall_says_which_right_to_the_webhooks_certificate_it_lacks_and_fails_only_if_there_is_one() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "role-leave").await;
            let kubeconfig = role_only(&s, &rules_of(ROLE)).await;
            wait::until("no right at all is none that it needs", || async {
                match uninstall(&s, &kubeconfig).await {
                    (Some(0), said) if said.contains("or delete the Secret by hand") => Ok(()),
                    other => Err(other),
                }
            })
            .await;

            let made = json!({"name": SECRET, "annotations": {"headgate.dev/certificates": "{}"}});
            s.cluster.create::<Secret>(json!({ "metadata": made })).await;
            let (_, own) = WEBHOOK.split_once("---\n").unwrap();
            let mut less = rules_of(own);
            less[1]["verbs"] = json!(["get", "update"]);
            grant(&s, "headgate-webhook", &less).await;
            wait::until("the missing right is said", || async {
                match uninstall(&s, &kubeconfig).await {
                    (Some(1), said) if said.contains("expected the verb delete") => Ok(()),
                    other => Err(other),
                }
            })
            .await;
            assert!(s.cluster.api::<Secret>().get_opt(SECRET).await.unwrap().is_some());
        });
    }
}
