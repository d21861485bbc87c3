//! The parts of a Service that Headgate needs.

use std::collections::BTreeMap;

use headgate_core::{
    binding::annotation,
    model::{
        limits,
        object::Labels,
        pod::Protocol,
        policy::Texts,
        service::{ServiceFacts, ServicePort, TargetPort},
    },
};
use k8s_openapi::{api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Deserialize;

use super::{
    annotations::OfService,
    known,
    meta::{identity, with_annotations},
    null_is_default, port_number,
};

/// A watched Service.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = Service)]
pub struct SlimService {
    #[serde(default, deserialize_with = "with_annotations::<OfService, _>")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "null_is_default")]
    spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    kind: Option<Box<str>>,
    selector: Option<BTreeMap<String, Option<String>>>,
    ports: Option<Vec<Option<SlimServicePort>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimServicePort {
    name: Option<Box<str>>,
    port: Option<i64>,
    target_port: Option<SlimTargetPort>,
    protocol: Option<String>,
}

/// A number of any size, or a name.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum SlimTargetPort {
    Number(i64),
    Name(Box<str>),
}

impl SlimService {
    /// Converts the Service to the core's facts. Returns `None` for an object without a name or UID, which the API
    /// server never sends.
    pub fn into_facts(mut self) -> Option<ServiceFacts> {
        let (key, uid) = identity(&mut self.metadata)?;
        let mut annotations = self.metadata.annotations.unwrap_or_default();
        let mut beyond = Vec::new();
        let target_groups = annotations.remove(annotation::TARGET_GROUPS).map(|text| {
            limits::TARGET_GROUPS.text(&text).unwrap_or_else(|excess| {
                beyond.push(excess);
                Box::default()
            })
        });
        let mut policy = Texts::default();
        for (annotation, value) in &annotations {
            if annotation::is_known(annotation) {
                policy.set(annotation, value);
            } else {
                policy.add_unknown(annotation);
            }
        }
        let ports = self.spec.ports.unwrap_or_default().into_iter().flatten().filter_map(|slim| {
            let port = port_number(slim.port)?;
            let target_port = match slim.target_port {
                None | Some(SlimTargetPort::Number(0)) => TargetPort::Number(port),
                Some(SlimTargetPort::Number(number)) => TargetPort::Number(port_number(Some(number))?),
                Some(SlimTargetPort::Name(name)) => TargetPort::Name(name),
            };
            Some(ServicePort {
                name: slim.name.unwrap_or_default(),
                port,
                target_port,
                protocol: Protocol::parse(slim.protocol.as_deref()),
            })
        });
        let (ports, excess) = limits::SERVICE_PORTS.list(ports);
        beyond.extend(excess);
        let selector = limits::SELECTOR.labels(known(self.spec.selector.unwrap_or_default()));
        let selector = selector.unwrap_or_else(|excess| {
            beyond.push(excess);
            Labels::default()
        });
        let is_external = self.spec.kind.as_deref() == Some("ExternalName");
        Some(ServiceFacts {
            key,
            uid,
            target_groups,
            policy,
            selector,
            is_external,
            ports,
            beyond: beyond.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::model::policy;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_read_with_its_annotation_and_ports() {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop", "uid": "s-1",
                "annotations": {"headgate.dev/target-groups": "http=blue", "headgate.dev/paused": "true", "headgate.dev/hodl": "off",
                    "other": "x"}},
            "spec": {"selector": {"app": "web"}, "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
                {"port": 53, "protocol": "UDP"},
            ]},
        });
        let facts = serde_json::from_value::<SlimService>(service).unwrap().into_facts().unwrap();
        assert_eq!(facts.target_groups.as_deref(), Some("http=blue"));
        assert_eq!(facts.policy.get(policy::PAUSED), Some("true"));
        assert_eq!(facts.policy.unknown(), [Box::<str>::from("headgate.dev/hodl")]);
        assert_eq!(facts.ports[0].target_port, TargetPort::Name("web".into()));
        assert_eq!(facts.ports[1].target_port, TargetPort::Number(53));
        assert_eq!(facts.ports[1].protocol, Protocol::Udp);
        assert!(!facts.is_external);
        let external = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "s-1"}, "spec": {"type": "ExternalName"}});
        assert!(serde_json::from_value::<SlimService>(external).unwrap().into_facts().unwrap().is_external);
    }

    #[test]
    fn what_of_a_service_exceeds_a_bound_is_not_read_and_the_rest_is() {
        let selector: serde_json::Map<String, serde_json::Value> =
            (0..50_000).map(|at| (format!("k{at:05}"), json!("x"))).collect();
        let ports: Vec<_> = (1..=300).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
        let service = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "s-1", "annotations": {
                "headgate.dev/target-groups": "p1=blue,".repeat(10_000), "headgate.dev/hold": "x".repeat(1000),
            }},
            "spec": {"selector": selector, "ports": ports},
        });
        let facts = serde_json::from_value::<SlimService>(service).unwrap().into_facts().unwrap();
        let limits: Vec<&str> = facts.beyond.iter().map(|excess| excess.limit.what).collect();
        let wanted = [
            "headgate.dev/target-groups",
            "ports of a Service",
            "the selector of a Service or TargetBinding",
        ];
        assert_eq!(limits, wanted);
        assert!(facts.selector.is_empty() && facts.target_groups.as_deref() == Some(""));
        assert_eq!(facts.ports.len(), 256);
        assert!(facts.policy.get(policy::HOLD).is_some_and(|text| text.len() < 200));
    }
}
