//! The values files in the chart's folder `ci`: together they change every value, and Kubernetes accepts their output.

use std::{collections::BTreeSet, fs, path::PathBuf};

use headgate_harness::{
    helm::{self, block, chart, deployment, of_kind},
    kubectl::Kubectl,
    scenario::Scenario,
    shared_world,
};
use serde_json::{Value, json};

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(chart().join("ci")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn read(file: &str) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(chart().join(file)).unwrap()).unwrap()
}

/// The chart's objects with a values file of `ci`.
async fn rendered_from(chart: &str, file: &str) -> Vec<Value> {
    let values = format!("--values={}", helm::chart().join("ci").join(file).display());
    let arguments = ["template", "headgate", chart, "--namespace=own", "--kube-version=1.36", &values];
    let text = helm::run(None, &arguments).await.unwrap();
    let documents = text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    documents.filter(|object| !object.is_null()).collect()
}

async fn rendered(file: &str) -> Vec<Value> {
    rendered_from(chart().to_str().unwrap(), file).await
}

/// The values below this one that are not groups, each with its path.
fn leaves(value: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match value.as_object() {
        Some(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                leaves(value, &format!("{path}/{}", name.replace('/', "~1")), found);
            }
        }
        _ => found.push((path.to_owned(), value.clone())),
    }
}

#[test]
fn every_value_is_changed_by_a_file_in_ci() {
    // Other tests of the chart change these values, or they would disable other values here.
    let elsewhere: BTreeSet<&str> = [
        "/admissionPolicies/enabled",
        "/crds/enabled",
        "/daemonsets/affinity",
        "/daemonsets/extraArgs",
        "/daemonsets/replicas",
        "/daemonsets/serviceAccount/create",
        "/dnsPolicy",
        "/image/tag",
        "/networkPolicy/enabled",
        "/nodeSelector/kubernetes.io~1os",
        "/podDisruptionBudget/enabled",
        "/podDisruptionBudget/maxUnavailable",
        "/podSecurityContext/runAsNonRoot",
        "/rbac/aggregate",
        "/readOnly",
        "/serviceAccount/create",
        "/serviceAccount/name",
        "/uninstall/enabled",
        "/webhook/caBundle",
        "/webhook/certLifetime",
    ]
    .into();
    let mut values = Vec::new();
    leaves(&read("values.yaml"), "", &mut values);
    let given: Vec<Value> = files().iter().map(|file| read(file.to_str().unwrap())).collect();
    let is_changed = |path: &str, default: &Value| {
        given.iter().any(|given| given.pointer(path).is_some_and(|given| given != default))
    };
    let ends =
        ["/resources/", "/securityContext/", "/podSecurityContext/seccompProfile", "/dashboard/labels"];
    let unchanged: Vec<&str> = values
        .iter()
        .filter(|(path, default)| !is_changed(path, default) && !ends.iter().any(|end| path.contains(end)))
        .map(|(path, _)| path.as_str())
        .filter(|path| !elsewhere.contains(path))
        .collect();
    assert!(unchanged.is_empty(), "no file in ci/ changes these values: {unchanged:?}");
}

#[test]
fn helm_lint_finds_nothing_in_any_file_of_ci() {
    block(async {
        for file in files() {
            let values = format!("--values={}", file.display());
            helm::run(None, &["lint", "--strict", chart().to_str().unwrap(), &values]).await.unwrap();
        }
    });
}

#[test]
fn the_packaged_chart_renders_the_same_as_its_folder() {
    block(async {
        let archive = helm::packaged("compared").await;
        for file in ["everything-values.yaml", "monitoring-values.yaml"] {
            assert_eq!(rendered_from(archive.to_str().unwrap(), file).await, rendered(file).await);
        }
    });
}

#[test]
fn kubernetes_accepts_what_every_file_of_ci_renders() {
    shared_world::beside_others(|world| async move {
        let s = Scenario::new(world, "chart-ci").await;
        let kubectl = Kubectl::of_objects(s.facts());
        for file in files() {
            let objects = rendered(file.file_name().unwrap().to_str().unwrap()).await;
            // This cluster does not have the kinds of the Prometheus operator.
            let known = objects
                .into_iter()
                .filter(|object| object["apiVersion"] != "monitoring.coreos.com/v1")
                .map(|mut object| {
                    if object["metadata"]["namespace"] == "own" {
                        object["metadata"]["namespace"] = s.cluster.namespace.clone().into();
                    }
                    // A dry run creates no ServiceAccount for this pod.
                    if object["kind"] == "Pod" {
                        object["spec"]["serviceAccountName"] = "default".into();
                    }
                    object
                });
            let list = json!({"apiVersion": "v1", "kind": "List", "items": known.collect::<Vec<_>>()});
            let path = s.facts().folder.join(format!("{}-ci.json", s.cluster.namespace));
            fs::write(&path, list.to_string()).unwrap();
            let apply =
                ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"];
            let said = kubectl.run(&[&apply[..], &["--filename", path.to_str().unwrap()]].concat()).await;
            assert!(said.contains("deployment.apps/"), "{said}");
        }
    });
}

#[test]
fn common_labels_are_on_every_object_and_pod_and_in_no_selector() {
    block(async {
        let all = rendered("everything-values.yaml").await;
        let given = |object: &&Value| !object["metadata"]["name"].as_str().unwrap().starts_with("headgate-");
        let own: Vec<&Value> = all.iter().filter(given).collect();
        assert!(own.len() > 20, "{}", own.len());
        for object in own {
            let labels = &object["metadata"]["labels"];
            assert_eq!(labels["cost-centre"], "42", "{object}");
            // The labels of the chart take precedence.
            assert_ne!(labels["helm.sh/chart"].is_string(), labels["app.kubernetes.io/part-of"] == "edge");
            for selector in ["/spec/selector", "/spec/podSelector"] {
                let selector = object.pointer(selector).cloned().unwrap_or_default().to_string();
                assert!(!selector.contains("cost-centre"), "{object}");
            }
            let pod = &object["spec"]["template"];
            assert!(pod.is_null() || pod["metadata"]["labels"]["cost-centre"] == "42", "{pod}");
        }
        let extra = of_kind(&all, "ConfigMap");
        let names: Vec<&Value> = extra.iter().map(|object| &object["metadata"]["name"]).collect();
        assert_eq!(names, ["headgate-extra", "headgate-text"]);
    });
}

#[test]
fn rollouts_budgets_and_crds_are_as_the_values_ask() {
    block(async {
        let all = rendered("everything-values.yaml").await;
        let spec = &deployment(&all, "run")["spec"];
        assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxSurge": 0, "maxUnavailable": 1}));
        assert_eq!(spec["revisionHistoryLimit"], 3);
        assert_eq!(spec["template"]["spec"]["terminationGracePeriodSeconds"], 60);
        assert_eq!(deployment(&all, "certificates")["spec"]["strategy"], json!({"type": "Recreate"}));
        let budget = &of_kind(&all, "PodDisruptionBudget")[0]["spec"];
        assert_eq!((&budget["minAvailable"], &budget["maxUnavailable"]), (&json!("50%"), &Value::Null));
        for kind in of_kind(&all, "CustomResourceDefinition") {
            assert_eq!(kind["metadata"]["annotations"], json!({"example.com/team": "edge"}));
        }
        let all = rendered("default-values.yaml").await;
        let budget = &of_kind(&all, "PodDisruptionBudget")[0]["spec"];
        assert_eq!((&budget["minAvailable"], &budget["maxUnavailable"]), (&Value::Null, &json!(1)));
        for pod in of_kind(&all, "Deployment").iter().map(|object| &object["spec"]["template"]["spec"]) {
            assert_eq!(pod["priorityClassName"], "system-cluster-critical");
            assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
            assert_eq!(pod["containers"][0]["image"], format!("{}:0.1.0", helm::PUBLISHED));
        }
    });
}

#[test]
fn a_cluster_may_choose_the_user_of_the_pods() {
    block(async {
        let all = rendered("openshift-values.yaml").await;
        let pods = of_kind(&all, "Deployment").into_iter().chain(of_kind(&all, "Job"));
        let pods = pods.map(|object| &object["spec"]["template"]["spec"]);
        let test = &of_kind(&all, "Pod")[0]["spec"];
        for pod in pods.chain([test]) {
            let wanted = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
            assert_eq!(pod["securityContext"], wanted);
        }
    });
}

#[test]
fn the_controller_of_sets_may_be_scheduled_apart_and_have_a_serviceaccount_of_its_own() {
    block(async {
        let all = rendered("daemonsets-values.yaml").await;
        let pod = &deployment(&all, "daemonsets")["spec"]["template"];
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["serviceAccountName"], &pod["metadata"]["labels"]["team"]),
            (&json!("sets"), &json!("edge"))
        );
        assert_eq!(spec["priorityClassName"], "system-node-critical");
        assert_eq!(spec["nodeSelector"], json!({"kubernetes.io/arch": "arm64"}));
        assert_eq!(spec["tolerations"], json!([{"key": "edge", "operator": "Exists"}]));
        assert_eq!(spec["topologySpreadConstraints"].as_array().unwrap().len(), 1);
        let run = &deployment(&all, "run")["spec"]["template"];
        assert_eq!(
            (&run["spec"]["tolerations"], &run["metadata"]["labels"]["team"]),
            (&Value::Null, &Value::Null)
        );
        let account =
            of_kind(&all, "ServiceAccount").into_iter().find(|one| one["metadata"]["name"] == "sets");
        assert_eq!(account.unwrap()["metadata"]["annotations"], json!({"example.com/team": "edge"}));
        // The policies apply to that ServiceAccount, and not to its former name.
        let policies = of_kind(&all, "ValidatingAdmissionPolicy");
        let policies = json!(policies).to_string();
        assert!(policies.contains("system:serviceaccount:own:sets'"), "{policies}");
        assert!(!policies.contains("headgate-daemonsets'"), "{policies}");
    });
}

#[test]
fn a_servicemonitor_selects_the_service_of_the_metrics_of_its_component_alone() {
    block(async {
        let all = rendered("monitoring-values.yaml").await;
        let services = of_kind(&all, "Service");
        for monitor in of_kind(&all, "ServiceMonitor") {
            let selector = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
            let selected: Vec<&&Value> = services
                .iter()
                .filter(|service| {
                    selector.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value)
                })
                .collect();
            let name = monitor["metadata"]["name"].as_str().unwrap();
            assert_eq!(selected.len(), 1, "{name}");
            assert_eq!(selected[0]["metadata"]["name"], format!("{name}-metrics"));
            let endpoint = &monitor["spec"]["endpoints"][0];
            assert_eq!(endpoint["port"], selected[0]["spec"]["ports"][0]["name"]);
            assert_eq!((&endpoint["interval"], &endpoint["scrapeTimeout"]), (&json!("15s"), &json!("10s")));
            assert_eq!(endpoint["metricRelabelings"][0]["action"], "drop");
            let command = if name.ends_with("-daemonsets") { "daemonsets" } else { "run" };
            let pods = &deployment(&all, command)["spec"];
            assert_eq!(selected[0]["spec"]["selector"], pods["selector"]["matchLabels"]);
        }
        assert_eq!(of_kind(&all, "ServiceMonitor").len(), 2);
        let pods = of_kind(&all, "PodMonitor")[0];
        assert_eq!(pods["spec"]["podMetricsEndpoints"][0]["relabelings"][0]["targetLabel"], "node");
    });
}
