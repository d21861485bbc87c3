//! What was gathered: plain data, and no judgement.

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

/// What could be looked at, or why not.
pub type Looked<T> = Result<T, String>;

/// Why something could not be looked at that only administrators may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Whoever runs this may not.
    Forbidden(String),
    /// Something went wrong.
    Failed(String),
}

impl Unseen {
    /// Because of this error.
    pub fn because(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(status.message.clone()),
            error => Self::Failed(plain(error)),
        }
    }
}

/// What could be looked at, or why not, of what only administrators may see.
pub type Reserved<T> = Result<T, Unseen>;

/// Everything.
#[derive(Debug)]
pub struct Facts {
    /// The kinds that Headgate needs, and that are not there.
    pub missing_kinds: Looked<Vec<String>>,
    /// The namespaces that it is told to serve, and that are not there.
    pub missing_namespaces: Vec<String>,
    /// Who leads.
    pub leader: Looked<Holder>,
    /// What Headgate may not do, of what it needs.
    pub missing_rights: Looked<Vec<String>>,
    /// The admission policies of config/admission.
    pub policies: Reserved<Vec<Policy>>,
    /// Its webhook.
    pub webhook: Webhook,
    /// What the leader says.
    pub shown: Looked<Shown>,
    /// The pods of the namespaces that have bindings.
    pub pods: Looked<Vec<Pod>>,
    /// What makes them there, and what limits their evictions.
    pub workloads: Looked<Workloads>,
    /// What may cut holds short, or makes them dear.
    pub surroundings: Surroundings,
    /// The IngressDaemonSets of the namespaces that are served, bound or not.
    pub sets: Looked<Vec<IngressDaemonSet>>,
    /// The namespaces whose label asks for the gate and the hold.
    pub asking: Looked<BTreeSet<String>>,
    /// The target groups that are bound, as AWS has them.
    pub groups: Looked<BTreeMap<TargetGroupArn, Looked<Inspected>>>,
    /// The namespaces that hold each target group, as the TargetLedgers say; one that does not say so is left out.
    pub holders: Looked<BTreeMap<TargetGroupArn, BTreeSet<String>>>,
    /// Only bindings of one namespace were looked at.
    pub narrowed: bool,
}

/// What surrounds the pods that are targets.
#[derive(Debug)]
pub struct Surroundings {
    /// The nodes that they are on, or some of them, by name.
    pub nodes: Reserved<BTreeMap<String, Machine>>,
    /// Karpenter's NodePools, by name.
    pub pools: Reserved<BTreeMap<String, Pool>>,
    /// Cluster-autoscaler; none: it is not in its usual place.
    pub autoscaler: Reserved<Option<Autoscaler>>,
    /// The quotas of their namespaces.
    pub quotas: Reserved<Vec<ResourceQuota>>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Whether it is a spot instance.
    pub is_spot: bool,
    /// Karpenter's NodePool, if it is of one.
    pub pool: Option<String>,
    /// For how many seconds pods may go on when it shuts down.
    pub shutdown: Reserved<u32>,
}

/// A NodePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// For how many seconds a drain may take at most; none: for ever.
    pub grace: Option<u32>,
}

/// What cluster-autoscaler is told, in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Autoscaler {
    /// `--max-graceful-termination-sec`.
    pub grace: u32,
    /// `--max-pod-eviction-time`.
    pub eviction: u32,
}

/// What makes pods, and what limits their evictions.
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
    /// Rollouts of Argo.
    pub rollouts: Vec<DynamicObject>,
}

/// One of the admission policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Around Headgate's own ServiceAccount, for pods.
    OwnWrites,
    /// The same for nodes, where it sees them.
    OwnWritesOnNodes,
    /// Around what Headgate notes on pods.
    Marks,
}

impl Fence {
    /// What it is called, after the name of the Lease, and in config/admission.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnWrites => "own-writes",
            Self::OwnWritesOnNodes => "own-writes-on-nodes",
            Self::Marks => "marks",
        }
    }
}

/// What there is of an admission policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which of them.
    pub fence: Fence,
    /// Its whole name.
    pub name: String,
    /// Whether there is one of this name.
    pub is_there: bool,
    /// Whether a binding has it refuse anything.
    pub denies: bool,
}

/// The webhooks for new pods and for evictions.
#[derive(Debug)]
pub struct Webhook {
    /// The name of both configurations.
    pub name: String,
    /// The Secret of `headgate certificates`, with its namespace.
    pub secret: String,
    /// That for new pods.
    pub mutating: Reserved<Option<Vec<Entry>>>,
    /// That for evictions.
    pub validating: Reserved<Option<Vec<Entry>>>,
    /// The authorities in the Secret of `headgate certificates`; none: there is none.
    pub authorities: Reserved<Option<Vec<u8>>>,
    /// Whether a pod that asks for it was given anything, when it was tried.
    pub tried: Reserved<Tried>,
}

/// An entry of a webhook configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Whom it trusts, as PEM; empty: nobody.
    pub bundle: Vec<u8>,
    /// Whether what it is asked about is let through when nobody answers.
    pub ignores_failures: bool,
    /// The path that it calls.
    pub path: Path,
}

/// The path of an entry; which one it is is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The one that is served.
    Right,
    /// Another one.
    Other,
    /// The Secret cannot be read.
    Uncompared,
}

/// How a try of the webhook has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The pod was given something, or was looked at.
    Asked,
    /// The pod came back as it was.
    Silent {
        /// In this namespace.
        namespace: String,
    },
    /// There was no reason to try.
    Not,
}

/// `/debug/bindings`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Shown {
    /// Why AWS is out of its reach, if it is.
    #[serde(default)]
    pub aws: Option<Word>,
    /// The grants; none: it knows nothing of grants.
    #[serde(default)]
    pub grants: Option<Granted>,
    /// The bindings in force.
    pub bindings: Vec<Bound>,
    /// The objects that bind, or should.
    pub origins: Vec<Origin>,
}

/// What the leader knows of grants.
#[derive(Clone, Debug, Deserialize)]
pub struct Granted {
    /// Whether a target group can be bound only if a grant names it.
    pub required: bool,
    /// Why they cannot be read.
    pub unread: Vec<String>,
    /// What cannot be read of single ones.
    pub problems: Vec<Unreadable>,
    /// Those in force; none: it waits for them.
    pub all: Option<Vec<Grant>>,
}

/// An object with grants of which a part cannot be read.
#[derive(Clone, Debug, Deserialize)]
pub struct Unreadable {
    /// Which.
    pub object: String,
    /// What is wrong, and what was expected.
    pub said: String,
}

/// A grant.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its name.
    pub name: String,
    /// The target groups, as it is written.
    pub target_groups: Vec<String>,
    /// The namespaces that it means now.
    pub namespaces: BTreeSet<String>,
    /// Whether they may have targets of others removed.
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
    /// The name of that.
    pub name: String,
    /// Its port.
    pub port: String,
    /// The ARN of the target group.
    pub target_group: String,
    /// Its targets.
    pub targets: Vec<Target>,
    /// For how long its pods should be held.
    pub hold: Hold,
    /// What is wrong with it and its target group.
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
    /// Whether AWS has taken its registration, or has yet to take its removal.
    #[serde(default)]
    pub registered: bool,
    /// What the load balancer says of it; none: it was not read.
    #[serde(default)]
    pub state: Option<String>,
    /// The reason why it goes, if it does.
    pub ending: Option<String>,
}

/// A hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Hold {
    /// How many seconds are asked for.
    pub wanted: u32,
    /// For how many seconds the load balancer may go on sending.
    pub bound: u32,
}

/// An object that binds, or should.
#[derive(Clone, Debug, Deserialize)]
pub struct Origin {
    /// Its namespace.
    pub namespace: String,
    /// `Service` or `TargetBinding`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What is wrong with what it asks for.
    pub problems: Vec<Word>,
}
