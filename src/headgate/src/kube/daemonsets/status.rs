//! Writes the status of a set: counts, updating nodes and conditions.

use headgate_core::{WallTime, model::excerpt::brief};
use headgate_daemonset::model::status::{Roll, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::set::shown;

/// The maximum number of degraded nodes that the status names.
const MOST_NAMED: usize = 100;

/// The content of a condition: its status, its reason and a sentence.
type Says = (&'static str, &'static str, String);

/// Creates the patch that writes a status to the version `version` of the set. The patch keeps the transition times of
/// unchanged conditions in `before`.
pub fn patch(version: &str, status: &Status, before: &[Condition], now: WallTime) -> Value {
    let turns: Vec<Value> = status
        .remembered
        .turns
        .iter()
        .map(|(node, since)| {
            json!({
                "node": &**node, "since": shown(*since), "late": status.late.contains(node),
                "waitsFor": status.waits.get(node).map(|waits| waits.as_str()),
            })
        })
        .collect();
    let condition = |(kind, (is, reason, message)): (&str, Says)| {
        let same = before.iter().find(|condition| condition.type_ == kind && condition.status == is);
        let since = same.map_or_else(|| json!(shown(now)), |condition| json!(condition.last_transition_time));
        json!({
            "type": kind, "status": is, "reason": reason, "message": message, "lastTransitionTime": since,
            "observedGeneration": status.generation,
        })
    };
    if status.roll == Roll::TooLarge {
        // The controller counted nothing, so all other fields remain unchanged.
        let others =
            before.iter().filter(|condition| condition.type_ != "Progressing").map(|other| json!(other));
        let conditions: Vec<Value> =
            std::iter::once(condition(("Progressing", progress(status)))).chain(others).collect();
        return json!({
            "metadata": {"resourceVersion": version},
            "status": {"observedGeneration": status.generation, "conditions": conditions},
        });
    }
    let says = [
        ("Progressing", progress(status)),
        ("Available", available(status)),
        ("PodsCreated", created(status)),
    ];
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "observedGeneration": status.generation,
            "nodes": status.nodes, "updatedNodes": status.updated_nodes, "degradedNodes": status.degraded.len(),
            "nodesInTurn": status.remembered.turns.len(),
            "wantedPods": status.wanted, "pods": status.pods, "updatedPods": status.updated,
            "readyPods": status.ready, "availablePods": status.available,
            "currentRevision": status.remembered.current.as_deref(),
            "updateRevision": status.remembered.update.as_deref(),
            "turns": turns,
            "degraded": status.degraded.iter().take(MOST_NAMED).map(|node| &**node).collect::<Vec<_>>(),
            "conditions": says.map(condition),
        },
    })
}

/// The first few nodes, by name.
fn names<'a>(nodes: impl ExactSizeIterator<Item = &'a std::sync::Arc<str>>) -> String {
    const MOST: usize = 3;
    let count = nodes.len();
    let named: Vec<_> = nodes.take(MOST).map(|node| brief(node)).collect();
    let rest = if count > MOST { format!(" and {} more", count - MOST) } else { String::new() };
    format!("{}{rest}", named.join(", "))
}

/// The condition `Progressing`, which describes the rollout.
pub fn progress(status: &Status) -> Says {
    let of = format!("{} of {} nodes are updated", status.updated_nodes, status.nodes);
    let (is, said) = match status.roll {
        Roll::Done => ("True", of),
        Roll::GoesOn => ("True", format!("{of}; now updating {}", names(status.remembered.turns.keys()))),
        Roll::Stopped => (
            "False",
            format!(
                "{of}; rollout stopped: pods of {} not available in time. Fix these pods, or change the template.",
                names(status.late.iter())
            ),
        ),
        Roll::Paused => ("Unknown", format!("{of}; rollout paused. Set spec.paused to false to continue")),
        Roll::OnDelete => ("Unknown", format!("{of}. Delete the pods of the other nodes to update them")),
        Roll::Degraded => {
            ("True", format!("{of}; waiting for available pods on {}", names(status.degraded.iter())))
        }
        Roll::NodesNotReady => ("True", format!("{of}; the other nodes are not Ready or accept no pods")),
        Roll::TooLarge => ("False", status.beyond.join("; ")),
    };
    (is, status.roll.as_str(), said)
}

fn available(status: &Status) -> Says {
    if status.degraded.is_empty() {
        return (
            "True",
            "AsExpected",
            format!("{} of {} pods are available", status.available, status.wanted),
        );
    }
    let nodes = names(status.degraded.iter());
    ("False", "NodesDegraded", format!("fewer pods are available than desired on {nodes}"))
}

/// The condition `PodsCreated`.
pub fn created(status: &Status) -> Says {
    match &status.refused {
        None => ("True", "AsExpected", "the API server accepts all pods".to_owned()),
        Some(why) => (
            "False",
            "PodsRefused",
            format!("The API server rejects pods: {why}. Correct the template, quota or policy."),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::Arc,
        time::Duration,
    };

    use headgate_daemonset::model::{Remembered, status::Waits};

    use super::*;

    fn at(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(1_800_000_000 + seconds))
    }

    fn status() -> Status {
        let node: Arc<str> = "n1".into();
        Status {
            generation: 3,
            remembered: Remembered {
                current: Some("a".into()),
                update: Some("b".into()),
                turns: BTreeMap::from([(node.clone(), at(0))]),
            },
            roll: Roll::GoesOn,
            late: BTreeSet::new(),
            waits: BTreeMap::from([(node.clone(), Waits::NotReady)]),
            nodes: 3,
            updated_nodes: 1,
            degraded: BTreeSet::from([node]),
            wanted: 6,
            pods: 6,
            updated: 3,
            ready: 5,
            available: 5,
            refused: None,
            beyond: Vec::new(),
        }
    }

    fn condition(patch: &Value, kind: &str) -> Condition {
        let all: Vec<Condition> = serde_json::from_value(patch["status"]["conditions"].clone()).unwrap();
        all.into_iter().find(|condition| condition.type_ == kind).unwrap()
    }

    #[test]
    fn a_status_says_how_far_it_is_and_what_each_node_waits_for() {
        let patch = patch("7", &status(), &[], at(5));
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let turn = json!([{"node": "n1", "since": "2027-01-15T08:00:00.000Z", "late": false, "waitsFor": "PodsNotReadyYet"}]);
        assert_eq!(patch["status"]["turns"], turn);
        let progress = condition(&patch, "Progressing");
        assert_eq!((&*progress.status, &*progress.reason), ("True", "NodesInTurn"));
        assert_eq!(progress.message, "1 of 3 nodes are updated; now updating n1");
        let available = condition(&patch, "Available");
        assert_eq!((&*available.status, &*available.reason), ("False", "NodesDegraded"));
        assert_eq!(condition(&patch, "PodsCreated").status, "True");
    }

    #[test]
    fn a_condition_is_so_since_its_status_has_changed() {
        let first = patch("7", &status(), &[], at(5));
        let before = [condition(&first, "Progressing"), condition(&first, "PodsCreated")];
        let late = Status { roll: Roll::Stopped, late: BTreeSet::from(["n1".into()]), ..status() };
        let second = patch("8", &late, &before, at(60));
        assert_eq!(condition(&second, "PodsCreated").last_transition_time, before[1].last_transition_time);
        let stopped = condition(&second, "Progressing");
        assert!(stopped.last_transition_time > before[0].last_transition_time);
        assert_eq!((&*stopped.status, &*stopped.reason), ("False", "ProgressDeadlineExceeded"));
        assert!(stopped.message.contains("pods of n1"), "{}", stopped.message);
    }

    #[test]
    fn of_a_set_that_is_too_large_nothing_but_that_is_written() {
        let before = [condition(&patch("7", &status(), &[], at(5)), "Available")];
        let large = Status { roll: Roll::TooLarge, beyond: vec!["too much".into()], ..status() };
        let patch = patch("8", &large, &before, at(60));
        let written: Vec<&String> = patch["status"].as_object().unwrap().keys().collect();
        assert_eq!(written, ["conditions", "observedGeneration"]);
        let progress = condition(&patch, "Progressing");
        assert_eq!(
            (&*progress.status, &*progress.reason, &*progress.message),
            ("False", "LimitExceeded", "too much")
        );
        assert_eq!(condition(&patch, "Available"), before[0]);
    }

    #[test]
    fn many_nodes_are_counted_and_the_first_are_named() {
        let nodes: Vec<Arc<str>> = (0..7).map(|at| format!("n{at}").into()).collect();
        assert_eq!(names(nodes.iter()), "n0, n1, n2 and 4 more");
        assert_eq!(names(nodes[..1].iter()), "n0");
    }
}
