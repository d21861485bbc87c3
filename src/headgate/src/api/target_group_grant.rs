//! The kind TargetGroupGrant: which namespaces may bind which target groups.

// The lint is wrong: each printer column has its own name, type and path.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Which namespaces may bind which target groups.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "TargetGroupGrant",
    doc = "Controls which namespaces may bind which target groups. If grants name a target group, only the namespaces \
           of these grants may bind it. Without a grant, the first namespace that binds a target group keeps it. With \
           --grants=required, no namespace may bind a target group without a grant.",
    shortname = "tgg",
    category = "headgate",
    derive = "PartialEq",
    printcolumn(name = "Target groups", type_ = "string", json_path = ".spec.targetGroups"),
    printcolumn(name = "Namespaces", type_ = "string", json_path = ".spec.namespaces.names"),
    printcolumn(name = "Selector", type_ = "string", json_path = ".spec.namespaces.selector"),
    printcolumn(name = "Allow", type_ = "string", json_path = ".spec.allow", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroupGrantSpec {
    /// Names or ARNs of target groups. Each * matches any characters. Headgate compares a value with arn: with the ARN,
    /// and other values with the name.
    #[schemars(schema_with = "patterns")]
    pub target_groups: Vec<String>,
    /// The namespaces that may bind the target groups.
    pub namespaces: GrantedNamespaces,
    /// Additional permissions. Exclusive: Headgate may deregister foreign targets (headgate.dev/ownership: exclusive).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "allowed")]
    pub allow: Vec<Allowed>,
}

/// Namespaces by name, by label, or both.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.names) && self.names.size() > 0) || has(self.selector)")
        .message("set the names of namespaces, a selector of their labels, or both")
)]
pub struct GrantedNamespaces {
    /// Names of namespaces, which do not have to exist yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "names")]
    pub names: Vec<String>,
    /// Label selector of namespaces. An empty selector matches all namespaces. Users who can label namespaces can
    /// therefore grant access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "selector")]
    pub selector: Option<LabelSelector>,
}

/// An additional permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Allowed {
    /// Headgate may deregister targets that others registered.
    Exclusive,
}

fn patterns(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 200,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "maxLength": 256,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^(arn:[-A-Za-z0-9*:/_]+|[-A-Za-z0-9*]+)$')",
                "message": "set the name or the ARN of a target group; each * stands for any characters, for \
                            example web-* or arn:aws:elasticloadbalancing:*:123456789012:targetgroup/web-*",
            }],
        },
    })
}

fn names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 1000,
        "x-kubernetes-list-type": "set",
        "items": {
            "type": "string",
            "maxLength": 63,
            "x-kubernetes-validations": [{
                "rule": "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                "message": "set the name of a namespace: 1 to 63 lower-case letters, digits and hyphens, \
                            without *; for many namespaces, use the selector",
            }],
        },
    })
}

fn allowed(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 10,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "enum": ["Exclusive"]},
    })
}

/// The schema of a Kubernetes label selector, with descriptions.
fn selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels that a namespace must have.",
                "maxProperties": 100,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "matchExpressions": {
                "type": "array",
                "description": "Conditions that must all be true.",
                "maxItems": 100,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "type": "string", "description": "The label.", "minLength": 1, "maxLength": 317,
                        },
                        "operator": {
                            "type": "string",
                            "description": "In or NotIn, with values; Exists or DoesNotExist, without.",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "type": "array",
                            "description": "Allowed (In) or excluded (NotIn) values of the label.",
                            "maxItems": 1000,
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string", "maxLength": 63},
                        },
                    },
                    "x-kubernetes-validations": [{
                        "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                        "message": "set values with In and NotIn, and none with Exists and DoesNotExist",
                    }],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_grant_reads_as_it_is_written_and_what_it_does_not_say_is_left_out() {
        let written = json!({
            "targetGroups": ["web-*"], "namespaces": {"names": ["shop"]}, "allow": ["Exclusive"],
        });
        let spec: TargetGroupGrantSpec = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((&*spec.target_groups[0], &spec.allow[..]), ("web-*", &[Allowed::Exclusive][..]));
        assert_eq!(serde_json::to_value(&spec).unwrap(), written);
        let labels =
            json!({"targetGroups": ["a"], "namespaces": {"selector": {"matchLabels": {"team": "a"}}}});
        let spec: TargetGroupGrantSpec = serde_json::from_value(labels.clone()).unwrap();
        assert!(spec.namespaces.selector.is_some());
        assert_eq!(serde_json::to_value(&spec).unwrap(), labels);
    }
}
