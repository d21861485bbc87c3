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
    /// Family of the addresses in the lists below.
    pub ip_family: LedgerFamily,
    /// Targets that AWS accepted. Each entry has address, port (2 bytes) and the FNV-1a hash of the pod's UID (8
    /// bytes), big-endian.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub registered: ByteString,
    /// Targets for which Headgate may have sent a RegisterTargets call. Headgate writes the list before the call, in
    /// the format of registered.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub intended: ByteString,
    /// Deregistered targets, until no late call can register them again, in the format of registered.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub removed: ByteString,
    /// When AWS accepted each deregistration, in the order of removed: seconds since 1970 in 4 bytes, big-endian; 0:
    /// unknown. Absent: all unknown.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub removed_since: ByteString,
    /// The namespaces that have targets in the group. These namespaces own the group while no TargetGroupGrant names
    /// it.
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
            registered: ByteString(vec![10, 0, 0, 1]),
            intended: nothing(),
            removed: nothing(),
            removed_since: nothing(),
            namespaces: Vec::new(),
        };
        let written = json!({"targetGroupARN": "arn", "ipFamily": "IPv4", "registered": "CgAAAQ=="});
        assert_eq!(serde_json::to_value(&spec).unwrap(), written);
        assert_eq!(serde_json::from_value::<TargetLedgerSpec>(written).unwrap(), spec);
    }
}
