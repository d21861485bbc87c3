//! Reads watched nodes: the zone, whether the node accepts pods, and signs that the node will be removed. The module
//! also writes the only annotation that Headgate sets on nodes.

use headgate_core::{
    Failure,
    model::{
        node::{DETACHED_AT, DetachedWrite, NodeFacts},
        object::Uid,
    },
};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    failure, marks,
    slim::{OfNode, with_annotations},
};

/// The message of the Ready condition while a kubelet shuts down (`ShutdownStatus` in the kubelet's nodeshutdown
/// package, v1.36).
const SHUTTING_DOWN: &str = "node is shutting down";

const ZONE: &str = "topology.kubernetes.io/zone";

/// A watched node.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
pub struct SlimNode {
    #[serde(default, deserialize_with = "with_annotations::<OfNode, _>")]
    metadata: ObjectMeta,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: Option<bool>,
    taints: Option<Vec<Option<Taint>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: Option<String>,
    effect: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Option<Vec<Option<Condition>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    message: Option<String>,
}

impl Condition {
    fn is_ready(&self) -> bool {
        self.kind.as_deref() == Some("Ready") && self.status.as_deref() == Some("True")
    }

    fn shuts_down(&self) -> bool {
        self.kind.as_deref() == Some("Ready")
            && self.status.as_deref() == Some("False")
            && self.message.as_deref().is_some_and(|message| message.contains(SHUTTING_DOWN))
    }
}

impl SlimNode {
    /// Converts the node to the core's facts.
    pub fn into_facts(mut self) -> Option<NodeFacts> {
        let spec = self.spec.unwrap_or_default();
        let keeps_away = |taint: &Taint| matches!(taint.effect.as_deref(), Some("NoSchedule" | "NoExecute"));
        let taints: Vec<Taint> = spec.taints.into_iter().flatten().flatten().collect();
        let tainted = taints.iter().any(keeps_away);
        let cordoned = spec.unschedulable.unwrap_or_default();
        let conditions = self.status.unwrap_or_default().conditions;
        let annotations = self.metadata.annotations.take().unwrap_or_default();
        Some(NodeFacts {
            name: self.metadata.name.take()?.into(),
            uid: Uid::new(self.metadata.uid.take().unwrap_or_default()),
            created: self.metadata.creation_timestamp.map_or(0, |time| time.0.as_second()),
            zone: self.metadata.labels.unwrap_or_default().remove(ZONE).map(Into::into),
            takes_pods: !cordoned && !tainted,
            taints: taints.into_iter().filter_map(|taint| taint.key).map(Into::into).collect(),
            cordoned,
            not_ready: !conditions.iter().flatten().flatten().any(Condition::is_ready),
            shuts_down: conditions.iter().flatten().flatten().any(Condition::shuts_down),
            detached: annotations.contains_key(DETACHED_AT),
        })
    }
}

/// Reads nodes, and sets the annotation of detached nodes.
#[derive(Clone)]
pub struct Nodes {
    client: Client,
}

impl Nodes {
    /// Creates a client for the nodes of a cluster.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the present state of a node, if the node exists.
    pub async fn get(&self, name: &str) -> Result<Option<NodeFacts>, Failure> {
        let api: Api<SlimNode> = Api::all(self.client.clone());
        let node = api.get_opt(name).await.map_err(|error| failure::of(&error))?;
        Ok(node.and_then(SlimNode::into_facts))
    }

    /// Writes or removes the annotation of a detached node. The patch contains the Node's UID, so the API server
    /// rejects the patch if another Node has the same name.
    pub async fn write(&self, write: &DetachedWrite) -> Result<(), Failure> {
        let api: Api<PartialObjectMeta<Node>> = Api::all(self.client.clone());
        let written = api.patch(&write.node, &PatchParams::default(), &Patch::Merge(patch(write))).await;
        written.map(|_| ()).map_err(|error| failure::of(&error))
    }
}

fn patch(write: &DetachedWrite) -> Value {
    json!({"metadata": {"uid": write.uid.as_str(), "annotations": {DETACHED_AT: write.at.map(marks::shown)}}})
}

#[cfg(test)]
mod tests {
    use headgate_core::WallTime;
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: &Value) -> NodeFacts {
        let node = json!({
            "metadata": {"name": "a1", "labels": {ZONE: "us-east-1a", "other": "x"}}, "spec": spec,
            "status": {"images": [{"names": ["large"]}]},
        });
        serde_json::from_value::<SlimNode>(node).unwrap().into_facts().unwrap()
    }

    #[test]
    fn a_node_takes_pods_unless_it_is_cordoned_or_a_taint_keeps_them_away() {
        let plain = read(&json!({}));
        assert_eq!((&*plain.name, plain.zone.as_deref(), plain.takes_pods), ("a1", Some("us-east-1a"), true));
        assert!(!read(&json!({"unschedulable": true})).takes_pods);
        let tainted =
            |effect: &str| read(&json!({"taints": [null, {"key": "x", "effect": effect}]})).takes_pods;
        assert!(!tainted("NoSchedule") && !tainted("NoExecute") && tainted("PreferNoSchedule"));
        let keys = read(&json!({"taints": [{"key": "a/b", "value": "c"}, {"key": "d"}, {}]})).taints;
        assert_eq!(keys, ["a/b".into(), Box::<str>::from("d")]);
        assert!(read(&json!({"unschedulable": true})).cordoned && !plain.cordoned);
        assert!(read(&json!(null)).takes_pods && read(&json!({"taints": null})).takes_pods);
    }

    #[test]
    fn that_it_is_detached_is_read_and_written_with_the_uid_of_the_node() {
        let node = |annotations: &Value| {
            let node = json!({"metadata": {"name": "a1", "uid": "u-1", "annotations": annotations}});
            serde_json::from_value::<SlimNode>(node).unwrap().into_facts().unwrap()
        };
        let detached = node(&json!({"headgate.dev/detached-at": "2027-01-15T08:00:00.250Z", "other": "x"}));
        assert_eq!((detached.detached, detached.uid.as_str()), (true, "u-1"));
        assert!(!node(&json!({"other": "x"})).detached && !node(&json!(null)).detached);
        let at = WallTime::since_1970(std::time::Duration::from_millis(1_800_000_000_250));
        let write = |at| patch(&DetachedWrite { node: "a1".into(), uid: Uid::new("u-1"), at });
        let text = write(Some(at)).to_string();
        assert_eq!(
            text,
            r#"{"metadata":{"annotations":{"headgate.dev/detached-at":"2027-01-15T08:00:00.250Z"},"uid":"u-1"}}"#
        );
        assert!(write(None).to_string().contains(r#""headgate.dev/detached-at":null"#));
    }

    #[test]
    fn a_node_is_ready_if_its_condition_says_so() {
        let read = |status: &Value| {
            let node = json!({"metadata": {"name": "a1"}, "status": {"conditions": status}});
            serde_json::from_value::<SlimNode>(node).unwrap().into_facts().unwrap().not_ready
        };
        let says = |status: &str| read(&json!([{"type": "Ready", "status": status}]));
        assert_eq!(["True", "False", "Unknown"].map(says), [false, true, true]);
        assert!(read(&json!(null)) && read(&json!([{"type": "DiskPressure", "status": "True"}])));
    }

    #[test]
    fn a_kubelet_that_shuts_down_says_so_in_its_ready_condition() {
        let says = |kind: &str, status: &str, message: &str| {
            let node = json!({
                "metadata": {"name": "a1"},
                "status": {"conditions": [null, {"type": "DiskPressure", "status": "False"}, {
                    "type": kind, "status": status, "reason": "KubeletNotReady", "message": message,
                }]},
            });
            serde_json::from_value::<SlimNode>(node).unwrap().into_facts().unwrap().shuts_down
        };
        assert!(says("Ready", "False", "node is shutting down"));
        assert!(says("Ready", "False", "[container runtime is down, node is shutting down]"));
        assert!(!says("Ready", "False", "container runtime is down"));
        assert!(!says("Ready", "True", "node is shutting down"));
        assert!(!says("Other", "False", "node is shutting down"));
    }
}
