//! With Headgate's own token, and the chart's own roles and policies, the API server rejects all writes outside of
//! Headgate's task. Headgate can do all that it must.

use headgate_core::model::node::DETACHED_AT;
use headgate_harness::{
    accounts,
    cluster::{OWN_GATE, pod_spec},
    headgate::{Headgate, command, command_as},
    kubectl::Kubectl,
    on_real_nodes,
    release::{Release, by_policy},
    scenario::{Scenario, http_port},
    shared_world::beside_others,
    wait,
    webhook::Configuration,
};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingAdmissionPolicy,
    apps::v1::Deployment,
    core::v1::{Node, Pod},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The policies for the controller of sets.
const SETS: &str = include_str!("../../../config/admission/daemonsets-writes-on-nodes.yaml");

/// A pod of a tenant that no test's Service selects.
async fn victim(s: &Scenario) -> Pod {
    let mut spec = pod_spec(&[("http", 8080)]);
    spec["readinessGates"] = json!([{"conditionType": OWN_GATE}, {"conditionType": "example.com/warm"}]);
    let metadata =
        json!({"name": "victim", "labels": {"app": "victim"}, "annotations": {"example.com/a": "b"}});
    s.cluster.create::<Pod>(json!({"metadata": metadata, "spec": spec})).await;
    s.cluster.wait_running("victim", 1).await;
    s.cluster.api::<Pod>().get("victim").await.unwrap()
}

/// Evicts it, or sends a dry run.
async fn evict(release: &Release, s: &Scenario, dry_run: bool) -> kube::Result<Value> {
    let (namespace, name) = (&s.cluster.namespace, "victim");
    let options = if dry_run { json!({"dryRun": ["All"]}) } else { json!({}) };
    let body = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"namespace": namespace, "name": name}, "deleteOptions": options,
    });
    let query = if dry_run { "?dryRun=All" } else { "" };
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction{query}");
    let request = hyper::Request::post(path).header("Content-Type", "application/json");
    release.client.request(request.body(body.to_string().into_bytes()).unwrap()).await
}

#[test]
fn of_a_pod_headgate_may_change_its_own_annotations_and_condition_and_nothing_else() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "fence").await;
        let release = Release::install(&s).await;
        let before = victim(&s).await;
        let pods: Api<Pod> = Api::namespaced(release.client.clone(), &s.cluster.namespace);
        let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]);
        for patch in [
            json!({"spec": {"containers": [{"name": "web", "image": "x.io/evil"}]}}),
            json!({"spec": {"activeDeadlineSeconds": 100_000}}),
            json!({"metadata": {"labels": {"app": "other"}}}),
            json!({"metadata": {"labels": {"app": null}}}),
            json!({"metadata": {"annotations": {"example.com/new": "x"}}}),
            json!({"metadata": {"annotations": {"example.com/a": "c"}}}),
            json!({"metadata": {"annotations": {"example.com/a": null}}}),
            json!({"metadata": {"annotations": {"headgate.dev/may-go": "x", "example.com/a": null}}}),
            json!({"metadata": {"finalizers": ["example.com/stuck"]}}),
            json!({"metadata": {"ownerReferences": owner}}),
        ] {
            let answer = pods.patch("victim", &PatchParams::default(), &Patch::Strategic(&patch)).await;
            by_policy(answer).unwrap_or_else(|other| panic!("{patch}: {other}"));
        }
        for patch in [
            json!({"metadata": {"labels": {"app": "other"}}}),
            json!({"metadata": {"annotations": {"example.com/new": "x"}}}),
            json!({"status": {"phase": "Failed"}}),
            json!({"status": {"reason": "Evicted", "message": "x"}}),
            json!({"status": {"conditions": [{"type": "example.com/warm", "status": "True"}]}}),
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            json!({"status": {"conditions": [{"$patch": "delete", "type": "PodScheduled"}]}}),
        ] {
            let answer =
                pods.patch_status("victim", &PatchParams::default(), &Patch::Strategic(&patch)).await;
            by_policy(answer).unwrap_or_else(|other| panic!("{patch}: {other}"));
        }
        let said = by_policy(evict(&release, &s, false).await).unwrap();
        assert!(said.contains("Headgate may evict as a dry run only"), "{said}");

        let now = s.cluster.api::<Pod>().get("victim").await.unwrap();
        assert_eq!((&now.spec, &now.metadata.annotations), (&before.spec, &before.metadata.annotations));
        assert_eq!(
            (&now.metadata.labels, &now.metadata.uid),
            (&before.metadata.labels, &before.metadata.uid)
        );
        assert!(now.metadata.deletion_timestamp.is_none());

        // Headgate's own writes.
        for (name, value) in [
            ("headgate.dev/leaving", json!("u since x")),
            ("headgate.dev/may-go", json!("u x")),
            ("headgate.dev/leaving", Value::Null),
            ("controller.kubernetes.io/pod-deletion-cost", json!("-1")),
            ("controller.kubernetes.io/pod-deletion-cost", Value::Null),
        ] {
            let patch = json!({"metadata": {"uid": now.metadata.uid, "annotations": {name: value}}});
            pods.patch("victim", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
        for status in ["False", "True"] {
            let condition = json!({"type": OWN_GATE, "status": status, "reason": "X", "message": "y"});
            let patch = json!({"metadata": {"uid": now.metadata.uid}, "status": {"conditions": [condition]}});
            pods.patch_status("victim", &PatchParams::default(), &Patch::Strategic(&patch)).await.unwrap();
        }
        evict(&release, &s, true).await.unwrap();
        release.remove().await;
    });
}

#[test]
fn headgate_may_neither_make_nor_delete_pods() {
    beside_others(|world| async move {
        let s = Scenario::new(world, "fence-more").await;
        let release = Release::install(&s).await;
        victim(&s).await;
        let namespace = &s.cluster.namespace;
        let forbidden = |what: &str, error: kube::Error| {
            let kube::Error::Api(status) = error else { panic!("{what}: {error}") };
            assert_eq!(status.code, 403, "{what}: {}", status.message);
        };
        let pods: Api<Pod> = Api::namespaced(release.client.clone(), namespace);
        let made = json!({"metadata": {"name": "made"}, "spec": pod_spec(&[("http", 8080)])});
        let made: Pod = serde_json::from_value(made).unwrap();
        let post = PostParams::default();
        forbidden("a new pod", pods.create(&post, &made).await.unwrap_err());
        forbidden("a deleted pod", pods.delete("victim", &DeleteParams::default()).await.unwrap_err());

        // Even if a user grants its account all permissions on pods.
        let resources = ["pods", "pods/status", "pods/ephemeralcontainers"];
        let rule = json!({"apiGroups": [""], "resources": resources, "verbs": ["*"]});
        s.cluster.create::<Role>(json!({"metadata": {"name": "too-much"}, "rules": [rule]})).await;
        s.cluster
            .create::<RoleBinding>(json!({
                "metadata": {"name": "too-much"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "too-much"},
                "subjects": [{"kind": "ServiceAccount", "name": release.name, "namespace": namespace}],
            }))
            .await;
        wait::until("the right to create pods is not enough", || async {
            by_policy(pods.create(&post, &made).await)
        })
        .await;
        by_policy(pods.delete("victim", &DeleteParams::default()).await).unwrap();
        by_policy(pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.map(|_| ()))
            .unwrap();
        let mut evil = s.cluster.api::<Pod>().get("victim").await.unwrap();
        evil.spec.as_mut().unwrap().containers[0].image = Some("x.io/evil".into());
        by_policy(pods.replace("victim", &post, &evil).await).unwrap();
        let container = json!({"name": "debug", "image": "x.io/evil"});
        let patch = json!({"spec": {"ephemeralContainers": [container]}});
        let (plain, patch) = (PatchParams::default(), Patch::Strategic(&patch));
        let patched = pods.patch_subresource("ephemeralcontainers", "victim", &plain, &patch).await;
        let said = by_policy(patched).unwrap();
        assert!(said.contains("Headgate may not UPDATE pods/ephemeralcontainers"), "{said}");
        assert_eq!(s.cluster.count("victim").await, 1);
        release.remove().await;
    });
}

/// Asserts that this client may change this annotation of a Node, and nothing else.
async fn may_write_only(s: &Scenario, client: &Client, key: &str, another: &str) {
    let name = s.name("node");
    let all: Api<Node> = Api::all(s.cluster.client.clone());
    let taint = json!({"key": "example.com/t", "effect": "NoSchedule"});
    let node = json!({
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"example.com/a": "b"}},
        "spec": {"unschedulable": true, "taints": [taint]},
    });
    all.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let before = all.get(&name).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = async |patch: &Value| nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    let evil = json!({"metadata": {"labels": {"a": "c"}}});
    wait::until("the API server goes by the policy", || async {
        let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
        by_policy(nodes.patch(&name, &dry_run, &Patch::Merge(&evil)).await)
    })
    .await;
    for evil in [
        evil,
        json!({"metadata": {"labels": {"new": "x"}}}),
        json!({"metadata": {"annotations": {"example.com/a": null}}}),
        json!({"metadata": {"annotations": {another: "x"}}}),
        json!({"metadata": {"annotations": {key: "x", "example.com/new": "x"}}}),
        json!({"metadata": {"finalizers": ["example.com/stuck"]}}),
        json!({"spec": {"unschedulable": null}}),
        json!({"spec": {"taints": []}}),
    ] {
        by_policy(patch(&evil).await).unwrap_or_else(|other| panic!("{evil}: {other}"));
    }
    for at in [json!("2027-01-15T08:00:00Z"), json!(null)] {
        patch(&json!({"metadata": {"annotations": {key: at}}})).await.unwrap();
    }
    let now = all.get(&name).await.unwrap();
    assert_eq!(now.metadata.labels, before.metadata.labels);
    // Kubernetes adds its own taints.
    let spec = now.spec.clone().unwrap();
    assert_eq!(spec.unschedulable, Some(true));
    assert!(spec.taints.into_iter().flatten().any(|taint| taint.key == "example.com/t"));
    let others = |node: &Node| {
        let mut all = node.metadata.annotations.clone().unwrap_or_default();
        // Kubernetes adds its own annotations, and the Headgate of another test may add one, because the node is
        // cordoned.
        all.retain(|name, _| !name.contains("kubernetes.io/") && name != DETACHED_AT);
        all
    };
    assert_eq!(others(&now), others(&before));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    for refused in [
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(&ready)).await.err(),
        nodes.delete(&name, &DeleteParams::default()).await.err(),
    ] {
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("forbidden"), "{refused}");
    }
    all.delete(&name, &DeleteParams::default()).await.unwrap();
}

on_real_nodes! {
    async fn headgate_does_all_that_it_must_and_kubelets_rolls_and_drains_go_on(world: World) {
        let s = Scenario::new(world, "fenced").await;
        let release = Release::install(&s).await;
        let group = s.group("web").await;
        s.cluster.service("web", "web", http_port(), Some(&format!("http={}", group.name))).await;
        s.cluster.set_annotation("web", "headgate.dev/hold", Some("3s")).await;
        let namespace = &s.cluster.namespace;
        let (only, own) = (format!("--namespaces={namespace}"), format!("--own-namespace={namespace}"));
        let lease = format!("--lease-name={}", release.name);
        let arguments =
            [&*only, &*own, &*lease, "--webhook-address=127.0.0.1:0", "--nlb-propagation-bound=3s"];
        let headgate = Headgate::start(s.facts(), &release.kubeconfig, &arguments).await;
        let label = s.name("mine");
        let labelled = json!({"metadata": {"labels": {&*label: ""}}});
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(s.cluster.client.clone());
        namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(&labelled)).await.unwrap();
        let client = s.cluster.client.clone();
        let webhook = Configuration::install_as(client, release.name.clone(), label, &[&headgate]).await;

        // Kubelets write the status of pods, and Headgate opens their gates.
        s.cluster.deploy_gated("web", 2, &[("http", 8080)]).await;
        s.cluster.wait_gates("web", 2, "True", "TargetsHealthy").await;
        let kubectl = Kubectl::new(s.facts(), namespace);
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=90s"]).await;
        kubectl.run(&["rollout", "restart", "deployment/web"]).await;
        kubectl.run(&["rollout", "status", "deployment/web", "--timeout=90s"]).await;
        s.cluster.wait_gates("web", 2, "True", "TargetsHealthy").await;
        s.wait_quiet("web", 2).await;

        // A pod without a hold is evicted with the annotations that Headgate writes, one after the other.
        let running = s.wait_registered(&group, "web", 2, 8080).await;
        let (pod, here) = (running.keys().next().unwrap(), format!("--namespace={namespace}"));
        let (code, said) = command(s.facts(), &["drain", &format!("pod/{pod}"), &here]).await;
        assert_eq!(code, Some(0), "{said}\n{}", headgate.text());
        assert!(said.contains("EvictionWaits"), "{said}");
        s.cluster.wait_gates("web", 2, "True", "TargetsHealthy").await;
        let running = s.wait_registered(&group, "web", 2, 8080).await;
        let pod = s.cluster.api::<Pod>().get(running.keys().next().unwrap()).await.unwrap();
        let (node, hash) = (
            pod.spec.unwrap().node_name.unwrap(),
            format!("--pod-selector=pod-template-hash={}", pod.metadata.labels.unwrap()["pod-template-hash"]),
        );
        let drained = kubectl.try_run(&["drain", &node, "--ignore-daemonsets", "--timeout=90s", &hash]).await;
        kubectl.run(&["uncordon", &node]).await;
        drained.unwrap();
        s.cluster.wait_gates("web", 2, "True", "TargetsHealthy").await;
        let refused = headgate.logged(|line| line.to_string().contains("ValidatingAdmissionPolicy"));
        assert_eq!(refused, Vec::<Value>::new());

        // Uninstall: it opens closed gates with the same account.
        headgate.terminate().await;
        s.cluster.deploy_gated("late", 1, &[("http", 8080)]).await;
        s.cluster.wait_running("late", 1).await;
        let leaving = ["uninstall", &*only, &*own, &*lease];
        let (code, said) = command_as(s.facts(), &release.kubeconfig, &leaving).await;
        assert_eq!(code, Some(0), "{said}");
        s.cluster.wait_gates("late", 1, "True", "HeadgateLeft").await;
        wait::until("the kubelet says that it is ready", || async {
            let status = s.cluster.api::<Deployment>().get("late").await.unwrap().status.unwrap();
            if status.available_replicas == Some(1) { Ok(()) } else { Err(status) }
        })
        .await;
        webhook.remove().await;
        release.remove().await;
    }
}

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn of_a_node_headgate_may_change_the_annotation_that_says_it_is_detached_and_nothing_else() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "nodefence").await;
            let release = Release::install_with(&s, &[]).await;
            may_write_only(&s, &release.client, DETACHED_AT, "headgate.dev/other").await;
            release.remove().await;
        });
    }

    #[test]
    fn of_a_node_the_controller_of_sets_may_change_the_annotations_that_it_was_told_and_nothing_else() {
        beside_others(|world| async move {
            let s = Scenario::new(world, "setsfence").await;
            let values = [
                &*format!("--set=daemonsets.enabled=true,daemonsets.namespaces={{{}}}", s.cluster.namespace),
                "--set=daemonsets.nodeAnnotations={example.com/one,detach}",
            ];
            let release = Release::install_with(&s, &values).await;
            let account = format!("{}-daemonsets", release.name);
            let client = accounts::client(&accounts::kubeconfig(s.facts(), &s.cluster, &account).await).await;
            may_write_only(&s, &client, "detach", DETACHED_AT).await;
            release.remove().await;
            // Also without the chart, before a user has set keys.
            let (text, _) = SETS.split_once("\n---\n").unwrap();
            let policy: ValidatingAdmissionPolicy = serde_saphyr::from_str(text).unwrap();
            let all = Api::all(s.cluster.client.clone());
            all.create(&PostParams { dry_run: true, ..PostParams::default() }, &policy).await.unwrap();
        });
    }
}
