//! The Helm chart, rendered by the real helm.

mod certificates;
mod ci;
mod daemonsets;
mod install;
mod installed;
mod upgraded;
mod values;

use headgate_harness::{
    helm::{self, block, of_kind, pod_of, rendered},
    root,
};
use serde_json::{Value, json};

fn rules(file: &str) -> Value {
    let text = std::fs::read_to_string(root().join("config/rbac").join(file)).unwrap();
    serde_saphyr::from_str::<Value>(&text).unwrap()["rules"].clone()
}

#[test]
fn rights_are_split_by_need() {
    block(async {
        let no_webhook = "--set=webhook.enabled=false";
        let all = rendered(&[no_webhook]).await.unwrap();
        let cluster = of_kind(&all, "ClusterRole");
        let (of_people, cluster): (Vec<&Value>, Vec<&Value>) =
            cluster.into_iter().partition(|role| role["metadata"]["name"] != "headgate");
        let podmarks = of_people.iter().find(|role| role["metadata"]["name"] == "headgate-podmarks").unwrap();
        assert_eq!(podmarks["rules"], rules("podmarks.yaml"));
        let bound = of_kind(&all, "ClusterRoleBinding").into_iter().chain(of_kind(&all, "RoleBinding"));
        assert!(bound.into_iter().all(|binding| binding["roleRef"]["name"] != "headgate-podmarks"));
        let wanted = rules("clusterrole.yaml");
        assert_eq!(cluster.iter().map(|role| &role["rules"]).collect::<Vec<_>>(), [&wanted]);
        let roles = of_kind(&all, "Role");
        let own = roles.iter().find(|role| role["metadata"]["name"] == "headgate-own-namespace").unwrap();
        assert_eq!(own["rules"], rules("own-namespace.yaml"));

        let selected = rendered(&[no_webhook, "--set=namespaceSelector=serve=true"]).await.unwrap();
        assert!(
            of_kind(&selected, "ClusterRole").iter().any(|role| role["rules"] == rules("clusterrole.yaml"))
        );

        let named = rendered(&[no_webhook, "--set=namespaces={a,b}"]).await.unwrap();
        // Without the webhook, nothing needs evictions or nodes.
        let mut without_evictions = rules("role.yaml");
        without_evictions.as_array_mut().unwrap().retain(|rule| {
            let resources = rule["resources"][0].as_str().unwrap();
            let marks = resources == "pods" && rule["verbs"] == json!(["patch"]);
            !marks && !["pods/eviction", "poddisruptionbudgets"].contains(&resources)
        });
        assert_eq!(
            without_evictions.as_array().unwrap().len() + 3,
            rules("role.yaml").as_array().unwrap().len()
        );
        let cluster = of_kind(&named, "ClusterRole");
        assert_eq!(cluster.iter().map(|role| &role["rules"]).collect::<Vec<_>>(), [&rules("grants.yaml")]);
        let bound = of_kind(&named, "ClusterRoleBinding");
        assert!(bound.len() == 1 && bound[0]["roleRef"]["name"] == cluster[0]["metadata"]["name"]);
        let roles = of_kind(&named, "Role");
        for namespace in ["a", "b"] {
            let role = roles.iter().find(|role| role["metadata"]["namespace"] == namespace).unwrap();
            assert_eq!(role["rules"], without_evictions);
        }
        let with_webhook = rendered(&["--set=namespaces={a}"]).await.unwrap();
        let roles_then = of_kind(&with_webhook, "Role");
        let role = roles_then.iter().find(|role| role["metadata"]["namespace"] == "a").unwrap();
        assert_eq!(role["rules"], rules("role.yaml"));
        let own = roles.iter().find(|role| role["metadata"]["name"] == "headgate-own-namespace").unwrap();
        assert_eq!(own["rules"], rules("own-namespace.yaml"));
        assert_eq!(own["metadata"]["namespace"], "own");
    });
}

/// The files of `config/webhook` for a Headgate whose namespace is `own`.
fn in_namespace_own(text: &str) -> String {
    let names = [
        ("namespace: headgate\n", "namespace: own\n"),
        ("[headgate, ", "[own, "),
        ("serviceaccount:headgate:", "serviceaccount:own:"),
    ];
    names.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours))
}

#[test]
fn the_webhook_is_that_of_config_with_the_names_of_the_release() {
    block(async {
        let all = rendered(&[]).await.unwrap();
        let text = std::fs::read_to_string(root().join("config/webhook/mutating.yaml")).unwrap();
        let (_, wanted) = text.split_once("\n---\n").unwrap();
        let wanted = in_namespace_own(wanted);
        let wanted: Value = serde_saphyr::from_str(&wanted).unwrap();
        let is = of_kind(&all, "MutatingWebhookConfiguration");
        assert_eq!((is.len(), &is[0]["webhooks"]), (1, &wanted["webhooks"]));
        assert_eq!(is[0]["metadata"]["name"], "headgate");
        let wanted = std::fs::read_to_string(root().join("config/webhook/validating.yaml")).unwrap();
        let wanted: Value = serde_saphyr::from_str(&in_namespace_own(&wanted)).unwrap();
        let is = of_kind(&all, "ValidatingWebhookConfiguration");
        assert_eq!((is.len(), &is[0]["webhooks"]), (1, &wanted["webhooks"]));
        let service = of_kind(&all, "Service");
        assert_eq!(service[0]["metadata"]["name"], "headgate-webhook");
        let roles: Vec<Value> =
            of_kind(&all, "ClusterRole").into_iter().chain(of_kind(&all, "Role")).cloned().collect();
        let rights = std::fs::read_to_string(root().join("config/rbac/certificates.yaml")).unwrap();
        for role in rights.split("\n---\n") {
            let role: Value = serde_saphyr::from_str(role).unwrap();
            let made: Vec<&Value> = roles.iter().filter(|is| is["rules"] == role["rules"]).collect();
            assert!(made.len() == 1 && made[0]["kind"] == role["kind"], "{role}");
        }
    });
}

#[test]
fn what_a_user_gives_is_not_taken_for_a_name_of_the_chart() {
    block(async {
        let all = rendered(&["--set=webhook.systemNamespaces={headgate}"]).await.unwrap();
        let values = |entry: &Value| {
            let rules = entry["namespaceSelector"]["matchExpressions"].as_array().unwrap().clone();
            rules
                .into_iter()
                .map(|rule| (rule["operator"].clone(), rule["values"].clone()))
                .collect::<Vec<_>>()
        };
        let mutating = &of_kind(&all, "MutatingWebhookConfiguration")[0]["webhooks"];
        assert_eq!(values(&mutating[2]), [(json!("In"), json!(["headgate"]))]);
        for webhooks in [mutating, &of_kind(&all, "ValidatingWebhookConfiguration")[0]["webhooks"]] {
            let excluded = values(&webhooks[0]).into_iter().find(|(operator, values)| {
                operator == "NotIn" && values.as_array().unwrap().contains(&json!("own"))
            });
            assert!(excluded.is_some(), "Headgate's own namespace is left out: {webhooks}");
        }
    });
}

#[test]
fn objects_are_named_as_by_helm_create() {
    block(async {
        for (release, more, name) in [
            ("headgate", None, "headgate"),
            ("my-headgate", None, "my-headgate"),
            ("edge", None, "edge-headgate"),
            ("edge", Some("--set=nameOverride=gate"), "edge-gate"),
            ("edge", Some("--set=fullnameOverride=ingress"), "ingress"),
        ] {
            let chart = helm::chart();
            let mut arguments = vec!["template", release, chart.to_str().unwrap(), "--kube-version=1.36"];
            arguments.push("--set=image.repository=x.io/headgate");
            arguments.extend(more);
            let text = helm::run(None, &arguments).await.unwrap();
            assert!(
                text.contains(&format!("kind: Deployment\nmetadata:\n  name: {name}\n")),
                "{release}: {name}"
            );
        }
    });
}

#[test]
fn pods_of_system_namespaces_may_ask_by_a_label_of_their_own_if_the_chart_lets_them() {
    block(async {
        let all = rendered(&["--set=webhook.systemNamespaces={kube-system,ingress-system}"]).await.unwrap();
        let mutating = &of_kind(&all, "MutatingWebhookConfiguration")[0]["webhooks"];
        let [namespaces, pods, system] = &mutating.as_array().unwrap()[..] else { panic!("{mutating}") };
        assert_eq!(system["name"], "system.inject.headgate.dev");
        assert_eq!(system["objectSelector"], json!({"matchLabels": {"headgate.dev/inject": "true"}}));
        let named =
            |values: Value| json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": values});
        let only = json!({"matchExpressions": [named(json!(["kube-system", "ingress-system"]))]});
        assert_eq!(system["namespaceSelector"], only);
        for field in [
            "failurePolicy",
            "clientConfig",
            "rules",
            "timeoutSeconds",
            "matchConditions",
            "reinvocationPolicy",
        ] {
            assert_eq!(system[field], pods[field], "{field}");
        }
        let excluded = |entry: &Value| {
            let rules = entry["namespaceSelector"]["matchExpressions"].as_array().unwrap().clone();
            rules
                .into_iter()
                .find(|rule| rule["operator"] == "NotIn" && rule["key"] != "headgate.dev/inject")
                .unwrap()
        };
        for entry in [namespaces, pods] {
            let values = &excluded(entry)["values"];
            assert_eq!(
                *values,
                json!(["own", "kube-system", "kube-node-lease"]),
                "a label on it counts for nothing"
            );
        }
        let validating = &of_kind(&all, "ValidatingWebhookConfiguration")[0]["webhooks"][0];
        assert_eq!(excluded(validating)["values"], json!(["own", "kube-node-lease"]));
    });
}

#[test]
fn the_admission_policies_are_those_of_config_with_the_names_of_the_release_and_can_be_switched_off() {
    block(async {
        let without =
            ["--set=serviceAccount.name=other", "--set=daemonsets.enabled=true,daemonsets.namespaces={edge}"];
        let key = "--set=daemonsets.nodeAnnotations={example.com/one}";
        let all = rendered(&[&without[..], &[key]].concat()).await.unwrap();
        let sets = "daemonsets-writes-on-nodes";
        for name in ["own-writes", "own-writes-on-nodes", "marks", "daemonsets-writes", sets] {
            let text = std::fs::read_to_string(root().join(format!("config/admission/{name}.yaml"))).unwrap();
            let text = text
                .replace("system:serviceaccount:headgate:headgate'", "system:serviceaccount:own:other'")
                .replace(":headgate:headgate-daemonsets'", ":own:headgate-daemonsets'")
                .replace("'kube-node-lease', 'headgate'", "'kube-node-lease', 'own'")
                .replace("\"[]\"", "'[\"example.com/one\"]'");
            assert_eq!(text.contains("serviceaccount:own:other"), name.starts_with("own-"));
            let called = format!("headgate-{name}");
            for (kind, wanted) in ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
                .into_iter()
                .zip(text.split("\n---\n"))
            {
                let wanted: Value = serde_saphyr::from_str(wanted).unwrap();
                let made = of_kind(&all, kind);
                let made = made.iter().find(|one| one["metadata"]["name"] == *called).unwrap();
                assert_eq!(made["spec"], wanted["spec"], "{kind} {name}");
                assert_eq!(made["apiVersion"], "admissionregistration.k8s.io/v1");
            }
        }
        let without = rendered(&without).await.unwrap();
        let fenced = |one: &&Value| one["metadata"]["name"].as_str().unwrap().ends_with(sets);
        assert!(
            !of_kind(&without, "ValidatingAdmissionPolicy").iter().any(fenced),
            "it has no right to fence"
        );
        let off = rendered(&["--set=admissionPolicies.enabled=false", key]).await.unwrap();
        assert!(of_kind(&off, "ValidatingAdmissionPolicy").is_empty());
        assert!(of_kind(&off, "ValidatingAdmissionPolicyBinding").is_empty());
    });
}

#[test]
fn what_a_replica_leaves_in_its_termination_log_is_found_in_the_status_of_its_pod() {
    block(async {
        let (container, _) = pod_of(&rendered(&[]).await.unwrap());
        assert_eq!(container["terminationMessagePath"], "/dev/termination-log");
        assert_eq!(container["terminationMessagePolicy"], "File");
        // Without the pod's name, the program does not know its own pod.
        let name = container["env"].as_array().unwrap().iter().find(|one| one["name"] == "POD_NAME").unwrap();
        assert_eq!(name["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name");
    });
}

#[test]
fn volumes_are_added_to_those_that_run_and_to_those_that_leave() {
    block(async {
        let file = root().join("target/helm/volumes.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let volume = json!({"name": "ca", "configMap": {"name": "company-ca"}});
        let mount = json!({"name": "ca", "mountPath": "/etc/ssl/company", "readOnly": true});
        let values = json!({"extraVolumes": [volume], "extraVolumeMounts": [mount]});
        std::fs::write(&file, values.to_string()).unwrap();
        let values = format!("--values={}", file.display());
        let all = rendered(&[&values]).await.unwrap();
        let (container, pod) = pod_of(&all);
        let job = &of_kind(&all, "Job")[0]["spec"]["template"]["spec"];
        assert_eq!(
            (&job["containers"][0]["volumeMounts"], &job["volumes"]),
            (&json!([mount]), &json!([volume]))
        );
        assert_eq!((&container["volumeMounts"][1], &pod["volumes"][1]), (&mount, &volume));
        let none = rendered(&["--set=webhook.enabled=false"]).await.unwrap();
        let (container, pod) = pod_of(&none);
        assert!(container["volumeMounts"].is_null() && pod["volumes"].is_null());
        for (value, said) in
            [("extraVolumes[0].emptyDir=x", "name"), ("extraVolumeMounts[0].name=a", "mountPath")]
        {
            let error = rendered(&[&format!("--set={value}")]).await.unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    });
}

#[test]
fn grants_are_optional_and_gates_wait_for_aws_unless_the_chart_is_told_otherwise() {
    block(async {
        for (values, flag) in [
            (&[][..], "--grants=optional"),
            (&["--set=grants=required"], "--grants=required"),
            (&[], "--gate-patience=0s"),
            (&["--set=gatePatience=5m"], "--gate-patience=5m"),
        ] {
            let (container, _) = pod_of(&rendered(values).await.unwrap());
            assert!(container["args"].as_array().unwrap().contains(&json!(flag)), "{container}");
        }
    });
}

#[test]
fn what_is_uninstalled_keeps_its_targets_unless_told_to_remove_them() {
    block(async {
        for (values, removes) in [(&[][..], false), (&["--set=uninstall.removeTargets=true"], true)] {
            let all = rendered(values).await.unwrap();
            let jobs = of_kind(&all, "Job");
            let arguments = &jobs[0]["spec"]["template"]["spec"]["containers"][0]["args"];
            let arguments = arguments.as_array().unwrap();
            assert_eq!(arguments.contains(&json!("--remove-targets")), removes, "{values:?}");
        }
    });
}

#[test]
fn values_that_make_no_sense_are_refused_with_what_was_expected() {
    block(async {
        for (values, said) in [
            (&["--set=image.repository="][..], "/image/repository"),
            (&["--set=replicas=0"], "replicas"),
            (&["--set=replica=3"], "replica"),
            (&["--set=namespaces={A}"], "namespaces"),
            (&["--set=lease.duration=15"], "duration"),
            (&["--set=aws.roleArn=role/headgate"], "roleArn"),
            (&["--set=namespaces={a}", "--set=namespaceSelector=b"], "not both"),
            (&["--set=grants=yes"], "grants"),
            (&["--set=gatePatience=5"], "gatePatience"),
            (&["--set=readOnly=true"], "Set webhook.enabled=false"),
            (&["--set=serviceAccount.create=false"], "Set serviceAccount.name"),
            (&["--set=webhook.certLifetime=90d"], "certLifetime"),
            (&["--set=webhook.certSecret=a"], "Set webhook.caBundle"),
            (&["--set=webhook.caBundle=-----BEGIN CERTIFICATE-----"], "Set webhook.certSecret"),
            (&["--set=webhook.certSecret=a", "--set=webhook.caBundle=x"], "caBundle"),
            (&["--set=webhook.systemNamespaces={own}"], "Remove own from"),
            (&["--set=webhook.systemNamespaces={Kube}"], "systemNamespaces"),
            (&["--set=uninstall.removeTarget=true"], "removeTarget"),
        ] {
            let error = rendered(values).await.unwrap_err();
            assert!(error.contains(said), "{values:?}: {error}");
        }
    });
}

/// The same with normalized numbers: helm writes 1000.0 as 1000.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn the_kinds_are_installed_and_stay_when_the_chart_goes() {
    block(async {
        let all = rendered(&[]).await.unwrap();
        let text = std::fs::read_to_string(root().join("config/crd/headgate.dev.yaml")).unwrap();
        let kinds: Vec<Value> =
            text.split("---\n").skip(1).map(|kind| serde_saphyr::from_str(kind).unwrap()).collect();
        let installed = of_kind(&all, "CustomResourceDefinition");
        assert_eq!(installed.len(), kinds.len());
        for (installed, kind) in installed.iter().zip(&kinds) {
            assert_eq!(plain(&installed["spec"]), plain(&kind["spec"]));
            assert_eq!(installed["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
        }
        assert!(
            of_kind(&rendered(&["--set=crds.enabled=false"]).await.unwrap(), "CustomResourceDefinition")
                .is_empty()
        );
    });
}
