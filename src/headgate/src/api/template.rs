//! The schema of an IngressDaemonSet's pod template.

use headgate_core::model::limits;
use headgate_daemonset::model::{OWNED_BY, REVISION};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// The schema of a pod template. The API server keeps fields that the schema does not name, so that fields of a newer
/// Kubernetes version are not lost.
pub fn template(_: &mut SchemaGenerator) -> Schema {
    let strings = |what: &str| json_schema!({"type": "object", "description": what, "additionalProperties": {"type": "string"}});
    // The controller limits the sum of all conditions to the same number, which a schema cannot express.
    let most = limits::PLACEMENT.most;
    let group = |what: &str, fields: &Value| {
        json!({
            "type": "object", "nullable": true, "description": what, "properties": fields,
            "x-kubernetes-preserve-unknown-fields": true,
        })
    };
    let list = |what: &str, fields: &Value| {
        let items =
            json!({"type": "object", "properties": fields, "x-kubernetes-preserve-unknown-fields": true});
        json!({"type": "array", "nullable": true, "description": what, "maxItems": most, "items": items})
    };
    let values = json!({
        "type": "array", "nullable": true, "description": "The values.", "maxItems": most,
        "items": {"type": "string"},
    });
    let requirements = |what: &str| list(what, &json!({"values": values}));
    let terms = list(
        "A node must match one of them.",
        &json!({
            "matchExpressions": requirements("Labels of the node."),
            "matchFields": requirements("Fields of the node."),
        }),
    );
    let required = group("Selects nodes.", &json!({"nodeSelectorTerms": terms}));
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    let node_affinity = group("Selects nodes.", &required);
    let spec = json!({
        "type": "object",
        "description": "The spec of the pods (kubectl explain pod.spec). In each pod, the controller replaces the required node \
                        affinity with the name of the node.",
        "required": ["containers"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "hostNetwork": {"type": "boolean", "description": "The pods use the network of their node."},
            "nodeSelector": {
                "type": "object",
                "nullable": true,
                "description": "The labels that a node must have.",
                "maxProperties": most,
                "additionalProperties": {"type": "string"},
            },
            "tolerations": list("The taints that the pods tolerate.", &json!({})),
            "affinity": group("Affinity of the pods.", &json!({"nodeAffinity": node_affinity})),
            "nodeName": {"type": "string", "description": "Do not set it: every node gets pods."},
            "restartPolicy": {"type": "string", "description": "Only Always, the default."},
            "containers": {
                "type": "array",
                "description": "The containers of the pods.",
                "minItems": 1,
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {
                        "name": {"type": "string", "description": "Name of the container."},
                        "ports": {
                            "type": "array",
                            "description": "Ports of the container.",
                            "maxItems": 128,
                            "items": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": true,
                                "properties": {
                                    "hostPort": {"type": "integer", "description": "Port of the node. Not needed if the load balancer sends to pod IPs."},
                                },
                            },
                        },
                    },
                },
            },
        },
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.restartPolicy) || self.restartPolicy == 'Always'",
                "message": "set restartPolicy Always: the pods of a node run while the node does",
            },
            {
                "rule": "!has(self.nodeName)",
                "message": "remove nodeName: every node gets pods; nodeSelector selects the nodes",
            },
        ],
    });
    json_schema!({
        "type": "object",
        "description": "Pod template in DaemonSet format. Labels, required node affinity and tolerations select nodes. Cordoned nodes \
                        and nodes being drained get no new pods.",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "description": "Labels and annotations of the pods.",
                "properties": {
                    "labels": strings("Labels of the pods. Headgate adds its own labels."),
                    "annotations": strings("Annotations of the pods."),
                },
                "x-kubernetes-validations": [{
                    "rule": format!("!has(self.labels) || !('{OWNED_BY}' in self.labels || '{REVISION}' in self.labels)"),
                    "message": format!("remove the labels {OWNED_BY} and {REVISION}: Headgate sets them"),
                }],
            },
            "spec": spec,
        },
    })
}
