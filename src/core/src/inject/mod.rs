//! Adds to a new pod the readiness gate, a hold, and a grace period for probes that restart containers. Containers
//! without a `preStop`, or with a shorter sleep, get the hold.
//!
//! * **Owns** no state. Each decision depends only on the pod, its possible bindings and the settings.
//! * **Guarantees.** Headgate never removes a user's configuration, although a `sleep` may become longer. Repeated
//!   webhook calls do not repeat a change.
//!
//! When a liveness or startup probe fails, the kubelet terminates the container in the same way as in a terminating
//! pod. The kubelet runs the `preStop` for at most the grace period of the probe. The kubelet then sends SIGTERM and
//! waits for at least 2 s. A probe without its own grace period uses the grace period of the pod (Kubernetes:
//! "Probe-level terminationGracePeriodSeconds"). A held container that hangs would therefore restart only after the
//! whole hold.
//!
//! A probe of a held container therefore gets a short grace period. A probe of another container in the pod gets the
//! pod's previous grace period.
//!
//! A `preStop` that is not a `sleep` does not change by default. If the pod's annotation `headgate.dev/own-prestop` is
//! `wrap` or `wrap-by-shell`, the hook runs after the hold. If the hook is a shell command, the same shell runs the
//! hold first. Headgate's program, which is mounted as a volume, runs all other commands and HTTP hooks, because the
//! content of the image is unknown. If neither a shell nor Headgate's program can run a hook, Headgate leaves the hook
//! unchanged and reports it.
//!
//! The pod's annotation `headgate.dev/injected` contains the decision with the names of [`Decision`]. The API server
//! may call the webhook again after another webhook has changed the pod, and users copy and restore pods. Headgate
//! therefore uses the annotation only while it matches the containers.
//!
//! A hold becomes longer if a binding of the pod needs a longer hold. If the pod itself requests a length, the hold has
//! the requested length. Headgate never reverts values that users set.
//!
//! **Limits.** A policy may reject pods with a long grace period, and no webhook can see the rejection. The pod, its
//! namespace or a flag may therefore limit the grace period, which also limits the hold. If another webhook lowered the
//! grace period after an earlier decision, Headgate shortens the hold and never extends the grace period again.
//!
//! If only the namespace has the label, pods of Jobs and pods without a binding do not change, because they serve no
//! requests. A pod with its own label, hold or gate still gets the injection.

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

/// The label that enables the injection with the value `true` on a pod or namespace. The value `false` on a pod
/// excludes the pod.
pub const INJECT: &str = "headgate.dev/inject";

/// Why a hold is shorter than requested or missing, as recorded in the annotation [`INJECTED`].
pub fn shortened(injected: &str) -> Option<String> {
    let record = Record::read(injected);
    let said = |decision| record.text(decision).map(str::to_owned);
    [Decision::HoldRefused, Decision::HoldShortened].into_iter().find_map(said)
}

/// Decides which changes the webhook makes to `pod`.
pub fn decide(pod: &NewPod, known: &Known, terms: Terms) -> Injection {
    if pod.labels.get(INJECT) == Some("false") {
        return Injection::nothing(Decision::InjectionOff);
    }
    let (bound, served): (&[Match], bool) = match known {
        // In an unmanaged namespace, Headgate never opens a gate, so the pod would remain unready forever.
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

/// Why a pod does not change, if only its namespace has the label.
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
    // If a later call adds nothing to the pod, the annotation of the earlier call remains.
    let added = Injection { annotations: Vec::new(), ..injection.clone() };
    if !added.is_empty() || pod.injected.is_none() {
        injection.annotations.push((INJECTED, record.to_string()));
    }
    injection
}

/// Adds a grace period to probes that have no grace period. `had` is the grace period of the pod without a hold.
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
        // Kubernetes does not accept 0 as the grace period of a probe.
        let seconds = if is_held { had.min(i64::from(probe_grace)) } else { had }.max(1);
        for probe in &container.probes {
            injection.probes.push(ProbeGrace { place: container.place, probe: *probe, seconds });
            said.push(format!("{seconds}s for {} of {}", probe.field(), container.name));
        }
    }
    record.add(Decision::ProbeGraceAdded, before, said);
}
