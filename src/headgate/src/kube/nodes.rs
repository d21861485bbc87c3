//! Nodes as they are watched: where they are, and whether they take pods.

use headgate_core::node::NodeFacts;
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use super::slim::without_annotations;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A node as it is watched.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
pub struct SlimNode {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    spec: Option<Spec>,
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
    effect: Option<String>,
}

impl SlimNode {
    /// What the core needs to know.
    pub fn into_facts(mut self) -> Option<NodeFacts> {
        let spec = self.spec.unwrap_or_default();
        let keeps_away = |taint: &Taint| matches!(taint.effect.as_deref(), Some("NoSchedule" | "NoExecute"));
        let tainted = spec.taints.iter().flatten().flatten().any(keeps_away);
        Some(NodeFacts {
            name: self.metadata.name.take()?.into(),
            zone: self.metadata.labels.unwrap_or_default().remove(ZONE).map(Into::into),
            takes_pods: !spec.unschedulable.unwrap_or_default() && !tainted,
        })
    }
}

#[cfg(test)]
mod tests {
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
        assert!(read(&json!(null)).takes_pods && read(&json!({"taints": null})).takes_pods);
    }
}
