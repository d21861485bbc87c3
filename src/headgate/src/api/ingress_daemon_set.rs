//! The kind IngressDaemonSet: so many pods of a template on every node.

// Each printer column has a name, a type and a path of its own.
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

/// How many pods of which template every node has, and how they are replaced by newer ones.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "headgate.dev",
    version = "v1alpha1",
    kind = "IngressDaemonSet",
    namespaced,
    status = "IngressDaemonSetStatus",
    doc = "So many pods of a template on every node that its nodeSelector and affinity fit: rolled node by node, each \
           new pod before an old one goes, and drained like any other pod. `headgate daemonsets` makes the pods.",
    shortname = "ids",
    category = "headgate",
    derive = "PartialEq",
    validation = Rule::new("size(self.metadata.name) <= 50")
        .message("expected a name of at most 50 letters: the names of its pods begin with it, and are host names"),
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
        "a pod with hostNetwork has the ports of its node, which no second pod can have: expected podsPerNode 1 and \
         updateStrategy.maxSurgePerNode 0 (with maxUnavailablePerNode 1); or no hostNetwork"
    ),
    validation = Rule::new(
        "!self.template.spec.containers.exists(c, has(c.ports) && c.ports.exists(p, has(p.hostPort) && p.hostPort > 0)) || \
         (self.podsPerNode == 1 && (self.updateStrategy.type != 'RollingUpdate' || self.updateStrategy.maxSurgePerNode == 0))"
    ).message(
        "no two pods of a node can have one hostPort: expected podsPerNode 1 and updateStrategy.maxSurgePerNode 0 (with \
         maxUnavailablePerNode 1); or no hostPort, because the load balancer sends to the IP of the pod"
    )
)]
pub struct IngressDaemonSetSpec {
    /// How many pods every node has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16))]
    pub pods_per_node: i32,
    /// The pods, as a DaemonSet has them: their labels and annotations, and their spec. A node has pods if its labels fit
    /// spec.nodeSelector and the required spec.affinity.nodeAffinity, and if spec.tolerations tolerate its taints. No pod
    /// is made on a node that is cordoned or about to be drained.
    #[schemars(schema_with = "template")]
    pub template: Value,
    /// A pod is available when it has been Ready for so many seconds.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    pub min_ready_seconds: i32,
    /// So many older templates are kept as ControllerRevisions, besides those that pods have.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 100))]
    pub revision_history_limit: i32,
    /// No node gets its turn, and those that have it go no further. What ends is replaced all the same.
    #[serde(default)]
    pub paused: bool,
    /// How pods are replaced by those of a newer template.
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    /// How many pods may be missing when pods are evicted, as a number or a share of all of them, which is rounded up.
    /// A PodDisruptionBudget is kept that says so, unless one of yours selects the pods.
    #[serde(default = "quarter")]
    #[schemars(schema_with = "amount")]
    pub max_evicted: IntOrString,
}

/// How pods are replaced by those of a newer template.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'RollingUpdate' || self.maxSurgePerNode + self.maxUnavailablePerNode > 0")
        .message("with neither a pod more nor a pod less on a node none can be replaced: expected maxSurgePerNode or maxUnavailablePerNode above 0"),
    validation = Rule::new("!has(self.waitForDetachmentByAnnotatedTimestamp) || has(self.annotateNodeToDetach)")
        .message("nobody detaches a node that is not asked to: expected annotateNodeToDetach beside waitForDetachmentByAnnotatedTimestamp")
)]
pub struct UpdateStrategy {
    /// RollingUpdate: new pods beside the old ones of a node, which go when new ones are available. NodeReplace: the old
    /// pods of a node are evicted, all at once, and then the new ones are made. OnDelete: when you delete the old ones.
    #[serde(rename = "type", default = "rolling")]
    pub kind: StrategyType,
    /// With RollingUpdate: so many pods more than podsPerNode a node may have. Terminating pods do not count.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 16))]
    pub max_surge_per_node: i32,
    /// With RollingUpdate: so many available pods fewer than podsPerNode a node may have.
    #[serde(default)]
    #[schemars(range(min = 0, max = 16))]
    pub max_unavailable_per_node: i32,
    /// So many nodes have their turn at once, as a number or a share of all nodes, which is rounded down; at least one.
    #[serde(default = "one_node")]
    #[schemars(schema_with = "amount")]
    pub max_nodes_at_once: IntOrString,
    /// A node whose turn takes longer than so many seconds stops the roll: no other one gets its turn.
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 1, max = 86_400))]
    pub progress_deadline_seconds: i32,
    /// In its turn a node gets this annotation before anything is done there, and loses it when the turn is over: so that
    /// something else detaches the node from its load balancers. `headgate daemonsets --node-annotations` must name the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotate_node_to_detach: Option<AnnotateNode>,
    /// Nothing is done on the node before it says by this annotation that it was detached since its turn began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_for_detachment_by_annotated_timestamp: Option<WaitForDetachment>,
}

/// The annotation that a node gets in its turn.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnnotateNode {
    /// Its key. Its value is NAMESPACE.NAME of the set.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
}

/// The annotation by which a node says when it was detached.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitForDetachment {
    /// Its key.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How the time is written.
    #[serde(default)]
    pub format: TimestampFormat,
    /// So many seconds after that time the node's pods are changed.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 86_400))]
    pub grace_period_seconds: i32,
}

/// How a time is written.
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
    /// New pods beside the old ones.
    RollingUpdate,
    /// All pods of a node at once.
    NodeReplace,
    /// When the old ones are deleted.
    OnDelete,
}

/// What `headgate daemonsets` sees.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressDaemonSetStatus {
    /// The generation of the spec that this is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Nodes that are to have pods.
    #[serde(default)]
    pub nodes: i64,
    /// Those of them whose pods all are of the newest template, and available.
    #[serde(default)]
    pub updated_nodes: i64,
    /// Those of them that have fewer available pods than they should.
    #[serde(default)]
    pub degraded_nodes: i64,
    /// Those that have their turn.
    #[serde(default)]
    pub nodes_in_turn: i64,
    /// Pods that there should be on these nodes.
    #[serde(default)]
    pub wanted_pods: i64,
    /// Pods that there are, wherever they are; those that are on their way out are not counted.
    #[serde(default)]
    pub pods: i64,
    /// Those of the newest template.
    #[serde(default)]
    pub updated_pods: i64,
    /// Those that are Ready.
    #[serde(default)]
    pub ready_pods: i64,
    /// Those that have been Ready for minReadySeconds.
    #[serde(default)]
    pub available_pods: i64,
    /// The hash of the template that a node has until its turn comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// The hash of the newest template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// The nodes that have their turn. Headgate remembers them by this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "turns")]
    pub turns: Vec<NodeTurn>,
    /// The nodes that have fewer available pods than they should: the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Progressing, Available and PodsCreated, each with a stable reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "super::conditions")]
    pub conditions: Vec<Condition>,
}

/// A node that has its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTurn {
    /// Its name.
    pub node: String,
    /// Since when.
    pub since: Time,
    /// What it waits for, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// It takes longer than progressDeadlineSeconds.
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

/// A number, or a share of all.
fn amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "x-kubernetes-validations": [{
            "rule": "type(self) == int ? int(self) >= 0 && int(self) <= 100000 : \
                     string(self).matches('^(100|[1-9]?[0-9])%$')",
            "message": "expected a number from 0, or a share from 0% to 100%, e.g. 10%",
        }],
    })
}

/// The nodes in their turn.
fn turns(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["node"],
        "items": {
            "type": "object",
            "required": ["node", "since"],
            "properties": {
                "node": {"type": "string", "description": "Its name."},
                "since": {"type": "string", "format": "date-time", "description": "Since when."},
                "waitsFor": {"type": "string", "description": "What it waits for, in a word."},
                "late": {"type": "boolean", "description": "It takes longer than progressDeadlineSeconds."},
            },
        },
    })
}
