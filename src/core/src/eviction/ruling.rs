//! The answer to an eviction request: a pure function of the facts about the pod. Each answer has one reason.

use std::time::Duration;

use super::seen::Seen;
use crate::model::{
    Bounds, Cause, Hold, Moment, PodFacts, WallTime,
    eviction::{BoundTo, LONGEST_RETRY, Request, Rules, Ruling},
    leaving::{Asked, Mark, STEP},
};

/// The minimum time by which the grace period of a request must exceed the hold.
const ROOM: Duration = Duration::from_secs(5);

/// The hold of a pod: the pod's own setting, or else the setting of the binding.
pub fn hold_of(pod: &PodFacts, bound: &BoundTo) -> Hold {
    pod.hold.unwrap_or(bound.hold)
}

/// How long the load balancers may keep sending after the pod is deregistered: the longest delay of all bindings.
/// `None`: no binding requests a hold.
pub fn propagation(pod: &PodFacts, bound: &[BoundTo], bounds: &Bounds) -> Option<Duration> {
    let of = |bound: &BoundTo| hold_of(pod, bound).bound(bound.balancer, bounds);
    bound.iter().filter(|bound| !bound.paused).filter_map(of).max()
}

/// Whether the hold of the pod is long enough for its bindings. The result does not depend on the grace period of a
/// request.
pub fn has_hold(pod: &PodFacts, bound: &[BoundTo]) -> bool {
    !bound.is_empty() && is_held(pod, bound, None)
}

/// Whether the hold is long enough if the eviction has this grace period.
fn is_held(pod: &PodFacts, bound: &[BoundTo], grace: Option<u32>) -> bool {
    let seconds = |bound: &BoundTo| hold_of(pod, bound).seconds(bound.balancer);
    let wanted = bound.iter().map(seconds).max().unwrap_or_default();
    let room = u32::try_from(ROOM.as_secs()).unwrap_or(u32::MAX);
    // A request can shorten the grace period of the pod, but the kubelet does not let a request extend it.
    let grace = grace.unwrap_or(pod.ending.grace).min(pod.ending.grace);
    pod.ending.sleeps >= wanted && grace >= wanted.saturating_add(room)
}

/// Returns the answer to a request for the eviction of `pod`, which has the bindings `bound`.
///
/// `is_guarded`: whether the zone of the pod may have to wait for a replacement. `node_goes`: whether the pod's node is
/// cordoned or will be removed, according to the watch. `seen`: the times at which this replica first saw each
/// annotation on the pod.
pub fn rule(
    pod: &PodFacts,
    bound: &[BoundTo],
    is_guarded: bool,
    node_goes: bool,
    request: &Request,
    rules: &Rules,
    (now, wall, seen): (Moment, WallTime, Option<Seen>),
) -> Ruling {
    let limits = &rules.limits;
    if let Some(cause) = pod.goes() {
        return Ruling::Pass(cause);
    }
    let wait = |cause: Cause, retry: Duration, mark| {
        let retry = retry.clamp(Duration::from_secs(1), LONGEST_RETRY);
        Ruling::Wait { cause, retry, uid: pod.uid.clone(), mark }
    };
    // The request sets the grace period of the pod. A short grace period does not deregister the pod, because anyone
    // may send a request.
    let held = has_hold(pod, bound);
    let cuts = !is_held(pod, bound, request.grace);
    let pass_held = |cause| {
        if cuts { Ruling::Regardless(Cause::GraceCutsHold, pod.uid.clone()) } else { Ruling::Pass(cause) }
    };
    let written = pod.leaving.as_deref().and_then(|leaving| leaving.credible(wall));
    if let Some(leaving) = written {
        let seen = seen.unwrap_or_else(|| Seen::first(&leaving, now));
        if leaving.ask.held != held && !leaving.ask.early && !leaving.is_out() {
            let mark = Mark::Asked(Asked { held, ..leaving.again(wall) });
            return wait(Cause::EvictionRecorded, LONGEST_RETRY / 2, Some(mark));
        }
        if let Some(cause) = leaving.let_go() {
            // A deregistered pod needs no hold, so the grace period of the request does not matter.
            return if held && !leaving.is_out() { pass_held(cause) } else { Ruling::Pass(cause) };
        }
        if leaving.ask.early {
            // The pod is or soon will be deregistered, and a client requests its eviction for the first time. A pod
            // with a hold was deregistered only because drain tools skip it. The hold covers the remaining propagation
            // delay.
            if held && leaving.is_out() {
                return pass_held(Cause::HoldAllows);
            }
            let begun = leaving.ask.begun;
            let mark = Mark::Asked(Asked { held, begun, ..asked_first(begun + STEP, request, wall) });
            let (cause, retry) = match seen.over(&leaving) {
                Some(over) => (Cause::EvictionWaitsForLoadBalancer, over.since(now)),
                None => (Cause::EvictionRecorded, LONGEST_RETRY / 2),
            };
            return wait(cause, retry, Some(mark));
        }
        let since = seen.since().seen();
        let looked = seen.waits().map_or(since, |waits| waits.seen().max(since));
        let (cause, heard, retry) = match (seen.over(&leaving), leaving.waits) {
            (Some(over), _) => (Cause::EvictionWaitsForLoadBalancer, since.max(over), over.since(now)),
            // The leader decides as soon as a target in the zone becomes healthy.
            (None, Some((_, Cause::EvictionWaitsForZone))) => {
                (Cause::EvictionWaitsForZone, looked, Duration::from_secs(1))
            }
            (None, Some((_, cause))) => (cause, looked, LONGEST_RETRY),
            (None, None) => (Cause::EvictionRecorded, since, LONGEST_RETRY / 2),
        };
        if now.since(heard) > limits.silence() {
            return Ruling::Regardless(Cause::NobodyDecides, pod.uid.clone());
        }
        let old = seen.asked().ago(now) >= limits.refresh();
        return wait(cause, retry, old.then_some(Mark::Asked(Asked { held, ..leaving.again(wall) })));
    }
    if bound.is_empty() {
        return Ruling::Pass(if pod.ips.is_empty() { Cause::NoIp } else { Cause::NotATarget });
    }
    if bound.iter().all(|bound| bound.paused) {
        return Ruling::Pass(Cause::Paused);
    }
    if propagation(pod, bound, &rules.bounds).is_none() {
        return Ruling::Pass(Cause::HoldNotWanted);
    }
    if held && !is_guarded {
        return pass_held(Cause::HoldAllows);
    }
    // The leader needs a moment to check a zone, and longer to deregister a pod.
    let retry = if held { Duration::from_secs(1) } else { LONGEST_RETRY / 2 };
    let asked = asked_first(WallTime::default(), request, wall).after(pod.left_over, wall);
    let mark = Mark::Asked(Asked { held, ..asked });
    match pod.node.clone().filter(|_| !held && !node_goes) {
        // The watch may lag: `kubectl drain` cordons the node and evicts the pods immediately.
        Some(node) => Ruling::AskNode { node, retry, uid: pod.uid.clone(), mark },
        None => wait(Cause::EvictionRecorded, retry, Some(mark)),
    }
}

/// The annotation for a first request. Its time is not earlier than `earliest`.
fn asked_first(earliest: WallTime, request: &Request, wall: WallTime) -> Asked {
    let since = (wall - request.ago.first).max(earliest);
    Asked { asked: (wall - request.ago.last).max(since), ..Asked::first(since) }
}

#[cfg(test)]
mod tests;
