//! A watched PodDisruptionBudget, and the PodDisruptionBudget that Headgate creates for a set.

use headgate_core::model::{
    limits,
    object::{ObjectKey, Uid},
};
use headgate_daemonset::model::{BudgetFacts, OWNED_BY, Operator, Requirement};
use k8s_openapi::{api::policy::v1::PodDisruptionBudget, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    owner,
    template::{controlled_by, requirement},
};
use crate::kube::slim::{identity, without_annotations};

/// A watched PodDisruptionBudget.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = PodDisruptionBudget)]
pub struct SlimBudget {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

impl SlimBudget {
    /// Converts the budget to the core's facts.
    pub fn into_facts(mut self) -> Option<BudgetFacts> {
        let (key, uid) = identity(&mut self.metadata)?;
        let least = self.spec["minAvailable"].as_u64();
        let labels = self.metadata.labels.unwrap_or_default();
        let of = labels.get(OWNED_BY).map(|set| ObjectKey::new(key.namespace.clone(), set.as_str()));
        let of = of.filter(|set| name(set) == *key.name);
        let selector = selector(&self.spec["selector"]);
        let size = |is: &Requirement| is.key.len() + is.values.iter().map(|value| value.len()).sum::<usize>();
        let beyond = limits::BUDGET_SELECTOR.excess(selector.iter().map(size).sum());
        Some(BudgetFacts {
            set: of.map(|set| set.name),
            key,
            uid,
            controller: owner(self.metadata.owner_references.as_ref()),
            selector: if beyond.is_some() { vec![nothing()] } else { selector },
            min_available: least.and_then(|least| usize::try_from(least).ok()),
            beyond,
        })
    }
}

/// A requirement that no label satisfies.
fn nothing() -> Requirement {
    Requirement { key: "".into(), operator: Operator::In, values: Vec::new() }
}

/// Reads a budget's selector. A missing selector selects no pods, and an empty selector selects all pods
/// (`PodDisruptionBudgetSpec.selector`, policy/v1).
fn selector(selector: &Value) -> Vec<Requirement> {
    let is_in =
        |key: &str, values: Vec<Box<str>>| Requirement { key: key.into(), operator: Operator::In, values };
    if !selector.is_object() {
        return vec![nothing()];
    }
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let pairs = pairs.map(|(key, value)| is_in(key, value.as_str().into_iter().map(Into::into).collect()));
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten().map(requirement);
    pairs.chain(expressions).collect()
}

/// The name of a set's budget.
pub fn name(set: &ObjectKey) -> String {
    format!("headgate-{}", set.name)
}

/// The budget that Headgate creates for a set.
pub fn made(set: &ObjectKey, uid: &Uid, least: usize) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name(set), "namespace": &*set.namespace,
            "labels": {OWNED_BY: &*set.name},
            "ownerReferences": [controlled_by(set, uid)],
        },
        "spec": {
            "minAvailable": least,
            "selector": {"matchLabels": {OWNED_BY: &*set.name}},
            // An unready pod must not block the drain of a node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}

#[cfg(test)]
mod tests {
    use headgate_core::model::object::Labels;

    use super::*;

    fn read(spec: &Value) -> BudgetFacts {
        let budget = json!({"metadata": {"name": "b", "namespace": "ingress", "uid": "b-1"}, "spec": spec});
        serde_json::from_value::<SlimBudget>(budget).unwrap().into_facts().unwrap()
    }

    #[test]
    fn a_budget_selects_as_kubernetes_has_it() {
        let pods = Labels::from_iter([("app", "edge"), (OWNED_BY, "edge")]);
        let selects =
            |selector: Value| read(&json!({"minAvailable": 1, "selector": selector})).selects(&pods);
        assert!(
            selects(json!({"matchLabels": {"app": "edge"}}))
                && !selects(json!({"matchLabels": {"app": "web"}}))
        );
        assert!(selects(json!({})), "an empty one selects all");
        assert!(!selects(Value::Null), "none selects nothing");
        assert!(selects(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})));
        assert!(!selects(
            json!({"matchExpressions": [{"key": "app", "operator": "Later", "values": ["edge"]}]})
        ));
    }

    #[test]
    fn a_selector_that_exceeds_the_limit_is_not_read() {
        let budget = |length: usize| {
            read(&json!({"selector": {"matchLabels": {"app": "edge", "x": "y".repeat(length)}}}))
        };
        let room = limits::BUDGET_SELECTOR.most - "appedgex".len();
        assert_eq!(budget(room).beyond, None);
        let large = budget(room + 1);
        assert_eq!(large.beyond, limits::BUDGET_SELECTOR.excess(limits::BUDGET_SELECTOR.most + 1));
        assert!(large.selector.len() == 1 && !large.selects(&Labels::from_iter([("", "")])));
    }

    #[test]
    fn the_budget_of_a_set_selects_its_pods_and_a_share_is_none_of_ours() {
        let made = made(&ObjectKey::new("ingress", "edge"), &Uid::new("s-1"), 3);
        let own = read(&made["spec"]);
        assert!(
            own.selects(&Labels::from_iter([(OWNED_BY, "edge")]))
                && !own.selects(&Labels::from_iter([(OWNED_BY, "other")]))
        );
        assert_eq!(own.min_available, Some(3));
        assert_eq!(read(&json!({"minAvailable": "50%"})).min_available, None);
        let seen = |mut object: Value, name: &str| {
            (object["metadata"]["name"], object["metadata"]["uid"]) = (name.into(), "b-1".into());
            serde_json::from_value::<SlimBudget>(object).unwrap().into_facts().unwrap().set
        };
        assert_eq!(seen(made.clone(), "headgate-edge").as_deref(), Some("edge"));
        assert_eq!(seen(made, "mine"), None, "somebody else has the label");
    }
}
