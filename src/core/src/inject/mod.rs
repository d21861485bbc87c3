//! What a new pod gets: the readiness gate, a hold, and a grace period for probes that restart its containers.
//! Containers without a `preStop`, or with a shorter sleep, get the hold.
//!
//! * **Owns** no state. It makes one decision from the pod and its possible bindings.
//! * **Guarantees.** It never undoes what a user wrote, although a `sleep` may become longer. It adds each thing only
//!   once.
//!
//! When a liveness or startup probe fails, the kubelet ends the container as at the end of the pod. It runs the
//! `preStop` for at most the grace period of the probe. Then it sends SIGTERM and waits for at least 2 s. A probe
//! without its own grace period uses the pod's (Kubernetes: "Probe-level terminationGracePeriodSeconds"). A container
//! that hangs would then restart only after the whole hold.
//!
//! A probe of a held container therefore gets a short grace period. A probe of another container in the pod gets the
//! pod's previous grace period.
//!
//! A `preStop` that is not a `sleep` does not change by default. If the pod's annotation `headgate.dev/own-prestop`
//! asks for it, the hook runs after the hold. If the hook is a shell command, the same shell runs the hold first.
//! Headgate's program, which is mounted as a volume, runs all other commands and HTTP hooks, because the content of the
//! image is unknown. A hook that neither can run does not change, and Headgate reports it.
//!
//! The pod's annotation `headgate.dev/injected` contains the decision in the words of [`Decision`]. The API server may
//! call the webhook again after another webhook has changed the pod, and people copy and restore pods. The annotation
//! therefore only counts while the containers still match it.
//!
//! A hold becomes longer if a binding of the pod needs a longer one. If the pod itself asks for a length, the hold has
//! that length. Values of users are never undone.
//!
//! **Limits.** A policy may reject pods with a long grace period, and no webhook can see that. The pod, its namespace
//! or a flag may therefore limit the grace period, and the hold uses the time that remains. If another webhook lowered
//! the grace period after an earlier decision, Headgate shortens the hold. It then never raises the grace period again.
//!
//! If only the namespace has the label, pods of Jobs and pods that the bindings exclude get nothing. A pod that serves
//! no requests needs no hold. The pod's own label, hold or gate still asks for them.

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

/// The label that asks for the injection: `true` on a pod or a namespace. `false` on a pod excludes it.
pub const INJECT: &str = "headgate.dev/inject";

/// Why a hold is shorter than requested, or why there is none, as recorded in the annotation [`INJECTED`].
pub fn shortened(injected: &str) -> Option<String> {
    let record = Record::read(injected);
    let said = |decision| record.text(decision).map(str::to_owned);
    [Decision::HoldRefused, Decision::HoldShortened].into_iter().find_map(said)
}

/// Decides what `pod` gets.
pub fn decide(pod: &NewPod, known: &Known, terms: Terms) -> Injection {
    if pod.labels.get(INJECT) == Some("false") {
        return Injection::nothing(Decision::InjectionOff);
    }
    let (bound, served): (&[Match], bool) = match known {
        // A gate that nothing opens would keep the pod unready forever.
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

/// Why a pod gets nothing, if only its namespace has the label.
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

/// Adds the annotations that record the decision.
fn noted(mut injection: Injection, record: &Record, pod: &NewPod, before: &Record) -> Injection {
    injection.decisions = record.decisions();
    injection.news = injection.decisions.iter().copied().filter(|decision| !before.has(*decision)).collect();
    // The annotation is not rewritten only because less is known at the next call.
    let added = Injection { annotations: Vec::new(), ..injection.clone() };
    if !added.is_empty() || pod.injected.is_none() {
        injection.annotations.push((INJECTED, record.to_string()));
    }
    injection
}

/// Adds a grace period to probes that have none. `had`: the grace period of the pod without a hold.
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
        // Kubernetes does not accept 0 here.
        let seconds = if is_held { had.min(i64::from(probe_grace)) } else { had }.max(1);
        for probe in &container.probes {
            injection.probes.push(ProbeGrace { place: container.place, probe: *probe, seconds });
            said.push(format!("{seconds}s for {} of {}", probe.field(), container.name));
        }
    }
    record.add(Decision::ProbeGraceAdded, before, said);
}
