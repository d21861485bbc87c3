//! The JSON form of the explanation of a Service or TargetBinding and its targets.

use headgate_core::{
    Origin, Reason,
    model::{BindingKey, HealthState},
    view::{BindingView, EndingView, TargetView},
};
use serde::{Deserialize, Serialize};

use super::report::Word;
use crate::runtime::views::Views;

/// The explanation of a Service or TargetBinding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginReport {
    /// The kind of the object: `Service` or `TargetBinding`.
    pub kind: String,
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The replica that answered.
    pub answered_by: Option<String>,
    /// Whether the object binds ports or tries to. `false` for a Service without the annotation.
    pub binds: bool,
    /// Whether the object exists, according to Headgate's cache. The bindings of a deleted Service remain active for
    /// some time.
    pub exists: bool,
    /// The problems of the object's spec or annotation.
    pub problems: Vec<Word>,
    /// The active bindings, by port and target group.
    pub bindings: Vec<InForce>,
}

/// An active binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// The port of the Service.
    pub port: String,
    /// The ARN of the target group.
    pub target_group: String,
    /// The hold that pods of this binding should have, in seconds.
    pub hold: u32,
    /// The problems of the binding or the target group.
    pub troubles: Vec<Word>,
    /// The targets of the binding. The entry of a target that is being deregistered contains the reason.
    pub targets: Vec<BoundTarget>,
}

/// A target of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundTarget {
    /// The target as `IP:PORT`.
    pub target: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// Whether AWS accepted the registration of the target, and has not accepted a deregistration since.
    pub registered: bool,
    /// The target's `TargetHealth.State`. `None`: Headgate has not read the health yet, or the target group does not
    /// contain the target.
    pub health: Option<String>,
    /// The target's `TargetHealth.Reason`, or an empty text.
    pub health_reason: String,
    /// The state of the pod's readiness gate: `open`, `closed` or `none`. The field is absent if the target should be
    /// deregistered.
    pub gate: Option<String>,
    /// The reason why the target should be deregistered.
    pub goes: Option<String>,
}

impl OriginReport {
    /// Creates the JSON form from the views.
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

/// The targets of a binding. Targets that are being deregistered come last.
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
