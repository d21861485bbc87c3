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
//! What was decided for a pod stands in its annotation `headgate.dev/injected`, with the reason words. The decision may
//! be made again for a pod that has it already (the API server asks once more when another webhook has changed the pod,
//! and people copy pods): then only what has been added since is looked after. What a user wrote is never undone.
//!
//! Under the label of its namespace a pod is given nothing if it is a Job's, or if the bindings exclude it: what serves no
//! requests need not live on for minutes. Its own label, hold or gate asks for it all the same.

mod record;
#[cfg(test)]
mod tests;
mod wrapping;

pub use record::INJECTED;

use std::collections::BTreeSet;

use crate::model::{
    Hold, LoadBalancerType, Reason,
    excerpt::excerpt,
    expected::{EXPECTED_BINDINGS, Expected},
    injection::{Container, Hook, Injection, Known, Match, NewPod, OWN_PRESTOP, ProbeGrace, Terms},
    policy::HOLD,
    readiness::OWN_GATE,
};
use record::Record;

/// The label that asks for it: `true` on a pod or a namespace. `false` on a pod of such a namespace leaves the pod out.
pub const INJECT: &str = "headgate.dev/inject";
/// What Kubernetes takes if `terminationGracePeriodSeconds` is not there.
const DEFAULT_GRACE: i64 = 30;

/// For how many seconds, and why so long.
type Length = (u32, &'static str);

/// Decides what `pod` is given.
pub fn decide(pod: &NewPod, known: &Known, terms: Terms) -> Injection {
    if pod.labels.get(INJECT) == Some("false") {
        return Injection::nothing(Reason::InjectionOff);
    }
    let (bound, served): (&[Match], bool) = match known {
        // A gate that nobody opens would keep the pod from ever being ready.
        Known::NotServed => return Injection::nothing(Reason::NamespaceNotServed),
        Known::Unknown { served } => (&[], *served),
        Known::Excluded => (&[], true),
        Known::Bound(bound) => (bound, true),
    };
    let before = pod.injected.as_deref().map(Record::read).unwrap_or_default();
    let mut injection = Injection::default();
    let mut record = Record::default();
    if let Some(why) = not_needed(pod, known, &before) {
        record.say(Reason::HoldNotNeeded, why);
        return noted(injection, &record, pod, &before);
    }
    if matches!(known, Known::Unknown { .. }) {
        record.say(Reason::BindingsUnknown, "");
    }

    let gated = is_gated(pod);
    injection.gate = !gated && served;
    if injection.gate || (gated && before.has(Reason::GateAdded)) {
        record.say(Reason::GateAdded, "");
    } else if gated {
        record.say(Reason::GatePresent, "");
    }

    let length = length(pod, bound, &mut injection.warnings);
    if let Some(before_hold) = hold(pod, length, terms, &before, &mut injection, &mut record) {
        probes(pod, before_hold, terms.probe_grace, &before, &mut injection, &mut record);
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
    let has = before.has(Reason::GateAdded) || before.has(Reason::HoldAdded);
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
    injection.reasons = record.reasons();
    injection.news = injection.reasons.iter().copied().filter(|reason| !before.has(*reason)).collect();
    // What was said of a pod is not said anew because less is known the next time.
    let added = Injection { annotations: Vec::new(), ..injection.clone() };
    if !added.is_empty() || pod.injected.is_none() {
        injection.annotations.push((INJECTED, record.to_string()));
    }
    injection
}

/// For how long the pod is held: its own annotation counts before those of its bindings, and of these the longest.
fn length(pod: &NewPod, bound: &[Match], warnings: &mut Vec<String>) -> Length {
    let own = pod.hold.as_deref().and_then(|text| {
        let hold = Hold::parse(text);
        if hold.is_none() {
            warnings.push(format!(
                "{HOLD}: \"{}\" is none of its values; expected {}; the pod is held as if it were not there",
                excerpt(text),
                Hold::EXPECTED
            ));
        }
        hold
    });
    let of = |seconds: u32, balancer: LoadBalancerType| match balancer {
        _ if seconds != Hold::Auto.seconds(balancer) => (seconds, HOLD),
        LoadBalancerType::Application => (seconds, "ALB"),
        LoadBalancerType::Network => (seconds, "NLB"),
    };
    let longest = |seconds: &dyn Fn(&Match) -> u32| {
        bound.iter().map(|bound| of(seconds(bound), bound.balancer)).max_by_key(|(seconds, _)| *seconds)
    };
    // Nothing is known that would bind it: the longer of both bounds.
    let unbound = || (Hold::Auto.seconds(LoadBalancerType::Network), "no binding known, so as for an NLB");
    match own {
        Some(Hold::Auto) => longest(&|bound| Hold::Auto.seconds(bound.balancer)).unwrap_or_else(unbound),
        Some(given) => (given.seconds(LoadBalancerType::Network), HOLD),
        None => longest(&|bound| bound.hold).unwrap_or_else(unbound),
    }
}

/// Gives the hold to the containers that have no `preStop` or sleep for less, or whose own is to be run after it, and the
/// time for it to the pod. Gives the grace period that the pod had without a hold, if a container has one.
fn hold(
    pod: &NewPod,
    length: Length,
    terms: Terms,
    before: &Record,
    injection: &mut Injection,
    record: &mut Record,
) -> Option<i64> {
    // All containers of a pod are held alike, also those that came later. A note about none of them is of another pod.
    let is_noted = pod.containers.iter().any(|container| before.held.contains(&container.name));
    let noted = before.hold.as_ref().filter(|_| is_noted);
    let (seconds, why) = noted.map_or(length, |hold| (hold.0, &*hold.1));
    let is_too_short = |container: &&Container| match container.pre_stop {
        Hook::None => seconds > 0,
        Hook::Sleep(own) => own < seconds,
        Hook::Command { .. } | Hook::Request | Hook::Other => false,
    };
    injection.held = pod.containers.iter().filter(is_too_short).map(|container| container.place).collect();
    injection.seconds = seconds;
    let unwrapped = wrapping::wrap(pod, terms, injection);
    let was_held =
        |container: &Container| container.pre_stop != Hook::None && before.held.contains(&container.name);
    let is_wrapped =
        |container: &Container| injection.wrapped.iter().any(|(place, _)| *place == container.place);
    let is_held = |container: &&Container| {
        was_held(container) || injection.held.contains(&container.place) || is_wrapped(container)
    };
    record.held = pod.containers.iter().filter(is_held).map(|container| container.name.clone()).collect();
    if seconds == 0 {
        record.say(Reason::HoldOff, why);
    } else if !record.held.is_empty() {
        record.hold(seconds, why);
    }
    let raised = pod.containers.iter().filter_map(|container| match container.pre_stop {
        Hook::Sleep(own) if own < seconds => Some(format!("{} from {own}s", container.name)),
        _ => None,
    });
    record.add(Reason::OwnSleepRaised, before, raised.collect());
    record.add(Reason::OwnPreStopWrapped, before, wrapping::said(pod, injection));
    let own =
        pod.containers.iter().filter(|container| container.pre_stop != Hook::None && !is_held(container));
    let own: Vec<&str> = own.map(|container| &*container.name).collect();
    if !own.is_empty() {
        record.say(Reason::OwnPreStop, &own.join(", "));
    }
    if !unwrapped.is_empty() {
        let said: Vec<String> = unwrapped.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        record.say(Reason::OwnPreStopNotWrapped, &said.join(", "));
        injection.warnings.extend(unwrapped.iter().map(|(name, why)| {
            format!(
                "{OWN_PRESTOP}: the preStop of container {name} stays as it is, and nothing holds the container when \
                 the pod ends: {why}; expected a hook that can be run after the hold, or a command that begins with \
                 sleep {seconds}"
            )
        }));
    }
    if record.held.is_empty() {
        return None;
    }
    let grace = pod.grace.unwrap_or(DEFAULT_GRACE).max(0);
    // Raised before, and not lowered since: a hold that is longer than the grace period is refused by Kubernetes.
    if before.grace == Some(grace) && grace >= i64::from(seconds) {
        record.grace(grace);
        Some(grace - i64::from(seconds))
    } else {
        let raised = grace.saturating_add(i64::from(seconds));
        injection.grace = Some(raised);
        record.grace(raised);
        Some(grace)
    }
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
    record.add(Reason::ProbeGraceAdded, before, said);
}
