//! With the token of `headgate daemonsets`, the API server rejects all writes outside of its task.

use headgate_harness::{
    accounts,
    release::{Release, by_policy},
    scenario::Scenario,
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

#[test]
fn the_controller_of_sets_may_write_only_what_a_set_controls() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "setswrites").await;
        let [tenant, other] = ["tenant", "other"].map(|name| s.cluster.within(&s.name(name)));
        for namespace in [&tenant.namespace, &other.namespace] {
            s.cluster.create_namespace(namespace, &[]).await;
        }
        let named = format!("{},{}", tenant.namespace, s.cluster.namespace);
        let values = format!("--set=daemonsets.enabled=true,daemonsets.namespaces={{{named}}}");
        let release = Release::install_with(&s, &[&values]).await;
        let account = format!("{}-daemonsets", release.name);
        let client = accounts::client(&accounts::kubeconfig(s.facts(), &s.cluster, &account).await).await;
        let pod = |owners: &Value| {
            let metadata = json!({"name": "made", "ownerReferences": owners});
            let spec = json!({"containers": [{"name": "a", "image": "x.io/a"}]});
            serde_json::from_value::<Pod>(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let owner = |kind: &str, controls: bool| {
            let version = if kind == "DaemonSet" { "apps/v1" } else { "headgate.dev/v1alpha1" };
            json!([{"apiVersion": version, "kind": kind, "name": "edge", "uid": "x", "controller": controls}])
        };
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let create = async |namespace: &str, owners: Value| {
            Api::<Pod>::namespaced(client.clone(), namespace).create(&dry_run, &pod(&owners)).await
        };
        let own = || owner("IngressDaemonSet", true);
        wait::until("the policy is in force", || async {
            create(&tenant.namespace, own()).await.map_err(|error| error.to_string())?;
            by_policy(create(&tenant.namespace, json!([])).await)
        })
        .await;
        for (namespace, owners) in [
            (&*tenant.namespace, json!([])),
            (&tenant.namespace, owner("IngressDaemonSet", false)),
            (&tenant.namespace, owner("DaemonSet", true)),
            (&s.cluster.namespace, own()),
        ] {
            by_policy(create(namespace, owners.clone()).await)
                .unwrap_or_else(|other| panic!("{namespace} {owners}: {other}"));
        }
        // RBAC rejects every namespace that the chart does not name.
        for namespace in [&*other.namespace, "kube-system", "default"] {
            let kube::Error::Api(status) = create(namespace, own()).await.unwrap_err() else {
                panic!("{namespace}")
            };
            assert_eq!(status.code, 403, "{}", status.message);
            assert!(status.message.contains("cannot create resource"), "{}", status.message);
        }
        // It may not change existing objects either.
        tenant.create::<Pod>(serde_json::to_value(pod(&json!([]))).unwrap()).await;
        let pods = Api::<Pod>::namespaced(client.clone(), &tenant.namespace);
        by_policy(pods.delete("made", &DeleteParams::default()).await).unwrap();
        let patch = json!({"metadata": {"labels": {"a": "b"}}});
        by_policy(pods.patch("made", &PatchParams::default(), &Patch::Merge(&patch)).await).unwrap();
        // It may not take a pod from another controller either.
        let config = tenant.create::<ConfigMap>(json!({"metadata": {"name": "owner"}})).await;
        let controls = json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": config.metadata.uid, "controller": true,
        }]);
        let mut theirs = pod(&controls);
        theirs.metadata.name = Some("theirs".into());
        tenant.create::<Pod>(serde_json::to_value(theirs).unwrap()).await;
        let stolen = json!({"metadata": {"ownerReferences": own()}});
        by_policy(pods.patch("theirs", &PatchParams::default(), &Patch::Merge(&stolen)).await).unwrap();
        let adopts = PatchParams { dry_run: true, ..PatchParams::default() };
        pods.patch("made", &adopts, &Patch::Merge(&stolen)).await.unwrap();
        release.remove().await;
    });
}
