//! The kind IngressDaemonSet, which runs a number of pods on every node.

// The lint is wrong: each printer column has its own name, type and path.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{Condition, Time},
    util::intstr::IntOrString,
};
use kube::{CustomResource, KubeSchema};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template::template;

/// The pods of each node, and how they are replaced.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "IngressDaemonSet",
    namespaced,
    status = "IngressDaemonSetStatus",
    doc = "Runs podsPerNode copies of a pod template on each matching node. A rollout updates one node after the other, \
           and starts each new pod before it stops an old pod. Drain tools can evict the pods. `headgate daemonsets` \
           manages IngressDaemonSets.",
    shortname = "ids",
    category = "headgate",
    derive = "PartialEq",
    validation = Rule::new("size(self.metadata.name) <= 50")
        .message("use a name of at most 50 characters: the names of its pods begin with it, and are host \
                  names"),
    printcolumn(name = "Nodes", type_ = "integer", json_path = ".status.nodes"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedNodes"),
    printcolumn(name = "Degraded", type_ = "integer", json_path = ".status.degradedNodes"),
    printcolumn(name = "In turn", type_ = "integer", json_path = ".status.nodesInTurn"),
    printcolumn(name = "Pods", type_ = "integer", json_path = ".status.wantedPods"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availablePods"),
    printcolumn(
        name = "Progress",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.updateRevision", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!(has(self.template.spec.hostNetwork) && self.template.spec.hostNetwork) || \
         (self.podsPerNode == 1 && (self.updateStrategy.type != 'RollingUpdate' || self.updateStrategy.maxSurgePerNode == 0))"
    ).message(
        "two pods with hostNetwork cannot share the ports of a node: set podsPerNode 1 and \
         updateStrategy.maxSurgePerNode 0 (with maxUnavailablePerNode 1), or remove hostNetwork"
    ),
    validation = Rule::new(
        "!self.template.spec.containers.exists(c, has(c.ports) && c.ports.exists(p, has(p.hostPort) && p.hostPort > 0)) || \
         (self.podsPerNode == 1 && (self.updateStrategy.type != 'RollingUpdate' || self.updateStrategy.maxSurgePerNode == 0))"
    ).message(
        "two pods of a node cannot share a hostPort: set podsPerNode 1 and updateStrategy.maxSurgePerNode 0 \
         (with maxUnavailablePerNode 1), or remove hostPort, because the load balancer sends to pod IPs"
    )
)]
pub struct IngressDaemonSetSpec {
    /// Number of pods on each node.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    pub pods_per_node: i32,
    /// Pod template in DaemonSet format. Labels, required node affinity and tolerations select nodes. Cordoned nodes
    /// and nodes being drained get no new pods.
    #[schemars(schema_with = "template")]
    pub template: Value,
    /// A pod is available when it has been ready for this many seconds.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub min_ready_seconds: i32,
    /// Number of older templates to keep as ControllerRevisions, in addition to the templates in use.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
    /// Pauses the rollout: no further node is updated. Pods that terminate are still replaced.
    #[serde(default)]
    pub paused: bool,
    /// How a new template replaces existing pods.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// Maximum number, or percentage (rounded up), of pods that are missing because of evictions. Headgate sets a
    /// PodDisruptionBudget, unless your own budget selects the pods.
    #[serde(default = "quarter")]
    #[schemars(schema_with = "amount")]
    pub max_evicted: IntOrString,
}

/// How a new template replaces existing pods.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'RollingUpdate' || self.maxSurgePerNode + self.maxUnavailablePerNode > 0")
        .message("without surge and unavailable pods, no pod can be replaced: set maxSurgePerNode or \
                  maxUnavailablePerNode above 0"),
    validation = Rule::new("!has(self.waitForDetachmentByAnnotatedTimestamp) || has(self.annotateNodeToDetach)")
        .message("nothing asks for the detachment of nodes: set annotateNodeToDetach with \
                  waitForDetachmentByAnnotatedTimestamp")
)]
pub struct UpdateStrategy {
    /// RollingUpdate: start a new pod, then delete an old pod. NodeReplace: evict all old pods of a node first.
    /// OnDelete: replace pods that you delete.
    #[serde(rename = "type", default = "rolling")]
    pub kind: StrategyType,
    /// With RollingUpdate: how many pods a node may have above podsPerNode. Terminating pods do not count.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 16))]
    pub max_surge_per_node: i32,
    /// With RollingUpdate: how many available pods a node may have below podsPerNode.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub max_unavailable_per_node: i32,
    /// How many nodes are updated at once: a number, or a percentage of all nodes, rounded down, and at least one.
    #[serde(default = "one_node")]
    #[schemars(schema_with = "amount")]
    pub max_nodes_at_once: IntOrString,
    /// A node whose update takes longer than this many seconds stops the rollout.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1, max = 86_400))]
    pub progress_deadline_seconds: i32,
    /// Annotate a node during its update, so that another controller detaches it. `headgate daemonsets
    /// --node-annotations` must list the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotate_node_to_detach: Option<AnnotateNode>,
    /// Change pods of a node only after this annotation of the node has a time after the start of its update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_detachment_by_annotated_timestamp: Option<WaitForDetachment>,
}

/// The annotation that a node gets during its update.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotateNode {
    /// Key of the annotation. The value is NAMESPACE.NAME of the IngressDaemonSet.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
}

/// The annotation with the time at which a node was detached.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitForDetachment {
    /// Key of the annotation.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// The format of the time.
    #[serde(default)]
    pub format: TimestampFormat,
    /// Seconds to wait after the annotated time before changing pods of the node.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 86_400))]
    pub grace_period_seconds: i32,
}

/// The format of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum TimestampFormat {
    /// 2006-01-02T15:04:05Z
    #[default]
    RFC3339,
}

impl Default for UpdateStrategy {
    fn default() -> Self {
        Self {
            kind: rolling(),
            max_surge_per_node: one(),
            max_unavailable_per_node: 0,
            max_nodes_at_once: one_node(),
            progress_deadline_seconds: ten_minutes(),
            annotate_node_to_detach: None,
            wait_for_detachment_by_annotated_timestamp: None,
        }
    }
}

/// How pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum StrategyType {
    /// Start new pods before old pods stop.
    RollingUpdate,
    /// Evict all old pods of a node at once.
    NodeReplace,
    /// Replace the pods that a user deletes.
    OnDelete,
}

/// The state that `headgate daemonsets` reports.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressDaemonSetStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of nodes that should have pods.
    #[serde(default)]
    pub nodes: i64,
    /// Number of nodes whose pods all have the newest template and are available.
    #[serde(default)]
    pub updated_nodes: i64,
    /// Number of nodes with fewer available pods than desired.
    #[serde(default)]
    pub degraded_nodes: i64,
    /// Number of nodes that are being updated.
    #[serde(default)]
    pub nodes_in_turn: i64,
    /// Number of desired pods on these nodes.
    #[serde(default)]
    pub wanted_pods: i64,
    /// Number of pods on any node, without terminating pods.
    #[serde(default)]
    pub pods: i64,
    /// Number of pods with the newest template.
    #[serde(default)]
    pub updated_pods: i64,
    /// Number of ready pods.
    #[serde(default)]
    pub ready_pods: i64,
    /// Number of pods that have been ready for minReadySeconds.
    #[serde(default)]
    pub available_pods: i64,
    /// Hash of the template that nodes have before their update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// Hash of the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The nodes that are being updated. Headgate stores the progress of the rollout here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "turns")]
    pub turns: Vec<NodeTurn>,
    /// The first hundred nodes with fewer available pods than desired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Progressing, Available and PodsCreated, each with a stable reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// A node that is being updated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTurn {
    /// Name of the node.
    pub node: String,
    /// The time when the update of the node started.
    pub since: Time,
    /// The reason why the update of the node waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Whether the update takes longer than progressDeadlineSeconds.
    #[serde(default)]
    pub late: bool,
}

fn one() -> i32 {
    1
}

fn ten() -> i32 {
    10
}

fn rolling() -> StrategyType {
    StrategyType::RollingUpdate
}

fn one_node() -> IntOrString {
    IntOrString::Int(1)
}

fn ten_minutes() -> i32 {
    600
}

fn quarter() -> IntOrString {
    IntOrString::String("25%".into())
}

/// The schema of a number or a percentage.
fn amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? int(self) >= 0 && int(self) <= 100000 : \
                     string(self).matches('^(100|[1-9]?[0-9])%$')",
            "message": "set a number from 0, or a percentage from 0% to 100%, e.g. 10%",
        }],
    })
}

/// The schema of the list of nodes that are being updated.
fn turns(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["node"],
        "items": {
            "type": "object",
            "required": ["node", "since"],
            "properties": {
                "node": {"type": "string", "description": "Name of the node."},
                "since": {"type": "string", "format": "date-time", "description": "Start time of the update."},
                "waitsFor": {"type": "string", "description": "What the update waits for, as one word."},
                "late": {"type": "boolean", "description": "Whether the update takes longer than progressDeadlineSeconds."},
            },
        },
    })
}
