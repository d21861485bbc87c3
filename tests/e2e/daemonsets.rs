//! IngressDaemonSets, made and rolled by `headgate daemonsets` on a real API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use headgate::api::IngressDaemonSet;
use headgate_harness::{
    daemonsets::{Seen, Set},
    shared_world::beside_others,
    wait,
};
use k8s_openapi::api::{apps::v1::ControllerRevision, policy::v1::PodDisruptionBudget};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

#[test]
fn pods_are_made_on_every_node_rolled_taken_back_and_go_with_their_set() {
    beside_others(|world| async move {
        let set = Set::new(world, "ids", &json!({"podsPerNode": 2})).await;
        let headgate = set.controller().await;
        set.wait_done().await;
        assert_eq!(set.by_node().await, set.everywhere(2));
        let first = only_revision(&set.pods().await);
        set.wait_reason("Available", "AllNodesAvailable").await;

        let budgets = set.s.cluster.api::<PodDisruptionBudget>();
        let budget = budgets.get("headgate-edge").await.unwrap();
        let pods = i32::try_from(2 * set.nodes.len()).unwrap();
        let least = budget.spec.and_then(|spec| spec.min_available).map(|least| json!(least));
        assert_eq!(least, Some(json!(pods - (pods + 3) / 4)));

        let names: BTreeSet<String> = set.pods().await.into_iter().map(|pod| pod.name).collect();
        let (enough, watched) = (AtomicBool::new(false), ());
        let rolled = async {
            set.patch(json!({"template": set.template("2")})).await;
            set.wait_done().await;
            enough.store(true, Ordering::Relaxed);
        };
        let ((), (), ()) = (futures::future::join(rolled, always_two_to_three(&set, &enough)).await.0, watched, ());
        let second = only_revision(&set.pods().await);
        assert_ne!(first, second);
        set.wait_reason("Progressing", "RollComplete").await;
        let kept: BTreeSet<String> = set.pods().await.into_iter().map(|pod| pod.name).collect();
        assert!(kept.len() == names.len(), "{kept:?}");

        // What has a revision already is not made anew when the set goes back to it.
        set.patch(json!({"template": set.template("1")})).await;
        set.wait_done().await;
        assert_eq!(only_revision(&set.pods().await), first);
        let revisions = set.s.cluster.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
        let numbers: BTreeMap<String, i64> = revisions
            .into_iter()
            .map(|revision| (revision.metadata.labels.unwrap()["controller-revision-hash"].clone(), revision.revision))
            .collect();
        assert_eq!(numbers, BTreeMap::from([(second, 2), (first, 3)]));

        set.s.cluster.api::<IngressDaemonSet>().delete(&set.name, &DeleteParams::default()).await.unwrap();
        wait::until_equal("pods go with their set", &0, || async { set.pods().await.len() }).await;
        let (code, text) = headgate.terminate().await;
        assert_eq!(code, Some(0), "{text}");
    });
}

fn only_revision(pods: &[Seen]) -> String {
    let revisions: BTreeSet<&String> =
        pods.iter().filter(|pod| !pod.terminating).map(|pod| &pod.revision).collect();
    assert_eq!(revisions.len(), 1, "{pods:?}");
    revisions.into_iter().next().unwrap().clone()
}

/// Looks again and again: no node has fewer than two pods that are Ready, nor more than three that stay.
async fn always_two_to_three(set: &Set, enough: &AtomicBool) {
    while !enough.load(Ordering::Relaxed) {
        let pods = set.pods().await;
        for node in &set.nodes {
            let here: Vec<&Seen> = pods.iter().filter(|pod| pod.node == *node && !pod.terminating).collect();
            let ready = here.iter().filter(|pod| pod.ready).count();
            assert!(ready >= 2 && here.len() <= 3, "{node}: {here:?}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_set_that_makes_no_sense_is_refused_with_what_was_expected() {
    beside_others(|world| async move {
        let set = Set::new(world, "idsbad", &json!({})).await;
        let refused = async |change: Value| {
            let mut object = set.object(&json!({}));
            object["metadata"]["name"] = change.get("name").cloned().unwrap_or(json!("other"));
            let mut spec = object["spec"].clone();
            json_patch(&mut spec, &change["spec"]);
            object["spec"] = spec;
            let object: IngressDaemonSet = serde_json::from_value(object).unwrap();
            let params = PostParams { dry_run: true, ..PostParams::default() };
            let made = set.s.cluster.api::<IngressDaemonSet>().create(&params, &object).await;
            match made {
                Ok(_) => String::new(),
                Err(error) => error.to_string(),
            }
        };
        let host = json!({"template": {"spec": {"containers": [{"name": "web", "ports": [{"containerPort": 80, "hostPort": 80}]}]}}});
        let with = |mut spec: Value, more: &Value| {
            json_patch(&mut spec, more);
            json!({"spec": spec})
        };
        let in_place = json!({"updateStrategy": {"type": "RollingUpdate", "maxSurgePerNode": 0, "maxUnavailablePerNode": 1}});
        for (change, said) in [
            (json!({"spec": {"podsPerNode": 17}}), "less than or equal to 16"),
            (json!({"spec": {"updateStrategy": {"maxSurgePerNode": 0}}}), "expected maxSurgePerNode or maxUnavailablePerNode above 0"),
            (json!({"spec": {"updateStrategy": {"maxNodesAtOnce": "110%"}}}), "expected a number from 0, or a share from 0% to 100%"),
            (json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}), "expected restartPolicy Always"),
            (json!({"spec": {"template": {"spec": {"nodeName": "n1"}}}}), "expected no nodeName"),
            (json!({"spec": {"template": {"metadata": {"labels": {"headgate.dev/daemonset": "x"}}}}}), "are Headgate's own"),
            (with(host.clone(), &json!({})), "no two pods of a node can have one hostPort"),
            (with(host.clone(), &json!({"podsPerNode": 2})), "no two pods of a node can have one hostPort"),
            (with(json!({"template": {"spec": {"hostNetwork": true}}}), &json!({})), "has the ports of its node"),
            (json!({"name": "e".repeat(51)}), "at most 50 letters"),
        ] {
            let error = refused(change.clone()).await;
            assert!(error.contains(said), "{change}: {error}");
        }
        for change in [
            with(host, &in_place),
            with(json!({"template": {"spec": {"hostNetwork": true}}}), &in_place),
            json!({"spec": {"updateStrategy": {"type": "NodeReplace", "maxNodesAtOnce": "10%"}}}),
            json!({"name": "e".repeat(50)}),
            json!({"spec": {"template": {"spec": {"aFieldOfALaterKubernetes": {"x": 1}}}}}),
        ] {
            assert_eq!(refused(change.clone()).await, "", "{change}");
        }
    });
}

/// Puts what is said in the place of what was there.
fn json_patch(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (_, Value::Null) => {}
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                json_patch(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}
