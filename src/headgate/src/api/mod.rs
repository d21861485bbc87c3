//! The custom resources of Headgate, `headgate.dev/v1alpha1`. The Rust types in this module define the schema, and
//! `headgate crd` prints the schema.
//!
//! The module defines the fields that users may write and read. The module contains no behavior.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::{Schema, SchemaGenerator, json_schema};

pub mod conditions;
pub mod ingress_daemon_set;
pub mod known;
pub mod status;
pub mod target_binding;
pub mod target_group_grant;
pub mod target_ledger;
mod template;

pub use ingress_daemon_set::{IngressDaemonSet, IngressDaemonSetSpec, IngressDaemonSetStatus};
pub use target_binding::{TargetBinding, TargetBindingSpec, TargetBindingStatus};
pub use target_group_grant::{TargetGroupGrant, TargetGroupGrantSpec};
pub use target_ledger::{TargetLedger, TargetLedgerSpec};

/// All CustomResourceDefinitions as YAML for `kubectl apply -f`.
///
/// # Errors
/// The schema cannot be written as YAML, which would be a programming error.
pub fn definitions() -> Result<String, serde_saphyr::ser::Error> {
    let mut text = String::from("# Written by `headgate crd` (make crds); do not edit.\n");
    for definition in crds() {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&definition)?);
    }
    Ok(text)
}

fn crds() -> [CustomResourceDefinition; 4] {
    [IngressDaemonSet::crd(), TargetBinding::crd(), TargetGroupGrant::crd(), TargetLedger::crd()]
}

/// The schema of a time in Kubernetes' format.
fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// The schema of bytes in base64.
fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// The schema of the number or the name of a port.
fn port(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? int(self) >= 1 && int(self) <= 65535 : \
                     string(self).matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
            "message": "set the number of a port, 1 to 65535, or its name: 1 to 63 lower-case letters, \
                        digits and hyphens",
        }],
    })
}

/// The schema of Kubernetes conditions, in which each type occurs once.
fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string", "maxLength": 1024, "description": "A stable word for alerts and scripts."},
                "message": {"type": "string", "maxLength": 32768, "description": "What the state is, and what to do."},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "observedGeneration": {"type": "integer", "format": "int64"},
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_definitions_are_those_of_the_types() {
        let committed = include_str!("../../../../config/crd/headgate.dev.yaml");
        let now = definitions().unwrap();
        assert!(committed == now, "config/crd/headgate.dev.yaml is out of date: run `make crds`");
    }

    #[test]
    fn every_field_is_described() {
        fn undescribed(path: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                if !path.contains(".conditions") && property["description"].is_null() {
                    found.push(path.clone());
                }
                undescribed(&path, property, found);
            }
        }
        for definition in crds() {
            let definition = serde_json::to_value(definition).unwrap();
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let mut found = Vec::new();
            undescribed("", schema, &mut found);
            assert_eq!(found, Vec::<String>::new());
        }
    }
}
