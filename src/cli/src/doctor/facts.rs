//! The gathered facts: plain data without a verdict.

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

/// A fact, or why it could not be read.
pub type Looked<T> = Result<T, String>;

/// Why a fact for administrators could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// The caller has no permission.
    Forbidden(String),
    /// The request failed.
    Failed(String),
}

impl Unseen {
    /// Classifies this error.
    pub fn because(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(status.message.clone()),
            error => Self::Failed(plain(error)),
        }
    }
}

/// A fact that only administrators may read, or why it could not be read.
pub type Reserved<T> = Result<T, Unseen>;

/// All facts.
#[derive(Debug)]
pub struct Facts {
    /// The CRDs that Headgate needs and that are not installed.
    pub missing_kinds: Looked<Vec<String>>,
    /// The managed namespaces that do not exist.
    pub missing_namespaces: Vec<String>,
    /// The leader.
    pub leader: Looked<Holder>,
    /// The permissions that Headgate needs and does not have.
    pub missing_rights: Looked<Vec<String>>,
    /// The admission policies of config/admission.
    pub policies: Reserved<Vec<Policy>>,
    /// Headgate's webhooks.
    pub webhook: Webhook,
    /// The leader's answer.
    pub shown: Looked<Shown>,
    /// The pods of the namespaces that have bindings.
    pub pods: Looked<Vec<Pod>>,
    /// The workloads of these pods, and the limits of their evictions.
    pub workloads: Looked<Workloads>,
    /// The settings that can end holds early, or make them costly.
    pub surroundings: Surroundings,
    /// The IngressDaemonSets of the managed namespaces, with or without a binding.
    pub sets: Looked<Vec<IngressDaemonSet>>,
    /// The namespaces with the label that asks for the gate and the hold.
    pub asking: Looked<BTreeSet<String>>,
    /// The bound target groups, as AWS returns them.
    pub groups: Looked<BTreeMap<TargetGroupArn, Looked<Inspected>>>,
    /// The namespaces that hold each target group, by the TargetLedgers. Ledgers without that information are left out.
    pub holders: Looked<BTreeMap<TargetGroupArn, BTreeSet<String>>>,
    /// Whether only the bindings of one namespace were checked.
    pub narrowed: bool,
}

/// The surroundings of the pods that are targets.
#[derive(Debug)]
pub struct Surroundings {
    /// Some or all of their nodes, by name.
    pub nodes: Reserved<BTreeMap<String, Machine>>,
    /// Karpenter's NodePools, by name.
    pub pools: Reserved<BTreeMap<String, Pool>>,
    /// The cluster-autoscaler. `None`: it is not in its usual place.
    pub autoscaler: Reserved<Option<Autoscaler>>,
    /// The quotas of their namespaces.
    pub quotas: Reserved<Vec<ResourceQuota>>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Whether it is a spot instance.
    pub is_spot: bool,
    /// Its NodePool of Karpenter, if any.
    pub pool: Option<String>,
    /// For how many seconds pods keep running when the node shuts down.
    pub shutdown: Reserved<u32>,
}

/// A NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The longest drain in seconds. `None`: unlimited.
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

/// The workloads of pods, and the limits of their evictions.
#[derive(Debug, Default)]
pub struct Workloads {
    /// Deployments.
    pub deployments: Vec<Deployment>,
    /// StatefulSets.
    pub stateful_sets: Vec<StatefulSet>,
    /// DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<PodDisruptionBudget>,
    /// Rollouts of Argo Rollouts.
    pub rollouts: Vec<DynamicObject>,
}

/// An admission policy of Headgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Limits what Headgate's own ServiceAccount may write on pods.
    OwnWrites,
    /// Limits what Headgate's own ServiceAccount may write on nodes, if Headgate watches them.
    OwnWritesOnNodes,
    /// Protects Headgate's annotations on pods.
    Marks,
}

impl Fence {
    /// The last part of its name after the name of the Lease; the same as in config/admission.
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
    /// The policy.
    pub fence: Fence,
    /// The full name.
    pub name: String,
    /// Whether it exists.
    pub is_there: bool,
    /// Whether a binding enforces it.
    pub denies: bool,
}

/// The webhooks for new pods and for evictions.
#[derive(Debug)]
pub struct Webhook {
    /// The name of both webhook configurations.
    pub name: String,
    /// The Secret of `headgate certificates`, with its namespace.
    pub secret: String,
    /// The webhook for new pods.
    pub mutating: Reserved<Option<Vec<Entry>>>,
    /// The webhook for evictions.
    pub validating: Reserved<Option<Vec<Entry>>>,
    /// The CA certificates in the Secret of `headgate certificates`. `None`: there is no Secret.
    pub authorities: Reserved<Option<Vec<u8>>>,
    /// Whether a test pod that asks for it got anything.
    pub tried: Reserved<Tried>,
}

/// An entry of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The CA certificates that the API server trusts, as PEM. Empty: none.
    pub bundle: Vec<u8>,
    /// Whether the request is allowed if no replica answers.
    pub ignores_failures: bool,
    /// The path of the webhook.
    pub path: Path,
}

/// The path of an entry. The path itself is secret, so only this comparison is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The path that the replicas serve.
    Right,
    /// Another path.
    Other,
    /// Unknown, because the Secret cannot be read.
    Uncompared,
}

/// The result of a test of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The webhook answered: it changed or examined the pod.
    Asked,
    /// The pod was not changed.
    Silent {
        /// The namespace of the test.
        namespace: String,
    },
    /// No test was necessary.
    Not,
}

/// The answer to `/debug/bindings`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Shown {
    /// Why Headgate cannot reach AWS, if so.
    #[serde(default)]
    pub aws: Option<Word>,
    /// The grants. `None`: Headgate does not watch grants.
    #[serde(default)]
    pub grants: Option<Granted>,
    /// The bindings in force.
    pub bindings: Vec<Bound>,
    /// The objects that bind, or try to.
    pub origins: Vec<Origin>,
}

/// The leader's data about grants.
#[derive(Clone, Debug, Deserialize)]
pub struct Granted {
    /// Whether a target group needs a grant to be bound.
    pub required: bool,
    /// Why grants cannot be read.
    pub unread: Vec<String>,
    /// The invalid parts of single grants.
    pub problems: Vec<Unreadable>,
    /// The grants in force. `None`: they are not read yet.
    pub all: Option<Vec<Grant>>,
}

/// A grant with an invalid part.
#[derive(Clone, Debug, Deserialize)]
pub struct Unreadable {
    /// The object.
    pub object: String,
    /// The error, and what to do.
    pub said: String,
}

/// A grant.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its name.
    pub name: String,
    /// The target groups, in the original text.
    pub target_groups: Vec<String>,
    /// The namespaces that the grant means now.
    pub namespaces: BTreeSet<String>,
    /// Whether they may also remove foreign targets.
    pub exclusive: bool,
}

/// A binding.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    /// Its namespace.
    pub namespace: String,
    /// `Service` or `TargetBinding`.
    pub kind: String,
    /// The name of that object.
    pub name: String,
    /// Its port.
    pub port: String,
    /// The ARN of the target group.
    pub target_group: String,
    /// Its targets.
    pub targets: Vec<Target>,
    /// How long its pods should be held.
    pub hold: Hold,
    /// The problems of the binding and its target group.
    pub troubles: Vec<Word>,
}

/// A target.
#[allow(clippy::struct_field_names)] // the name of the field in /debug/bindings
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// `ip:port`.
    #[serde(default)]
    pub target: String,
    /// The name of its pod.
    pub pod: String,
    /// Whether AWS has accepted the registration, or has not accepted the deregistration yet.
    #[serde(default)]
    pub registered: bool,
    /// The state that the load balancer reports. `None`: not read yet.
    #[serde(default)]
    pub state: Option<String>,
    /// Why it is being deregistered, if so.
    pub ending: Option<String>,
}

/// A hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Hold {
    /// The requested hold in seconds.
    pub wanted: u32,
    /// How many seconds the load balancer may keep sending.
    pub bound: u32,
}

/// An object that binds, or tries to.
#[derive(Clone, Debug, Deserialize)]
pub struct Origin {
    /// Its namespace.
    pub namespace: String,
    /// `Service` or `TargetBinding`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The problems of its content.
    pub problems: Vec<Word>,
}
