//! The texts about targets, gates, holds and evictions in Events, conditions and log lines.
//!
//! Each text contains the object, the event and the remedy, in this order. An Event has at most
//! [`LONGEST`](crate::model::notice::LONGEST) characters. To fit into an Event, a text shortens only the names in it
//! ([`brief`]).

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
            "Pod {example}: no {} port \"{name}\", so no target of {group}. Name the port in the pod, or fix targetPort of \
             {port}.",
            binding.port.protocol.as_str(),
        ),
        (TroubleKind::Unfit(_), _) => format!(
            "Pod {example}: no {} address, so it is no target of {group}. Bind {port} to a target group of the pod's address \
             family.",
            binding.family.as_str(),
        ),
        (TroubleKind::ClaimedTwice(other), _) => format!(
            "Target {example}: {} also binds it to {group}. Remove the target group from one of the two.",
            brief(&other.to_string()),
        ),
        (TroubleKind::HostNetwork { waiting, owner, target }, _) => format!(
            "Target {target}: pod {} waits for pod {}. Give each pod of a node its own port.",
            brief(&waiting.name),
            brief(&owner.name),
        ),
        (TroubleKind::ListDoubted, _) => format!(
            "Target group {group}: a list lacked most pods ({example}). Headgate waits 30 s for a second list. If it recurs, check \
             the API server."
        ),
    }
}

/// The Event for a host-network pod that waits for the target of another pod.
pub fn waits_for_host_network(target: &Target, owner: &ObjectKey) -> String {
    format!(
        "Target {target}: host-network pod {} uses this address, so this pod waits. Give each pod of a node its own port.",
        brief(&owner.name)
    )
}

/// The Event for a host-network pod with a target for which another pod waits.
pub fn has_host_network(target: &Target, waiting: &ObjectKey) -> String {
    format!(
        "Target {target}: host-network pod {} waits for this address. Give each pod of a node its own port.",
        brief(&waiting.name)
    )
}

/// The text about a target group with a paused binding.
pub fn paused(arn: &TargetGroupArn, by: &Origin) -> String {
    let how = match by {
        Origin::Service(_) => "the annotation headgate.dev/paused",
        Origin::TargetBinding(_) => "spec.paused",
    };
    format!(
        "Target group {}: Headgate changes no target of {} ({how}). Remove that to end the pause.",
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
        "AWS throttles {calls} of this account and region. Headgate sends fewer, deregistrations first. Request a higher \
         limit, or reduce other calls."
    )
}

/// Targets should be deregistered, but the binding is paused.
pub fn removals_paused(arn: &TargetGroupArn) -> String {
    format!(
        "Target group {}: unwanted targets remain and may get requests (headgate.dev/paused, spec.paused or --read-only). End \
         the pause to deregister them.",
        arn.name()
    )
}

/// Targets remain registered for a while, because all targets of the group are being replaced.
pub fn removal_held(arn: &TargetGroupArn, minutes: u64) -> String {
    let lasts = if minutes > 0 { format!(" for {minutes} min") } else { String::new() };
    format!(
        "Target group {}: replacing all targets{lasts}, one for each new healthy one. If this takes long, check their health \
         check (--replacement-grace).",
        arn.name()
    )
}

/// Unready pods remain registered, because their zones need them.
pub fn kept_for_zone(arn: &TargetGroupArn) -> String {
    format!(
        "Target group {}: unready pods remain targets for {MIN_HEALTHY_PER_ZONE}, at most --eviction-patience. Make pods of \
         their zone ready.",
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
        "Deregistered while not ready, below {MIN_HEALTHY_PER_ZONE}: {why} within {} s. Add nodes with room in each zone.",
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
            "Target group {group}: IAM denies {action} ({code}). Allow elasticloadbalancing:{action}."
        ),
        FailureClass::Gone => format!(
            "Target group {group}: deleted ({code}: {message}). Create it again, or remove it from the binding."
        ),
        FailureClass::Refused => {
            let about = item.map(|item| format!("Target {}", item.target));
            let about = about.unwrap_or_else(|| format!("Target group {group}"));
            format!("{about}: AWS rejects {action} ({code}: {message}). Fix the cause.")
        }
    };
    Some((failure.class.reason(), said))
}

/// Targets are in a zone that the load balancer does not serve.
pub fn zone_not_served(arn: &TargetGroupArn, targets: usize, first: &Target) -> String {
    format!(
        "Target group {}: {targets} targets ({first}) are in a zone without the load balancer. Enable the zone, or move the pods.",
        arn.name()
    )
}

/// Another system removes targets repeatedly.
pub fn unknown_writer(arn: &TargetGroupArn) -> String {
    format!(
        "Target group {}: another system removes targets, such as LBC (TargetGroupBinding) or a second Headgate. Let one \
         controller manage it.",
        arn.name()
    )
}

/// A group has no room for more targets.
pub fn full(arn: &TargetGroupArn, waiting: usize, failure: &Failure) -> String {
    format!(
        "Target group {}: full, {waiting} targets wait ({}: {}). Request a higher quota, or bind fewer pods.",
        arn.name(),
        failure.code,
        beginning(&failure.message),
    )
}

/// The first target group in a gate's message, and the number of further target groups.
fn first_of(message: &str) -> String {
    let mut all = message.split("; ");
    let first = all.next().unwrap_or_default();
    // The Event is on the pod, so the text omits the target.
    let first = first.find("target group ").map_or(first, |at| &first[at..]);
    match all.count() {
        0 => first.to_owned(),
        more => format!("{first} (and {more} more)"),
    }
}

/// The report about a readiness gate.
pub fn gate(news: &News) -> (Reason, String) {
    match news {
        News::StillClosed(waited, message) => (
            Reason::GateDelayed,
            format!(
                "Readiness gate closed for {} s: {}. Fix that; then it opens automatically.",
                waited.as_secs(),
                first_of(message),
            ),
        ),
        News::OpenedLate(waited, message) => (
            Reason::GateDelayed,
            format!("Readiness gate opened after {} s: {}.", waited.as_secs(), first_of(message)),
        ),
        News::WithoutBinding(message) => (
            Reason::NotSelected,
            format!(
                "Readiness gate opened without a health check: {}. Add {} to its Service, or remove the gate.",
                first_of(message),
                annotation::TARGET_GROUPS
            ),
        ),
        News::Unreadable(_) => (
            Reason::HealthUnread,
            "Readiness gate opened without a health check (--gate-patience): AWS did not answer DescribeTargetHealth. Check \
             the pod and the access to AWS."
                .to_owned(),
        ),
        News::Refused(why) => (
            Reason::RightMissing,
            format!(
                "Readiness gate {OWN_GATE}: Kubernetes rejects the update ({}). Grant Headgate patch on pods/status. Headgate \
                 retries.",
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
        "Target {target}: not healthy for {} s in {} ({why}). Check its containers, health check and security groups.",
        waited.as_secs(),
        arn.name(),
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
        "Target {target} of {}: pod stopped {when}, not {} s. Requests may be lost. Use {INJECT}.",
        group.name(),
        bound.as_secs_f64().ceil(),
    )
}

/// The Event for the owner of a binding whose pods were not held long enough.
pub fn holds_too_short(short: &Short, pod: &ObjectKey) -> String {
    format!(
        "Target group {}: pod {} stopped while its load balancer could still send. Requests may be lost. See its Event {}.",
        short.group.name(),
        brief(&pod.name),
        Reason::HoldTooShort,
    )
}

/// The address of a target may now belong to a pod of another cluster.
pub fn suspect(arn: &TargetGroupArn, first: &Target) -> String {
    format!(
        "Target {first} of {}: its pod is deleted, but it is healthy. Remove it, unless another cluster uses the address.",
        arn.name()
    )
}

/// An eviction waits for budgets, is allowed without a required step, or was undone.
pub fn eviction(cause: Cause, why: &str, after: Duration) -> Option<String> {
    let (seconds, why) = (after.as_secs(), brief(why));
    Some(match cause {
        Cause::EvictionWaitsForBudget => format!(
            "Eviction waits: its PodDisruptionBudget allows none now ({why}). Make other pods of the budget Ready, or start \
             more."
        ),
        Cause::EvictionWaitsForDeparture => format!(
            "Eviction waits: other pods of its PodDisruptionBudget terminate first ({why}). Make pods of the budget Ready, or \
             start more."
        ),
        Cause::DeregistrationTooSlow => format!(
            "Eviction allowed after {seconds} s, although AWS has not accepted the deregistration. Requests may be lost. Check \
             the Events of the Service."
        ),
        Cause::EvictionUncheckable => format!(
            "Eviction allowed after {seconds} s without deregistration ({why}). Grant create on pods/eviction and list on \
             poddisruptionbudgets. Requests may be lost."
        ),
        Cause::ReplacementTooSlow | Cause::ZoneHasNoRoom => format!(
            "Eviction allowed after {seconds} s, below {MIN_HEALTHY_PER_ZONE}: {}. Add nodes with room in each zone.",
            zone_has_no_other(cause)
        ),
        Cause::EvictionGivenUp => format!(
            "Eviction abandoned: requested {seconds} s ago and not repeated. The pod is registered again. To evict it, repeat \
             the request."
        ),
        Cause::LeavingNotCredible => {
            "Eviction annotations removed: a time over 24 h ahead, or a wait over 1 h. Find who may \
                                      patch pods, and install the policies of config/admission."
                .to_owned()
        }
        Cause::LeavingNotRecorded => format!(
            "Eviction state not written to the pod ({why}). Grant Headgate patch on pods. Until then, evictions are allowed \
             after a timeout."
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
            "Deregistered now: node {node} is about to fail ({sign}). If the node recovers, Headgate registers the pod again."
        ),
        Fate::Deleted => format!(
            "Deregistered now: node {node} was removed ({sign}). If the node returns, Headgate registers the pod again."
        ),
        Fate::Cordoned | Fate::Disrupted if passed_over.on(signal) => format!(
            "Deregistered early: node {node} will be drained ({sign}) without evicting this pod. If the node remains, it is \
             registered again."
        ),
        Fate::Cordoned | Fate::Disrupted => format!(
            "Deregistered early: node {node} will be drained ({sign}) and this pod has no hold. Label its namespace {INJECT}."
        ),
    }
}

/// A node that was about to be removed remains.
pub fn node_stays(node: &str) -> String {
    format!("Registered again: node {} is no longer about to be removed. No action is needed.", brief(node))
}

fn on_node(pod: &PodFacts) -> String {
    let node =
        pod.node.as_deref().map_or_else(|| "no node".to_owned(), |node| format!("node {}", brief(node)));
    format!("{} on {node}", brief(&pod.key.to_string()))
}

/// A pod reports the address that `holder` has.
pub fn waits_for_address(ip: IpAddr, holder: &PodFacts) -> String {
    format!(
        "Not a target: pod {} has {ip}. Wait until that pod ends. If both run, check `ip addr` in each.",
        on_node(holder)
    )
}

/// The status of `other` contains the address of this pod.
pub fn another_shows_the_address(ip: IpAddr, other: &PodFacts) -> String {
    format!(
        "Still a target: pod {} also shows {ip}. If it runs, find out who wrote its status.podIP.",
        on_node(other)
    )
}

#[cfg(test)]
mod tests;
