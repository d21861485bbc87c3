//! The JSON form of a Service or TargetBinding and its targets.

use headgate_core::{
    Origin, Reason,
    model::{BindingKey, HealthState},
    view::{BindingView, EndingView, TargetView},
};
use serde::{Deserialize, Serialize};

use super::report::Word;
use crate::runtime::views::Views;

/// All information about the bindings of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginReport {
    /// `Service` or `TargetBinding`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// Whether it binds anything or tries to. A Service without the annotation does not.
    pub binds: bool,
    /// Whether the object exists, as far as Headgate knows. The bindings of a deleted Service remain in force for a
    /// while.
    pub exists: bool,
    /// The problems of its spec or annotation.
    pub problems: Vec<Word>,
    /// The bindings in force, by port and target group.
    pub bindings: Vec<InForce>,
}

/// A binding in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// The port of the Service.
    pub port: String,
    /// The ARN of the target group.
    pub target_group: String,
    /// How many seconds terminating pods should be held.
    pub hold: u32,
    /// The problems of the binding or its target group.
    pub troubles: Vec<Word>,
    /// Its targets. Those that are being deregistered have a reason.
    pub targets: Vec<BoundTarget>,
}

/// A target of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundTarget {
    /// `IP:PORT`.
    pub target: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// Whether AWS has accepted the registration, and not the deregistration.
    pub registered: bool,
    /// `TargetHealth.State`. `None`: it was not read yet, or the target is absent.
    pub health: Option<String>,
    /// `TargetHealth.Reason`, or empty.
    pub health_reason: String,
    /// `open`, `closed` or `none`; absent for a target that should be deregistered.
    pub gate: Option<String>,
    /// Why it should be deregistered.
    pub goes: Option<String>,
}

impl OriginReport {
    /// The JSON form of what the views contain.
    pub fn new(origin: &Origin, views: &Views, answered_by: Option<String>) -> Self {
        let shown = views.origins.get(origin).map(|view| view.value().clone());
        let words = |(reason, message): (Reason, String)| Word::from((reason, message));
        let bindings = views.all_bindings();
        let own = bindings.iter().filter(|view| view.key.origin == *origin);
        let bindings: Vec<InForce> = own.map(|view| in_force(view)).collect();
        let problems = shown.as_ref().map(|view| view.problems.clone()).unwrap_or_default();
        Self {
            kind: origin.kind().to_owned(),
            namespace: origin.key().namespace.to_string(),
            name: origin.key().name.to_string(),
            answered_by,
            binds: shown.is_some() || !bindings.is_empty(),
            exists: shown.is_some_and(|view| view.exists),
            problems: problems.into_iter().map(|problem| words((problem.reason, problem.said))).collect(),
            bindings,
        }
    }
}

/// The targets of a binding. Those that are being deregistered come last.
pub fn bound_targets(view: &BindingView) -> Vec<BoundTarget> {
    let state = |state: HealthState| state.as_str().to_owned();
    let there = view.targets.iter().map(|target: &TargetView| BoundTarget {
        target: target.target.to_string(),
        namespace: target.pod.namespace.to_string(),
        pod: target.pod.name.to_string(),
        registered: target.registered,
        health: target.state.map(state),
        health_reason: target.why.to_owned(),
        gate: Some(target.gate.as_str().to_owned()),
        goes: None,
    });
    let ending = view.ending.iter().map(|target: &EndingView| BoundTarget {
        target: target.target.to_string(),
        namespace: target.pod.namespace.to_string(),
        pod: target.pod.name.to_string(),
        registered: target.registered,
        health: target.state.map(state),
        health_reason: String::new(),
        gate: None,
        goes: Some(target.reason.to_string()),
    });
    there.chain(ending).collect()
}

fn in_force(view: &BindingView) -> InForce {
    let BindingKey { port, group, .. } = &view.key;
    InForce {
        port: port.to_string(),
        target_group: group.to_string(),
        hold: view.hold.seconds,
        troubles: view.said.iter().cloned().map(Word::from).collect(),
        targets: bound_targets(view),
    }
}
