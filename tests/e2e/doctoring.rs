//! `headgate doctor` finds all problems, and nothing without problems.

use std::{collections::BTreeSet, path::Path};

use aws_sdk_elasticloadbalancingv2::types::{ProtocolEnum, TargetTypeEnum};
use headgate_harness::{
    certificates::Files,
    cluster::pod_spec,
    headgate::{Headgate, command_as},
    rights::{every_right, peoples_rights},
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
    webhook::{Configuration, manifest},
};
use k8s_openapi::api::{
    admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    },
    core::v1::{Namespace, Pod, Secret, ServiceAccount},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const OWN_WRITES: &str = include_str!("../../config/admission/own-writes.yaml");
/// The policy's name for a Lease called `headgate`.
const NAME: &str = "headgate-own-writes";

/// The exit code and output of `headgate doctor` for this test's Headgate.
async fn doctor(s: &Scenario, headgate: &Headgate, more: &[&str]) -> (Option<i32>, String) {
    doctor_as(s, &s.facts().kubeconfig, headgate, more).await
}

/// The same, with this kubeconfig.
async fn doctor_as(
    s: &Scenario,
    kubeconfig: &Path,
    headgate: &Headgate,
    more: &[&str],
) -> (Option<i32>, String) {
    let address = format!("--address={}", headgate.debug());
    let own = format!("--own-namespace={}", s.cluster.namespace);
    let configuration = format!("--webhook-configuration={}", s.name("webhook"));
    let arguments = [&["doctor", &address, &own, &configuration], more].concat();
    command_as(s.facts(), kubeconfig, &arguments).await
}

/// The findings: severity, reason, and object.
async fn findings(
    s: &Scenario,
    headgate: &Headgate,
    more: &[&str],
) -> (Option<i32>, Vec<(String, String, String)>) {
    let (code, said) = doctor(s, headgate, &[&["-o=json"], more].concat()).await;
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    // These tests ignore informational findings.
    let all = said["findings"].as_array().unwrap().iter().filter(|one| one["level"] != "info");
    (code, all.map(|one| (text(one, "level"), text(one, "reason"), text(one, "about"))).collect())
}

async fn label_namespace(s: &Scenario, labels: &Value) {
    let api: Api<Namespace> = Api::all(s.cluster.client.clone());
    let patch = json!({"metadata": {"labels": labels}});
    api.patch(&s.cluster.namespace, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Waits until the leader shows these pods as targets, and this reason. Changes appear a moment after their Event, and
/// the doctor reads the shown state.
async fn wait_shown(headgate: &Headgate, pods: &[&str], word: &str) {
    wait::until("the pods are shown as targets, and the word", || async {
        let shown = headgate.probe("/debug/bindings").await?;
        let has = |pod: &&str| shown.contains(&format!("\"pod\":\"{pod}\""));
        if pods.iter().all(has) && shown.contains(word) { Ok(()) } else { Err(shown) }
    })
    .await;
}

/// The policy for Headgate's own account, adapted to this test's account, and its binding. All worlds have the other
/// policy.
fn own_writes(s: &Scenario) -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let account = format!("system:serviceaccount:{}:headgate", s.cluster.namespace);
    let (policy, binding) = OWN_WRITES.split_once("\n---\n").unwrap();
    let policy = policy.replace("system:serviceaccount:headgate:headgate", &account);
    (serde_saphyr::from_str(&policy).unwrap(), serde_saphyr::from_str(binding).unwrap())
}

#[test]
fn a_sane_installation_has_no_findings() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "doctor-sane").await;
        every_right(&s).await;
        s.cluster.create::<ServiceAccount>(json!({"metadata": {"name": "headgate"}})).await;
        s.cluster.create::<Secret>(Files::shared().secret("headgate-webhook-tls")).await;
        let headgate = s.headgate_with(&["--webhook-address=127.0.0.1:0"]).await;
        let configuration = Configuration::install(&s, &[&headgate]).await;
        label_namespace(&s, &json!({"headgate.dev/inject": "true", configuration.label.as_str(): ""})).await;
        let group = s.group("web").await;
        s.aws.set_attribute(&group.arn, "load_balancing.cross_zone.enabled", "true").await;
        s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
        wait::until("the doctor, too, sees that the API server asks the webhook", || async {
            let (code, said) = doctor(&s, &headgate, &["--service-account=headgate"]).await;
            if code == Some(0) { Ok(()) } else { Err(said) }
        })
        .await;
        s.cluster.deploy("web", 2, &[("http", 8080)]).await;
        s.wait_registered(&group, "web", 2, 8080).await;
        s.cluster.wait_gates("web", 2, "True", "TargetsHealthy").await;
        let only = |word: &str| {
            (Some(0), vec![("warning".into(), word.into(), format!("ValidatingAdmissionPolicy {NAME}"))])
        };
        let (policy, binding) = own_writes(&s);
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(s.cluster.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(s.cluster.client.clone());
        let account = ["--service-account=headgate"];
        assert_eq!(findings(&s, &headgate, &account).await, only("NotInstalled"));
        policies.create(&PostParams::default(), &policy).await.unwrap();
        assert_eq!(findings(&s, &headgate, &account).await, only("NotInstalled"));
        bindings.create(&PostParams::default(), &binding).await.unwrap();
        let (code, said) = doctor(&s, &headgate, &account).await;
        let lines: Vec<&str> = said.trim().lines().collect();
        assert_eq!((code, lines.last()), (Some(0), Some(&"No errors or warnings.")), "{said}");
        assert!(lines[..lines.len() - 1].iter().all(|line| line.starts_with("info ")), "{said}");
        bindings.delete(NAME, &DeleteParams::default()).await.unwrap();
        policies.delete(NAME, &DeleteParams::default()).await.unwrap();
        for (change, word) in [("path", "WebhookFails"), ("policy", "WebhookFails")] {
            match change {
                "path" => configuration.set_path("/other").await,
                _ => configuration.set_failure_policy("Fail").await,
            }
            let (code, found) = findings(&s, &headgate, &["--service-account=headgate"]).await;
            let one = found.iter().find(|(_, is, _)| is == word);
            assert_eq!((code, one.map(|(level, _, _)| &**level)), (Some(1), Some("error")), "{found:?}");
        }
        configuration.remove().await;
    });
}

#[test]
fn each_planted_mistake_is_found_with_its_word() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "doctor").await;
        let (cluster, aws) = (&s.cluster, &s.aws);
        let unused = s.name("unused");
        let arn = aws.bare_group(&unused, TargetTypeEnum::Ip, ProtocolEnum::Tcp).await;
        aws.set_attribute(&arn, "deregistration_delay.timeout_seconds", "0").await;
        let group = s.group("web").await;
        let refused = json!({"refuse": {"code": "AccessDenied", "message": "not allowed"}});
        let fault = json!({
            "action": "RegisterTargets", "target_group": unused, "times": 1000, "effect": refused,
        });
        aws.control("POST", "/faults", Some(&fault)).await;
        cluster.service("unused", "unused", http_port(), Some(&unused)).await;
        cluster.service("web", "web", http_port(), Some(&group.name)).await;
        cluster.service("bad", "bad", http_port(), Some("http=")).await;
        let headgate = s.headgate().await;
        // Pods that the webhook missed, or whose spec causes lost requests.
        let ends = |grace: u32, pre_stop: Value| {
            let mut spec = pod_spec(&[("http", 8080)]);
            spec["terminationGracePeriodSeconds"] = grace.into();
            spec["containers"][0]["lifecycle"] = json!({"preStop": pre_stop});
            spec
        };
        let exec = |command: &[&str]| json!({"exec": {"command": command}});
        cluster.pod("bare", "web", &[("http", 8080)]).await;
        for (name, spec) in [
            ("short", ends(30, exec(&["sleep", "5"]))),
            ("killed", ends(60, json!({"sleep": {"seconds": 60}}))),
            ("own", ends(200, exec(&["stop"]))),
            ("grace", ends(150, exec(&["sleep", "150"]))),
        ] {
            cluster.pod_with(name, "web", spec).await;
        }
        let mut missed = json!({"metadata": {"name": "missed", "labels": {"app": "unused", "headgate.dev/inject": "true"}}});
        missed["spec"] = pod_spec(&[("http", 8080)]);
        cluster.create::<Pod>(missed).await;
        // A workload that deletes healthy pods in a rollout, which is Kubernetes' default, and a budget that allows no
        // eviction.
        let rolled = s.group("rolled").await;
        cluster.service("rolled", "rolled", http_port(), Some(&rolled.name)).await;
        cluster.deploy("rolled", 4, &[("http", 8080)]).await;
        let selector = json!({"matchLabels": {"app": "rolled"}});
        let budget =
            json!({"metadata": {"name": "all"}, "spec": {"minAvailable": "100%", "selector": selector}});
        cluster.create::<PodDisruptionBudget>(budget).await;
        s.wait_registered(&rolled, "rolled", 4, 8080).await;
        wait::until("the budget is computed", || async {
            let status = cluster.api::<PodDisruptionBudget>().get("all").await.unwrap().status;
            if status.as_ref().is_some_and(|status| status.expected_pods == 4) { Ok(()) } else { Err(status) }
        })
        .await;
        cluster.wait_warning("unused", "AccessDenied", "IAM denies").await;
        cluster.wait_warning("bad", "InvalidBinding", "http=").await;
        let pods = ["bare", "short", "killed", "own", "grace", "missed"];
        wait_shown(&headgate, &pods, "AccessDenied").await;

        let service = |name: &str, more: &str| format!("Service {}/{name}{more}", cluster.namespace);
        let (code, found) = findings(&s, &headgate, &["--service-account=default"]).await;
        assert_eq!(code, Some(1));
        let is = |level: &str, word: &str, about: &str| {
            let one = (level.to_owned(), word.to_owned(), about.to_owned());
            assert!(found.contains(&one), "{one:?} is not in {found:#?}");
        };
        is("error", "RightMissing", "Headgate");
        is("warning", "NotInstalled", &format!("MutatingWebhookConfiguration {}", s.name("webhook")));
        is("error", "HoldMissing", &service("web", ", pod bare"));
        is("error", "HoldTooShort", &service("web", ", pod short"));
        is("error", "HoldTooShort", &service("web", ", pod killed"));
        is("error", "HoldTooShort", &service("web", ", pod grace"));
        is("warning", "HoldMissing", &service("web", ", pod own"));
        is("warning", "RiskyWorkload", &service("web", ", 5 pods, such as bare"));
        is("error", "RiskyWorkload", &service("unused", ", pod missed"));
        let named = |kind: &str, name: &str| format!("{kind} {}/{name}", cluster.namespace);
        is("warning", "RiskyWorkload", &named("Deployment", "rolled"));
        is("warning", "RiskyWorkload", &named("PodDisruptionBudget", "all"));
        // Other tests drain these nodes.
        cluster.api::<PodDisruptionBudget>().delete("all", &DeleteParams::default()).await.unwrap();
        is("error", "AccessDenied", &service("unused", ""));
        is("error", "InvalidBinding", &service("bad", ""));
        let group = format!("target group {unused}, bound by {}", service("unused", ""));
        is("warning", "TargetUnused", &group);
        is("warning", "RiskyTargetGroup", &group);
        // By default, an NLB sends only to its own zone.
        let rolled = format!("target group {}, bound by {}", rolled.name, service("rolled", ""));
        is("warning", "RiskyTargetGroup", &rolled);
        let words: BTreeSet<&str> = found.iter().map(|(_, word, _)| &**word).collect();
        assert!(!words.contains("NoLeader"), "{words:?}");
        // Only webhooks and admission policies are missing, but no kinds.
        let is_known =
            |about: &str| about.contains("WebhookConfiguration ") || about.contains("AdmissionPolicy ");
        let mut missing = found.iter().filter(|(_, word, _)| word == "NotInstalled");
        assert!(missing.all(|(_, _, about)| is_known(about)), "{found:?}");

        let elsewhere = ["--service-account=default", "--namespace=kube-system"];
        let (code, found) = findings(&s, &headgate, &elsewhere).await;
        assert_eq!(code, Some(1));
        let about: BTreeSet<&str> = found.iter().map(|(_, _, about)| &**about).collect();
        assert!(about.iter().all(|about| !about.contains("Service ")), "{about:?}");
        let kubeconfig = peoples_rights(&s, cluster, "headgate").await;
        let (code, said) = doctor_as(&s, &kubeconfig, &headgate, &["--service-account=default"]).await;
        assert_eq!(code, Some(1));
        assert!(said.contains("HoldMissing") && !said.contains("NoLeader"), "{said}");
        // If only administrators can check something, other users see whom to ask, and no error.
        let unchecked: Vec<&str> = said.lines().filter(|line| line.contains("CheckFailed")).collect();
        assert_eq!(unchecked.len(), 4, "both configurations, the policies and the kubelets: {said}");
        let asks = |line: &&str| {
            line.starts_with("info ") && line.contains("ask an administrator to run `headgate doctor`")
        };
        assert!(unchecked.iter().all(asks), "{unchecked:?}");

        let (_, found) = findings(&s, &headgate, &["--lease-name=nobodys"]).await;
        assert!(found.iter().any(|(level, word, _)| level == "error" && word == "NoLeader"), "{found:?}");
    });
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn a_webhook_that_cannot_be_reached_or_is_not_trusted_is_found() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "doctor-hook").await;
            let group = s.group("web").await;
            s.cluster.service("web", "web", http_port(), Some(&group.name)).await;
            let headgate = s.headgate().await;
            let (name, label) = (s.name("webhook"), s.name("mine"));
            let mut entries = Vec::new();
            for entry in manifest().webhooks.into_iter().flatten() {
                let mut entry = serde_json::to_value(entry).unwrap();
                // Nothing listens there.
                entry["clientConfig"] = json!({"url": "https://127.0.0.1:1/inject"});
                let only = json!({"key": label, "operator": "Exists"});
                entry["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(only);
                entries.push(entry);
            }
            let api: Api<MutatingWebhookConfiguration> = Api::all(s.cluster.client.clone());
            let object = json!({"metadata": {"name": name}, "webhooks": entries});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
            label_namespace(&s, &json!({ "headgate.dev/inject": "true", label.as_str(): "" })).await;
            wait::until("the binding is in force", || async {
                let shown = headgate.probe("/debug/bindings").await?;
                if shown.contains(&group.arn) { Ok(()) } else { Err(shown) }
            })
            .await;
            let (code, found) = findings(&s, &headgate, &["--service-account=default"]).await;
            assert_eq!(code, Some(1));
            let about = format!("MutatingWebhookConfiguration {name}");
            for (word, about) in [
                ("WebhookFails", about.clone()),
                ("WebhookFails", format!("{about}, namespaces.inject.headgate.dev")),
                ("WebhookFails", format!("{about}, pods.inject.headgate.dev")),
            ] {
                let one = ("error".to_owned(), word.to_owned(), about);
                assert!(found.contains(&one), "{one:?} is not in {found:#?}");
            }
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        });
    }
}
