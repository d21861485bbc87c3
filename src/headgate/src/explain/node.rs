//! The JSON form of the explanation of a node and its pods.

use headgate_core::{
    explanation::NodeExplanation,
    model::{NodeFacts, object::ObjectKey},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use super::report::{Report, Word};
use crate::{
    journal::report::Past,
    runtime::times::{Times, of_wall},
};

/// The explanation of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// The node's name.
    pub name: String,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The watched properties of the node. `None`: the node is unknown, or Headgate does not watch nodes.
    pub node: Option<Node>,
    /// The reason why the node will be removed. `None`: the node remains.
    pub goes: Option<Word>,
    /// The time when Headgate detected that the node will be removed.
    pub since: Option<MicroTime>,
    /// The node's pods that are, should be or were targets.
    pub pods: Vec<Report>,
    /// The node's history.
    #[serde(default)]
    pub past: Past,
}

/// The relevant properties of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// The node's label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Whether the node accepts new pods.
    pub takes_pods: bool,
    /// The node's `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether the node has the annotation `headgate.dev/detached-at`, which means that no load balancer sends to its
    /// pods any more.
    pub detached: bool,
}

impl From<NodeFacts> for Node {
    fn from(facts: NodeFacts) -> Self {
        Self {
            zone: facts.zone.map(|zone| zone.to_string()),
            takes_pods: facts.takes_pods,
            cordoned: facts.cordoned,
            detached: facts.detached,
        }
    }
}

impl NodeReport {
    /// Converts an explanation to its JSON form. `past_of` returns the history of a pod.
    pub fn new(
        explanation: NodeExplanation,
        answered_by: Option<String>,
        past: Past,
        past_of: impl Fn(&ObjectKey) -> Past,
        times: Times,
    ) -> Self {
        let NodeExplanation { node, seen, goes, pods } = explanation;
        let report = |pod: headgate_core::explanation::Explanation| {
            let past = past_of(&pod.pod);
            Report::new(pod, answered_by.clone(), past, times)
        };
        let (goes, since) = goes.map(|(word, since)| (Word::from(word), of_wall(since))).unzip();
        Self {
            name: node.to_string(),
            node: seen.map(Node::from),
            goes,
            since,
            pods: pods.into_iter().map(report).collect(),
            past,
            answered_by,
        }
    }
}
