//! The schema of the pod template of an IngressDaemonSet.

use headgate_core::model::limits;
use headgate_daemonset::model::{OWNED_BY, REVISION};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// A pod template. What is not named here is kept as it is, so that no field of a newer Kubernetes is lost.
pub fn template(_: &mut SchemaGenerator) -> Schema {
    let strings = |what: &str| json_schema!({"type": "object", "description": what, "additionalProperties": {"type": "string"}});
    // The sum of all of them has this limit, too, which no schema can express.
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
        "A node must fit one of them.",
        &json!({
            "matchExpressions": requirements("Labels of the node."),
            "matchFields": requirements("Fields of the node."),
        }),
    );
    let required = group("Which nodes have pods.", &json!({"nodeSelectorTerms": terms}));
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
    let node_affinity = group("Which nodes have pods.", &required);
    let spec = json!({
        "type": "object",
        "description": "The spec of the pods (kubectl explain pod.spec). Its required node affinity says which nodes \
                        have pods; in the pods, the name of their node is in its place.",
        "required": ["containers"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "hostNetwork": {"type": "boolean", "description": "The pods have the network of their node."},
            "nodeSelector": {
                "type": "object",
                "nullable": true,
                "description": "The labels that a node must have.",
                "maxProperties": most,
                "additionalProperties": {"type": "string"},
            },
            "tolerations": list("The taints that the pods tolerate.", &json!({})),
            "affinity": group("Where the pods may be.", &json!({"nodeAffinity": node_affinity})),
            "nodeName": {"type": "string", "description": "Not to be given: every node has its pods."},
            "restartPolicy": {"type": "string", "description": "Always, which is the default."},
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
                        "name": {"type": "string", "description": "Its name."},
                        "ports": {
                            "type": "array",
                            "description": "Its ports.",
                            "maxItems": 128,
                            "items": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": true,
                                "properties": {
                                    "hostPort": {"type": "integer", "description": "The port of the node; not needed where the load balancer sends to the IP of the pod."},
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
                "message": "expected restartPolicy Always: the pods of a node run for as long as the node does",
            },
            {
                "rule": "!has(self.nodeName)",
                "message": "expected no nodeName: every node has its pods; nodeSelector says which nodes",
            },
        ],
    });
    json_schema!({
        "type": "object",
        "description": "The pods, as a DaemonSet has them: their labels and annotations, and their spec. A node has pods if \
                        its labels fit spec.nodeSelector and the required spec.affinity.nodeAffinity, and if \
                        spec.tolerations tolerate its taints. No pod is made on a node that is cordoned or about to be \
                        drained.",
        "required": ["spec"],
        "properties": {
            "metadata": {
                "type": "object",
                "description": "The labels and annotations of the pods.",
                "properties": {
                    "labels": strings("The labels of the pods. Headgate adds those by which it knows them."),
                    "annotations": strings("The annotations of the pods."),
                },
                "x-kubernetes-validations": [{
                    "rule": format!("!has(self.labels) || !('{OWNED_BY}' in self.labels || '{REVISION}' in self.labels)"),
                    "message": format!("the labels {OWNED_BY} and {REVISION} are Headgate's own: expected neither"),
                }],
            },
            "spec": spec,
        },
    })
}
