//! IngressDaemonSets, created and rolled out by `headgate daemonsets` on a real API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use headgate::api::IngressDaemonSet;
use headgate_harness::{
    daemonsets::{Seen, Set},
    rights::of_daemonsets,
    root,
    shared_world::{alone, beside_others},
    wait,
};
use k8s_openapi::{
    api::{
        apps::v1::ControllerRevision,
        core::v1::{Node, Pod},
        policy::v1::PodDisruptionBudget,
    },
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::{Value, json};

#[test]
fn pods_are_made_on_every_node_rolled_taken_back_and_go_with_their_set() {
    beside_others(|world| async move {
        let set = Set::new(world, "ids", &json!({"podsPerNode": 2})).await;
        let headgate = set.controller().await;
        set.wait_done().await;
        assert_eq!(set.by_node().await, set.everywhere(2));
        let first = only_revision(&set.pods().await);
        set.wait_reason("Available", "AsExpected").await;

        let budgets = set.s.cluster.api::<PodDisruptionBudget>();
        let budget = budgets.get("headgate-edge").await.unwrap();
        let pods = i32::try_from(2 * set.nodes.len()).unwrap();
        let least = budget.spec.and_then(|spec| spec.min_available).map(|least| json!(least));
        assert_eq!(least, Some(json!(pods - (pods + 3) / 4)));

        let enough = AtomicBool::new(false);
        let rolled = async {
            set.patch(json!({"template": set.template("2")})).await;
            set.wait_done().await;
            enough.store(true, Ordering::Relaxed);
        };
        futures::future::join(rolled, always_two_to_three(&set, &enough)).await;
        let second = only_revision(&set.pods().await);
        assert_ne!(first, second);
        set.wait_reason("Progressing", "AsExpected").await;
        assert_eq!(set.by_node().await, set.everywhere(2));

        // If the template returns to an existing revision, pods of that revision are not recreated.
        set.patch(json!({"template": set.template("1")})).await;
        set.wait_done().await;
        assert_eq!(only_revision(&set.pods().await), first);
        let revisions =
            set.s.cluster.api::<ControllerRevision>().list(&ListParams::default()).await.unwrap().items;
        let numbers: BTreeMap<String, i64> = revisions
            .into_iter()
            .map(|revision| {
                (revision.metadata.labels.unwrap()["controller-revision-hash"].clone(), revision.revision)
            })
            .collect();
        assert_eq!(numbers, BTreeMap::from([(second, 2), (first, 3)]));

        set.end().await;
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

/// Checks repeatedly: each node has at least two Ready pods, and at most three that do not terminate.
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

const ASKED: &str = "example.com/detach";
const SAID: &str = "example.com/detached-at";

fn noted<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.metadata.annotations.as_ref()?.get(key)
}

/// Detaches nodes on request and reports that. Checks for each node that no pod changed before that.
async fn detach(set: &Set, first: &str, enough: &AtomicBool) -> BTreeSet<String> {
    let nodes: Api<Node> = Api::all(set.s.cluster.client.clone());
    let own = format!("{}.{}", set.s.cluster.namespace, set.name);
    let mut detached = BTreeSet::new();
    while !enough.load(Ordering::Relaxed) {
        let every = ListParams::default();
        let all = wait::answered("nodes", || nodes.list(&every)).await.unwrap().items;
        for node in all {
            let name = node.metadata.name.clone().unwrap();
            let (is_asked, says) = (noted(&node, ASKED) == Some(&own), noted(&node, SAID).is_some());
            if is_asked == says {
                continue;
            }
            if is_asked {
                // Time for a controller that would not wait.
                tokio::time::sleep(Duration::from_millis(500)).await;
                let pods = set.pods().await;
                let here: Vec<&Seen> = pods.iter().filter(|pod| pod.node == name).collect();
                assert!(here.iter().all(|pod| pod.revision == first && !pod.terminating), "{name}: {here:?}");
                detached.insert(name.clone());
            }
            let said = is_asked.then(|| Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            let patch = json!({"metadata": {"annotations": {SAID: said}}});
            nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    detached
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
            (
                json!({"spec": {"updateStrategy": {"maxSurgePerNode": 0}}}),
                "set maxSurgePerNode or maxUnavailablePerNode above 0",
            ),
            (
                json!({"spec": {"updateStrategy": {"maxNodesAtOnce": "110%"}}}),
                "set a number from 0, or a percentage from 0% to 100%",
            ),
            (json!({"spec": {"template": {"spec": {"restartPolicy": "Never"}}}}), "set restartPolicy Always"),
            (json!({"spec": {"template": {"spec": {"nodeName": "n1"}}}}), "remove nodeName"),
            (
                json!({"spec": {"template": {"metadata": {"labels": {"headgate.dev/daemonset": "x"}}}}}),
                "Headgate sets them",
            ),
            (with(host.clone(), &json!({})), "two pods of a node cannot share a hostPort"),
            (with(host.clone(), &json!({"podsPerNode": 2})), "two pods of a node cannot share a hostPort"),
            (
                with(json!({"template": {"spec": {"hostNetwork": true}}}), &json!({})),
                "cannot share the ports of a node",
            ),
            (
                json!({"spec": {"updateStrategy": {"waitForDetachmentByAnnotatedTimestamp": {"key": "a/b"}}}}),
                "set annotateNodeToDetach with waitForDetachmentByAnnotatedTimestamp",
            ),
            (json!({"name": "e".repeat(51)}), "at most 50 characters"),
        ] {
            let error = refused(change.clone()).await;
            assert!(error.contains(said), "{change}: {error}");
        }
        let sample = std::fs::read_to_string(root().join("config/samples/ingressdaemonset.yaml")).unwrap();
        let sample: Value = serde_saphyr::from_str(sample.split("\n---\n").next().unwrap()).unwrap();
        for change in [
            json!({"spec": sample["spec"]}),
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

/// Merges a patch into a value.
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

/// Run by `.ci/run` and not by `make test`.
mod more {
    use super::*;

    #[test]
    fn where_a_node_has_no_room_for_one_more_its_pods_are_evicted_and_made_again() {
        beside_others(|world| async move {
            let update = json!({"type": "NodeReplace"});
            let set = Set::new(world, "idsrep", &json!({"podsPerNode": 2, "updateStrategy": update})).await;
            let headgate = set.controller().await;
            set.wait_done().await;
            let first = only_revision(&set.pods().await);
            set.patch(json!({"template": set.template("2")})).await;
            set.wait_done().await;
            assert_ne!(only_revision(&set.pods().await), first);
            assert_eq!(set.by_node().await, set.everywhere(2));
            let evicted = headgate.logged(|line| line["message"] == "evicting a pod");
            assert!(evicted.len() >= 2 * set.nodes.len(), "{evicted:?}");
            set.end().await;
        });
    }

    #[test]
    fn pods_that_are_left_behind_are_taken_over_and_one_that_loses_its_label_is_let_go() {
        beside_others(|world| async move {
            let set = Set::new(world, "idsown", &json!({})).await;
            // With only its own permissions, so this test covers all that it needs.
            let kubeconfig = of_daemonsets(&set.s).await;
            let headgate = set.controller_as(&kubeconfig, &[]).await;
            set.wait_done().await;
            let uids = async || -> BTreeSet<String> {
                let pods = set.s.cluster.pods_of(&set.name).await;
                pods.into_iter().filter_map(|pod| pod.metadata.uid).collect()
            };
            let before = uids().await;
            let sets = set.s.cluster.api::<IngressDaemonSet>();
            let orphan = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Orphan),
                ..DeleteParams::default()
            };
            sets.delete(&set.name, &orphan).await.unwrap();
            wait::within(wait::COLLECTED, "the set is gone", || async {
                if sets.get_opt(&set.name).await.unwrap().is_none() { Ok(()) } else { Err("it is there") }
            })
            .await;
            set.s.cluster.create::<IngressDaemonSet>(set.object(&json!({}))).await;
            set.wait_done().await;
            assert_eq!(uids().await, before, "the pods are the same");

            let pod = set.pods().await.remove(0);
            set.s
                .cluster
                .patch::<Pod>(&pod.name, &json!({"metadata": {"labels": {"headgate.dev/daemonset": null}}}))
                .await;
            let pods = set.s.cluster.api::<Pod>();
            wait::until("it is let go", || async {
                let owners = pods.get(&pod.name).await.unwrap().metadata.owner_references.unwrap_or_default();
                if owners.is_empty() { Ok(()) } else { Err(owners) }
            })
            .await;
            let more = before.len() + 1;
            wait::until_equal("another one is in its place", &more, || async {
                set.pods().await.iter().filter(|pod| pod.ready).count()
            })
            .await;
            set.wait_done().await;
            set.s.cluster.delete_pod(&pod.name, 1).await;
            // The set excludes a node: its pods there are evicted. Then old revisions are deleted.
            let mut elsewhere = set.template("2");
            elsewhere["spec"]["nodeSelector"]["kubernetes.io/hostname"] =
                set.nodes.first().unwrap().as_str().into();
            set.patch(json!({"template": elsewhere, "revisionHistoryLimit": 0})).await;
            set.wait_done().await;
            let one = BTreeMap::from([(set.nodes.first().unwrap().clone(), 1)]);
            wait::until_equal("the others are empty", &one, || set.by_node()).await;
            let revisions = set.s.cluster.api::<ControllerRevision>();
            wait::until_equal("only its template is kept", &1, || async {
                revisions.list(&ListParams::default()).await.unwrap().items.len()
            })
            .await;
            let refused = headgate.logged(|line| line.to_string().contains("forbidden"));
            assert!(refused.is_empty(), "{refused:?}");
            set.end().await;
        });
    }

    #[test]
    fn whoever_detaches_nodes_is_asked_to_in_each_turn_and_waited_for() {
        alone(|world| async move {
            let update = json!({
                "annotateNodeToDetach": {"key": ASKED},
                "waitForDetachmentByAnnotatedTimestamp": {"key": SAID, "gracePeriodSeconds": 1},
            });
            let set = Set::new(world, "idsdetach", &json!({"updateStrategy": update})).await;
            let headgate = set.controller_with(&[&format!("--node-annotations={ASKED}")]).await;
            set.wait_done().await;
            let first = only_revision(&set.pods().await);
            let enough = AtomicBool::new(false);
            let rolled = async {
                set.patch(json!({"template": set.template("2")})).await;
                set.wait_done().await;
                let nodes: Api<Node> = Api::all(set.s.cluster.client.clone());
                wait::until("no node is annotated", || async {
                    let all =
                        nodes.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
                    let left: Vec<_> = all
                        .iter()
                        .filter(|node| noted(node, ASKED).is_some() || noted(node, SAID).is_some())
                        .collect();
                    if left.is_empty() { Ok(()) } else { Err(left.len().to_string()) }
                })
                .await;
                enough.store(true, Ordering::Relaxed);
            };
            let ((), detached) = futures::future::join(rolled, detach(&set, &first, &enough)).await;
            assert_eq!(detached, set.nodes);
            assert_ne!(only_revision(&set.pods().await), first);

            // A key that the controller may not set: it writes nothing and does not change the node's pods.
            let other = json!({"annotateNodeToDetach": {"key": "headgate.dev/detached-at"}});
            set.patch(json!({"template": set.template("3"), "updateStrategy": other})).await;
            let second = only_revision(&set.pods().await);
            wait::until("the log says why not", || async {
                let said = headgate.logged(|line| {
                    line["why"].as_str().is_some_and(|why| why.contains("--node-annotations"))
                });
                if said.is_empty() { Err("nothing") } else { Ok(()) }
            })
            .await;
            wait::until("the status says what is waited for", || async {
                let status = set.read().await.status.unwrap_or_default();
                let waits = status.turns.first().and_then(|turn| turn.waits_for.as_deref());
                if waits == Some("NodeNotDetached") { Ok(()) } else { Err(status) }
            })
            .await;
            assert_eq!(only_revision(&set.pods().await), second);
            set.end().await;
        });
    }
}
