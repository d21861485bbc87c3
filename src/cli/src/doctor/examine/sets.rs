//! Checks whether a controller manages each IngressDaemonSet, and how its rollout progresses.

use headgate::api::{
    IngressDaemonSet,
    ingress_daemon_set::{StrategyType, UpdateStrategy},
};
use headgate_core::Reason;

use crate::doctor::{facts::Facts, finding::Finding};

pub fn examine(facts: &Facts) -> Vec<Finding> {
    match &facts.sets {
        Ok(sets) => sets.iter().flat_map(one).collect(),
        Err(why) => vec![Finding::unchecked("IngressDaemonSets", why)],
    }
}

fn one(set: &IngressDaemonSet) -> Vec<Finding> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let about = format!("IngressDaemonSet {}/{}", name(&set.metadata.namespace), name(&set.metadata.name));
    let mut found = Vec::new();
    let status = set.status.clone().unwrap_or_default();
    match (status.observed_generation, set.metadata.generation) {
        (None, _) => found.push(Finding::error(
            Reason::NoLeader,
            &about,
            "no controller creates its pods. Set the chart value daemonsets.enabled, and name its namespace \
             in daemonsets.namespaces",
        )),
        (Some(seen), Some(is)) if seen < is => found.push(Finding::warning(
            Reason::NoLeader,
            &about,
            "its newest spec was not processed yet. If that lasts, check that `headgate daemonsets` is \
             ready, and check its log",
        )),
        _ => {}
    }
    let said = |kind: &str, reason: Reason| {
        let is_it = |condition: &&_| {
            let condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition = condition;
            condition.type_ == kind && condition.reason == reason.as_str()
        };
        status.conditions.iter().find(is_it).map(|condition| condition.message.clone())
    };
    let stopped = said("Progressing", Reason::ProgressDeadlineExceeded);
    found.extend(stopped.map(|why| Finding::error(Reason::ProgressDeadlineExceeded, &about, why)));
    let refused = said("PodsCreated", Reason::PodsRefused);
    found.extend(refused.map(|why| Finding::error(Reason::PodsRefused, &about, why)));
    let per_node = set.spec.pods_per_node;
    let away = away(&set.spec.update_strategy, per_node);
    if away > 0 {
        let said = format!(
            "a rollout stops {away} of {per_node} pods of a node before the next ones start there, and with \
             a version that never becomes healthy they remain missing. Use RollingUpdate with \
             maxSurgePerNode: 1 and maxUnavailablePerNode: 0, unless nodes have no room for another pod"
        );
        found.push(Finding::warning(Reason::RiskyWorkload, &about, said));
    }
    found
}

/// Returns how many pods of a node a rollout may stop before their replacements serve.
fn away(strategy: &UpdateStrategy, per_node: i32) -> i32 {
    match strategy.kind {
        StrategyType::RollingUpdate => strategy.max_unavailable_per_node.min(per_node),
        StrategyType::NodeReplace => per_node,
        StrategyType::OnDelete => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::doctor::finding::Level;

    fn found(strategy: &Value, status: &Value) -> Vec<(Level, String, String)> {
        let set = serde_json::from_value(json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "IngressDaemonSet",
            "metadata": {"namespace": "ingress", "name": "edge", "generation": 2},
            "spec": {"podsPerNode": 2, "template": {}, "updateStrategy": strategy}, "status": status,
        }))
        .unwrap();
        one(&set).into_iter().map(|found| (found.level, found.reason, found.message)).collect()
    }

    fn only(found: &[(Level, String, String)], level: Level, reason: Reason, said: &str) {
        let [(is, word, message)] = found else { panic!("{found:?}") };
        assert_eq!((*is, &**word), (level, reason.as_str()));
        assert!(message.contains(said), "{message}");
    }

    #[test]
    fn a_set_that_nobody_looks_after_is_found() {
        let rolling = json!({"type": "RollingUpdate"});
        only(
            &found(&rolling, &json!(null)),
            Level::Error,
            Reason::NoLeader,
            "no controller creates its pods",
        );
        let before = json!({"observedGeneration": 1});
        only(&found(&rolling, &before), Level::Warning, Reason::NoLeader, "newest spec");
        assert_eq!(found(&rolling, &json!({"observedGeneration": 2})), []);
    }

    #[test]
    fn a_roll_that_has_stopped_and_pods_that_are_refused_are_found_with_the_words_of_the_set() {
        let says = |kind: &str, reason: Reason| {
            json!({"observedGeneration": 2, "conditions": [{
                "type": kind, "status": "False", "reason": reason.as_str(), "message": "so it is",
                "lastTransitionTime": "2027-01-15T08:00:00Z",
            }]})
        };
        for (kind, reason) in
            [("Progressing", Reason::ProgressDeadlineExceeded), ("PodsCreated", Reason::PodsRefused)]
        {
            only(&found(&json!({}), &says(kind, reason)), Level::Error, reason, "so it is");
        }
        assert_eq!(found(&json!({}), &says("Progressing", Reason::NodesInTurn)), []);
    }

    #[test]
    fn what_a_roll_takes_from_a_node_is_said() {
        let seen = json!({"observedGeneration": 2});
        let takes = |strategy: Value| found(&strategy, &seen);
        let reason = Reason::RiskyWorkload;
        only(
            &takes(json!({"maxSurgePerNode": 0, "maxUnavailablePerNode": 1})),
            Level::Warning,
            reason,
            "1 of 2",
        );
        only(&takes(json!({"type": "NodeReplace"})), Level::Warning, reason, "2 of 2");
        assert_eq!(takes(json!({"type": "OnDelete"})), []);
        assert_eq!(takes(json!({"maxSurgePerNode": 2})), []);
    }
}
