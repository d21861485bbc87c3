//! What a new pod is given: the readiness gate, and a hold in the containers that have no `preStop` of their own or one
//! that sleeps for less; and a grace period for the probes that end its containers.
//!
//! * **Owns** no state: one decision, from what the pod says and what would bind it.
//! * **Guarantees.** What a user wrote is never undone, though a `sleep` may become longer; what was given is given once.
//!
//! A liveness or startup probe that fails ends its container as the end of the pod does: the kubelet runs the `preStop`
//! first, for as long as the grace period of the probe lasts, then sends SIGTERM and waits for at least 2 s. Without a
//! grace period of its own the pod's counts (Kubernetes: "Probe-level terminationGracePeriodSeconds"), so a container that
//! hangs would start again after the whole hold and not at once. Hence a probe of a held container is given a short one,
//! and that of another container in the same pod what the pod had before.
//!
//! A `preStop` that is no `sleep` stays as it is, unless the pod's annotation `headgate.dev/own-prestop` asks for more: then
//! it is run after the hold. A command that a shell runs anyway is run by that shell. Any other command, and a request, is
//! run by Headgate's program, which comes in a volume: nobody here knows what is in the image. What can be run by neither
//! stays as it is, and that is said.
//!
//! What was decided for a pod stands in its annotation `headgate.dev/injected`, with the words of [`Decision`]. The decision may
//! be made again for a pod that has it already: the API server asks once more when another webhook has changed the pod,
//! and people copy and restore pods. So the annotation counts only as far as the containers still have what it says, and a
//! hold is made longer if the pod is bound to what needs a longer one, or as long as the pod itself asks. What a user wrote is
//! never undone.
//!
//! **Limits.** A policy may refuse pods with a long grace period, and no webhook can see that. So the pod, its namespace or
//! a flag may limit what a grace period is raised to, and the hold is as long as that leaves room. If the grace period was
//! lowered after an earlier decision, another webhook did it: the hold is shortened, and the grace period is never raised
//! again.
//!
//! Under the label of its namespace a pod is given nothing if it is a Job's, or if the bindings exclude it: what serves no
//! requests need not live on for minutes. Its own label, hold or gate asks for it all the same.

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

/// What the annotation [`INJECTED`] says of a hold that is shorter than was wanted, or that there is none.
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
        // A gate that nobody opens would keep the pod from ever being ready.
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
    // What was said of a pod is not said anew because less is known the next time.
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
