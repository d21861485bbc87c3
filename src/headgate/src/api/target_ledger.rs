//! The kind TargetLedger: Headgate's own memory of what it has registered in a target group.

use k8s_openapi::ByteString;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Which targets of a target group Headgate has registered, and for which pods: how it tells its own targets from
/// others' after a crash. Written by Headgate alone, in its own namespace; one object per target group. Not for hands:
/// what is deleted here is forgotten, and then stays in the target group for good.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "TargetLedger",
    namespaced,
    doc = "Headgate's own memory of what it has registered in one target group. Not for hands.",
    shortname = "tgl",
    category = "headgate",
    derive = "PartialEq",
    printcolumn(name = "Target group", type_ = "string", json_path = ".spec.targetGroupARN"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct TargetLedgerSpec {
    /// The ARN of the target group.
    #[serde(rename = "targetGroupARN")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("a ledger is about one target group for ever"))]
    pub target_group_arn: String,
    /// The family of the addresses in the lists below.
    pub ip_family: LedgerFamily,
    /// What AWS has taken. Each entry is 14 bytes for IPv4, 26 for IPv6: address, port (2 bytes), and 8 bytes that tell
    /// the pods of an address apart, the FNV-1a hash of the pod's UID. Big end first.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub registered: ByteString,
    /// What a RegisterTargets may have been sent for: written before the call goes out. Entries as in registered.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub intended: ByteString,
    /// What was removed, until no late call can bring it back. Entries as in registered.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub removed: ByteString,
    /// When AWS had taken each removal, in the order of removed: seconds since 1970 in 4 bytes, big end first; 0: not
    /// known. Left out: none is known.
    #[serde(default = "nothing", skip_serializing_if = "is_nothing")]
    #[schemars(schema_with = "super::bytes")]
    pub removed_since: ByteString,
    /// The namespaces that have targets in the group: they hold it while no TargetGroupGrant names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "namespaces")]
    pub namespaces: Vec<String>,
}

/// The family of a target group's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerFamily {
    /// 4 bytes each.
    IPv4,
    /// 16 bytes each.
    IPv6,
}

fn nothing() -> ByteString {
    ByteString(Vec::new())
}

/// Names of namespaces.
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
