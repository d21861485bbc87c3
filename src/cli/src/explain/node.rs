//! Formats the report about a node and its pods as text.

use headgate::explain::node::NodeReport;
use k8s_openapi::jiff::Timestamp;

use super::text::{place_line, said, when};
use crate::journal::past;

/// Formats the report. Ages are relative to `now`.
pub fn render(report: &NodeReport, now: Timestamp) -> String {
    let mut lines = vec![head(report)];
    match (&report.goes, &report.since) {
        (Some(word), since) => {
            let since =
                since.as_ref().map(|since| format!(" since {}", when(since, now))).unwrap_or_default();
            lines.push(format!("To be removed{since}  {}", said(word)));
        }
        (None, _) if report.node.is_some() => lines.push("To be removed  no sign of it".to_owned()),
        (None, _) => {}
    }
    if report.pods.is_empty() {
        lines.push("Pods  none is, should be or was a target".to_owned());
    }
    for pod in &report.pods {
        lines.push(format!("Pod  {}/{}", pod.namespace, pod.name));
        lines.extend(pod.nowhere.as_ref().map(|word| format!("  no target: {}", said(word))));
        lines.extend(pod.targets.iter().map(|target| format!("  {}", place_line(target, now))));
    }
    let told = past(&report.past);
    if !report.past.entries.is_empty() {
        lines.push("Past".to_owned());
        lines.extend(told);
    }
    let by = report.answered_by.as_deref().unwrap_or("a Headgate that leads alone");
    lines.push(format!("Answered by  {by}"));
    lines.join("\n") + "\n"
}

fn head(report: &NodeReport) -> String {
    let name = &report.name;
    let Some(node) = &report.node else { return format!("Node  {name}, not known") };
    let zone = node.zone.as_ref().map(|zone| format!(", zone {zone}")).unwrap_or_default();
    let cordoned = if node.cordoned { ", cordoned" } else { "" };
    let takes = if node.takes_pods { "accepts new pods" } else { "accepts no new pods" };
    let detached = if node.detached { ", detached" } else { "" };
    format!("Node  {name}{zone}{cordoned}, {takes}{detached}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate::{journal::report::Past, runtime::times::Times};
    use headgate_core::{Moment, Reason, WallTime, explanation::NodeExplanation, model::NodeFacts};

    use super::*;

    #[test]
    fn a_node_to_be_removed_says_why_since_when_and_what_becomes_of_its_targets() {
        let times = Times {
            now: Moment::after_start(Duration::from_secs(100)),
            time: "2026-03-04T05:06:07Z".parse().unwrap(),
        };
        let since = WallTime::since_1970(Duration::from_secs(1_772_600_700));
        let explanation = NodeExplanation {
            node: "node-a".into(),
            seen: Some(NodeFacts { zone: Some("a".into()), cordoned: true, ..NodeFacts::default() }),
            goes: Some(((Reason::NodeDisrupted, "it is to be drained".to_owned()), since)),
            pods: Vec::new(),
        };
        let report = NodeReport::new(explanation, None, Past::default(), |_| Past::default(), times);
        let text = render(&report, times.time);
        let expected = "\
Node  node-a, zone a, cordoned, accepts no new pods
To be removed since 05:05:00Z (67s ago)  NodeDisrupted: it is to be drained
Pods  none is, should be or was a target
Answered by  a Headgate that leads alone
";
        assert_eq!(text, expected);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<NodeReport>(&json).unwrap(), report);
    }
}
