//! The facts that `headgate doctor` gathers. The facts contain no findings.

use std::collections::{BTreeMap, BTreeSet};

use headgate::{api::IngressDaemonSet, explain::report::Word, kube::words::plain};
use headgate_core::model::target_group::TargetGroupArn;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::{Pod, ResourceQuota},
    policy::v1::PodDisruptionBudget,
};
use kube::api::DynamicObject;
use serde::Deserialize;

use crate::{doctor::inspect::Inspected, explain::reach::Holder};

/// A fact, or the reason why the fact could not be read.
pub type Looked<T> = Result<T, String>;

/// Why a fact that only administrators may read is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// The caller has no permission to read the fact.
    Forbidden(String),
    /// The request failed.
    Failed(String),
}

impl Unseen {
    /// Classifies an error of the API server.
    pub fn because(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(status.message.clone()),
            error => Self::Failed(plain(error)),
        }
    }
}

/// A fact that only administrators may read, or why the fact is missing.
pub type Reserved<T> = Result<T, Unseen>;

/// All facts.
#[derive(Debug)]
pub struct Facts {
    /// The CRDs that Headgate needs but that are not installed.
    pub missing_kinds: Looked<Vec<String>>,
    /// The managed namespaces that do not exist.
    pub missing_namespaces: Vec<String>,
    pub leader: Looked<Holder>,
    /// The permissions that Headgate needs but does not have.
    pub missing_rights: Looked<Vec<String>>,
    /// The admission policies from `config/admission`.
    pub policies: Reserved<Vec<Policy>>,
    /// The webhook configurations, and the result of a test.
    pub webhook: Webhook,
    /// The leader's answer to `/debug/bindings`.
    pub shown: Looked<Shown>,
    /// The pods in namespaces that have bindings.
    pub pods: Looked<Vec<Pod>>,
    /// The workloads and PodDisruptionBudgets in namespaces that have bindings.
    pub workloads: Looked<Workloads>,
    /// The settings of nodes, autoscalers and quotas that can shorten a hold or limit held pods.
    pub surroundings: Surroundings,
    /// The IngressDaemonSets of the managed namespaces, with or without a binding.
    pub sets: Looked<Vec<IngressDaemonSet>>,
    /// The namespaces whose label requests the gate and the hold.
    pub asking: Looked<BTreeSet<String>>,
    /// The bound target groups, as AWS returns them.
    pub groups: Looked<BTreeMap<TargetGroupArn, Looked<Inspected>>>,
    /// The namespaces that own each target group, according to the TargetLedgers. Ledgers that name no namespace are
    /// skipped.
    pub holders: Looked<BTreeMap<TargetGroupArn, BTreeSet<String>>>,
    /// Whether the command checks only the bindings of one namespace.
    pub narrowed: bool,
}

/// The settings around the pods that are targets.
#[derive(Debug)]
pub struct Surroundings {
    /// Some or all nodes of the pods, by name.
    pub nodes: Reserved<BTreeMap<String, Machine>>,
    /// The NodePools of Karpenter, by name.
    pub pools: Reserved<BTreeMap<String, Pool>>,
    /// The cluster-autoscaler's settings. `None`: the usual namespace has no cluster-autoscaler.
    pub autoscaler: Reserved<Option<Autoscaler>>,
    /// The resource quotas of the pods' namespaces.
    pub quotas: Reserved<Vec<ResourceQuota>>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Whether the node is a spot instance.
    pub is_spot: bool,
    /// The Karpenter NodePool that the node belongs to.
    pub pool: Option<String>,
    /// How long the kubelet keeps pods running when the node shuts down, in seconds.
    pub shutdown: Reserved<u32>,
}

/// A NodePool of Karpenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The maximum duration of a drain in seconds. `None`: unlimited.
    pub grace: Option<u32>,
}

/// The settings of the cluster-autoscaler, in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autoscaler {
    /// `--max-graceful-termination-sec`.
    pub grace: u32,
    /// `--max-pod-eviction-time`.
    pub eviction: u32,
}

/// The workloads and PodDisruptionBudgets of pods.
#[derive(Debug, Default)]
pub struct Workloads {
    pub deployments: Vec<Deployment>,
    pub stateful_sets: Vec<StatefulSet>,
    pub daemon_sets: Vec<DaemonSet>,
    pub budgets: Vec<PodDisruptionBudget>,
    /// The Rollouts of Argo Rollouts.
    pub rollouts: Vec<DynamicObject>,
}

/// An admission policy of Headgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Limits which fields of pods Headgate's own ServiceAccount may write.
    OwnWrites,
    /// Limits which fields of nodes Headgate's own ServiceAccount may write. Needed only if Headgate watches nodes.
    OwnWritesOnNodes,
    /// Protects Headgate's annotations on pods from other writers.
    Marks,
}

impl Fence {
    /// Returns the part of the policy's name that follows the name of the Lease. The manifests in `config/admission`
    /// use the same names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnWrites => "own-writes",
            Self::OwnWritesOnNodes => "own-writes-on-nodes",
            Self::Marks => "marks",
        }
    }
}

/// The state of an admission policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub fence: Fence,
    /// The full name of the policy.
    pub name: String,
    /// Whether the policy exists.
    pub is_there: bool,
    /// Whether a policy binding enforces the policy.
    pub denies: bool,
}

/// The webhooks for new pods and for evictions.
#[derive(Debug)]
pub struct Webhook {
    /// The name of both webhook configurations.
    pub name: String,
    /// The Secret of `headgate certificates`, as `namespace/name`.
    pub secret: String,
    /// The entries of the webhook for new pods. `None`: the configuration does not exist.
    pub mutating: Reserved<Option<Vec<Entry>>>,
    /// The entries of the webhook for evictions. `None`: the configuration does not exist.
    pub validating: Reserved<Option<Vec<Entry>>>,
    /// The CA certificates in the Secret of `headgate certificates`. `None`: the Secret does not exist or has no
    /// certificate.
    pub authorities: Reserved<Option<Vec<u8>>>,
    /// Whether the webhook changed a test pod that requests the gate and the hold.
    pub tried: Reserved<Tried>,
}

/// An entry of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    /// The CA certificates that the API server trusts, in PEM format. Empty: the entry has no CA bundle.
    pub bundle: Vec<u8>,
    /// Whether the API server allows the request if no replica answers.
    pub ignores_failures: bool,
    /// Whether the entry has the path that the replicas serve.
    pub path: Path,
}

/// The path of an entry, compared with the path of the replicas. The path is secret, so the facts contain only the
/// result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The entry has the path that the replicas serve.
    Right,
    /// The entry has another path.
    Other,
    /// The comparison failed because the Secret cannot be read.
    Uncompared,
}

/// The result of the webhook's test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The webhook added its annotation to the pod.
    Asked,
    /// The webhook did not change the pod.
    Silent {
        /// The namespace of the test pod.
        namespace: String,
    },
    /// No test was necessary.
    Not,
}

/// The answer to `/debug/bindings`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Shown {
    /// Why Headgate cannot call AWS. `None`: Headgate can call AWS.
    #[serde(default)]
    pub aws: Option<Word>,
    /// The leader's data about grants. `None`: Headgate does not watch grants.
    #[serde(default)]
    pub grants: Option<Granted>,
    /// The active bindings.
    pub bindings: Vec<Bound>,
    /// The Services and TargetBindings with a binding, valid or not.
    pub origins: Vec<Origin>,
}

/// The leader's data about grants.
#[derive(Clone, Debug, Deserialize)]
pub struct Granted {
    /// Whether a namespace needs a grant to bind a target group.
    pub required: bool,
    /// The reasons why grants cannot be read.
    pub unread: Vec<String>,
    /// The grants that have an invalid part.
    pub problems: Vec<Unreadable>,
    /// The active grants. `None`: Headgate has not read the grants yet.
    pub all: Option<Vec<Grant>>,
}

/// A grant with an invalid part.
#[derive(Clone, Debug, Deserialize)]
pub struct Unreadable {
    pub object: String,
    /// The error, and how to fix it.
    pub said: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    pub name: String,
    /// The names or patterns of the target groups, as the grant contains them.
    pub target_groups: Vec<String>,
    /// The namespaces that the grant selects now.
    pub namespaces: BTreeSet<String>,
    /// Whether the grant also allows bindings with `exclusive` ownership.
    pub exclusive: bool,
}

/// A binding.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    pub namespace: String,
    /// The kind of the object that contains the binding: `Service` or `TargetBinding`.
    pub kind: String,
    /// The name of the Service or TargetBinding.
    pub name: String,
    pub port: String,
    /// The ARN of the target group.
    pub target_group: String,
    pub targets: Vec<Target>,
    /// The hold that pods of this binding need.
    pub hold: Hold,
    /// The problems of the binding and of its target group.
    pub troubles: Vec<Word>,
}

/// A target.
#[allow(clippy::struct_field_names)] // the name of the field in /debug/bindings
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// The address of the target, as `ip:port`.
    #[serde(default)]
    pub target: String,
    pub pod: String,
    /// Whether the target is registered: AWS accepted the registration, and has not accepted a deregistration yet.
    #[serde(default)]
    pub registered: bool,
    /// The health state that AWS reports. `None`: Headgate has not read the state yet.
    #[serde(default)]
    pub state: Option<String>,
    /// Why Headgate is deregistering the target. `None`: the target should remain registered.
    pub ending: Option<String>,
}

/// A hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Hold {
    /// The requested hold in seconds.
    pub wanted: u32,
    /// The propagation delay of the load balancer in seconds.
    pub bound: u32,
}

/// A Service or TargetBinding with a binding, valid or not.
#[derive(Clone, Debug, Deserialize)]
pub struct Origin {
    pub namespace: String,
    /// The kind of the object: `Service` or `TargetBinding`.
    pub kind: String,
    pub name: String,
    /// The problems of the object's annotations or spec.
    pub problems: Vec<Word>,
}
