//! Written TargetBindings as they are watched: lenient, so that one that makes no sense never stops a list.

use std::collections::BTreeMap;

use headgate_core::{
    annotation::PortRef,
    pod::Protocol,
    policy::{
        GATE_WHEN_UNUSED, HOLD, MIN_HEALTHY_PER_ZONE, OWNERSHIP, PAUSED, REGISTER_WHEN, Texts, WHEN_NOT_READY,
    },
    service::TargetPort,
    written::{BindingFacts, Pods},
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString};
use serde::Deserialize;

use crate::{
    api::TargetBinding,
    kube::slim::{identity, port_number, without_annotations},
};

/// A TargetBinding as it is watched.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = TargetBinding)]
pub struct SlimBinding {
    #[serde(deserialize_with = "without_annotations")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    target_group: Group,
    service_ref: Option<ServiceRef>,
    pod_selector: Option<Selector>,
    port: Option<IntOrString>,
    protocol: Option<String>,
    register_when: Option<String>,
    when_not_ready: Option<String>,
    ownership: Option<String>,
    paused: Option<bool>,
    hold: Option<String>,
    gate_when_unused: Option<String>,
    min_healthy_per_zone: Option<i64>,
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
    /// What the core needs to know; `None` for one that the schema would have refused.
    pub fn into_facts(mut self) -> Option<BindingFacts> {
        let ending = self.metadata.deletion_timestamp.is_some();
        let (key, uid) = identity(&mut self.metadata)?;
        let Spec { target_group, service_ref, pod_selector, port, protocol, .. } = self.spec;
        let pods = match (service_ref, pod_selector) {
            (Some(service), _) => Pods::OfService(
                service.name.into(),
                match service.port {
                    None => PortRef::Only,
                    Some(IntOrString::Int(number)) => PortRef::Number(number_of(number)?),
                    Some(IntOrString::String(name)) => PortRef::Name(name.into()),
                },
            ),
            (None, Some(selector)) => Pods::Selected(
                selector.match_labels.into_iter().collect(),
                match port? {
                    IntOrString::Int(number) => TargetPort::Number(number_of(number)?),
                    IntOrString::String(name) => TargetPort::Name(name.into()),
                },
                Protocol::parse(protocol.as_deref()),
            ),
            (None, None) => return None,
        };
        let mut policy = Texts::default();
        for (name, text) in [
            (REGISTER_WHEN, self.spec.register_when),
            (WHEN_NOT_READY, self.spec.when_not_ready),
            (OWNERSHIP, self.spec.ownership),
            (PAUSED, self.spec.paused.map(|paused| paused.to_string())),
            (HOLD, self.spec.hold),
            (GATE_WHEN_UNUSED, self.spec.gate_when_unused),
            (MIN_HEALTHY_PER_ZONE, self.spec.min_healthy_per_zone.map(|least| least.to_string())),
        ] {
            if let Some(text) = text {
                policy.set(name, &text);
            }
        }
        let group = target_group.arn.or(target_group.name)?.into();
        Some(BindingFacts { key, uid, group, pods, policy, ending })
    }
}

fn number_of(number: i32) -> Option<u16> {
    port_number(Some(i64::from(number)))
}

#[cfg(test)]
mod tests {
    use headgate_core::{
        hold::Hold,
        object::Labels,
        policy::{GateWhenUnused, MinHealthy, Ownership, Policy, RegisterWhen, WhenNotReady},
    };
    use serde_json::{Value, json};

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
            (&*facts.group, facts.policy.get(REGISTER_WHEN), facts.ending),
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
    fn what_the_schema_would_have_refused_is_no_binding_and_fails_no_list() {
        for spec in [
            json!({}),
            json!({"targetGroup": {"name": "web"}}),
            json!({"targetGroup": {"name": "web"}, "podSelector": {"matchLabels": {"app": "a"}}}),
            json!({"targetGroup": {"name": "web"}, "serviceRef": {"name": "web", "port": 0}}),
            json!({"targetGroup": {}, "serviceRef": {"name": "web", "port": 80}}),
        ] {
            assert_eq!(read(&spec), None, "{spec}");
        }
    }
}
