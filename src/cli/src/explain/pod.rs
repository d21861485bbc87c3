//! Adds facts from a pod's own spec and status to Headgate's report.

use headgate::explain::report::{Report, Word};
use headgate_core::{
    Cause, inject,
    lifespan::{DEFAULT_GRACE, judge},
    model::{
        hold::HoldWanted,
        lifespan::{Container, Lifespan, PreStop},
        readiness::OWN_GATE,
    },
};
use k8s_openapi::{
    api::core::v1::{Container as Spec, LifecycleHandler, Pod},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};

/// Reads the containers, `preStop` hooks and grace period that determine how the pod terminates.
pub fn lifespan(pod: &Pod) -> Lifespan {
    let spec = pod.spec.as_ref();
    let containers = spec.map(|spec| &spec.containers[..]).unwrap_or_default();
    let sidecars = spec.and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    // A native sidecar runs until all other containers of the pod have terminated.
    let sidecars = sidecars.iter().filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let container = |container: &Spec| Container {
        name: container.name.as_str().into(),
        pre_stop: pre_stop(container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref())),
    };
    let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
    Lifespan {
        containers: containers.iter().chain(sidecars).map(container).collect(),
        grace: grace.map_or(DEFAULT_GRACE, |grace| u32::try_from(grace.max(0)).unwrap_or(u32::MAX)),
    }
}

fn pre_stop(handler: Option<&LifecycleHandler>) -> PreStop {
    let Some(handler) = handler else { return PreStop::None };
    if let Some(sleep) = &handler.sleep {
        return PreStop::Sleeps(u32::try_from(sleep.seconds.max(0)).unwrap_or(u32::MAX));
    }
    let command = handler.exec.as_ref().and_then(|exec| exec.command.as_deref()).unwrap_or_default();
    PreStop::of_command(&command.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Checks whether the pod's hold is long enough. If the webhook shortened the hold, returns the reason that the webhook
/// wrote on the pod.
pub fn judged(pod: &Pod, wanted: HoldWanted) -> (Cause, String) {
    let (cause, said) = judge(&lifespan(pod), wanted);
    let injected = pod.metadata.annotations.as_ref().and_then(|all| all.get(inject::INJECTED));
    let why = injected.filter(|_| cause != Cause::HoldIsEnough && cause != Cause::HoldOff);
    match why.and_then(|injected| inject::shortened(injected)) {
        Some(how) => (Cause::HoldTooShort, format!("held for {how}; {said}")),
        None => (cause, said),
    }
}

/// Returns whether the pod's own label requests the gate and the hold. `None`: the pod has no valid label.
pub fn asks(pod: &Pod) -> Option<bool> {
    match pod.metadata.labels.as_ref()?.get(inject::INJECT)?.as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Adds the condition of the pod's readiness gate, and whether the hold is long enough.
pub fn look_at(report: &mut Report, pod: &Pod) {
    if let Some(hold) = &mut report.hold {
        let wanted = HoldWanted { seconds: hold.wanted, bound: hold.bound };
        let (cause, said) = judged(pod, wanted);
        hold.word = Some((cause.reason(), said).into());
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = conditions.into_iter().flatten().find(|condition| condition.type_ == OWN_GATE);
    if let (Some(gate), Some(condition)) = (&mut report.gate, condition)
        && gate.word.is_none()
    {
        let reason = condition.reason.clone().unwrap_or_default();
        let message = condition.message.clone().unwrap_or_default();
        gate.word = (!reason.is_empty()).then_some(Word { reason, message });
        gate.since = condition.last_transition_time.as_ref().map(|time| MicroTime(time.0));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_container_that_stays_is_read_with_what_it_does_before_it_ends() {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "labels": {"headgate.dev/inject": "true"}},
            "spec": {
                "terminationGracePeriodSeconds": 180,
                "containers": [
                    {"name": "web", "lifecycle": {"preStop": {"sleep": {"seconds": 150}}}},
                    {"name": "old", "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 20"]}}}},
                    {"name": "ask", "lifecycle": {"preStop": {"httpGet": {"port": 80}}}},
                    {"name": "bare", "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}},
                ],
                "initContainers": [{"name": "once"}, {"name": "proxy", "restartPolicy": "Always"}],
            },
        }))
        .unwrap();
        let container = |name: &str, pre_stop| Container { name: name.into(), pre_stop };
        let expected = [
            container("web", PreStop::Sleeps(150)),
            container("old", PreStop::Sleeps(20)),
            container("ask", PreStop::Unknown),
            container("bare", PreStop::None),
            container("proxy", PreStop::None),
        ];
        assert_eq!(lifespan(&pod), Lifespan { containers: expected.into(), grace: 180 });
        assert_eq!(asks(&pod), Some(true));
        let bare = serde_json::from_value(json!({"spec": {"containers": []}})).unwrap();
        assert_eq!((lifespan(&bare).grace, asks(&bare)), (30, None));
    }

    #[test]
    fn why_a_hold_is_shorter_than_was_wanted_is_what_the_webhook_wrote_on_the_pod() {
        let pod = |injected: &str, sleeps: u32| -> Pod {
            let container = json!({"name": "web", "lifecycle": {"preStop": {"sleep": {"seconds": sleeps}}}});
            let annotations = json!({"headgate.dev/injected": injected});
            let spec = json!({"terminationGracePeriodSeconds": sleeps + 30, "containers": [container]});
            serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": spec})).unwrap()
        };
        let wanted = HoldWanted { seconds: 150, bound: 120 };
        let note = "HoldAdded: 90s in web (NLB); HoldShortened: 90s of 150s, because --max-grace says 120s";
        let (cause, said) = judged(&pod(note, 90), wanted);
        assert_eq!(cause, Cause::HoldTooShort);
        assert!(said.starts_with(
            "held for 90s of 150s, because --max-grace says 120s; the preStop of web takes 90 s"
        ));
        assert_eq!(judged(&pod(note, 150), wanted).0, Cause::HoldIsEnough);
        let (cause, said) = judged(&pod("GateAdded", 90), wanted);
        assert_eq!(cause, Cause::HoldTooShort);
        assert!(said.starts_with("the preStop of web takes 90 s"), "{said}");
    }
}
