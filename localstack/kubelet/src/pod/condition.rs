//! The conditions that a kubelet writes.
//!
//! The module builds the type, status, reason and message of `PodReadyToStartContainers`, `Initialized`, `Ready` and
//! `ContainersReady`. If the kubelet itself terminated the pod, the module also builds `DisruptionTarget`. The texts
//! come from `pkg/kubelet/status/generate.go` of v1.36. The module is pure. The module reads the conditions of other
//! writers (readiness gates) but never writes them.

use crate::object::{Pod, Role};
use crate::pod::lifecycle::{Container, Lifecycle};
use k8s_openapi::api::core::v1::PodCondition;

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No container has run yet.
    Pending,
    /// At least one container is running or will be restarted.
    Running,
    /// Every container has terminated with 0 and will not be restarted.
    Succeeded,
    /// Every container has terminated and will not be restarted. At least one exit code is not 0.
    Failed,
}

impl Phase {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

/// The condition types that only a kubelet writes (`PodConditionsByKubelet`). The list includes `PodScheduled`.
pub const OWNED: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Returns the conditions of a pod, without transition times. The scheduler owns `PodScheduled`, so the list contains
/// this condition only if a pod was bound without it.
pub fn conditions(pod: &Pod, lifecycle: &Lifecycle, phase: Phase) -> Vec<PodCondition> {
    let containers_ready = containers_ready(pod, lifecycle, phase);
    let mut all = vec![
        condition("PodReadyToStartContainers", lifecycle.has_sandbox(), None, None),
        initialized(pod, lifecycle, phase),
        ready(pod, &containers_ready),
        containers_ready,
    ];
    if !pod.status.conditions.iter().flatten().any(|known| known.type_ == "PodScheduled") {
        all.push(condition("PodScheduled", true, None, None));
    }
    // The kubelet reports this condition only with the last status (`mergePodStatus`).
    if let Some(ending) = lifecycle.ending() {
        let message = Some(ending.message.clone());
        all.push(condition("DisruptionTarget", true, Some("TerminationByKubelet"), message));
    }
    for condition in &mut all {
        condition.observed_generation = pod.metadata.generation;
    }
    all
}

fn initialized(pod: &Pod, lifecycle: &Lifecycle, phase: Phase) -> PodCondition {
    if phase == Phase::Succeeded {
        return condition("Initialized", true, Some("PodCompleted"), None);
    }
    let incomplete: Vec<&str> = pod
        .spec
        .all_containers()
        .zip(lifecycle.containers())
        .filter(|((role, _), container)| match role {
            Role::Init => !container.is_done(),
            Role::Sidecar => !container.is_up(),
            Role::Main => false,
        })
        .map(|((_, spec), _)| spec.name.as_str())
        .collect();
    // After the first initialization, a pod remains initialized in any state of its sidecars.
    if incomplete.is_empty() || lifecycle.main_containers().any(Container::has_run) {
        return condition("Initialized", true, None, None);
    }
    let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
    condition("Initialized", false, Some("ContainersNotInitialized"), Some(message))
}

fn containers_ready(pod: &Pod, lifecycle: &Lifecycle, phase: Phase) -> PodCondition {
    match phase {
        Phase::Succeeded => return condition("ContainersReady", false, Some("PodCompleted"), None),
        Phase::Failed => return condition("ContainersReady", false, Some("PodFailed"), None),
        Phase::Pending | Phase::Running => {}
    }
    let unready: Vec<&str> = pod
        .spec
        .all_containers()
        .zip(lifecycle.containers())
        .filter(|((role, _), container)| *role != Role::Init && !lifecycle.is_ready(container))
        .map(|((_, spec), _)| spec.name.as_str())
        .collect();
    if unready.is_empty() {
        return condition("ContainersReady", true, None, None);
    }
    // Go prints a list of strings in brackets, separated by spaces.
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

/// Returns the reason why a readiness gate is closed. `None`: the readiness gate is open.
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
