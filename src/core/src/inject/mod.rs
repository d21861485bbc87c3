//! What a new pod gets: the readiness gate, and a hold in containers without a `preStop` or with a shorter sleep.
//! Also a grace period for the probes that end its containers.
//!
//! * **Owns** no state: one decision, from the pod and its possible bindings.
//! * **Guarantees.** What a user wrote is never undone, though a `sleep` may become longer; what was given is given once.
//!
//! When a liveness or startup probe fails, the kubelet ends the container as at the end of the pod. It runs the
//! `preStop` for at most the grace period of the probe, then sends SIGTERM and waits for at least 2 s. Without a
//! grace period of its own the pod's counts (Kubernetes: "Probe-level terminationGracePeriodSeconds"). A container
//! that hangs would then restart only after the whole hold.
//!
//! A probe of a held container therefore gets a short grace period. That of another container in the same pod gets
//! what the pod had before.
//!
//! A `preStop` that is no `sleep` does not change, unless the pod's annotation `headgate.dev/own-prestop` asks for
//! more: then it runs after the hold. The shell of a command also runs the wrapped command. Headgate's program, which
//! comes in a volume, runs every other command, and requests: nobody here knows what is in the image. A hook that
//! neither can run does not change, and is reported.
//!
//! The pod's annotation `headgate.dev/injected` contains the decision, with the words of [`Decision`]. A pod may need
//! another decision: the API server asks again when another webhook has changed the pod, and people copy and restore
//! pods. The annotation therefore counts only while the containers still have its content.
//!
//! A hold becomes longer if the pod has a binding that needs a longer one, and has the length that the pod itself
//! asks for. Values of users are never undone.
//!
//! **Limits.** A policy may refuse pods with a long grace period, and no webhook can see that. The pod, its namespace
//! or a flag may therefore limit the grace period, and the hold uses what remains. If another webhook lowered the
//! grace period after an earlier decision, the hold is shortened. The grace period is then never raised again.
//!
//! Under the label of its namespace a pod gets nothing if it is a Job's, or if the bindings exclude it. A pod that
//! serves no requests needs no hold. Its own label, hold or gate still asks for it.

mod holding;
mod record;
#[cfg(test)]
mod tests;
mod wrapping;

pub use holding::{MAX_GRACE_EXPECTED, max_grace};
pub use record::INJECTED;

use std::collections::BTreeSet;

use crate::model::{
    expected::{EXPECTED_BINDINGS, Expected},
    injection::{Decision, Injection, Known, Match, NewPod, ProbeGrace, Terms},
    readiness::OWN_GATE,
};
use record::Record;

/// The label that asks for it: `true` on a pod or a namespace. `false` on a pod of such a namespace leaves the pod out.
pub const INJECT: &str = "headgate.dev/inject";

/// The reason in the annotation [`INJECTED`] for a hold that is shorter than requested, or for none.
pub fn shortened(injected: &str) -> Option<String> {
    let record = Record::read(injected);
    let said = |decision| record.text(decision).map(str::to_owned);
    [Decision::HoldRefused, Decision::HoldShortened].into_iter().find_map(said)
}

/// Decides what `pod` is given.
pub fn decide(pod: &NewPod, known: &Known, terms: Terms) -> Injection {
    if pod.labels.get(INJECT) == Some("false") {
        return Injection::nothing(Decision::InjectionOff);
    }
    let (bound, served): (&[Match], bool) = match known {
        // A gate that nothing opens would keep the pod from ever being ready.
        Known::NotServed => return Injection::nothing(Decision::NamespaceNotServed),
        Known::Unknown { served } => (&[], *served),
        Known::Excluded => (&[], true),
        Known::Bound(bound) => (bound, true),
    };
    let before = pod.injected.as_deref().map(Record::read).unwrap_or_default();
    let mut injection = Injection::default();
    let mut record = Record::default();
    if let Some(why) = not_needed(pod, known, &before) {
        record.say(Decision::HoldNotNeeded, why);
        return noted(injection, &record, pod, &before);
    }
    if matches!(known, Known::Unknown { .. }) {
        record.say(Decision::BindingsUnknown, "");
    }

    let gated = is_gated(pod);
    injection.gate = !gated && served;
    if injection.gate || (gated && before.gate_added) {
        record.say(Decision::GateAdded, "");
    } else if gated {
        record.say(Decision::GatePresent, "");
    }

    if let Some(had) = holding::decide(pod, known, terms, &before, &mut injection, &mut record) {
        probes(pod, had, terms.probe_grace, &before, &mut injection, &mut record);
    }

    if (gated || injection.gate) && !pod.has_expectations {
        let expected = |bound: &Match| Some(Expected { group: bound.group.clone(), port: bound.port? });
        let expected: BTreeSet<Expected> = bound.iter().filter_map(expected).collect();
        if !expected.is_empty() {
            let expected: Vec<Expected> = expected.into_iter().collect();
            injection.annotations.push((EXPECTED_BINDINGS, Expected::write(&expected)));
        }
    }
    noted(injection, &record, pod, &before)
}

/// Why a pod is given nothing that it has not asked for itself: only its namespace has the label.
fn not_needed(pod: &NewPod, known: &Known, before: &Record) -> Option<&'static str> {
    let asks = pod.labels.get(INJECT) == Some("true") || pod.hold.is_some();
    let has = before.gate_added || before.hold.is_some();
    if asks || has || is_gated(pod) {
        None
    } else if pod.of_job {
        Some("a Job made it")
    } else {
        (*known == Known::Excluded).then_some("no binding selects it")
    }
}

fn is_gated(pod: &NewPod) -> bool {
    pod.gates.iter().any(|gate| **gate == *OWN_GATE)
}

/// With what is written on the pod about it.
fn noted(mut injection: Injection, record: &Record, pod: &NewPod, before: &Record) -> Injection {
    injection.decisions = record.decisions();
    injection.news = injection.decisions.iter().copied().filter(|decision| !before.has(*decision)).collect();
    // A pod's annotation is not rewritten because less is known the next time.
    let added = Injection { annotations: Vec::new(), ..injection.clone() };
    if !added.is_empty() || pod.injected.is_none() {
        injection.annotations.push((INJECTED, record.to_string()));
    }
    injection
}

/// Gives the probes that have no grace period of their own one; `had`: what the pod had without a hold.
fn probes(
    pod: &NewPod,
    had: i64,
    probe_grace: u32,
    before: &Record,
    injection: &mut Injection,
    record: &mut Record,
) {
    let mut said = Vec::new();
    for container in &pod.containers {
        let is_held = record.held.contains(&container.name);
        // Kubernetes takes no 0 here.
        let seconds = if is_held { had.min(i64::from(probe_grace)) } else { had }.max(1);
        for probe in &container.probes {
            injection.probes.push(ProbeGrace { place: container.place, probe: *probe, seconds });
            said.push(format!("{seconds}s for {} of {}", probe.field(), container.name));
        }
    }
    record.add(Decision::ProbeGraceAdded, before, said);
}
