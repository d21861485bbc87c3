//! The kustomization in `deploy/kustomize`: made from the chart by `make manifests`, so that neither drifts from the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use headgate_harness::{
    helm::{block, chart, of_kind, run},
    kubectl::Kubectl,
    root,
    shared_world::beside_others,
};
use serde_json::{Value, json};

/// Where there is no image: who installs says where his is.
const NOWHERE: &str = "registry.invalid/headgate";
/// The namespace that is served in what is made for named ones.
const SERVED: &str = "web";

fn folder() -> PathBuf {
    root().join("deploy/kustomize")
}

/// What the chart makes for a release `headgate` in namespace `headgate`, by the template that it is of.
async fn templates(more: &[&str]) -> BTreeMap<String, Vec<String>> {
    let chart = chart();
    let image = format!("--set=image.repository={NOWHERE}");
    let fixed =
        ["template", "headgate", chart.to_str().unwrap(), "--namespace=headgate", "--kube-version=1.36"];
    let arguments: Vec<&str> = fixed.into_iter().chain([&*image]).chain(more.iter().copied()).collect();
    let text = run(None, &arguments).await.unwrap();
    let mut templates: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for document in text.trim_start_matches("---\n").split("\n---\n") {
        let (source, object) = document.split_once('\n').unwrap();
        let name =
            source.strip_prefix("# Source: headgate/templates/").unwrap_or_else(|| panic!("{document}"));
        // What helm alone runs, before it deletes or when it tests.
        if !object.contains("helm.sh/hook:") {
            templates.entry(name.to_owned()).or_default().push(without_helm(object));
        }
    }
    templates
}

/// Without what says that helm looks after an object.
fn without_helm(object: &str) -> String {
    let ours = object.replace("  annotations:\n    helm.sh/resource-policy: keep\n", "");
    let is_ours = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("app.kubernetes.io/managed-by: Helm") && !line.starts_with("helm.sh/chart: ")
    };
    ours.lines().filter(is_ours).flat_map(|line| [line, "\n"]).collect()
}

fn file(about: &str, objects: &[String]) -> String {
    format!("# {about} Made from the chart by `make manifests`.\n{}", objects.join("---\n"))
}

/// The files that are made, by their paths in the folder.
async fn made() -> BTreeMap<String, String> {
    let only = format!("--set=namespaces={{{SERVED}}}");
    let (cluster, mut named) = (templates(&[]).await, templates(&[&only]).await);
    let of_served = |object: &String| object.contains(&format!("\n  namespace: {SERVED}\n"));
    let (served, own) = named.remove("rbac.yaml").unwrap().into_iter().partition(of_served);
    named.insert("rbac.yaml".into(), own);
    // The namespace is whose kustomization it is in.
    let served: Vec<String> =
        served.into_iter().map(|object| object.replace(&format!("  namespace: {SERVED}\n"), "")).collect();
    let mut files = BTreeMap::from([(
        "served/rbac.yaml".to_owned(),
        file("What Headgate may do in a namespace that it serves.", &served),
    )]);
    for (name, objects) in &cluster {
        if named.get(name) == Some(objects) {
            files.insert(format!("parts/{name}"), file("The same for all ways to install it.", objects));
        } else {
            files.insert(format!("cluster/{name}"), file("For all namespaces.", objects));
        }
    }
    let sets = templates(&["--set=daemonsets.enabled=true"]).await.remove("daemonsets.yaml").unwrap();
    files.insert(
        "daemonsets/daemonsets.yaml".into(),
        file("The controller of IngressDaemonSets, in all namespaces.", &sets),
    );
    for (name, objects) in named.iter().filter(|(name, objects)| cluster.get(*name) != Some(*objects)) {
        files.insert(format!("namespaces/{name}"), file("For named namespaces.", objects));
    }
    files
}

#[test]
fn the_manifests_for_kustomize_are_those_of_the_chart() {
    block(async {
        let made = made().await;
        if std::env::var_os("HEADGATE_WRITE_DOCS").is_some() {
            for (name, text) in made {
                fs::write(folder().join(name), text).unwrap();
            }
            return;
        }
        for (name, text) in &made {
            let written = fs::read_to_string(folder().join(name)).unwrap_or_default();
            assert!(
                written == *text,
                "deploy/kustomize/{name} is not what the chart makes: run `make manifests` and commit what it writes. \
                 Expected:\n{text}"
            );
        }
        // Every file that is made is used, and every file that is used is made or one of ours.
        for part in ["parts", "cluster", "namespaces", "served", "daemonsets"] {
            let text = fs::read_to_string(folder().join(part).join("kustomization.yaml")).unwrap();
            let used: Value = serde_saphyr::from_str(&text).unwrap();
            let used = used["resources"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            let used: BTreeSet<String> = used
                .filter(|name| !name.starts_with("../") && *name != "namespace.yaml")
                .map(|name| format!("{part}/{name}"))
                .collect();
            let wanted = made.keys().filter(|name| name.starts_with(&format!("{part}/"))).cloned().collect();
            assert_eq!(used, wanted);
        }
    });
}

/// What `kubectl kustomize` makes of a folder of the repository.
async fn built(kubectl: &Kubectl, folder: &str) -> Vec<Value> {
    let text = kubectl.run(&["kustomize", root().join(folder).to_str().unwrap()]).await;
    text.split("\n---\n").map(|object| serde_saphyr::from_str(object).unwrap()).collect()
}

/// Objects by kind, namespace and name.
fn by_name(objects: Vec<Value>) -> BTreeMap<[String; 3], Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = |object: &Value| {
        let metadata = &object["metadata"];
        [&object["kind"], &metadata["namespace"], &metadata["name"]].map(text)
    };
    objects.into_iter().map(|object| (about(&object), object)).collect()
}

#[test]
fn kustomize_makes_what_helm_makes_with_a_namespace_and_without_what_helm_alone_runs() {
    beside_others(|world| async move {
        let kubectl = Kubectl::new(world.facts(), "default");
        let served = "target/kustomize/served";
        // The served namespace has a kustomization of its own, which sets it.
        fs::create_dir_all(root().join(served).join(SERVED)).unwrap();
        let text = format!("namespace: {SERVED}\nresources: [../../../../deploy/kustomize/served]\n");
        fs::write(root().join(served).join(SERVED).join("kustomization.yaml"), text).unwrap();
        let text = format!("resources: [../../../deploy/kustomize/namespaces, {SERVED}]\n");
        fs::write(root().join(served).join("kustomization.yaml"), text).unwrap();
        let sets = "target/kustomize/sets";
        fs::create_dir_all(root().join(sets)).unwrap();
        let text = "resources: [../../../deploy/kustomize/cluster, ../../../deploy/kustomize/daemonsets]\n";
        fs::write(root().join(sets).join("kustomization.yaml"), text).unwrap();
        let only = format!("--set=namespaces={{{SERVED}}}");
        let cases: [(&str, &[&str]); 3] = [
            ("deploy/kustomize/cluster", &[]),
            (served, &[&*only]),
            (sets, &["--set=daemonsets.enabled=true"]),
        ];
        for (folder, values) in cases {
            let mut made = by_name(built(&kubectl, folder).await);
            let own = made.remove(&["Namespace", "", "headgate"].map(str::to_owned)).unwrap();
            assert_eq!(own["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
            let image = format!("--set=image.repository={NOWHERE}");
            let arguments: Vec<&str> =
                [&*image, "--namespace=headgate"].into_iter().chain(values.iter().copied()).collect();
            let wanted = headgate_harness::helm::rendered(&arguments).await.unwrap();
            let mut wanted: Vec<Value> = wanted
                .into_iter()
                .filter(|object| object["metadata"]["annotations"]["helm.sh/hook"].is_null())
                .collect();
            for object in &mut wanted {
                // Whoever adds that folder sets this for the Deployment of the other one: the page says so.
                let arguments = object.pointer_mut("/spec/template/spec/containers/0/args");
                if let Some(arguments) = arguments.and_then(Value::as_array_mut) {
                    arguments.retain(|argument| argument != "--show-daemonsets");
                }
                let metadata = object["metadata"].as_object_mut().unwrap();
                metadata.remove("annotations");
                if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                    assert_eq!(labels.remove("app.kubernetes.io/managed-by"), Some("Helm".into()));
                    assert!(labels.remove("helm.sh/chart").is_some());
                }
            }
            let wanted = by_name(wanted);
            assert_eq!(made.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{folder}");
            for (name, object) in &made {
                assert_eq!(object, &wanted[name], "{folder}");
            }
            assert!(made.len() > 20, "{}", made.len());
        }
    });
}

#[test]
fn the_example_sets_the_image_wherever_it_is_named_and_the_role() {
    beside_others(|world| async move {
        let kubectl = Kubectl::new(world.facts(), "default");
        let all = built(&kubectl, "deploy/kustomize/example").await;
        let text = fs::read_to_string(folder().join("example/kustomization.yaml")).unwrap();
        let set: Value = serde_saphyr::from_str(&text).unwrap();
        let image = &set["images"][0];
        assert_eq!(image["name"], NOWHERE);
        let image = format!("{}:{}", image["newName"].as_str().unwrap(), image["newTag"].as_str().unwrap());
        let container = &of_kind(&all, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], image);
        let arguments = container["args"].as_array().unwrap();
        assert!(arguments.contains(&json!(format!("--hold-image={image}"))), "{arguments:?}");
        assert_eq!(arguments.iter().filter(|one| one.to_string().contains(NOWHERE)).count(), 0);
        let account = of_kind(&all, "ServiceAccount")[0];
        let role = &account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"];
        assert!(role.as_str().unwrap().starts_with("arn:aws:iam::"), "{account}");
    });
}
