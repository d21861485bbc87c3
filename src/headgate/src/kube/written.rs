//! The watched TargetBindings that users created. Decoding is lenient, so that an invalid object never makes a list
//! fail.

use std::collections::BTreeMap;

use headgate_core::model::{
    excerpt::{brief, excerpt},
    limits,
    pod::Protocol,
    policy::Texts,
    service::{PortRef, TargetPort},
    target_binding::{BindingFacts, Pods},
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    api::{TargetBinding, TargetBindingSpec, TargetBindingStatus},
    kube::slim::{identity, port_number, without_annotations},
};

/// A watched TargetBinding.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = TargetBinding)]
pub struct SlimBinding {
    #[serde(deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Lenient,
}

/// The spec, or the reason why it is invalid. The schema rejects most invalid content, except in objects that were
/// stored before the schema changed.
#[derive(Clone, Debug)]
struct Lenient(Result<Spec, String>);

impl Default for Lenient {
    fn default() -> Self {
        Self(Ok(Spec::default()))
    }
}

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = without_nulls(Value::deserialize(from)?);
        if written.is_null() {
            return Ok(Self::default());
        }
        Ok(Self(serde_json::from_value(written).map_err(|error| excerpt(&error.to_string()).into())))
    }
}

/// Treats `null` values as missing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let there = fields.into_iter().filter(|(_, value)| !value.is_null());
            there.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        other => other,
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    target_group: Group,
    service_ref: Option<ServiceRef>,
    pod_selector: Option<Selector>,
    port: Option<IntOrString>,
    protocol: Option<String>,
    /// The other fields, some of which have the same meaning as annotations of a Service.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
    /// The reason why the whole spec is invalid, if it is.
    #[serde(skip)]
    unreadable: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    arn: Option<String>,
    name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceRef {
    name: String,
    port: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

impl SlimBinding {
    /// Converts the TargetBinding to the core's facts. Returns `None` for an object without a name or UID, which the
    /// API server never sends.
    pub fn into_facts(mut self) -> Option<BindingFacts> {
        let ending = self.metadata.deletion_timestamp.is_some();
        let (key, uid) = identity(&mut self.metadata)?;
        let spec = self.spec.0.unwrap_or_else(|error| Spec { unreadable: Some(error), ..Spec::default() });
        let group = spec.target_group.arn.clone().or_else(|| spec.target_group.name.clone());
        let policy = spec.policy();
        let pods = spec.pods().unwrap_or_else(|why| Pods::Unreadable(why.into()));
        Some(BindingFacts { key, uid, group: group.unwrap_or_default().into(), pods, policy, ending })
    }
}

impl Spec {
    fn policy(&self) -> Texts {
        let mut policy = Texts::default();
        for (field, value) in &self.others {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            policy.set(&annotation_of(field), &text);
        }
        policy
    }

    /// The pods of the TargetBinding. Returns an error for content that the schema would reject.
    fn pods(self) -> Result<Pods, String> {
        if let Some(error) = self.unreadable {
            return Err(format!(
                "spec is invalid ({}). Compare with `kubectl explain targetbinding.spec`.",
                brief(&error)
            ));
        }
        if self.target_group.arn.is_none() && self.target_group.name.is_none() {
            return Err("targetGroup is empty. Set targetGroup.arn or targetGroup.name.".into());
        }
        match (self.service_ref, self.pod_selector, self.port) {
            (Some(service), ..) => Ok(Pods::OfService(
                service.name.into(),
                match service.port {
                    None => PortRef::Only,
                    Some(IntOrString::Int(number)) => PortRef::Number(number_of(number)?),
                    Some(IntOrString::String(name)) => PortRef::Name(name.into()),
                },
            )),
            (None, Some(selector), Some(port)) => Ok(Pods::Selected(
                limits::SELECTOR.labels(selector.match_labels).map_err(|excess| excess.to_string())?,
                match port {
                    IntOrString::Int(number) => TargetPort::Number(number_of(number)?),
                    IntOrString::String(name) => TargetPort::Name(name.into()),
                },
                Protocol::parse(self.protocol.as_deref()),
            )),
            (None, Some(_), None) => Err("podSelector has no port. Set the port of its pods.".into()),
            (None, None, _) => Err("No pods are selected. Set serviceRef, or podSelector and port.".into()),
        }
    }
}

/// A whole TargetBinding. Invalid parts are read as empty, so that one object does not make a list fail.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = TargetBinding)]
pub struct AnyBinding {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "if_readable")]
    spec: TargetBindingSpec,
    #[serde(default, deserialize_with = "if_readable")]
    status: Option<TargetBindingStatus>,
}

fn if_readable<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(from: D) -> Result<T, D::Error> {
    Value::deserialize(from).map(|value| serde_json::from_value(value).unwrap_or_default())
}

impl From<AnyBinding> for TargetBinding {
    fn from(AnyBinding { metadata, spec, status }: AnyBinding) -> Self {
        Self { metadata, spec, status }
    }
}

/// The annotation that has the same meaning as a field. For example, the field `gateWhenUnused` has the same meaning as
/// `headgate.dev/gate-when-unused`.
fn annotation_of(field: &str) -> String {
    let mut name = "headgate.dev/".to_owned();
    for letter in field.chars() {
        if letter.is_ascii_uppercase() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn number_of(number: i32) -> Result<u16, String> {
    let known = port_number(Some(i64::from(number)));
    known.ok_or_else(|| format!("Port {number} is invalid. Write 1 to 65535."))
}

#[cfg(test)]
mod tests {
    use headgate_core::model::{
        hold::Hold,
        object::Labels,
        policy::{self, GateWhenUnused, MinHealthy, Ownership, Policy, RegisterWhen, WhenNotReady},
    };
    use serde_json::json;

    use super::*;

    fn read(spec: &Value) -> Option<BindingFacts> {
        let metadata = json!({"name": "mine", "namespace": "shop", "uid": "b-1"});
        let object = json!({
            "apiVersion": "headgate.dev/v1alpha1", "kind": "TargetBinding", "metadata": metadata, "spec": spec,
        });
        serde_json::from_value::<SlimBinding>(object).unwrap().into_facts()
    }

    #[test]
    fn a_binding_of_a_service_and_one_with_a_selector_are_read() {
        let facts = read(&json!({
            "targetGroup": {"name": "web"}, "serviceRef": {"name": "web", "port": "http"}, "registerWhen": "ready",
        }))
        .unwrap();
        assert_eq!(facts.pods, Pods::OfService("web".into(), PortRef::Name("http".into())));
        assert_eq!(
            (&*facts.group, facts.policy.get(policy::REGISTER_WHEN), facts.ending),
            ("web", Some("ready"), false)
        );
        let facts = read(&json!({
            "targetGroup": {"arn": "arn:x"}, "podSelector": {"matchLabels": {"app": "dns"}}, "port": 53, "protocol": "UDP",
        }))
        .unwrap();
        let labels = Labels::from_iter([("app", "dns")]);
        assert_eq!(facts.pods, Pods::Selected(labels, TargetPort::Number(53), Protocol::Udp));
        assert_eq!(&*facts.group, "arn:x");
    }

    #[test]
    fn the_policies_are_read_as_the_annotations_are() {
        let facts = read(&json!({
            "targetGroup": {"name": "web"}, "serviceRef": {"name": "web"}, "registerWhen": "auto",
            "whenNotReady": "deregister", "ownership": "exclusive", "paused": true, "hold": "90s",
            "gateWhenUnused": "wait", "minHealthyPerZone": 3,
        }))
        .unwrap();
        let (policy, bad) = Policy::read(&facts.policy, Policy::default());
        assert_eq!(bad, []);
        let all = Policy {
            register_when: RegisterWhen::Auto,
            when_not_ready: WhenNotReady::Deregister,
            ownership: Ownership::Exclusive,
            paused: true,
            hold: Hold::For(90),
            gate_when_unused: GateWhenUnused::Wait,
            min_healthy_per_zone: MinHealthy(3),
        };
        assert_eq!(policy, all);
    }

    #[test]
    fn a_policy_of_the_wrong_kind_is_said_and_what_was_in_force_stays() {
        let facts = read(&json!({
            "targetGroup": {"name": "web"}, "serviceRef": {"name": "web"}, "registerWhen": 5, "paused": "yes",
            "hold": ["45s"],
        }))
        .unwrap();
        let before = Policy { register_when: RegisterWhen::Ready, paused: true, ..Policy::default() };
        let (policy, bad) = Policy::read(&facts.policy, before);
        assert_eq!(policy, before);
        assert_eq!(bad.len(), 3, "{bad:?}");
    }

    #[test]
    fn what_the_schema_would_have_refused_binds_nothing_says_what_was_expected_and_fails_no_list() {
        for (spec, said) in [
            (json!(null), "targetGroup is empty"),
            (json!({}), "targetGroup is empty"),
            (json!("x"), "spec is invalid"),
            (json!({"targetGroup": {"name": "web"}}), "No pods are selected"),
            (
                json!({"targetGroup": {"name": "web"}, "podSelector": {"matchLabels": {"app": "a"}}}),
                "podSelector has no port",
            ),
            (
                json!({"targetGroup": {"name": "web"}, "serviceRef": {"name": "web", "port": 0}}),
                "Port 0 is invalid",
            ),
            (json!({"targetGroup": {}, "serviceRef": {"name": "web", "port": 80}}), "targetGroup is empty"),
            (
                json!({"targetGroup": {"name": 7}, "serviceRef": {"name": "web", "port": 80}}),
                "spec is invalid",
            ),
            (
                json!({"targetGroup": {"name": "a"}, "serviceRef": {"name": "w", "port": 9_999_999_999_i64}}),
                "spec is invalid",
            ),
        ] {
            let facts = read(&spec).unwrap();
            let Pods::Unreadable(why) = &facts.pods else { panic!("{spec}: {facts:?}") };
            assert!(why.contains(said), "{spec}: {why}");
        }
    }
}
