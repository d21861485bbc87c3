//! The package of an earlier commit, upgraded to that of this one: what the user set is kept, and new defaults apply.

use std::{fs, path::PathBuf, process::Command};

use headgate_harness::{
    helm::{self, packaged},
    root,
    scenario::Scenario,
    shared_world::alone,
};
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use serde_json::{Value, json};

/// The chart of the commit that `make upgrade` starts from, as an archive.
async fn packaged_earlier() -> PathBuf {
    let commit = fs::read_to_string(root().join("tools/upgrade/from")).unwrap();
    let folder = root().join("target/helm/earlier");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let script = "git archive \"$1\" deploy config | tar -x -C \"$2\"";
    let arguments = ["-ec", script, "sh", commit.trim(), folder.to_str().unwrap()];
    let output = Command::new("bash").arg("-o").arg("pipefail").args(arguments).current_dir(root()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let chart = folder.join("deploy/helm/headgate");
    let to = format!("--destination={}", folder.display());
    helm::run(None, &["package", chart.to_str().unwrap(), &to]).await.unwrap();
    folder.join("headgate-0.1.0.tgz")
}

#[test]
fn an_earlier_package_is_upgraded_and_rolled_back_with_what_the_user_set() {
    alone(|world| async move {
        let s = Scenario::new(world, "chart-upgrade").await;
        let release = s.name("upgraded");
        let (namespace, kubeconfig) = (format!("--namespace={}", s.cluster.namespace), &s.facts().kubeconfig);
        let given = json!({
            "image": {"repository": "x.io/headgate"},
            "fullnameOverride": release,
            "namespaces": [s.cluster.namespace],
            "replicas": 3,
            "podLabels": {"team": "edge"},
            "grants": "required",
        });
        let values = root().join(format!("target/helm/{release}.json"));
        let earlier = packaged_earlier().await;
        fs::write(&values, given.to_string()).unwrap();
        let run = async |command: &[&str]| {
            let said = helm::run(Some(kubeconfig), &[command, &[&*namespace]].concat()).await;
            said.unwrap_or_else(|error| panic!("helm {command:?}: {error}"))
        };
        let deployed = async || s.cluster.api::<Deployment>().get(&release).await.unwrap().spec.unwrap();
        // Other programs have made the kinds of this world.
        let values = format!("--values={}", values.display());
        let mut install = vec!["install", &release, earlier.to_str().unwrap(), &values, "--take-ownership"];
        if helm::run(None, &["version", "--template={{.Version}}"]).await.unwrap().starts_with("v4.") {
            // Helm 4 applies on the server, which knows who wrote a field.
            install.push("--force-conflicts");
        }
        run(&install).await;
        let before = deployed().await;
        let of_before = before.template.spec.clone().unwrap();
        assert_eq!((before.replicas, of_before.priority_class_name), (Some(3), None));

        let now = packaged("upgraded").await;
        run(&["upgrade", &release, now.to_str().unwrap(), "--reset-then-reuse-values"]).await;
        let kept: Value = serde_json::from_str(&run(&["get", "values", &release, "-o=json"]).await).unwrap();
        assert_eq!(kept, given);
        let after = deployed().await;
        assert_eq!((after.replicas, &after.selector), (Some(3), &before.selector));
        assert_eq!(after.template.metadata.unwrap().labels.unwrap()["team"], "edge");
        let pod = after.template.spec.unwrap();
        assert_eq!(pod.priority_class_name.as_deref(), Some("system-cluster-critical"), "a new default");
        assert!(pod.containers[0].args.as_ref().unwrap().contains(&"--grants=required".to_owned()));
        assert_eq!(pod.containers[0].image.as_deref(), Some("x.io/headgate:0.1.0"));
        let kinds: Api<CustomResourceDefinition> = Api::all(s.cluster.client.clone());
        let kind = kinds.get("targetbindings.headgate.dev").await.unwrap();
        let written = fs::read_to_string(root().join("config/crd/headgate.dev.yaml")).unwrap();
        let description =
            kind.spec.versions[0].schema.clone().unwrap().open_api_v3_schema.unwrap().description;
        assert!(written.contains(description.unwrap().lines().next().unwrap()), "the kinds are those of now");

        run(&["rollback", &release, "1"]).await;
        assert_eq!(deployed().await.template.spec.unwrap().priority_class_name, None);
        // Other tests of this world need the kinds of now.
        run(&["upgrade", &release, now.to_str().unwrap(), "--reset-then-reuse-values"]).await;
        // The Job that asks Headgate to leave has nothing to run here.
        run(&["uninstall", &release, "--no-hooks"]).await;
        assert!(kinds.get_opt("targetbindings.headgate.dev").await.unwrap().is_some(), "the kinds are kept");
    });
}
