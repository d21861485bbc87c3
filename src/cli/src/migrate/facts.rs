//! The gathered facts: plain data without a verdict.

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
    /// LBC itself.
    pub lbc: Lbc,
    /// Headgate itself.
    pub headgate: Headgate,
    /// The bindings to migrate.
    pub bindings: Vec<Binding>,
}

/// LBC itself.
#[derive(Clone, Debug, Default)]
pub struct Lbc {
    /// The name of its Deployment.
    pub name: String,
    /// The Deployment. `None`: it does not exist.
    pub deployment: Option<Deployment>,
    /// For how long its Lease has not changed. `None`: there is no Lease.
    pub lease_rests: Option<Duration>,
    /// Its webhook configurations.
    pub webhooks: Vec<Webhooks>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    /// `spec.replicas`.
    pub wanted: i32,
    /// The number of its pods that have not finished, including terminating ones.
    pub pods: usize,
    /// Of these, those that are ready.
    pub ready: usize,
    /// The number of replicas before this command stopped it.
    pub before: Option<i32>,
}

/// A webhook configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// Its kind and name.
    pub name: String,
    /// The entries that reject a request if the webhook does not answer.
    pub strict: BTreeSet<String>,
    /// The entries that did so before this command changed them.
    pub relaxed: BTreeSet<String>,
}

/// Headgate itself.
#[derive(Clone, Debug)]
pub struct Headgate {
    /// The holder of the Lease. `None`: there is no holder.
    pub holder: Looked<Option<String>>,
    /// The leader's answer.
    pub shown: Looked<Shown>,
    /// The target groups that the leader has read, by ARN, each with the number of foreign targets.
    pub read: BTreeMap<String, usize>,
    /// The Deployment that may be stopped, if one was named. The inner `None`: it does not exist.
    pub deployment: Option<(String, Option<Deployment>)>,
}

/// A TargetGroupBinding to migrate, or a former one.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The namespace and name of the TargetGroupBinding.
    pub key: ObjectKey,
    /// The object. `None`: it was deleted, and only the record remains.
    pub tgb: Option<Tgb>,
    /// Its `spec`, from the object or the record.
    pub spec: Spec,
    /// The record, if it was already written for Headgate.
    pub record: Option<Record>,
    /// The Service. `None`: it does not exist.
    pub service: Option<Service>,
    /// The TargetBinding with the same name, if any.
    pub written: Option<Written>,
    /// What is written for Headgate.
    pub told: Told,
    /// The target group from AWS, with the caller's credentials. `None`: AWS was not called.
    pub group: Option<Looked<Group>>,
    /// The pods of the namespace.
    pub pods: Vec<Pod>,
    /// The workloads whose pod template contains LBC's readiness gate.
    pub templates: Vec<String>,
    /// Other bindings of the target group for Headgate.
    pub others: Vec<String>,
    /// Whether a TargetLedger contains targets of the target group.
    pub has_ledger: bool,
}

/// What is written for Headgate about a target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// There is no binding.
    Nothing,
    /// There is a paused binding.
    Paused(Place),
    /// There is a binding in force.
    InForce(Place),
}

impl Told {
    /// The place of the binding.
    pub const fn place(self) -> Option<Place> {
        match self {
            Self::Nothing => None,
            Self::Paused(place) | Self::InForce(place) => Some(place),
        }
    }
}

/// The place of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the annotation of the Service.
    Annotation,
    /// A TargetBinding with the name of the TargetGroupBinding.
    TargetBinding,
}

/// A Service.
#[derive(Clone, Debug)]
pub struct Service {
    /// The facts that decide its targets.
    pub facts: ServiceFacts,
    /// Its `resourceVersion`.
    pub version: String,
    /// Whether its annotation `headgate.dev/paused` is `true`.
    pub is_paused: bool,
    /// The records of its former TargetGroupBindings.
    pub records: Looked<Vec<Record>>,
}

/// A TargetBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Whether it is paused.
    pub is_paused: bool,
    /// The record of the TargetGroupBinding that it comes from. `None`: somebody else wrote the TargetBinding.
    pub record: Option<Record>,
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its properties.
    pub facts: TargetGroupFacts,
    /// Its targets.
    pub targets: BTreeMap<Target, HealthState>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The facts that decide its targets.
    pub facts: PodFacts,
    /// LBC's readiness gates on it, each with whether it is open.
    pub gates: BTreeMap<String, bool>,
}

impl Binding {
    /// The living pods with a closed readiness gate of this binding.
    pub fn closed_gates(&self) -> impl Iterator<Item = &Pod> {
        let gate = super::lbc::gate_of(&self.key.name);
        let lives = |pod: &&Pod| !pod.facts.terminating && !pod.facts.finished;
        self.pods.iter().filter(lives).filter(move |pod| pod.gates.get(&gate) == Some(&false))
    }

    /// The pods that the Service selects.
    pub fn selected(&self) -> impl Iterator<Item = &Pod> {
        let selector = self.service.as_ref().map(|service| &service.facts.selector);
        self.pods.iter().filter(move |pod| selector.is_some_and(|all| all.selects(&pod.facts.labels)))
    }

    /// The ARN of its target group, if it is known.
    pub fn arn(&self) -> Option<&str> {
        match (&self.group, self.spec.arn.as_deref()) {
            (_, Some(arn)) => Some(arn),
            (Some(Ok(group)), None) => Some(group.facts.arn.as_str()),
            _ => None,
        }
    }

    /// The name of its target group, for people.
    pub fn group_name(&self) -> &str {
        let named = self.spec.target_group().unwrap_or("?");
        named.split('/').nth(1).unwrap_or(named)
    }
}
