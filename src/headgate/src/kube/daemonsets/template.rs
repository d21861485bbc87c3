//! The pod template of a set: its hash, its placement rules, and pods created from it.

use headgate_core::model::object::{Labels, ObjectKey, Uid};
use headgate_daemonset::{
    model::{Effect, OWNED_BY, Operator, Placement, REVISION, Requirement, Term, Toleration},
    placement::tolerated,
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{API, KIND};

/// The hash of a template, which is also the name of the revision. The hash is a SHA-256 of the text, cut to 160 bits
/// because a label has at most 63 characters. A different template with the same hash cannot be found in practice.
pub fn revision(template: &Value) -> String {
    revision_of(&text(template))
}

/// The template as text. `serde_json` sorts the fields of objects, so equal templates have equal texts.
pub fn text(template: &Value) -> String {
    template.to_string()
}

/// The hash of the [`text`] of a template.
pub fn revision_of(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(20).fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"))
}

/// The labels of a template's pods, without the revision label.
pub fn labels(template: &Value, set: &str) -> Labels {
    let own = template["metadata"]["labels"].as_object();
    let own = own.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    own.chain([(OWNED_BY, set)]).collect()
}

/// The nodes on which the template's pods may run.
pub fn placement(template: &Value) -> Placement {
    let spec = &template["spec"];
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let selector = selector.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required.is_object().then(|| {
        let terms = required["nodeSelectorTerms"].as_array().into_iter().flatten();
        let requirements = |value: &Value| value.as_array().into_iter().flatten().map(requirement).collect();
        let term = |term: &Value| Term {
            labels: requirements(&term["matchExpressions"]),
            fields: requirements(&term["matchFields"]),
        };
        terms.map(term).collect()
    });
    let tolerations = spec["tolerations"].as_array().into_iter().flatten().filter_map(toleration);
    Placement { selector: selector.collect(), terms, tolerations: tolerations.chain(tolerated()).collect() }
}

/// The number of placement conditions in the template.
pub fn placement_size(template: &Value) -> usize {
    let spec = &template["spec"];
    let count = |value: &Value| value.as_array().map_or(0, Vec::len);
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = required["nodeSelectorTerms"].as_array().into_iter().flatten();
    let requirements = terms.flat_map(|term| [&term["matchExpressions"], &term["matchFields"]]);
    let requirements = requirements.flat_map(|all| all.as_array().into_iter().flatten());
    spec["nodeSelector"].as_object().map_or(0, Map::len)
        + count(&spec["tolerations"])
        + count(&required["nodeSelectorTerms"])
        + requirements.map(|requirement| 1 + count(&requirement["values"])).sum::<usize>()
}

/// Reads a requirement of a selector. A requirement with an unknown operator matches nothing.
pub fn requirement(value: &Value) -> Requirement {
    let operator = value["operator"].as_str().and_then(Operator::of_word);
    let values = value["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Requirement {
        key: value["key"].as_str().unwrap_or_default().into(),
        operator: operator.unwrap_or(Operator::In),
        values: if operator.is_some() { values.map(Into::into).collect() } else { Vec::new() },
    }
}

/// Reads a toleration. `None`: the toleration's operator or effect is unknown.
fn toleration(value: &Value) -> Option<Toleration> {
    let text = |field: &str| value[field].as_str().filter(|text| !text.is_empty());
    let effect = match text("effect") {
        None => None,
        Some(word) => Some(Effect::of_word(word)?),
    };
    let key = text("key").map(Into::into);
    let value = match text("operator") {
        Some("Exists") => None,
        // Kubernetes accepts a toleration without a key only if its operator is `Exists`.
        None | Some("Equal") => Some(text("value").unwrap_or_default().into()),
        Some(_) => return None,
    };
    Some(Toleration { key, value, effect })
}

/// The owner reference that makes the set the controller of an object.
pub fn controlled_by(set: &ObjectKey, uid: &Uid) -> Value {
    json!({
        "apiVersion": API, "kind": KIND, "name": &*set.name, "uid": uid.as_str(),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// Creates a pod for a node in the way of the DaemonSet controller: the scheduler can only place the pod on that node.
pub fn pod(set: &ObjectKey, uid: &Uid, template: &Value, revision: &str, name: &str, node: &str) -> Value {
    let mut labels = template["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert(OWNED_BY.to_owned(), (*set.name).into());
    labels.insert(REVISION.to_owned(), revision.into());
    let mut spec = template["spec"].as_object().cloned().unwrap_or_default();
    on_node(&mut spec, node);
    let mut tolerations = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
    tolerations.extend(tolerated().map(|toleration| {
        json!({
            "key": toleration.key, "operator": "Exists", "effect": toleration.effect.map(Effect::as_str),
        })
    }));
    spec.insert("tolerations".to_owned(), tolerations.into());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": &*set.namespace, "labels": labels,
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [controlled_by(set, uid)],
        },
        "spec": spec,
    })
}

/// Replaces the required node affinity with the name of the node. The caller has already checked the original affinity.
fn on_node(spec: &mut Map<String, Value>, node: &str) {
    let mut affinity = spec.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut of_nodes = affinity.get("nodeAffinity").and_then(Value::as_object).cloned().unwrap_or_default();
    of_nodes.insert(
        "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
        json!({"nodeSelectorTerms": [{
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
        }]}),
    );
    affinity.insert("nodeAffinity".to_owned(), of_nodes.into());
    spec.insert("affinity".to_owned(), affinity.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"app": "edge"}, "annotations": {"a": "b"}},
            "spec": {
                "containers": [{"name": "proxy", "image": "proxy:1"}],
                "nodeSelector": {"pool": "edge"},
                "affinity": {
                    "podAntiAffinity": {"x": 1},
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [1],
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                            "matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}],
                        }]},
                    },
                },
                "tolerations": [
                    {"key": "dedicated", "value": "edge", "effect": "NoSchedule"},
                    {"operator": "Exists", "key": "spot"},
                    {"operator": "Later", "key": "x"},
                ],
            },
        })
    }

    #[test]
    fn the_hash_of_a_template_is_for_ever_and_does_not_hang_on_the_order_of_fields() {
        assert_eq!(revision(&template()), "44699e847e17cc0b2166f8db04b2539f294ab8b7");
        let text = r#"{"spec":{"b":1,"a":[true,null,"x"]},"metadata":{}}"#;
        let other = r#"{"metadata":{},"spec":{"a":[true,null,"x"],"b":1}}"#;
        let of = |text: &str| revision(&serde_json::from_str(text).unwrap());
        assert_eq!(of(text), of(other));
        assert_ne!(of(r#"{"a":["b","c"]}"#), of(r#"{"a":["b,c"]}"#));
        assert_ne!(of(r#"{"a":{"b":1}}"#), of(r#"{"a":{"b":"1"}}"#));
    }

    #[test]
    fn where_pods_may_be_is_what_the_template_says_and_what_is_not_known_here_fits_nothing() {
        let placement = placement(&template());
        assert_eq!(placement.selector, [("pool".into(), "edge".into())]);
        let terms = placement.terms.unwrap();
        assert_eq!((terms.len(), &*terms[0].labels[0].key, terms[0].fields.len()), (1, "arch", 0));
        assert_eq!(placement.tolerations.len(), 2 + tolerated().count());
        assert_eq!(placement.tolerations[0].value.as_deref(), Some("edge"));
        assert_eq!(placement.tolerations[1].value, None);
        let later = requirement(&json!({"key": "x", "operator": "Later", "values": ["y"]}));
        assert!(!later.fits(Some("y")) && !later.fits(None));
        assert_eq!(super::placement(&json!({"spec": {}})).terms, None);
    }

    #[test]
    fn a_pod_is_for_its_node_and_has_all_else_of_the_template() {
        let set = ObjectKey::new("ingress", "edge");
        let made = pod(&set, &Uid::new("s-1"), &template(), "abc", "edge-n1-0", "n1");
        let labels = &made["metadata"]["labels"];
        assert_eq!(
            (&labels["app"], &labels[OWNED_BY], &labels[REVISION]),
            (&json!("edge"), &json!("edge"), &json!("abc"))
        );
        assert_eq!(made["metadata"]["annotations"]["a"], "b");
        assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "s-1");
        let affinity = &made["spec"]["affinity"];
        assert!(affinity["podAntiAffinity"].is_object());
        let of_nodes = &affinity["nodeAffinity"];
        assert!(of_nodes["preferredDuringSchedulingIgnoredDuringExecution"].is_array());
        let required = &of_nodes["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(
            required,
            &json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])
        );
        assert_eq!(made["spec"]["nodeSelector"]["pool"], "edge");
        assert_eq!(made["spec"]["tolerations"].as_array().unwrap().len(), 3 + tolerated().count());
    }
}
