//! The JSON form of a node and its pods.

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

/// All information about one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// The node as Headgate sees it. `None`: the node is unknown, or Headgate does not watch nodes.
    pub node: Option<Node>,
    /// Why the node will be removed. `None`: it remains.
    pub goes: Option<Word>,
    /// Since when this is known.
    pub since: Option<MicroTime>,
    /// Its pods that are, should be or were targets.
    pub pods: Vec<Report>,
    /// Its history.
    #[serde(default)]
    pub past: Past,
}

/// The relevant properties of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Whether it accepts new pods.
    pub takes_pods: bool,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Whether it has `headgate.dev/detached-at`: no load balancer sends to its pods any more.
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
    /// The JSON form of an explanation. `past_of`: returns the history of a pod.
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
