//! Only Headgate and authorized users can write the pod data that Headgate reads back.

use headgate_harness::{
    accounts,
    cluster::{OWN_GATE, pod_spec},
    release::{Release, by_policy},
    scenario::Scenario,
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::{
    core::v1::{Pod, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Grants the ServiceAccount `tenant` a new Role with these rules.
async fn grant(s: &Scenario, role: &str, rules: Value) {
    s.cluster.create::<Role>(json!({"metadata": {"name": role}, "rules": rules})).await;
    s.cluster
        .create::<RoleBinding>(json!({
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": s.cluster.namespace}],
        }))
        .await;
}

/// Binds the pod `waiting` to a node that does not exist, with a Binding that has this annotation.
async fn bind(client: &Client, s: &Scenario, legacy: bool, annotation: &str) -> kube::Result<Value> {
    let namespace = &s.cluster.namespace;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": "waiting", "annotations": {annotation: "x"}},
        "target": {"kind": "Node", "name": "nowhere"},
    });
    let path = if legacy { "bindings" } else { "pods/waiting/binding" };
    let request = hyper::Request::post(format!("/api/v1/namespaces/{namespace}/{path}"))
        .header("Content-Type", "application/json");
    client.request(request.body(binding.to_string().into_bytes()).unwrap()).await
}

#[test]
fn a_tenant_who_may_patch_pods_cannot_forge_marks_or_the_gate_and_who_may_write_podmarks_can() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "tenant").await;
        let release = Release::install(&s).await;
        s.cluster.create::<ServiceAccount>(json!({"metadata": {"name": "tenant"}})).await;
        let pods = ["pods", "pods/status", "pods/binding", "bindings"];
        grant(
            &s,
            "pods",
            json!([{"apiGroups": [""], "resources": pods, "verbs": ["get", "create", "patch"]}]),
        )
        .await;
        let client = accounts::client(&accounts::kubeconfig(s.facts(), &s.cluster, "tenant").await).await;
        let api: Api<Pod> = Api::namespaced(client.clone(), &s.cluster.namespace);

        // Annotations from the creation of a pod are not checked.
        let annotations = json!({"headgate.dev/leaving": "x", "headgate.dev/hold": "5s"});
        let pod = json!({
            "metadata": {"name": "own", "labels": {"app": "own"}, "annotations": annotations},
            "spec": pod_spec(&[("http", 8080)]),
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        wait::until("the tenant may create pods", || async {
            api.create(&PostParams::default(), &pod).await
        })
        .await;
        let (plain, merge) = (PatchParams::default(), |value: &Value| Patch::Merge(value.clone()));
        let annotated = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
        wait::until("the tenant may patch pods", || async {
            api.patch("own", &plain, &merge(&annotated("example.com/a", json!("b")))).await
        })
        .await;

        let forged: Vec<Value> = ["deregistered-at", "may-go", "leaving", "leaving-waits"]
            .into_iter()
            .map(|name| annotated(&format!("headgate.dev/{name}"), json!("u T bound 4294967295s")))
            .chain([annotated("headgate.dev/leaving", Value::Null)])
            .collect();
        let condition = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
        let gate = condition(OWN_GATE);
        for forged in &forged {
            let said = by_policy(api.patch("own", &plain, &merge(forged)).await);
            let said = said.unwrap_or_else(|other| panic!("{forged}: {other}"));
            assert!(said.contains("grant the verb write on podmarks.headgate.dev"), "{said}");
            // A patch of the status would change them too.
            by_policy(api.patch_status("own", &plain, &merge(forged)).await).unwrap();
        }
        by_policy(api.patch_status("own", &plain, &Patch::Strategic(&gate)).await).unwrap();

        // The annotations of a scheduler's Binding are added to the pod.
        let mut waiting = pod.clone();
        waiting.metadata.name = Some("waiting".into());
        waiting.metadata.annotations = None;
        waiting.spec.as_mut().unwrap().scheduler_name = Some("nobody".into());
        api.create(&PostParams::default(), &waiting).await.unwrap();
        for legacy in [false, true] {
            let said = by_policy(bind(&client, &s, legacy, "headgate.dev/leaving").await);
            let said = said.unwrap_or_else(|other| panic!("{other}"));
            assert!(said.contains("grant the verb write on podmarks.headgate.dev"), "{said}");
        }
        bind(&client, &s, false, "example.com/a").await.unwrap();
        let bound = api.get("waiting").await.unwrap().metadata.annotations.unwrap_or_default();
        assert_eq!(bound.get("example.com/a").map(String::as_str), Some("x"), "{bound:?}");
        assert!(!bound.contains_key("headgate.dev/leaving"), "{bound:?}");

        // The tenant may still write everything else.
        for patch in [
            annotated("headgate.dev/hold", json!("7s")),
            annotated("example.com/a", json!("c")),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ] {
            api.patch("own", &plain, &merge(&patch)).await.unwrap();
        }
        api.patch_status("own", &plain, &Patch::Strategic(&condition("example.com/warm"))).await.unwrap();

        let write = json!({"apiGroups": ["headgate.dev"], "resources": ["podmarks"], "verbs": ["write"]});
        grant(&s, "podmarks", json!([write])).await;
        for patch in &forged {
            wait::until("who may write podmarks may", || async {
                api.patch("own", &plain, &merge(patch)).await
            })
            .await;
        }
        api.patch_status("own", &plain, &Patch::Strategic(&gate)).await.unwrap();
        release.remove().await;
    });
}
