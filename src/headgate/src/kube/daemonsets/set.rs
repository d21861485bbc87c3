//! A watched IngressDaemonSet.

use std::{sync::Arc, time::Duration};

use headgate_core::{
    WallTime,
    model::{
        limits,
        object::{ObjectKey, Uid},
    },
};
use headgate_daemonset::model::{
    Amount, Handshake, MOST_PER_NODE, Remembered, SetFacts, SetSpec, Strategy, Wait,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
    jiff::Timestamp,
};
use serde::Deserialize;
use serde_json::Value;

use super::{template, time};
use crate::{
    api::IngressDaemonSet,
    kube::slim::{identity, without_annotations},
};

/// The default delay in seconds after which Headgate may change the pods of a detached node.
const GRACE: u64 = 10;

/// A watched IngressDaemonSet.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = IngressDaemonSet)]
pub struct SlimSet {
    #[serde(default, deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

/// A set in the form that the controller uses.
#[derive(Clone, Debug)]
pub struct SeenSet {
    /// The core's facts about the set.
    pub facts: SetFacts,
    /// The template as text. The text is empty if the template exceeds a limit.
    pub template: Arc<str>,
    /// The conditions of the set's status.
    pub conditions: Box<[Condition]>,
}

impl SlimSet {
    /// Converts the set for the controller.
    pub fn seen(mut self) -> Option<SeenSet> {
        let version = self.metadata.resource_version.take().unwrap_or_default();
        let generation = self.metadata.generation.unwrap_or_default();
        let deleting = self.metadata.deletion_timestamp.is_some();
        let (key, uid) = identity(&mut self.metadata)?;
        let conditions: Vec<Condition> =
            serde_json::from_value(take(&mut self.status, "conditions")).unwrap_or_default();
        let conditions = conditions.into();
        let mut template = take(&mut self.spec, "template");
        let size = template::text(&template).len();
        let beyond = limits::TEMPLATE
            .excess(size)
            .or_else(|| limits::PLACEMENT.excess(template::placement_size(&template)));
        if beyond.is_some() {
            template = Value::Null;
        }
        let text = template::text(&template);
        let facts = SetFacts {
            spec: spec(&self.spec, &template, &text, &key),
            remembered: remembered(&self.status),
            key,
            uid,
            version: version.into(),
            generation,
            deleting,
            beyond,
        };
        Some(SeenSet { facts, template: text.into(), conditions })
    }
}

/// Takes a field out of a value, which may not be an object.
fn take(value: &mut Value, field: &str) -> Value {
    value.get_mut(field).map(Value::take).unwrap_or_default()
}

/// Reads the set's spec. Missing or invalid fields have the schema's default.
fn spec(spec: &Value, template: &Value, text: &str, key: &ObjectKey) -> SetSpec {
    let update = &spec["updateStrategy"];
    let number = |value: &Value, default: usize| {
        value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(default)
    };
    let seconds = |value: &Value, default: u64| Duration::from_secs(value.as_u64().unwrap_or(default));
    let strategy = match update["type"].as_str() {
        Some("NodeReplace") => Strategy::NodeReplace,
        Some("OnDelete") => Strategy::OnDelete,
        _ => Strategy::RollingUpdate {
            surge: number(&update["maxSurgePerNode"], 1),
            unavailable: number(&update["maxUnavailablePerNode"], 0),
        },
    };
    SetSpec {
        pods_per_node: number(&spec["podsPerNode"], 1).clamp(1, MOST_PER_NODE),
        revision: template::revision_of(text).into(),
        placement: template::placement(template),
        strategy,
        nodes_at_once: amount(&update["maxNodesAtOnce"]).unwrap_or(Amount::Number(1)),
        deadline: seconds(&update["progressDeadlineSeconds"], 600),
        handshake: handshake(update, key).map(Arc::new),
        min_ready: seconds(&spec["minReadySeconds"], 0),
        history: number(&spec["revisionHistoryLimit"], 10),
        paused: spec["paused"].as_bool().unwrap_or_default(),
        may_miss: Some(amount(&spec["maxEvicted"]).unwrap_or(Amount::Percent(25))),
        labels: template::labels(template, &key.name),
    }
}

fn handshake(update: &Value, set: &ObjectKey) -> Option<Handshake> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(Arc::<str>::from);
    let (asks, waits) = (&update["annotateNodeToDetach"], &update["waitForDetachmentByAnnotatedTimestamp"]);
    Some(Handshake {
        key: text(&asks["key"])?,
        // The value names the set, so that no set confuses the annotation of another set with its own.
        value: format!("{}.{}", set.namespace, set.name).into(),
        wait: text(&waits["key"]).map(|key| Wait {
            key,
            grace: Duration::from_secs(waits["gracePeriodSeconds"].as_u64().unwrap_or(GRACE)),
        }),
    })
}

fn amount(value: &Value) -> Option<Amount> {
    if let Some(number) = value.as_u64() {
        return usize::try_from(number).ok().map(Amount::Number);
    }
    value.as_str()?.strip_suffix('%')?.parse().ok().map(Amount::Percent)
}

fn remembered(status: &Value) -> Remembered {
    let revision = |field: &str| status[field].as_str().filter(|text| !text.is_empty()).map(Into::into);
    let turn = |turn: &Value| {
        let since: Timestamp = turn["since"].as_str()?.parse().ok()?;
        Some((turn["node"].as_str()?.into(), time(since)))
    };
    let turns = status["turns"].as_array().into_iter().flatten().filter_map(turn).collect();
    Remembered { current: revision("currentRevision"), update: revision("updateRevision"), turns }
}

/// Formats a time for the status. The text contains milliseconds, so that parsing returns the same time.
pub fn shown(at: WallTime) -> String {
    let millis = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
    format!("{:.3}", Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))
}

/// Whether a set has this UID and is not deleted.
pub fn is_alive(set: &IngressDaemonSet, uid: &Uid) -> bool {
    set.metadata.uid.as_deref() == Some(uid.as_str()) && set.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: &Value, status: &Value) -> SetFacts {
        let set = json!({
            "metadata": {"name": "edge", "namespace": "ingress", "uid": "s-1", "resourceVersion": "7", "generation": 3},
            "spec": spec, "status": status,
        });
        serde_json::from_value::<SlimSet>(set).unwrap().seen().unwrap().facts
    }

    #[test]
    fn what_is_not_said_has_the_default_of_the_schema() {
        let schema: crate::api::IngressDaemonSetSpec =
            serde_json::from_value(json!({"template": {"spec": {"containers": [{"name": "a"}]}}})).unwrap();
        let all = serde_json::to_value(schema).unwrap();
        assert_eq!(
            read(&all, &Value::Null).spec,
            read(&json!({"template": all["template"]}), &Value::Null).spec
        );
        assert_eq!(read(&Value::Null, &Value::Null).spec.pods_per_node, 1);
    }

    #[test]
    fn a_template_that_exceeds_a_limit_is_not_read() {
        let template = |image: &str, spec: Value| {
            let mut spec = spec;
            spec["containers"] = json!([{"name": "a", "image": image}]);
            json!({"spec": spec})
        };
        let of = |template: &Value| read(&json!({"template": template}), &Value::Null);
        let room = limits::TEMPLATE.most - template::text(&template("", json!({}))).len();
        assert_eq!(of(&template(&"x".repeat(room), json!({}))).beyond, None);
        let large = of(&template(&"x".repeat(room + 1), json!({})));
        assert_eq!(large.beyond, limits::TEMPLATE.excess(limits::TEMPLATE.most + 1));

        let values = |count: usize| {
            let values: Vec<String> = (0..count).map(|at| at.to_string()).collect();
            let terms = json!([{"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}]);
            let required = json!({"nodeSelectorTerms": terms});
            let affinity =
                json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
            of(&template(
                "x",
                json!({
                    "affinity": affinity, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
                }),
            ))
        };
        // The limit also counts the term, the expression, the label and the toleration.
        let room = limits::PLACEMENT.most - 4;
        assert_eq!(values(room).beyond, None);
        assert_eq!(values(room + 1).beyond, limits::PLACEMENT.excess(limits::PLACEMENT.most + 1));
        assert_eq!(values(room + 1).spec.placement.terms, None);
    }

    #[test]
    fn what_is_no_object_stops_nothing() {
        for odd in [json!("x"), json!([1]), json!(7), json!(true)] {
            assert_eq!(read(&odd, &odd).spec.pods_per_node, 1, "{odd}");
        }
    }

    #[test]
    fn what_is_said_is_read() {
        let facts = read(
            &json!({
                "podsPerNode": 2, "minReadySeconds": 5, "revisionHistoryLimit": 3, "paused": true, "maxEvicted": 1,
                "template": {"metadata": {"labels": {"app": "edge"}}},
                "updateStrategy": {
                    "type": "RollingUpdate", "maxSurgePerNode": 0, "maxUnavailablePerNode": 1, "maxNodesAtOnce": "10%",
                    "progressDeadlineSeconds": 60,
                },
            }),
            &json!({
                "currentRevision": "a", "updateRevision": "b",
                "turns": [{"node": "n1", "since": "2027-01-15T08:00:00.250Z"}, {"node": "n2"}],
            }),
        );
        assert_eq!((&*facts.version, facts.generation, facts.deleting), ("7", 3, false));
        let spec = facts.spec;
        assert_eq!(
            (spec.pods_per_node, spec.min_ready.as_secs(), spec.history, spec.paused),
            (2, 5, 3, true)
        );
        assert_eq!(spec.strategy, Strategy::RollingUpdate { surge: 0, unavailable: 1 });
        assert_eq!((spec.nodes_at_once, spec.deadline.as_secs()), (Amount::Percent(10), 60));
        assert_eq!((spec.may_miss, spec.labels.get("app")), (Some(Amount::Number(1)), Some("edge")));
        let remembered = facts.remembered;
        assert_eq!((remembered.current.as_deref(), remembered.update.as_deref()), (Some("a"), Some("b")));
        let turns: Vec<_> =
            remembered.turns.into_iter().map(|(node, since)| (node.to_string(), shown(since))).collect();
        assert_eq!(turns, [("n1".to_owned(), "2027-01-15T08:00:00.250Z".to_owned())]);
    }

    #[test]
    fn a_set_that_goes_is_not_alive_nor_is_another_life_of_its_name() {
        let set = |metadata: Value| -> IngressDaemonSet {
            let spec = json!({"template": {"spec": {"containers": []}}});
            serde_json::from_value(json!({"apiVersion": super::super::API, "kind": super::super::KIND, "metadata": metadata, "spec": spec})).unwrap()
        };
        let uid = Uid::new("s-1");
        assert!(is_alive(&set(json!({"uid": "s-1"})), &uid) && !is_alive(&set(json!({"uid": "s-2"})), &uid));
        assert!(!is_alive(&set(json!({"uid": "s-1", "deletionTimestamp": "2027-01-15T08:00:00Z"})), &uid));
    }
}
