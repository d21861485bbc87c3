//! The texts about targets, gates, holds and evictions in Events, conditions and log lines.
//!
//! Each text names its object first, then the event, then the required action. An Event has at most
//! [`LONGEST`](crate::model::notice::LONGEST) characters. To fit, a text shortens only its names ([`brief`]).

use std::{net::IpAddr, time::Duration};

use crate::{
    binding::annotation,
    gate::News,
    inject::INJECT,
    model::{
        Binding, CallItem, Cause, Failure, FailureClass, Fate, ObjectKey, Origin, PodFacts, Reason, Signal,
        Target, TargetGroupArn, TargetPort, TroubleKind,
        excerpt::{beginning, brief},
        health::NeverHealthy,
        hold::Short,
        pod::PassedOver,
        policy::MIN_HEALTHY_PER_ZONE,
        readiness::OWN_GATE,
    },
};

/// The text about a problem of a binding. `example` is a pod or target with the problem.
pub fn binding_trouble(binding: &Binding, trouble: &TroubleKind, example: &str) -> String {
    let (group, port) = (binding.key.group.name(), &binding.key.port);
    let example = brief(example);
    match (trouble, &binding.port.target_port) {
        (TroubleKind::Unfit(Cause::NoSuchPort), TargetPort::Name(name)) => format!(
            "Pod {example} has no {} port \"{name}\" for target group {group}. Name the port in the pod, or fix targetPort of \
             {port}.",
            binding.port.protocol.as_str(),
        ),
        (TroubleKind::Unfit(_), _) => format!(
            "Pod {example} has no {} address for target group {group}. Bind port {port} to a target group of the pod's address \
             family.",
            binding.family.as_str(),
        ),
        (TroubleKind::ClaimedTwice(other), _) => format!(
            "Target {example} is also bound to {group} by {}. Remove the target group from one of the two bindings.",
            brief(&other.to_string()),
        ),
        (TroubleKind::HostNetwork { waiting, owner, target }, _) => format!(
            "Target {target} is used by pod {}; pod {} waits. Give each pod on a node its own port.",
            brief(&owner.name),
            brief(&waiting.name),
        ),
        (TroubleKind::ListDoubted, _) => format!(
            "Target group {group}: a list omits most pods, such as {example}. Headgate waits 30 s for a second list. Check the API \
             server for errors."
        ),
    }
}

/// The Event for a host-network pod that waits for the target of another pod.
pub fn waits_for_host_network(target: &Target, owner: &ObjectKey) -> String {
    format!(
        "Target {target} is used by host-network pod {}, so this pod waits. Give each pod on a node its own port.",
        brief(&owner.name)
    )
}

/// The Event for a host-network pod with a target for which another pod waits.
pub fn has_host_network(target: &Target, waiting: &ObjectKey) -> String {
    format!(
        "Target {target}: host-network pod {} needs the same address, and waits. Give each pod on a node its own port.",
        brief(&waiting.name)
    )
}

/// The text about a target group with a paused binding.
pub fn paused(arn: &TargetGroupArn, by: &Origin) -> String {
    let (how, what) = match by {
        Origin::Service(_) => ("annotation headgate.dev/paused", "annotation"),
        Origin::TargetBinding(_) => ("spec.paused", "field"),
    };
    format!(
        "Target group {}: Headgate changes no target of {} ({how}). To end the pause, remove the {what}.",
        arn.name(),
        brief(&by.to_string())
    )
}

/// Headgate writes to no target group.
pub fn read_only(arn: &TargetGroupArn) -> String {
    format!("Target group {}: Headgate changes nothing, because it runs with --read-only.", arn.name())
}

/// AWS throttles calls of the account.
pub fn throttled(calls: &str) -> String {
    format!(
        "AWS throttles {calls} in this account and region. Headgate sends fewer calls, and deregistrations first. Request \
         a higher limit, or reduce other calls."
    )
}

/// Targets should be deregistered, but the binding is paused.
pub fn removals_paused(arn: &TargetGroupArn) -> String {
    format!(
        "Target group {}: unwanted targets remain and may get requests (headgate.dev/paused, spec.paused or --read-only). To \
         deregister the targets, end the pause.",
        arn.name()
    )
}

/// Targets remain registered for a while, because all targets of the group are being replaced.
pub fn removal_held(arn: &TargetGroupArn, minutes: u64) -> String {
    let lasts = if minutes > 0 { format!(" ({minutes} min so far)") } else { String::new() };
    format!(
        "Target group {}: Headgate replaces all targets{lasts}, one for each new healthy target. Check the health check, or lower \
         --replacement-grace.",
        arn.name()
    )
}

/// Unready pods remain registered, because their zones need them.
pub fn kept_for_zone(arn: &TargetGroupArn) -> String {
    format!(
        "Target group {}: unready pods remain registered for {MIN_HEALTHY_PER_ZONE}, for at most --eviction-patience. Make \
         pods in each zone ready.",
        arn.name()
    )
}

fn zone_has_no_other(cause: Cause) -> &'static str {
    match cause {
        Cause::ZoneHasNoRoom => "no node in the zone accepts new pods",
        _ => "no replacement in the zone became healthy",
    }
}

/// Headgate deregisters an unready pod although the pod's zone needs it.
pub fn goes_not_ready(cause: Cause, after: Duration) -> String {
    let why = zone_has_no_other(cause);
    format!(
        "The unready pod was deregistered despite {MIN_HEALTHY_PER_ZONE}: {why} within {} s. Add nodes with room in each zone.",
        after.as_secs()
    )
}

/// AWS rejects a call for a permanent reason. `item` is the target, if the rejection concerns one target.
pub fn refusal(
    arn: &TargetGroupArn,
    action: &str,
    failure: &Failure,
    item: Option<&CallItem>,
) -> Option<(Reason, String)> {
    let (group, code, message) = (arn.name(), &failure.code, beginning(&failure.message));
    let said = match failure.class {
        // [`full`] reports targets that exceed the group's quota.
        FailureClass::Throttled | FailureClass::Unavailable | FailureClass::Conflict | FailureClass::Full => {
            return None;
        }
        FailureClass::Denied => format!(
            "Target group {group}: IAM denies {action} ({code}). Allow elasticloadbalancing:{action} in the IAM policy."
        ),
        FailureClass::Gone => format!(
            "Target group {group} does not exist ({code}: {message}). Create the group again, or remove it from the binding."
        ),
        FailureClass::Refused => {
            let about = item.map(|item| format!("Target {}", item.target));
            let about = about.unwrap_or_else(|| format!("Target group {group}"));
            format!("{about}: AWS rejects {action} ({code}: {message}). Fix the reported cause.")
        }
    };
    Some((failure.class.reason(), said))
}

/// Targets are in a zone that the load balancer does not serve.
pub fn zone_not_served(arn: &TargetGroupArn, targets: usize, first: &Target) -> String {
    let others = match targets {
        0 | 1 => " is".to_owned(),
        all => format!(" and {} more targets are", all - 1),
    };
    format!(
        "Target {first} of {}{others} in a zone without the load balancer. Enable the zone, or move pods.",
        arn.name()
    )
}

/// Another system removes targets repeatedly.
pub fn unknown_writer(arn: &TargetGroupArn) -> String {
    format!(
        "Target group {}: another system, such as LBC (TargetGroupBinding) or a second Headgate, removes targets. Let only \
         one controller manage this group.",
        arn.name()
    )
}

/// A group has no room for more targets.
pub fn full(arn: &TargetGroupArn, waiting: usize, failure: &Failure) -> String {
    format!(
        "Target group {} is full; {waiting} targets wait ({}: {}). Request a higher quota, or bind fewer pods.",
        arn.name(),
        failure.code,
        beginning(&failure.message),
    )
}

/// What follows the target in a gate's message.
const PLACE: &str = " of target group ";

/// The part of a gate's message about the first target group, and the number of other parts.
fn first_of(message: &str) -> String {
    let mut all = message.split("; ");
    let first = all.next().unwrap_or_default();
    // The Event is on the pod that has the target.
    let first = first.find(PLACE).map_or(first, |at| &first[at + " of ".len()..]);
    match all.count() {
        0 => first.to_owned(),
        more => format!("{first} (and {more} more)"),
    }
}

/// The text with a capital letter, unless it begins with an annotation.
fn capital(text: &str) -> String {
    match text.split_at_checked(1) {
        Some((first, rest)) if !text.starts_with("headgate.dev/") => first.to_uppercase() + rest,
        _ => text.to_owned(),
    }
}

/// The report about a readiness gate.
pub fn gate(news: &News) -> (Reason, String) {
    match news {
        News::StillClosed(waited, message) => (
            Reason::GateDelayed,
            format!(
                "The readiness gate has been closed for {} s. {}. Fix the cause.",
                waited.as_secs(),
                capital(&first_of(message)),
            ),
        ),
        News::OpenedLate(waited, message) => (
            Reason::GateDelayed,
            format!("The readiness gate opened after {} s. {}.", waited.as_secs(), capital(&first_of(message))),
        ),
        News::WithoutBinding => (
            Reason::NotSelected,
            format!(
                "The readiness gate opened without a health check, because no binding selected the pod in time. Add {} to \
                 the pod's Service, or remove the gate.",
                annotation::TARGET_GROUPS
            ),
        ),
        News::Unreadable(_) => (
            Reason::HealthUnread,
            "The readiness gate opened without a health check (--gate-patience): AWS did not answer DescribeTargetHealth. Check \
             the pod and the access to AWS."
                .to_owned(),
        ),
        News::Refused(why) => (
            Reason::RightMissing,
            format!(
                "Readiness gate {OWN_GATE}: Kubernetes rejects the update ({}). Headgate retries. Grant Headgate patch on \
                 pods/status.",
                brief(why)
            ),
        ),
    }
}

/// A target never became healthy.
pub fn never_healthy(arn: &TargetGroupArn, never: &NeverHealthy) -> String {
    let NeverHealthy { target, waited, health, .. } = never;
    let why = if health.reason.is_empty() { health.state.as_str() } else { health.reason };
    format!(
        "Target {target} of {} was never healthy within {} s ({why}). Check containers, health checks and security groups.",
        arn.name(),
        waited.as_secs(),
    )
}

/// A pod was not held long enough.
pub fn hold_too_short(short: &Short) -> String {
    let Short { group, target, after, bound } = short;
    let when = match after {
        None => "before deregistration".to_owned(),
        Some(after) => format!("{:.1} s after deregistration", after.as_secs_f64()),
    };
    format!(
        "Target {target} of {}: the pod stopped {when}, but requests can arrive for {} s. Add or extend the hold.",
        group.name(),
        bound.as_secs_f64().ceil(),
    )
}

/// The Event for the owner of a binding whose pods were not held long enough.
pub fn holds_too_short(short: &Short, pod: &ObjectKey) -> String {
    format!(
        "Target group {}: pod {} stopped while the load balancer could still send requests. See the pod's Event {}.",
        short.group.name(),
        brief(&pod.name),
        Reason::HoldTooShort,
    )
}

/// The address of a target may now belong to a pod of another cluster.
pub fn suspect(arn: &TargetGroupArn, first: &Target) -> String {
    format!(
        "Target {first} of {} is healthy, but its pod is deleted. Remove the target unless another cluster uses the address.",
        arn.name()
    )
}

/// An eviction waits for budgets, is allowed without a required step, or was undone.
pub fn eviction(cause: Cause, why: &str, after: Duration) -> Option<String> {
    let (seconds, why) = (after.as_secs(), brief(why));
    Some(match cause {
        Cause::EvictionWaitsForBudget => format!(
            "The eviction waits because its PodDisruptionBudget allows no disruption now ({why}). Fix the budget's unready \
             pods, or start more pods."
        ),
        Cause::EvictionWaitsForDeparture => format!(
            "The eviction waits until other pods of its PodDisruptionBudget have terminated ({why}). Make pods of the budget \
             Ready, or start more pods."
        ),
        Cause::DeregistrationTooSlow => format!(
            "The eviction was allowed after {seconds} s, although AWS has not accepted the deregistration. Requests may be lost. \
             Check the Events of the Service."
        ),
        Cause::EvictionUncheckable => format!(
            "The eviction was allowed after {seconds} s without deregistration ({why}). Requests may be lost. Grant create on \
             pods/eviction and list on poddisruptionbudgets."
        ),
        Cause::ReplacementTooSlow | Cause::ZoneHasNoRoom => format!(
            "The eviction was allowed after {seconds} s despite {MIN_HEALTHY_PER_ZONE}: {}. Add nodes with room in each zone.",
            zone_has_no_other(cause)
        ),
        Cause::EvictionGivenUp => format!(
            "The eviction was abandoned because its request {seconds} s ago was not repeated. Headgate registers the pod again. \
             To evict the pod, repeat the request."
        ),
        Cause::LeavingNotCredible => {
            "Headgate removed the eviction annotations: the time is over 24 h in the future, or the wait exceeds 1 h. Find who \
             may patch pods, and install the policies in config/admission."
                .to_owned()
        }
        Cause::LeavingNotRecorded => format!(
            "The eviction state was not written to the pod ({why}). Headgate allows evictions after a timeout instead. Grant \
             Headgate patch on pods."
        ),
        _ => return None,
    })
}

/// The node of a pod will be removed, so Headgate deregisters the pod before a client requests its eviction.
pub fn node_goes(node: &str, signal: &Signal, passed_over: PassedOver) -> String {
    let sign = signal.sign.strip_prefix("it has the ").unwrap_or(&signal.sign);
    let (node, sign) = (brief(node), brief(sign));
    match signal.fate {
        Fate::Dying => format!(
            "The pod was deregistered because its node {node} is about to fail ({sign}). If the node recovers, Headgate registers \
             the pod again."
        ),
        Fate::Deleted => format!(
            "The pod was deregistered because its node {node} was deleted. If the node returns, Headgate registers the pod again."
        ),
        Fate::Cordoned | Fate::Disrupted if passed_over.on(signal) => format!(
            "The pod was deregistered early: drains of its node {node} ({sign}) skip this pod. If the node remains, Headgate \
             registers the pod again."
        ),
        Fate::Cordoned | Fate::Disrupted => format!(
            "The pod was deregistered early: its node {node} will be drained ({sign}), and the pod has no hold. Label the \
             namespace {INJECT}."
        ),
    }
}

/// A node that was about to be removed remains.
pub fn node_stays(node: &str) -> String {
    format!(
        "The pod is registered again because its node {} is no longer about to be removed. No action is needed.",
        brief(node)
    )
}

fn on_node(pod: &PodFacts) -> String {
    let node =
        pod.node.as_deref().map_or_else(|| "no node".to_owned(), |node| format!("node {}", brief(node)));
    format!("{} on {node}", brief(&pod.key.to_string()))
}

/// A pod reports the address of `holder`.
pub fn waits_for_address(ip: IpAddr, holder: &PodFacts) -> String {
    format!(
        "This pod waits until pod {} releases the IP {ip}. If both pods run, check `ip addr` in both.",
        on_node(holder)
    )
}

/// The status of `other` contains the address of this pod.
pub fn another_shows_the_address(ip: IpAddr, other: &PodFacts) -> String {
    format!(
        "Pod {} also reports IP {ip}. This pod remains the target. Check who wrote that pod's podIP.",
        on_node(other)
    )
}

#[cfg(test)]
mod tests;
