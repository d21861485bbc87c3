//! IngressDaemonSets next to objects that another user created in their namespace.

use headgate::kube::daemonsets::template;
use headgate_harness::{
    cluster::client,
    daemonsets::{REVISION, Set},
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod, rbac::v1::ClusterRole};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

#[test]
fn a_controllerrevision_that_takes_the_name_of_another_one_makes_no_pod() {
    beside_others(|world| async move {
        let set = Set::new(world, "ids-forged", &json!({})).await;
        let headgate = set.controller().await;
        set.wait_done().await;
        let cluster = &set.s.cluster;
        let revisions = cluster.api::<ControllerRevision>();
        let kept = revisions.list(&ListParams::default()).await.unwrap().items.remove(0);
        let its_name = kept.name_any();

        // The template under another name, and another template under its name. The label of each matches its content.
        let named = |name: &str, template: &Value| {
            let mut object = serde_json::to_value(&kept).unwrap();
            object["metadata"] = json!({
                "name": name, "labels": object["metadata"]["labels"],
                "ownerReferences": object["metadata"]["ownerReferences"],
            });
            object["metadata"]["labels"][REVISION] = template::revision(template).into();
            object["data"] = template.clone();
            object
        };
        let good = serde_json::to_value(&kept).unwrap()["data"].clone();
        let mut evil = good.clone();
        evil["spec"]["containers"][0]["image"] = "x.io/evil".into();
        cluster.create::<ControllerRevision>(named("copy", &good)).await;
        revisions.delete(&its_name, &DeleteParams::default()).await.unwrap();
        cluster.create::<ControllerRevision>(named(&its_name, &evil)).await;

        let before: Vec<Pod> = cluster.pods_of(&set.name).await;
        let (ended, uid) = (before[0].name_any(), before[0].uid());
        cluster.delete_pod(&ended, 0).await;
        let after = wait::until("the pod is made again", || async {
            let pods = cluster.pods_of(&set.name).await;
            let is_new = pods.iter().all(|pod| pod.uid() != uid);
            if is_new && pods.len() == before.len() { Ok(pods) } else { Err(pods.len()) }
        })
        .await;
        for pod in after {
            let image = pod.spec.unwrap().containers[0].image.clone();
            assert_ne!(image.as_deref(), Some("x.io/evil"));
        }
        set.end().await;
        headgate.terminate().await;
    });
}

#[test]
fn a_template_that_is_too_large_is_reported_and_changes_no_pod() {
    beside_others(|world| async move {
        let set = Set::new(world, "ids-large", &json!({})).await;
        let headgate = set.controller().await;
        set.wait_done().await;
        let uids = async || {
            let pods = set.s.cluster.pods_of(&set.name).await;
            pods.iter().map(|pod| pod.uid().unwrap()).collect::<std::collections::BTreeSet<_>>()
        };
        let before = uids().await;
        let mut large = set.template("2");
        large["metadata"]["annotations"]["example.com/large"] = "x".repeat(65_536).into();
        set.patch(json!({"template": large})).await;
        set.wait_reason("Progressing", "LimitExceeded").await;
        set.s.cluster.wait_warning("edge", "LimitExceeded", "the template of an IngressDaemonSet").await;
        assert_eq!(uids().await, before);

        let tolerations: Vec<Value> =
            (0..=1000).map(|at| json!({"key": format!("k{at}"), "operator": "Exists"})).collect();
        let mut many = set.template("3");
        many["spec"]["tolerations"] = tolerations.into();
        let mut object = set.object(&json!({"template": many}));
        object["metadata"]["name"] = "many".into();
        let api = set.s.cluster.api::<headgate::api::IngressDaemonSet>();
        let object = serde_json::from_value(object).unwrap();
        let refused = api.create(&kube::api::PostParams::default(), &object).await.unwrap_err().to_string();
        assert!(refused.contains("tolerations: Too many"), "{refused}");

        set.patch(json!({"template": set.template("1")})).await;
        set.wait_done().await;
        set.end().await;
        headgate.terminate().await;
    });
}

#[test]
fn the_role_edit_of_kubernetes_may_write_neither_controllerrevisions_nor_bindings() {
    beside_others(|world| async move {
        let roles: Api<ClusterRole> = Api::all(client(world.facts()).await);
        let label = "rbac.authorization.k8s.io/aggregate-to-edit=true";
        let roles = roles.list(&ListParams::default().labels(label)).await.unwrap().items;
        let allowed = roles.into_iter().flat_map(|role| role.rules.unwrap_or_default());
        let writes = allowed.filter(|rule| {
            let reads = ["get", "list", "watch"];
            rule.verbs.iter().any(|verb| !reads.contains(&&**verb))
        });
        let written: Vec<String> = writes.flat_map(|rule| rule.resources.unwrap_or_default()).collect();
        assert!(written.contains(&"pods".to_owned()), "{written:?}");
        for resource in ["controllerrevisions", "bindings", "pods/binding", "*"] {
            assert!(!written.contains(&resource.to_owned()), "{resource}");
        }
    });
}
