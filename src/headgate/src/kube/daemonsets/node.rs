//! A node in the form that the controller of IngressDaemonSets uses.

use std::collections::BTreeMap;

use headgate_daemonset::model::{Effect, Noted, SetNode, Taint};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use serde::Deserialize;

use super::time;

/// The maximum length of an annotation's value. Longer values are ignored, because no handshake uses them.
const LONGEST: usize = 256;
const ZONE: &str = "topology.kubernetes.io/zone";

/// A watched node.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Node)]
pub struct SlimSetNode {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: Option<bool>,
    taints: Option<Vec<Option<Tainted>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Tainted {
    key: Option<String>,
    value: Option<String>,
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
}

impl SlimSetNode {
    /// Converts the node to the core's facts.
    pub fn into_facts(self) -> Option<SetNode> {
        let spec = self.spec.unwrap_or_default();
        let labels = self.metadata.labels.unwrap_or_default();
        let conditions = self.status.unwrap_or_default().conditions;
        let taint = |taint: Tainted| Taint {
            key: taint.key.unwrap_or_default().into(),
            value: taint.value.unwrap_or_default().into(),
            // An unknown effect counts as `NoSchedule`: it rejects new pods and does not evict running ones.
            effect: taint.effect.as_deref().and_then(Effect::of_word).unwrap_or(Effect::NoSchedule),
        };
        Some(SetNode {
            name: self.metadata.name?.into(),
            zone: labels.get(ZONE).map(String::as_str).unwrap_or_default().into(),
            labels: labels.into_iter().collect(),
            annotations: noted(self.metadata.annotations.unwrap_or_default()),
            taints: spec.taints.into_iter().flatten().flatten().map(taint).collect(),
            cordoned: spec.unschedulable.unwrap_or_default(),
            ready: conditions.into_iter().flatten().flatten().any(|condition| {
                condition.kind.as_deref() == Some("Ready") && condition.status.as_deref() == Some("True")
            }),
        })
    }
}

fn noted(annotations: BTreeMap<String, String>) -> Vec<Noted> {
    let short = annotations.into_iter().filter(|(_, value)| value.len() <= LONGEST);
    let noted = |(key, value): (String, String)| {
        let at = value.parse::<Timestamp>().ok();
        Noted { key: key.into(), value: value.into(), time: at.map(time) }
    };
    short.map(noted).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_read_with_its_labels_taints_and_whether_it_is_ready() {
        let node = json!({
            "metadata": {"name": "a1", "labels": {ZONE: "us-east-1a", "pool": "edge"}},
            "spec": {"unschedulable": true, "taints": [null, {"key": "dedicated", "value": "edge", "effect": "NoExecute"}, {"key": "x", "effect": "Later"}]},
            "status": {"conditions": [null, {"type": "Ready", "status": "True"}]},
        });
        let node = serde_json::from_value::<SlimSetNode>(node).unwrap().into_facts().unwrap();
        assert_eq!((&*node.name, &*node.zone, node.labels.get("pool")), ("a1", "us-east-1a", Some("edge")));
        assert_eq!(
            node.taints.iter().map(|taint| taint.effect).collect::<Vec<_>>(),
            [Effect::NoExecute, Effect::NoSchedule]
        );
        assert!(node.cordoned && node.ready && node.annotations.is_empty());
        let long = "x".repeat(LONGEST + 1);
        let said = json!({"metadata": {"name": "a1", "annotations": {
            "example.com/detached-at": "1970-01-01T00:01:40Z", "example.com/detach": "edge", "example.com/long": long,
        }}});
        let said = serde_json::from_value::<SlimSetNode>(said).unwrap().into_facts().unwrap();
        let at = said.says("example.com/detached-at").unwrap().time.map(|at| at.elapsed().as_secs());
        let word = said.says("example.com/detach").unwrap();
        assert_eq!((at, &*word.value, word.time, said.annotations.len()), (Some(100), "edge", None, 2));
        let bare = serde_json::from_value::<SlimSetNode>(json!({"metadata": {"name": "a1"}, "spec": null}));
        let bare = bare.unwrap().into_facts().unwrap();
        assert!(!bare.cordoned && !bare.ready && bare.taints.is_empty());
    }
}
