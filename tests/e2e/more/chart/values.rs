//! The effects of the chart's values, and invalid values.

use std::process::Stdio;

use headgate_harness::{
    headgate::program,
    helm::{block, deployment, of_kind, pod_of, rendered},
    monitoring, root,
};
use serde_json::{Value, json};
use tokio::process::Command;

/// The objects that the chart makes with these values.
async fn with(name: &str, values: &Value) -> Vec<Value> {
    let file = root().join(format!("target/helm/{name}.json"));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, values.to_string()).unwrap();
    rendered(&[&format!("--values={}", file.display())]).await.unwrap()
}

#[test]
fn alerts_pod_monitor_and_dashboard_are_those_of_deploy_monitoring_and_off_unless_asked_for() {
    block(async {
        for kind in ["PodMonitor", "PrometheusRule", "ConfigMap"] {
            assert!(of_kind(&rendered(&[]).await.unwrap(), kind).is_empty(), "{kind}");
        }
        let all = with(
            "monitoring",
            &json!({"monitoring": {
                "podMonitor": {"enabled": true, "interval": "15s", "labels": {"release": "prometheus"}},
                "rules": {"enabled": true, "labels": {"release": "prometheus"},},
                "dashboard": {"enabled": true},
            }}),
        )
        .await;
        let monitor = of_kind(&all, "PodMonitor")[0];
        let pods = &deployment(&all, "run")["spec"];
        assert_eq!(monitor["spec"]["selector"], pods["selector"]);
        assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
        let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
        let ports = pods["template"]["spec"]["containers"][0]["ports"].as_array().unwrap();
        assert!(ports.iter().any(|port| port["name"] == endpoint["port"]), "{endpoint}");
        assert_eq!((&endpoint["interval"], &endpoint["honorLabels"]), (&json!("15s"), &json!(true)));
        let rules = of_kind(&all, "PrometheusRule")[0];
        assert_eq!(rules["metadata"]["labels"]["release"], "prometheus");
        assert_eq!(rules["spec"]["groups"], monitoring::rules()["groups"]);
        let dashboard = of_kind(&all, "ConfigMap")[0];
        assert_eq!(dashboard["metadata"]["labels"]["grafana_dashboard"], "1");
        let text = std::fs::read_to_string(monitoring::folder().join("dashboard.json")).unwrap();
        assert_eq!(dashboard["data"]["headgate.json"], text);
    });
}

#[test]
fn alerts_link_to_the_runbook_if_the_chart_knows_where_the_docs_are() {
    block(async {
        let values = json!({
            "docsUrl": "https://docs.example/headgate/", "monitoring": {"rules": {"enabled": true}},
        });
        let all = with("runbook", &values).await;
        let mut wanted = monitoring::rules();
        for rule in wanted["groups"][0]["rules"].as_array_mut().unwrap() {
            let annotations = rule["annotations"].as_object_mut().unwrap();
            let path = annotations.remove("runbook").unwrap();
            let section = path.as_str().unwrap().strip_prefix("docs/operate/runbook.md#").unwrap();
            let link = format!("https://docs.example/headgate/operate/runbook.html#{section}");
            annotations.insert("runbook_url".to_owned(), link.into());
        }
        assert_eq!(of_kind(&all, "PrometheusRule")[0]["spec"]["groups"], wanted["groups"]);
    });
}

#[test]
fn pods_may_be_in_the_network_of_their_nodes_with_ports_of_their_own() {
    block(async {
        let (container, pod) = pod_of(&rendered(&[]).await.unwrap());
        assert!(pod["hostNetwork"].is_null() && pod["dnsPolicy"].is_null());
        assert_eq!(container["image"], "x.io/headgate:0.1.0");
        let digest = format!("sha256:{}", "0".repeat(64));
        let all = with(
            "network",
            &json!({"hostNetwork": true, "adminPort": 18080, "webhook": {"port": 19443}, "image": {"digest": digest}}),
        )
        .await;
        let job = &of_kind(&all, "Job")[0]["spec"]["template"]["spec"];
        let (container, pod) = pod_of(&all);
        for pod in [&pod, job] {
            assert_eq!(
                (&pod["hostNetwork"], &pod["dnsPolicy"]),
                (&json!(true), &json!("ClusterFirstWithHostNet"))
            );
            assert_eq!(pod["containers"][0]["image"], format!("x.io/headgate@{digest}"));
        }
        let arguments = container["args"].as_array().unwrap();
        for (name, flag, port) in
            [("admin", "--admin-address", 18080), ("webhook", "--webhook-address", 19443)]
        {
            assert!(arguments.contains(&json!(format!("{flag}=[::]:{port}"))), "{arguments:?}");
            let ports = container["ports"].as_array().unwrap();
            assert!(ports.iter().any(|one| one["name"] == name && one["containerPort"] == port), "{ports:?}");
        }
        let (_, pod) = pod_of(&rendered(&["--set=dnsPolicy=Default"]).await.unwrap());
        assert_eq!((&pod["dnsPolicy"], &pod["dnsConfig"]), (&json!("Default"), &Value::Null));
        let all = rendered(&["--set=dnsPolicy=None,dnsConfig.nameservers={10.0.0.2}"]).await.unwrap();
        for pod in [&pod_of(&all).1, &of_kind(&all, "Job")[0]["spec"]["template"]["spec"]] {
            assert_eq!(
                (&pod["dnsPolicy"], &pod["dnsConfig"]),
                (&json!("None"), &json!({"nameservers": ["10.0.0.2"]}))
            );
        }
    });
}

#[test]
fn the_webhooks_are_asked_about_less_and_for_longer_if_the_values_say_so() {
    block(async {
        let namespaces = json!({"key": "team", "operator": "In", "values": ["web"]});
        let pods = json!({"key": "edge", "operator": "Exists"});
        let plain = rendered(&["--set=webhook.systemNamespaces={kube-system}"]).await.unwrap();
        let all = with(
            "selectors",
            &json!({"webhook": {
                "systemNamespaces": ["kube-system"], "timeoutSeconds": 5,
                "namespaceSelector": {"matchExpressions": [namespaces]}, "objectSelector": {"matchExpressions": [pods]},
            }}),
        )
        .await;
        let added = |before: &Value, expression: &Value| {
            let mut all = before.as_array().cloned().unwrap_or_default();
            all.push(expression.clone());
            json!(all)
        };
        for (kind, entries) in [("MutatingWebhookConfiguration", 3), ("ValidatingWebhookConfiguration", 1)] {
            let [before, after] =
                [&plain, &all].map(|all| of_kind(all, kind)[0]["webhooks"].as_array().unwrap());
            assert_eq!((before.len(), after.len()), (entries, entries));
            for (before, after) in before.iter().zip(after) {
                let mut wanted = before.clone();
                let selector = &mut wanted["namespaceSelector"];
                selector["matchExpressions"] = added(&selector["matchExpressions"], &namespaces);
                if kind.starts_with("Mutating") {
                    let selector = &mut wanted["objectSelector"];
                    selector["matchExpressions"] = added(&selector["matchExpressions"], &pods);
                    wanted["timeoutSeconds"] = 5.into();
                }
                assert_eq!(*after, wanted);
            }
        }
    });
}

#[test]
fn a_release_may_have_a_name_of_its_own() {
    block(async {
        let all = rendered(&["--set=fullnameOverride=gate,nameOverride=edge"]).await.unwrap();
        let deployment = deployment(&all, "run");
        assert_eq!(deployment["metadata"]["name"], "gate");
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/name"], "edge");
        assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
        let (container, _) = pod_of(&all);
        let lease =
            container["env"].as_array().unwrap().iter().find(|one| one["name"] == "HEADGATE_LEASE_NAME");
        assert_eq!(lease.unwrap()["value"], "gate");
        let service = of_kind(&all, "Service")[0];
        assert_eq!(service["metadata"]["name"], "gate-webhook");
        assert_eq!(&service["spec"]["selector"], labels);
        // Pods of hooks are not replicas.
        for pod in [&of_kind(&all, "Job")[0]["spec"]["template"], of_kind(&all, "Pod")[0]] {
            assert_ne!(pod["metadata"]["labels"]["app.kubernetes.io/name"], "edge");
        }
    });
}

#[test]
fn people_with_kubernetes_own_roles_may_write_targetbindings_and_if_asked_for_sets_and_nothing_else() {
    block(async {
        let people = |all: &[Value]| -> Vec<Value> {
            let is = |role: &&Value| {
                let labels = role["metadata"]["labels"].as_object().unwrap();
                labels.keys().any(|label| label.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
            };
            of_kind(all, "ClusterRole").into_iter().filter(is).cloned().collect()
        };
        let file = std::fs::read_to_string(root().join("config/rbac/people.yaml")).unwrap();
        let mut wanted: Vec<Value> =
            file.split("\n---\n").map(|role| serde_saphyr::from_str(role).unwrap()).collect();
        let of_sets = wanted.pop().unwrap();
        let mut made = people(&rendered(&[]).await.unwrap());
        made.sort_by_key(|role| role["metadata"]["name"] != "headgate-view");
        assert_eq!(made.len(), wanted.len());
        for (made, wanted) in made.iter().zip(&wanted) {
            assert_eq!(
                (&made["metadata"]["name"], &made["rules"]),
                (&wanted["metadata"]["name"], &wanted["rules"])
            );
            for (label, value) in wanted["metadata"]["labels"].as_object().unwrap() {
                assert_eq!(&made["metadata"]["labels"][label], value);
            }
        }
        assert_eq!(made[1]["rules"][0]["resources"], json!(["targetbindings"]), "sets are not for everybody");
        let with_sets = people(&rendered(&["--set=rbac.aggregateIngressDaemonSets=true"]).await.unwrap());
        let is_of_sets = |role: &&Value| role["metadata"]["name"] == of_sets["metadata"]["name"];
        assert_eq!(with_sets.iter().find(is_of_sets).unwrap()["rules"], of_sets["rules"]);
        for values in ["--set=rbac.aggregate=false", "--set=namespaces={a}"] {
            assert!(people(&rendered(&[values]).await.unwrap()).is_empty(), "{values}");
        }
    });
}

#[test]
fn the_test_of_a_release_asks_its_own_leader_with_no_more_rights_than_people_have() {
    block(async {
        let all = rendered(&["--set=fullnameOverride=gate"]).await.unwrap();
        let is_test = |object: &&Value| object["metadata"]["annotations"]["helm.sh/hook"] == "test";
        let of_test: Vec<&Value> = all.iter().filter(is_test).collect();
        let kinds: Vec<&str> = of_test.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding", "Pod"]);
        let rights = std::fs::read_to_string(root().join("config/rbac/explain.yaml")).unwrap();
        let (own, _) = rights.split_once("\n---\n").unwrap();
        let own: Value = serde_saphyr::from_str(&own.replace("[headgate]", "[gate]")).unwrap();
        assert_eq!(of_test[1]["rules"], own["rules"]);
        let container = &of_test[3]["spec"]["containers"][0];
        assert_eq!(container["args"], json!(["status", "--own-namespace=own", "--lease-name=gate"]));
        assert_eq!(of_test[3]["spec"]["serviceAccountName"], of_test[0]["metadata"]["name"]);
    });
}

/// The error of `headgate run` for invalid arguments.
async fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(program());
    // It checks its arguments before it connects to a cluster.
    command
        .arg("run")
        .args(arguments)
        .env("KUBECONFIG", "/nonexistent")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let done = tokio::time::timeout(std::time::Duration::from_secs(60), command.output())
        .await
        .expect("it ends")
        .unwrap();
    assert!(!done.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn what_run_would_refuse_the_chart_refuses_before_anything_is_changed() {
    block(async {
        let webhook = "--webhook-address=127.0.0.1:0";
        for (values, said, arguments, refused) in [
            (
                "lease.duration=30s",
                "to less than 25s",
                &[webhook, "--lease-duration=30s"][..],
                "Set less than 25s",
            ),
            ("lease.duration=1500ms", "/lease/duration", &["--lease-duration=1500ms"], "set whole seconds"),
            (
                "lease.renewDeadline=15s",
                "less than lease.duration, 15s",
                &["--lease-renew-deadline=15s"],
                "less than the lease duration",
            ),
            (
                "lease.retryPeriod=6s",
                "at most half of lease.renewDeadline, 10s",
                &["--lease-retry-period=6s"],
                "at most half",
            ),
            ("lease.retryPeriod=5ms", "at least 10ms", &["--lease-retry-period=5ms"], "retry"),
            ("gatePatience=30s", "/gatePatience", &["--gate-patience=30s"], "set a duration from 1m"),
            ("gatePatience=2h", "/gatePatience", &["--gate-patience=2h"], "set a duration from 1m"),
            (
                "webhook.probeGrace=2h",
                "/webhook/probeGrace",
                &["--probe-grace=2h"],
                "set a duration from 1s to 1h",
            ),
            (
                "webhook.holdImage=a b",
                "/webhook/holdImage",
                &["--hold-image=a b"],
                "set the name of an image",
            ),
            ("log=debugg", "/log", &["--log=debugg"], "is not a level"),
            ("grants=yes", "/grants", &["--grants=yes"], "invalid value"),
            ("namespaces={A}", "/namespaces", &["--namespaces=A"], "set the name of a namespace"),
            (
                "readOnly=true",
                "Set webhook.enabled=false",
                &[webhook, "--read-only"],
                "Remove one of the two",
            ),
        ] {
            let error = rendered(&[&format!("--set={values}")]).await.unwrap_err();
            assert!(error.contains(said), "{values}: {error}");
            let error = refusal(arguments).await;
            assert!(error.contains(refused), "{arguments:?}: {error}");
        }
        for values in [
            "lease.duration=24s",
            "gatePatience=60s",
            "gatePatience=1h",
            "log=warn\\,headgate=debug",
            "log=headgate[pod]=trace",
        ] {
            rendered(&[&format!("--set={values}")]).await.unwrap();
        }
        rendered(&["--set=lease.duration=30s,webhook.enabled=false"]).await.unwrap();
    });
}
