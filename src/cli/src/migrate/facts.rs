//! What was found: plain data, and no judgement.

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

/// Everything.
#[derive(Clone, Debug)]
pub struct Facts {
    /// LBC itself.
    pub lbc: Lbc,
    /// Headgate itself.
    pub headgate: Headgate,
    /// What is to be moved.
    pub bindings: Vec<Binding>,
}

/// LBC itself.
#[derive(Clone, Debug, Default)]
pub struct Lbc {
    /// Its Deployment, as it is called here.
    pub name: String,
    /// That; none: it is not there.
    pub deployment: Option<Deployment>,
    /// For how long its Lease has been seen not to change; none: there is none.
    pub lease_rests: Option<Duration>,
    /// Its webhook configurations.
    pub webhooks: Vec<Webhooks>,
}

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    /// `spec.replicas`.
    pub wanted: i32,
    /// Its pods that have not ended, those that are ending included.
    pub pods: usize,
    /// Of these, those that are ready.
    pub ready: usize,
    /// How many replicas it had before this command stopped it.
    pub before: Option<i32>,
}

/// A webhook configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// Its kind and name.
    pub name: String,
    /// The entries that refuse a request when nobody answers.
    pub strict: BTreeSet<String>,
    /// The entries that did so before this command changed that.
    pub relaxed: BTreeSet<String>,
}

/// Headgate itself.
#[derive(Clone, Debug)]
pub struct Headgate {
    /// Who holds the Lease, and would write; none: nobody.
    pub holder: Looked<Option<String>>,
    /// What the leader knows.
    pub shown: Looked<Shown>,
    /// The target groups that the leader has read, by ARN, each with how many targets are others'.
    pub read: BTreeMap<String, usize>,
    /// The Deployment that may be stopped, if one was named; none of it: it is not there.
    pub deployment: Option<(String, Option<Deployment>)>,
}

/// What is to be moved: a TargetGroupBinding, or what was one.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Namespace and name of the TargetGroupBinding.
    pub key: ObjectKey,
    /// It; none: it is gone, and only the record is left.
    pub tgb: Option<Tgb>,
    /// Its `spec`, by itself or by the record.
    pub spec: Spec,
    /// What is remembered of it, if it was written to Headgate already.
    pub record: Option<Record>,
    /// The Service; none: it is not there.
    pub service: Option<Service>,
    /// The TargetBinding of its name, if there is one.
    pub written: Option<Written>,
    /// What Headgate was told.
    pub told: Told,
    /// The target group as AWS has it, by the caller's rights; none: it was not asked.
    pub group: Option<Looked<Group>>,
    /// The pods of the namespace.
    pub pods: Vec<Pod>,
    /// What makes pods whose template carries LBC's readiness gate of it.
    pub templates: Vec<String>,
    /// Headgate's other bindings of the target group.
    pub others: Vec<String>,
    /// Whether a TargetLedger names targets of the target group.
    pub has_ledger: bool,
}

/// What Headgate was told of a target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// It binds it, and writes nothing.
    Paused(Place),
    /// It binds it.
    InForce(Place),
}

impl Told {
    /// Where that is written.
    pub const fn place(self) -> Option<Place> {
        match self {
            Self::Nothing => None,
            Self::Paused(place) | Self::InForce(place) => Some(place),
        }
    }
}

/// Where a binding is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the annotation of the Service.
    Annotation,
    /// In a TargetBinding of the name of the TargetGroupBinding.
    TargetBinding,
}

/// A Service.
#[derive(Clone, Debug)]
pub struct Service {
    /// What counts for targets.
    pub facts: ServiceFacts,
    /// Its state.
    pub version: String,
    /// Its annotation `headgate.dev/paused` is `true`.
    pub is_paused: bool,
    /// What is remembered of TargetGroupBindings that it was bound by.
    pub records: Looked<Vec<Record>>,
}

/// A TargetBinding.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Whether it is paused.
    pub is_paused: bool,
    /// What is remembered of the TargetGroupBinding that it comes from; none: somebody else has written it.
    pub record: Option<Record>,
}

/// A target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it is.
    pub facts: TargetGroupFacts,
    /// Its targets.
    pub targets: BTreeMap<Target, HealthState>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What counts of it for targets.
    pub facts: PodFacts,
    /// LBC's readiness gates, each with whether it is open.
    pub gates: BTreeMap<String, bool>,
}

impl Binding {
    /// Whether LBC's readiness gate of it is on a living pod, and closed.
    pub fn closed_gates(&self) -> impl Iterator<Item = &Pod> {
        let gate = super::lbc::gate_of(&self.key.name);
        let lives = |pod: &&Pod| !pod.facts.terminating && !pod.facts.finished;
        self.pods.iter().filter(lives).filter(move |pod| pod.gates.get(&gate) == Some(&false))
    }

    /// The pods that its Service selects.
    pub fn selected(&self) -> impl Iterator<Item = &Pod> {
        let selector = self.service.as_ref().map(|service| &service.facts.selector);
        self.pods.iter().filter(move |pod| selector.is_some_and(|all| all.selects(&pod.facts.labels)))
    }

    /// The ARN of its target group, once anybody has said it.
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
