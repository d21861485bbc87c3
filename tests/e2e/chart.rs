//! The Helm chart, installed by the real helm.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use headgate_tests::{
    aws,
    cluster::pod_spec,
    headgate::command_as,
    helm::{self, chart, root},
    http,
    scenario::{Scenario, http_port, targets},
    shared_world::on,
    wait,
    webhook::{bare_pod, wait_secret},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Pod, Secret},
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use localstack_world::Nodes;
use serde_json::{Value, json};

use crate::rights::peoples_rights;

/// The four actions of deploy/iam/aws.json.
fn actions() -> Vec<String> {
    let policy = std::fs::read_to_string(root().join("deploy/iam/aws.json")).unwrap();
    let policy: Value = serde_json::from_str(&policy).unwrap();
    let statements = policy["Statement"].as_array().unwrap().iter();
    let actions = statements.flat_map(|statement| statement["Action"].as_array().unwrap());
    let name =
        |action: &Value| action.as_str().unwrap().strip_prefix("elasticloadbalancing:").unwrap().to_owned();
    actions.map(name).collect()
}

/// The objects that the chart makes with these values.
async fn rendered(values: &[&str]) -> Result<Vec<Value>, String> {
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let mut arguments = vec![
        "template",
        "headgate",
        chart,
        "--namespace=own",
        "--kube-version=1.36",
        "--set=image.repository=x.io/headgate",
    ];
    arguments.extend(values);
    let text = helm::run(None, &arguments).await?;
    let documents = text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    Ok(documents.filter(|object| !object.is_null()).collect())
}

fn block<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

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
        let (podmarks, cluster): (Vec<&Value>, Vec<&Value>) =
            cluster.into_iter().partition(|role| role["metadata"]["name"] == "headgate-podmarks");
        assert_eq!(podmarks[0]["rules"], rules("podmarks.yaml"));
        let bound = of_kind(&all, "ClusterRoleBinding").into_iter().chain(of_kind(&all, "RoleBinding"));
        assert!(bound.into_iter().all(|binding| binding["roleRef"]["name"] != "headgate-podmarks"));
        let mut wanted = rules("clusterrole.yaml");
        wanted.as_array_mut().unwrap().retain(|rule| rule["resources"] != json!(["namespaces"]));
        assert_eq!(cluster.iter().map(|role| &role["rules"]).collect::<Vec<_>>(), [&wanted]);

        let selected = rendered(&[no_webhook, "--set=namespaceSelector=serve=true"]).await.unwrap();
        assert!(
            of_kind(&selected, "ClusterRole").iter().any(|role| role["rules"] == rules("clusterrole.yaml"))
        );

        let named = rendered(&[no_webhook, "--set=namespaces={a,b}"]).await.unwrap();
        // Nobody asks for evictions without the webhook, nor sees nodes there.
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
        assert!(
            of_kind(&named, "ClusterRole").is_empty() && of_kind(&named, "ClusterRoleBinding").is_empty()
        );
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
        let rights = std::fs::read_to_string(root().join("config/rbac/webhook.yaml")).unwrap();
        for role in rights.split("\n---\n") {
            let role: Value = serde_saphyr::from_str(role).unwrap();
            assert!(
                roles.iter().any(|is| is["rules"] == role["rules"] && is["kind"] == role["kind"]),
                "{role}"
            );
        }
    });
}

#[test]
fn the_admission_policies_are_those_of_config_with_the_names_of_the_release_and_can_be_switched_off() {
    block(async {
        let values = ["--set=serviceAccount.name=other", "--set=namespaces={a}"];
        let all = rendered(&values).await.unwrap();
        for name in ["own-writes", "marks"] {
            let text = std::fs::read_to_string(root().join(format!("config/admission/{name}.yaml"))).unwrap();
            let text =
                text.replace("system:serviceaccount:headgate:headgate'", "system:serviceaccount:own:other'");
            assert_eq!(text.contains("serviceaccount:own:other"), name == "own-writes");
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
        let off = rendered(&["--set=admissionPolicies.enabled=false"]).await.unwrap();
        assert!(of_kind(&off, "ValidatingAdmissionPolicy").is_empty());
        assert!(of_kind(&off, "ValidatingAdmissionPolicyBinding").is_empty());
    });
}

/// The container of the Deployment, and the rest of its pod.
fn pod_of(objects: &[Value]) -> (Value, Value) {
    let pod = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"].clone();
    (pod["containers"][0].clone(), pod)
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
        for (container, pod) in [(&container, &pod), (&job["containers"][0], job)] {
            assert_eq!((&container["volumeMounts"], &pod["volumes"]), (&json!([mount]), &json!([volume])));
        }
        let none = rendered(&[]).await.unwrap();
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
fn the_webhooks_certificate_may_come_from_a_secret_whose_ca_is_given_or_filled_in_by_others() {
    block(async {
        let secret = "--set=webhook.certSecret=hook-tls";
        let pem = "--set=webhook.caBundle=-----BEGIN CERTIFICATE-----";
        let all = rendered(&[secret, pem]).await.unwrap();
        let (container, pod) = pod_of(&all);
        let arguments = container["args"].as_array().unwrap();
        let mount = &container["volumeMounts"][0];
        let folder = format!("--webhook-cert-dir={}", mount["mountPath"].as_str().unwrap());
        assert!(arguments.contains(&json!(folder)), "{arguments:?}");
        assert_eq!(mount["name"], pod["volumes"][0]["name"]);
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "hook-tls");
        let mut entries = Vec::new();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            entries.extend(of_kind(&all, kind)[0]["webhooks"].as_array().unwrap().clone());
        }
        assert_eq!(entries.len(), 3);
        for entry in entries {
            // "-----BEGIN CERTIFICATE-----" in base64.
            assert_eq!(entry["clientConfig"]["caBundle"], "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t");
            assert_eq!(entry["clientConfig"]["service"]["name"], "headgate-webhook");
        }

        let injected = r"--set=webhook.annotations.cert-manager\.io/inject-ca-from=own/hook";
        let all = rendered(&[secret, injected]).await.unwrap();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let configuration = of_kind(&all, kind)[0];
            let annotation = &configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
            assert_eq!(annotation, "own/hook");
            assert!(configuration["webhooks"][0]["clientConfig"]["caBundle"].is_null());
        }
    });
}

#[test]
fn what_is_uninstalled_keeps_its_targets_unless_told_to_remove_them() {
    block(async {
        for (values, removes) in [
            (&[][..], false),
            (&["--set=uninstall.keepTargets=true"], false),
            (&["--set=uninstall.keepTargets=false"], false),
            (&["--set=uninstall.removeTargets=true"], true),
        ] {
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
            (&["--set=image.repository="][..], "expected where the image of headgate is"),
            (&["--set=replicas=0"], "replicas"),
            (&["--set=replica=3"], "replica"),
            (&["--set=namespaces={A}"], "namespaces"),
            (&["--set=lease.duration=15"], "duration"),
            (&["--set=aws.roleArn=role/headgate"], "roleArn"),
            (&["--set=namespaces={a}", "--set=namespaceSelector=b"], "expected one of them"),
            (&["--set=readOnly=true"], "expected webhook.enabled=false"),
            (&["--set=serviceAccount.create=false"], "expected the name of the ServiceAccount"),
            (&["--set=webhook.certSecret=a"], "expected webhook.caBundle"),
            (&["--set=webhook.caBundle=-----BEGIN CERTIFICATE-----"], "expected webhook.certSecret"),
            (&["--set=webhook.certSecret=a", "--set=webhook.caBundle=x"], "caBundle"),
            (&["--set=uninstall.removeTarget=true"], "removeTarget"),
        ] {
            let error = rendered(values).await.unwrap_err();
            assert!(error.contains(said), "{values:?}: {error}");
        }
    });
}

/// The same with numbers written in one way: helm writes 1000.0 as 1000.
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
            of_kind(&rendered(&["--set=crds.install=false"]).await.unwrap(), "CustomResourceDefinition")
                .is_empty()
        );
    });
}

/// The static program that `make image` builds.
fn program() -> PathBuf {
    let program = root().join("target/image/headgate");
    assert!(program.is_file(), "there is no {}; expected `make image` first", program.display());
    program
}

/// Puts headgate's image on every node.
async fn load_image(s: &Scenario, name: &str) {
    let certificates = "/etc/ssl/certs/ca-certificates.crt";
    let body = json!({"name": name, "binary": program(), "files": {certificates: certificates}});
    let control = s.facts().kubelet_control.strip_prefix("http://").unwrap();
    http::json("POST", control, "/images", Some(&body)).await;
}

/// Asks Headgate as somebody with this kubeconfig, through the API server.
async fn ask(s: &Scenario, kubeconfig: &Path, own: &str, command: &[&str]) -> (Option<i32>, String) {
    let namespace = format!("--namespace={}", s.cluster.namespace);
    let (own, lease) = (format!("--own-namespace={own}"), format!("--lease-name={own}"));
    command_as(s.facts(), kubeconfig, &[command, &[&*namespace, &*own, &*lease]].concat()).await
}

async fn bindings(s: &Scenario) -> usize {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("headgate.dev", "v1alpha1", "TargetBinding"));
    let api: Api<DynamicObject> = Api::namespaced_with(s.cluster.client.clone(), &s.cluster.namespace, &kind);
    api.list(&ListParams::default()).await.unwrap().items.len()
}

#[test]
fn headgate_runs_as_pods_that_may_do_what_they_must_and_leaves_cleanly_on_real_nodes() {
    on(Nodes::Real, "the Helm chart, installed", |world| async move {
        let s = Scenario::new(world, "chart").await;
        let kubeconfig = Some(s.facts().kubeconfig.as_path());
        let (own, key) = (s.name("own"), s.name("key"));
        // Exactly these four, for the key that only the chart's pods have.
        s.aws.control("PATCH", "/settings", Some(&json!({"permissions": {&*key: actions()}}))).await;
        load_image(&s, "headgate.local/headgate:test").await;
        let restricted = ("pod-security.kubernetes.io/enforce", "restricted");
        s.cluster.create_namespace(&own, &[restricted]).await;
        let people = peoples_rights(&s, &s.cluster.within(&own), &own, &own).await;
        let mut environment: Vec<Value> = Vec::new();
        for (name, value) in aws::environment(s.facts()) {
            let value = if name == "AWS_ACCESS_KEY_ID" { key.clone() } else { value };
            environment.push(json!({"name": name, "value": value}));
        }
        let values = json!({
            "image": {"repository": "headgate.local/headgate", "tag": "test", "pullPolicy": "Never"},
            "namespaces": [s.cluster.namespace],
            "extraEnv": environment,
        });
        let file = s.facts().folder.join(format!("{own}.yaml"));
        std::fs::write(&file, values.to_string()).unwrap();
        let (chart, file) = (chart(), file.display().to_string());
        let group = s.web(2).await;
        let install = ["install", &own, chart.to_str().unwrap(), "--namespace", &own, "--values", &file];
        // The kinds are there already: other tests of this world have made them.
        let more = ["--take-ownership", "--wait", "--timeout", "2m"];
        helm::run(kubeconfig, &[&install[..], &more[..]].concat()).await.unwrap();
        let before = s.wait_registered(&group, "web", 2, 8080).await;

        let gated = s.group("gated").await;
        s.cluster.service("gated", "gated", http_port(), Some(&gated.name)).await;
        s.cluster.set_annotation("gated", "headgate.dev/hold", Some("1s")).await;

        // The certificate that the webhook is served with; the release does not know of it.
        let certificate = format!("{own}-webhook-tls");
        assert!(s.cluster.within(&own).api::<Secret>().get_opt(&certificate).await.unwrap().is_some());

        // The leader's pod goes, and the other one does the next removal.
        let within = s.cluster.within(&own);
        let holder = async || {
            let lease = within.api::<Lease>().get(&own).await.unwrap();
            lease.spec.unwrap().holder_identity.unwrap_or_default()
        };
        let first = holder().await;
        let pod = first.split_once('_').unwrap().0.to_owned();
        within.delete_pod(&pod, 30).await;
        wait::until("another replica holds the Lease", || async {
            let now = holder().await;
            if now.is_empty() || now == first { Err(now) } else { Ok(()) }
        })
        .await;
        s.cluster.delete_pod(before.keys().next().unwrap(), 2).await;
        let after = wait::until("the targets are the pods that are there", || async {
            let now = s.cluster.running("web").await;
            let done =
                now.len() == 2 && now != before && s.aws.registered(&group.arn).await == targets(&now, 8080);
            if done { Ok(now) } else { Err(now) }
        })
        .await;
        assert_eq!(after.len(), 2);
        let pod = after.keys().next().unwrap();
        let (code, said) = ask(&s, &people, &own, &["explain", pod]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("registered since") && said.contains("Hold  HoldMissing: "), "{said}");

        // People reach what it knows; whoever reaches its pods does not.
        let leader = holder().await;
        let leader = within.api::<Pod>().get(leader.split_once('_').unwrap().0).await.unwrap();
        let ip = leader.status.unwrap().pod_ip.unwrap();
        for (path, wanted) in [("/debug/bindings", 404), ("/livez", 200)] {
            let (status, said) = http::request("GET", &format!("{ip}:8080"), path, None).await.unwrap();
            assert_eq!(status, wanted, "{path}: {said}");
        }
        assert!(http::request("GET", &format!("{ip}:8081"), "/debug/bindings", None).await.is_err());

        // By now the API server has been told whom to trust, and each replica knows the Service; both follow by watches.
        wait::until("two replicas are there again", || async {
            let status = within.api::<Deployment>().get(&own).await.unwrap().status.unwrap();
            if status.available_replicas == Some(2) { Ok(()) } else { Err(status) }
        })
        .await;
        wait::until("a new pod would be given gate and hold", || async {
            let pod = bare_pod("probe", &json!({"app": "gated", "headgate.dev/inject": "true"}));
            let pod = serde_json::from_value(pod).unwrap();
            let dry_run = PostParams { dry_run: true, ..PostParams::default() };
            let pod = s.cluster.api::<Pod>().create(&dry_run, &pod).await.unwrap();
            let pod = serde_json::to_value(pod.spec).unwrap();
            let gated = pod["readinessGates"].is_array();
            let held = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == 1;
            if gated && held { Ok(()) } else { Err(pod) }
        })
        .await;

        // By a path that is a secret, which every endpoint of that Service serves.
        wait_secret(&s.cluster.client, &own).await;

        // Its webhook is called through its Service, and gives a new pod what it asks for.
        let mut spec = pod_spec(&[("http", 8080)]);
        spec["terminationGracePeriodSeconds"] = 1.into();
        let template =
            json!({"metadata": {"labels": {"app": "gated", "headgate.dev/inject": "true"}}, "spec": spec});
        s.cluster
            .create::<Deployment>(json!({
                "metadata": {"name": "gated"},
                "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "gated"}}, "template": template},
            }))
            .await;
        let (pod, _) = s.wait_registered(&gated, "gated", 1, 8080).await.pop_first().unwrap();
        let spec = serde_json::to_value(s.cluster.api::<Pod>().get(&pod).await.unwrap().spec).unwrap();
        assert_eq!(spec["readinessGates"], json!([{"conditionType": "headgate.dev/target-health"}]));
        assert_eq!(spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], 1);
        assert_eq!(spec["terminationGracePeriodSeconds"], 2);
        wait::until("the gate is open, and the Deployment available", || async {
            let status = s.cluster.api::<Deployment>().get("gated").await.unwrap().status.unwrap();
            if status.available_replicas == Some(1) { Ok(()) } else { Err(status) }
        })
        .await;

        // The doctor sees everything, and finds only what these pods lack.
        let (code, said) = ask(&s, &people, &own, &["doctor", "-o=json"]).await;
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let found = said["findings"].as_array().unwrap().iter();
        let found: Vec<_> =
            found.map(|one| ["reason", "about"].map(|is| one[is].as_str().unwrap())).collect();
        let service = |name: &str| format!("Service {}/{name}", s.cluster.namespace);
        let wanted = [("HoldMissing", "web"), ("HoldTooShort", "gated"), ("GateMissing", "web")];
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for ([reason, about], (word, name)) in found.iter().zip(wanted) {
            assert!(*reason == word && about.starts_with(&service(name)), "{found:?}");
        }
        assert_eq!(code, Some(1));

        helm::run(kubeconfig, &["uninstall", &own, "--namespace", &own, "--wait", "--timeout", "2m"])
            .await
            .unwrap();
        assert_eq!(s.aws.registered(&group.arn).await, targets(&after, 8080), "the targets serve on");
        assert_eq!(bindings(&s).await, 0);
        assert!(within.api::<Deployment>().list(&ListParams::default()).await.unwrap().items.is_empty());
        let secrets = within.api::<Secret>();
        assert!(secrets.get_opt(&certificate).await.unwrap().is_none());

        let (own, lease) = (format!("--own-namespace={own}"), format!("--lease-name={own}"));
        let only = format!("--namespaces={}", s.cluster.namespace);
        let arguments = ["uninstall", "--remove-targets", &*own, &*lease, &*only];
        let (code, said) = command_as(s.facts(), &s.facts().kubeconfig, &arguments).await;
        assert_eq!(code, Some(0), "{said}");
        s.wait_targets(&group, &BTreeSet::new()).await;
    });
}
