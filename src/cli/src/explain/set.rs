//! The report about an IngressDaemonSet. The report contains the set's status and the target health of pods on updating
//! nodes.

use headgate::{
    api::{
        IngressDaemonSet,
        ingress_daemon_set::{IngressDaemonSetStatus, NodeTurn, StrategyType},
    },
    explain::report::{Report, Word},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use serde::{Deserialize, Serialize};

use super::text::{place_line, said, when};

/// The report about one IngressDaemonSet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetReport {
    pub namespace: String,
    pub name: String,
    /// The desired number of pods per node.
    pub pods_per_node: i32,
    /// The update strategy.
    pub strategy: StrategyType,
    /// Whether `status` describes the current generation of the spec.
    pub looked_at: bool,
    pub status: IngressDaemonSetStatus,
    /// The updating nodes, in the order in which their updates started. Only the first nodes include their pods.
    pub turns: Vec<Turn>,
}

/// A node that is being updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// The start of the update, and the reason why the update waits.
    #[serde(flatten)]
    pub turn: NodeTurn,
    /// The set's pods on the node that are, were or should be targets. Empty if the pods were not queried, or if no
    /// replica answered.
    pub pods: Vec<Report>,
}

impl SetReport {
    /// Creates a report from the IngressDaemonSet. The report has no pods yet.
    pub fn new(set: IngressDaemonSet) -> Self {
        let generation = set.metadata.generation;
        let status = set.status.unwrap_or_default();
        let mut turns: Vec<Turn> =
            status.turns.iter().map(|turn| Turn { turn: turn.clone(), pods: Vec::new() }).collect();
        turns.sort_by_key(|turn| turn.turn.since.0);
        Self {
            namespace: set.metadata.namespace.unwrap_or_default(),
            name: set.metadata.name.unwrap_or_default(),
            pods_per_node: set.spec.pods_per_node,
            strategy: set.spec.update_strategy.kind,
            looked_at: status.observed_generation.is_some() && status.observed_generation == generation,
            status,
            turns,
        }
    }

    /// Returns whether a pod belongs to this set. The check compares the prefix of the pod's name with the set's name.
    pub fn has(&self, pod: &Report) -> bool {
        pod.namespace == self.namespace
            && pod.name.strip_prefix(&self.name).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Formats the report as text. Ages are relative to `now`.
pub fn render(report: &SetReport, now: Timestamp) -> String {
    let status = &report.status;
    let pods = if report.pods_per_node == 1 { "pod" } else { "pods" };
    let mut lines = vec![format!(
        "IngressDaemonSet  {}/{}, {} {pods} per node, {:?}",
        report.namespace, report.name, report.pods_per_node, report.strategy
    )];
    if !report.looked_at {
        lines.push(
            "Not processed yet  its status is about an older spec. Check that `headgate daemonsets` is ready \
             (chart value daemonsets.enabled), and check its log"
                .to_owned(),
        );
    }
    for condition in &status.conditions {
        let since = when(&MicroTime(condition.last_transition_time.0), now);
        let word = Word { reason: condition.reason.clone(), message: condition.message.clone() };
        lines.push(format!("{}  {} since {since}  {}", condition.type_, condition.status, said(&word)));
    }
    lines.push(format!(
        "Nodes  {}: {} updated, {} degraded, {} updating",
        status.nodes, status.updated_nodes, status.degraded_nodes, status.nodes_in_turn
    ));
    lines.push(format!(
        "Pods  {} wanted: {} there, {} updated, {} ready, {} available",
        status.wanted_pods, status.pods, status.updated_pods, status.ready_pods, status.available_pods
    ));
    for Turn { turn, pods } in &report.turns {
        let since = when(&MicroTime(turn.since.0), now);
        let waits = turn.waits_for.as_deref().map(|waits| format!("  {waits}")).unwrap_or_default();
        let late = if turn.late { ", later than progressDeadlineSeconds" } else { "" };
        lines.push(format!("Updating {}  since {since}{late}{waits}", turn.node));
        for pod in pods {
            lines.push(format!("  Pod  {}", pod.name));
            lines.extend(pod.nowhere.as_ref().map(|word| format!("    no target: {}", said(word))));
            lines.extend(pod.targets.iter().map(|target| format!("    {}", place_line(target, now))));
            let gate = pod.gate.as_ref().and_then(|gate| Some((&gate.state, gate.word.as_ref()?)));
            lines.extend(gate.map(|(state, word)| format!("    readiness gate {state}: {}", said(word))));
        }
    }
    if !status.degraded.is_empty() {
        lines.push(format!("Degraded  {}", status.degraded.join(", ")));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(observed: i64) -> IngressDaemonSet {
        serde_json::from_value(json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "IngressDaemonSet",
            "metadata": {"name": "edge", "namespace": "ingress", "generation": 2},
            "spec": {"podsPerNode": 2, "template": {}},
            "status": {
                "observedGeneration": observed, "nodes": 3, "updatedNodes": 1, "degradedNodes": 1, "nodesInTurn": 2,
                "wantedPods": 6, "pods": 7, "updatedPods": 3, "readyPods": 6, "availablePods": 5,
                "degraded": ["n3"],
                "turns": [
                    {"node": "n2", "since": "2026-03-04T05:06:00Z", "waitsFor": "PodsNotReadyYet", "late": false},
                    {"node": "n1", "since": "2026-03-04T05:00:00Z", "late": true},
                ],
                "conditions": [{
                    "type": "Progressing", "status": "True", "reason": "NodesInTurn", "message": "1 of 3 nodes are updated",
                    "lastTransitionTime": "2026-03-04T05:05:00Z", "observedGeneration": observed,
                }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_set_says_how_far_it_is_and_for_which_nodes_it_waits() {
        let mut report = SetReport::new(set(2));
        let now: Timestamp = "2026-03-04T05:06:07Z".parse().unwrap();
        let pod: Report = serde_json::from_value(json!({
            "namespace": "ingress", "name": "edge-n2-x", "answeredBy": null, "pod": null, "targets": [],
            "nowhere": {"reason": "NotReady", "message": "it has none"}, "gate": null, "hold": null,
        }))
        .unwrap();
        let another = |namespace: &str, name: &str| Report {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..pod.clone()
        };
        assert!(report.has(&pod));
        assert!(!report.has(&another("ingress", "edges-n2-x")) && !report.has(&another("shop", "edge-n2-x")));
        report.turns[1].pods.push(pod);
        let expected = "\
IngressDaemonSet  ingress/edge, 2 pods per node, RollingUpdate
Progressing  True since 05:05:00Z (67s ago)  NodesInTurn: 1 of 3 nodes are updated
Nodes  3: 1 updated, 1 degraded, 2 updating
Pods  6 wanted: 7 there, 3 updated, 6 ready, 5 available
Updating n1  since 05:00:00Z (6m ago), later than progressDeadlineSeconds
Updating n2  since 05:06:00Z (7s ago)  PodsNotReadyYet
  Pod  edge-n2-x
    no target: NotReady: it has none
Degraded  n3
";
        assert_eq!(render(&report, now), expected);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<SetReport>(&json).unwrap(), report);
        let late = render(&SetReport::new(set(1)), now);
        assert!(late.contains("\nNot processed yet  "), "{late}");
    }
}
