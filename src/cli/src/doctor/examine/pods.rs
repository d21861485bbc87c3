//! Checks whether pods that are targets have the readiness gate and a hold that is long enough.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::{
    Cause, Reason,
    model::{
        hold::{Hold, HoldWanted},
        policy::HOLD,
        readiness::OWN_GATE,
    },
};
use k8s_openapi::api::core::v1::Pod;

use crate::{
    doctor::{
        facts::{Bound, Facts},
        finding::{Finding, Level},
    },
    explain::pod::{asks, judged},
};

/// The cluster-autoscaler's default of `--max-pod-eviction-time`, in seconds.
const AUTOSCALER: u32 = 120;

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let Ok(shown) = &facts.shown else { return Vec::new() };
    let mut found = Vec::new();
    let autoscaler = facts.surroundings.autoscaler.as_ref().ok().and_then(Option::as_ref);
    let patience = autoscaler.map_or(AUTOSCALER, |it| it.eviction);
    for bound in shown.bindings.iter().filter(|bound| bound.hold.bound > patience) {
        let said = format!(
            "the eviction of a pod without a hold takes {} s or more, and cluster-autoscaler gives up after \
             {patience} s. If you use it, set a longer --max-pod-eviction-time",
            bound.hold.bound
        );
        found.push(Finding::warning(Reason::HoldTooShort, origin(bound), said));
    }
    let nobody = BTreeSet::new();
    let asking = facts.asking.as_ref().unwrap_or_else(|why| {
        found.push(Finding::unchecked("namespaces", why));
        &nobody
    });
    match &facts.pods {
        Err(why) => found.push(Finding::unchecked("pods", why)),
        Ok(pods) => {
            let pods = by_name(pods);
            found.extend(shown.bindings.iter().flat_map(|bound| of_binding(bound, &pods, asking)));
        }
    }
    found
}

type ByName<'a> = BTreeMap<(&'a str, &'a str), &'a Pod>;

fn by_name(pods: &[Pod]) -> ByName<'_> {
    pods.iter().filter_map(|pod| Some((name(pod)?, pod))).collect()
}

fn name(pod: &Pod) -> Option<(&str, &str)> {
    Some((pod.metadata.namespace.as_deref()?, pod.metadata.name.as_deref()?))
}

/// Returns one finding for all pods of a binding that have the same problem.
fn of_binding(bound: &Bound, pods: &ByName<'_>, asking: &BTreeSet<String>) -> Vec<Finding> {
    let mut lacking: BTreeMap<(Level, Reason, String), BTreeSet<&str>> = BTreeMap::new();
    for target in bound.targets.iter().filter(|target| target.ending.is_none()) {
        let Some(pod) = pods.get(&(&*bound.namespace, &*target.pod)) else { continue };
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let asked = asks(pod).unwrap_or_else(|| asking.contains(&bound.namespace));
        for what in gate(pod, asked).into_iter().chain(hold(pod, bound)) {
            lacking.entry(what).or_default().insert(&target.pod);
        }
    }
    let finding = |((level, reason, message), pods): ((Level, Reason, String), BTreeSet<&str>)| {
        let first = pods.first().copied().unwrap_or_default();
        let which = match pods.len() {
            1 => format!("pod {first}"),
            count => format!("{count} pods, such as {first}"),
        };
        let about = format!("{}, {which}", origin(bound));
        Finding { level, reason: reason.into(), about, message }
    };
    lacking.into_iter().map(finding).collect()
}

fn gate(pod: &Pod, asked: bool) -> Option<(Level, Reason, String)> {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    if gates.iter().any(|gate| gate.condition_type == OWN_GATE) {
        return None;
    }
    let (level, said) = if asked {
        let said = "no readiness gate, although the label headgate.dev/inject asks for it: the pod was \
                    created without the webhook. Create the pod again";
        (Level::Error, said)
    } else {
        let said = "no readiness gate: a rollout continues before new pods are healthy in the load balancer. \
                    Set the label headgate.dev/inject: \"true\" on the namespace or the pods, or add the \
                    gate to the pod template";
        (Level::Warning, said)
    };
    Some((level, Reason::RiskyWorkload, said.to_owned()))
}

fn hold(pod: &Pod, bound: &Bound) -> Option<(Level, Reason, String)> {
    let own = pod.metadata.annotations.as_ref().and_then(|all| all.get(HOLD));
    let seconds = match own.and_then(|text| Hold::parse(text)) {
        Some(Hold::For(seconds)) => seconds,
        Some(Hold::Off) => 0,
        Some(Hold::Auto) | None => bound.hold.wanted,
    };
    let (cause, said) = judged(pod, HoldWanted { seconds, bound: bound.hold.bound });
    match cause {
        Cause::HoldIsEnough | Cause::HoldOff => None,
        Cause::OwnPreStop => Some((Level::Warning, cause.reason(), said)),
        _ => Some((Level::Error, cause.reason(), said)),
    }
}

/// Formats the Service or TargetBinding that contains the binding.
pub fn origin(bound: &Bound) -> String {
    format!("{} {}/{}", bound.kind, bound.namespace, bound.name)
}
