//! What a new pod is given: the readiness gate, and a hold in the containers that have no `preStop` of their own.
//!
//! * **Owns** no state: one decision, from what the pod says and what would bind it.
//! * **Guarantees.** What a user wrote is never undone; what was given is given once.
//!
//! What was decided for a pod stands in its annotation `headgate.dev/injected`, with the reason words. The decision may
//! be made again for a pod that has it already (the API server asks once more when another webhook has changed the pod,
//! and people copy pods): then only what has been added since is looked after. What a user wrote is never undone.

mod record;
#[cfg(test)]
mod tests;

pub use record::INJECTED;

use std::collections::BTreeSet;

use crate::model::{
    Hold, LoadBalancerType, Reason,
    excerpt::excerpt,
    expected::{EXPECTED_BINDINGS, Expected},
    injection::{Container, Injection, Known, Match, NewPod},
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
pub fn decide(pod: &NewPod, known: &Known) -> Injection {
    if pod.labels.get(INJECT) == Some("false") {
        return Injection::nothing(Reason::InjectionOff);
    }
    let (bound, served): (&[Match], bool) = match known {
        // A gate that nobody opens would keep the pod from ever being ready.
        Known::NotServed => return Injection::nothing(Reason::NamespaceNotServed),
        Known::Unknown { served } => (&[], *served),
        Known::Bound(bound) => (bound, true),
    };
    let before = pod.injected.as_deref().map(Record::read).unwrap_or_default();
    let mut injection = Injection::default();
    let mut record = Record::default();
    if matches!(known, Known::Unknown { .. }) {
        record.say(Reason::BindingsUnknown, "");
    }

    let gated = pod.gates.iter().any(|gate| **gate == *OWN_GATE);
    injection.gate = !gated && served;
    if injection.gate || (gated && before.has(Reason::GateAdded)) {
        record.say(Reason::GateAdded, "");
    } else if gated {
        record.say(Reason::GatePresent, "");
    }

    let length = length(pod, bound, &mut injection.warnings);
    hold(pod, length, &before, &mut injection, &mut record);

    if (gated || injection.gate) && !pod.has_expectations {
        let expected = |bound: &Match| Some(Expected { group: bound.group.clone(), port: bound.port? });
        let expected: BTreeSet<Expected> = bound.iter().filter_map(expected).collect();
        if !expected.is_empty() {
            let expected: Vec<Expected> = expected.into_iter().collect();
            injection.annotations.push((EXPECTED_BINDINGS, Expected::write(&expected)));
        }
    }
    injection.reasons = record.reasons();
    injection.news = injection.reasons.iter().copied().filter(|reason| !before.has(*reason)).collect();
    // What was said of a pod is not said anew because less is known the next time.
    let added = injection.gate || !injection.held.is_empty() || injection.grace.is_some();
    if added || pod.injected.is_none() {
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

/// Gives the hold to the containers that have no `preStop`, and the time for it to the pod.
fn hold(pod: &NewPod, length: Length, before: &Record, injection: &mut Injection, record: &mut Record) {
    let was_held = |container: &&Container| before.held.contains(&container.name);
    let own = pod.containers.iter().filter(|container| container.has_pre_stop);
    let (held_before, own): (Vec<_>, Vec<_>) = own.partition(was_held);
    // All containers of a pod are held alike, also those that came later.
    let (seconds, why) = before.hold.as_ref().map_or(length, |hold| (hold.0, &*hold.1));
    if seconds > 0 {
        let without = pod.containers.iter().filter(|container| !container.has_pre_stop);
        injection.held = without.map(|container| container.place).collect();
    }
    injection.seconds = seconds;
    let is_held =
        |container: &&Container| held_before.contains(container) || injection.held.contains(&container.place);
    record.held = pod.containers.iter().filter(is_held).map(|container| container.name.clone()).collect();
    if seconds == 0 {
        record.say(Reason::HoldOff, why);
    } else if !record.held.is_empty() {
        record.hold(seconds, why);
    }
    if !own.is_empty() {
        let names: Vec<&str> = own.iter().map(|container| &*container.name).collect();
        record.say(Reason::OwnPreStop, &names.join(", "));
    }
    if record.held.is_empty() {
        return;
    }
    let grace = pod.grace.unwrap_or(DEFAULT_GRACE).max(0);
    // Raised before, and not lowered since: a hold that is longer than the grace period is refused by Kubernetes.
    if before.grace == Some(grace) && grace >= i64::from(seconds) {
        record.grace(grace);
    } else {
        let raised = grace.saturating_add(i64::from(seconds));
        injection.grace = Some(raised);
        record.grace(raised);
    }
}
