//! The kind TargetLedger: Headgate's record of the targets that it has registered in a target group.

use k8s_openapi::ByteString;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Which targets of a target group Headgate registered, and for which pods. After a crash, Headgate uses it to tell
/// its own targets from foreign ones. Do not edit it: Headgate never deregisters a target whose entry is lost.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "TargetLedger",
    namespaced,
    doc = "Headgate's record of the targets that it registered in one target group. Do not edit TargetLedgers.",
    shortname = "tgl",
    category = "headgate",
    derive = "PartialEq",
    printcolumn(name = "Target group", type_ = "string", json_path = ".spec.targetGroupARN"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TargetLedgerSpec {
    /// ARN of the target group.
    #[serde(rename = "targetGroupARN")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("the target group of a ledger cannot change"))]
    pub target_group_arn: String,
    /// Family of the addresses in claims.
    pub ip_family: LedgerFamily,
    /// Term of the leader that wrote the ledger: how often the Lease had changed its holder by then.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub term: u64,
    /// Targets that may receive requests. Each entry: address, port (2 bytes), FNV-1a hash of the pod's UID (8 bytes),
    /// binding number (2 bytes); big-endian.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub claims: ByteString,
    /// Bindings with the numbers 1, 2 and so on, such as `Service shop/web`. Number 0: unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "bindings")]
    pub bindings: Vec<String>,
    /// The namespaces that have targets in the group. They own it while no TargetGroupGrant names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "namespaces")]
    pub namespaces: Vec<String>,
}

/// Family of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerFamily {
    /// IPv4 addresses with 4 bytes each.
    IPv4,
    /// IPv6 addresses with 16 bytes each.
    IPv6,
}

fn nothing() -> ByteString {
    ByteString(Vec::new())
}

/// The schema of a list of namespace names.
fn namespaces(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 63},
    })
}

/// Kind, namespace and name of objects.
fn bindings(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 340},
    })
}

fn is_nothing(bytes: &ByteString) -> bool {
    bytes.0.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_lists_are_base64_and_an_empty_one_is_left_out() {
        let spec = TargetLedgerSpec {
            target_group_arn: "arn".into(),
            ip_family: LedgerFamily::IPv4,
            term: 3,
            claims: ByteString(vec![10, 0, 0, 1]),
            bindings: Vec::new(),
            namespaces: Vec::new(),
        };
        let written = json!({"targetGroupARN": "arn", "ipFamily": "IPv4", "term": 3, "claims": "CgAAAQ=="});
        assert_eq!(serde_json::to_value(&spec).unwrap(), written);
        assert_eq!(serde_json::from_value::<TargetLedgerSpec>(written).unwrap(), spec);
    }
}
