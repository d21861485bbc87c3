//! The facts that the command gathers. The facts contain no decisions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_core::{
    Target,
    model::{PodFacts, ServiceFacts, health::HealthState, object::ObjectKey, target_group::TargetGroupFacts},
};

use super::{lbc::Spec, lbc::Tgb, record::Record};
use crate::doctor::facts::{Looked, Shown};

/// All facts.
#[derive(Clone, Debug)]
pub struct Facts {
    pub lbc: Lbc,
    pub headgate: Headgate,
    /// The bindings to migrate.
    pub bindings: Vec<Binding>,
}

/// The state of the AWS Load Balancer Controller (LBC).
#[derive(Clone, Debug, Default)]
pub struct Lbc {
    /// The namespace and name of LBC's Deployment.
    pub name: String,
    /// LBC's Deployment. `None`: the Deployment does not exist.
    pub deployment: Option<Deployment>,
    /// How long the Lease of LBC's leader has not changed. `None`: the Lease does not exist.
    pub lease_rests: Option<Duration>,
    /// LBC's webhook configurations.
    pub webhooks: Vec<Webhooks>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    /// `spec.replicas`.
    pub wanted: i32,
    /// The number of unfinished pods, including terminating pods.
    pub pods: usize,
    /// The number of ready pods.
    pub ready: usize,
    /// The number of replicas before this command stopped the Deployment. `None`: this command has not stopped the
    /// Deployment.
    pub before: Option<i32>,
}

/// A webhook configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// The kind and name of the configuration.
    pub name: String,
    /// The entries with `failurePolicy: Fail`.
    pub strict: BTreeSet<String>,
    /// The entries that had `failurePolicy: Fail` before this command changed them.
    pub relaxed: BTreeSet<String>,
}

/// The state of Headgate.
#[derive(Clone, Debug)]
pub struct Headgate {
    /// The holder of Headgate's Lease. `None`: the Lease has no holder.
    pub holder: Looked<Option<String>>,
    /// The leader's answer to `/debug/bindings`.
    pub shown: Looked<Shown>,
    /// The target groups that the leader has read, by ARN. The value is the number of foreign targets.
    pub read: BTreeMap<String, usize>,
    /// The Deployment that the command may stop. `None`: the user named no Deployment. The inner `None`: the Deployment
    /// does not exist.
    pub deployment: Option<(String, Option<Deployment>)>,
}

/// A TargetGroupBinding that is being migrated or was migrated.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The namespace and name of the TargetGroupBinding.
    pub key: ObjectKey,
    /// The TargetGroupBinding. `None`: the object was deleted, and only the record exists.
    pub tgb: Option<Tgb>,
    /// The `spec` of the TargetGroupBinding, from the object or from the record.
    pub spec: Spec,
    /// The record of the TargetGroupBinding. `None`: the command has not written a binding for Headgate yet.
    pub record: Option<Record>,
    /// The Service. `None`: the Service does not exist.
    pub service: Option<Service>,
    /// The TargetBinding with the same name. `None`: the TargetBinding does not exist.
    pub written: Option<Written>,
    /// The state of Headgate's binding.
    pub told: Told,
    /// The target group, read with the caller's AWS credentials. `None`: AWS was not called.
    pub group: Option<Looked<Group>>,
    /// The pods in the namespace of the binding.
    pub pods: Vec<Pod>,
    /// The workloads whose pod template contains LBC's readiness gate.
    pub templates: Vec<String>,
    /// Other Headgate bindings of the same target group.
    pub others: Vec<String>,
    /// Whether a TargetLedger for the target group exists.
    pub has_ledger: bool,
}

/// The state of Headgate's binding of a target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// No binding exists.
    Nothing,
    /// A paused binding exists.
    Paused(Place),
    /// An active binding exists.
    InForce(Place),
}

impl Told {
    /// Returns the place of the binding.
    pub const fn place(self) -> Option<Place> {
        match self {
            Self::Nothing => None,
            Self::Paused(place) | Self::InForce(place) => Some(place),
        }
    }
}

/// The place of Headgate's binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The annotation of the Service.
    Annotation,
    /// A TargetBinding with the same name as the TargetGroupBinding.
    TargetBinding,
}

/// A Service.
#[derive(Clone, Debug)]
pub struct Service {
    /// The facts that determine the Service's targets.
    pub facts: ServiceFacts,
    /// The `resourceVersion` of the Service.
    pub version: String,
    /// Whether the annotation `headgate.dev/paused` of the Service is `true`.
    pub is_paused: bool,
    /// The records of TargetGroupBindings that were migrated to this Service.
    pub records: Looked<Vec<Record>>,
}

/// A TargetBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Whether the TargetBinding is paused.
    pub is_paused: bool,
    /// The record of the migrated TargetGroupBinding. `None`: this command did not create the TargetBinding.
    pub record: Option<Record>,
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub facts: TargetGroupFacts,
    pub targets: BTreeMap<Target, HealthState>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The facts that determine the pod's targets.
    pub facts: PodFacts,
    /// LBC's readiness gates on the pod. The value is true if the gate is open.
    pub gates: BTreeMap<String, bool>,
}

impl Binding {
    /// Returns the running pods that have a closed readiness gate of this binding.
    pub fn closed_gates(&self) -> impl Iterator<Item = &Pod> {
        let gate = super::lbc::gate_of(&self.key.name);
        let lives = |pod: &&Pod| !pod.facts.terminating && !pod.facts.finished;
        self.pods.iter().filter(lives).filter(move |pod| pod.gates.get(&gate) == Some(&false))
    }

    /// Returns the pods that the Service selects.
    pub fn selected(&self) -> impl Iterator<Item = &Pod> {
        let selector = self.service.as_ref().map(|service| &service.facts.selector);
        self.pods.iter().filter(move |pod| selector.is_some_and(|all| all.selects(&pod.facts.labels)))
    }

    /// Returns the ARN of the target group. `None`: the ARN is unknown.
    pub fn arn(&self) -> Option<&str> {
        match (&self.group, self.spec.arn.as_deref()) {
            (_, Some(arn)) => Some(arn),
            (Some(Ok(group)), None) => Some(group.facts.arn.as_str()),
            _ => None,
        }
    }

    /// Returns the name of the target group for messages.
    pub fn group_name(&self) -> &str {
        let named = self.spec.target_group().unwrap_or("?");
        named.split('/').nth(1).unwrap_or(named)
    }
}
