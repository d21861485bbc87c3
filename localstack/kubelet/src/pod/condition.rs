//! The conditions a kubelet owns.
//!
//! Owns type, status, reason and message of `PodReadyToStartContainers`, `Initialized`, `Ready` and
//! `ContainersReady`, worded as `pkg/kubelet/status/generate.go` of v1.36 words them. Pure. Conditions of
//! other writers are read (readiness gates) and never written.

use crate::pod::lifecycle::Lifecycle;
use crate::pod::object::Pod;
use k8s_openapi::api::core::v1::PodCondition;

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No container has run yet.
    Pending,
    /// At least one container runs or will run again.
    Running,
    /// Every container ended with 0, for good.
    Succeeded,
    /// Every container ended for good, at least one not with 0.
    Failed,
}

impl Phase {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The conditions of a pod in this state, without transition times; `PodScheduled`, which is the
/// scheduler's, only where a pod was bound without it.
pub fn conditions(pod: &Pod, lifecycle: &Lifecycle, phase: Phase) -> Vec<PodCondition> {
    let containers_ready = containers_ready(pod, lifecycle, phase);
    let mut all = vec![
        condition("PodReadyToStartContainers", lifecycle.has_sandbox(), None, None),
        condition("Initialized", true, (phase == Phase::Succeeded).then_some("PodCompleted"), None),
        ready(pod, &containers_ready),
        containers_ready,
    ];
    if !pod.status.conditions.iter().flatten().any(|known| known.type_ == "PodScheduled") {
        all.push(condition("PodScheduled", true, None, None));
    }
    for condition in &mut all {
        condition.observed_generation = pod.metadata.generation;
    }
    all
}

fn containers_ready(pod: &Pod, lifecycle: &Lifecycle, phase: Phase) -> PodCondition {
    match phase {
        Phase::Succeeded => return condition("ContainersReady", false, Some("PodCompleted"), None),
        Phase::Failed => return condition("ContainersReady", false, Some("PodFailed"), None),
        Phase::Pending | Phase::Running => {}
    }
    let unready: Vec<&str> = pod
        .spec
        .containers
        .iter()
        .zip(lifecycle.containers())
        .filter(|(_, container)| !container.is_ready())
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    if unready.is_empty() {
        return condition("ContainersReady", true, None, None);
    }
    // Go prints a list of strings with blanks between and brackets around.
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    condition("ContainersReady", false, Some("ContainersNotReady"), Some(message))
}

fn ready(pod: &Pod, containers_ready: &PodCondition) -> PodCondition {
    if containers_ready.status != "True" {
        return PodCondition { type_: "Ready".into(), ..containers_ready.clone() };
    }
    let shut: Vec<String> = pod.spec.gates().filter_map(|gate| shut_gate(pod, gate)).collect();
    if shut.is_empty() {
        condition("Ready", true, None, None)
    } else {
        condition("Ready", false, Some("ReadinessGatesNotReady"), Some(shut.join(", ")))
    }
}

/// What keeps a readiness gate shut, or `None` if it is open.
fn shut_gate(pod: &Pod, gate: &str) -> Option<String> {
    match pod.status.conditions.iter().flatten().find(|condition| condition.type_ == gate) {
        None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
        Some(open) if open.status == "True" => None,
        Some(shut) => {
            Some(format!("the status of pod readiness gate {gate:?} is not \"True\", but {}", shut.status))
        }
    }
}

fn condition(type_: &str, status: bool, reason: Option<&str>, message: Option<String>) -> PodCondition {
    PodCondition {
        type_: type_.into(),
        status: if status { "True" } else { "False" }.into(),
        reason: reason.map(Into::into),
        message,
        ..PodCondition::default()
    }
}
