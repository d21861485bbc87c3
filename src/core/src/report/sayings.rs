//! What users are told: the sentences of Events and log lines, each with what was expected and what to do.

use std::{net::IpAddr, time::Duration};

use crate::{
    binding::annotation,
    gate::News,
    inject::INJECT,
    model::{
        Binding, CallItem, Cause, Failure, FailureClass, Fate, ObjectKey, Origin, PodFacts, Reason, Signal,
        Target, TargetGroupArn, TargetPort, TroubleKind,
        health::NeverHealthy,
        hold::Short,
        leaving::{DEREGISTERED_AT, LEAVING},
        pod::PassedOver,
        policy::MIN_HEALTHY_PER_ZONE,
        readiness::OWN_GATE,
    },
};

/// What a user is told about a binding; `example` is a pod or a target that shows it.
pub fn binding_trouble(binding: &Binding, trouble: &TroubleKind, example: &str) -> String {
    let group = binding.key.group.name();
    match (trouble, &binding.port.target_port) {
        (TroubleKind::Unfit(Cause::NoSuchPort), TargetPort::Name(name)) => format!(
            "pod {example} has no container port named \"{name}\" of protocol {}, which targetPort of port {} asks \
             for; expected an entry in the pod's spec.containers[].ports; such pods are not registered in target \
             group {group}",
            binding.port.protocol.as_str(),
            binding.key.port,
        ),
        (TroubleKind::Unfit(_), _) => format!(
            "target group {group} takes {} addresses, and pod {example} has none; expected a target group of the \
             pods' address family in {} for port {}; such pods are not registered",
            binding.family.as_str(),
            annotation::TARGET_GROUPS,
            binding.key.port,
        ),
        (TroubleKind::ClaimedTwice(other), _) => format!(
            "target {example} of target group {group} is claimed by {other} too; expected one Service or \
             TargetBinding for each target: take the target group out of one of the two; the target stays \
             registered while either claims it"
        ),
        (TroubleKind::HostNetwork { waiting, owner, target }, _) => format!(
            "pod {waiting} of the host network waits to become target {target} of target group {group}, which pod \
             {owner} is; expected one pod for each address and port of a node"
        ),
        (TroubleKind::ListDoubted, _) => format!(
            "a list of pods left out most of the targets of target group {group}, {example} among them; they stay \
             until a second list says the same, or for half a minute"
        ),
    }
}

/// What users see of targets that somebody has paused.
pub fn paused(arn: &TargetGroupArn, by: &Origin) -> String {
    let how = match by {
        Origin::Service(_) => "the annotation headgate.dev/paused",
        Origin::TargetBinding(_) => "spec.paused",
    };
    format!("nothing is written about these targets of target group {}: {by} is paused by {how}", arn.name())
}

/// What users see of a target group while Headgate writes to none.
pub fn read_only(arn: &TargetGroupArn) -> String {
    format!("nothing is written to target group {}: Headgate runs with --read-only", arn.name())
}

/// What users see while AWS throttles such calls.
pub fn throttled(calls: &str) -> String {
    format!(
        "AWS throttles {calls} of this account and region: they are sent more slowly, removals before registrations, \
         and faster again by themselves; ask AWS for a higher limit, or let other programs of the account call less"
    )
}

/// What users are told when targets should go, and nothing may be written.
pub fn removals_paused(arn: &TargetGroupArn) -> String {
    format!(
        "targets of target group {} should be deregistered and stay, because headgate.dev/paused is \"true\" on the \
         Services that bind them, or spec.paused in the TargetBindings, or Headgate runs with --read-only; the load balancer may go on sending to pods that are \
         gone; end the pause, and they are deregistered at once",
        arn.name()
    )
}

/// What users are told when targets stay for a while because they are being replaced as a whole.
pub fn removal_held(arn: &TargetGroupArn, minutes: u64) -> String {
    let lasts = if minutes > 0 { format!(", and have been for {minutes} minutes") } else { String::new() };
    format!(
        "all targets of target group {} are being replaced{lasts}: of the old ones, whose pods live, one goes for each of the \
         new ones that is healthy, the rest when all are, or --replacement-grace after the last that became healthy; if that \
         takes long, look at the port and the health check of the new ones; a pod that is deleted goes at once",
        arn.name()
    )
}

/// What users are told when pods that are not ready any more stay for their zones.
pub fn kept_for_zone(arn: &TargetGroupArn) -> String {
    format!(
        "pods that are not ready any more stay targets of target group {}: they are healthy for the load balancer, and \
         without them a zone would have fewer healthy targets than {MIN_HEALTHY_PER_ZONE} asks for; they go when others there \
         are healthy, or after --eviction-patience; headgate_held_removals counts them",
        arn.name()
    )
}

fn zone_has_no_other(cause: Cause) -> &'static str {
    match cause {
        Cause::ZoneHasNoRoom => "no node of the zone takes new pods",
        _ => "no replacement there has become healthy",
    }
}

/// What users are told of such a pod that goes all the same.
pub fn goes_not_ready(cause: Cause, after: Duration) -> String {
    let why = zone_has_no_other(cause);
    format!(
        "this pod is not ready any more and is deregistered, as headgate.dev/when-not-ready asks for, although its zone is \
         left with fewer healthy targets than {MIN_HEALTHY_PER_ZONE} asks for: {why} within {} s; expected the pod to become \
         ready again, or nodes with room in each zone",
        after.as_secs()
    )
}

/// What users are told when AWS refuses a call for a reason that does not pass by itself; `item` is the one target it
/// is about; `alike`: whether others wait like that one.
pub fn refusal(
    arn: &TargetGroupArn,
    action: &str,
    failure: &Failure,
    item: Option<&CallItem>,
    alike: bool,
) -> Option<(Reason, String)> {
    let (group, code, message) = (arn.name(), &failure.code, &failure.message);
    let said = match failure.class {
        // What does not fit is said by [`full`].
        FailureClass::Throttled | FailureClass::Unavailable | FailureClass::Conflict | FailureClass::Full => {
            return None;
        }
        FailureClass::Denied => format!(
            "Headgate may not call {action} for target group {group} ({code}: {message}); expected its IAM policy to \
             allow elasticloadbalancing:{action}; tried again by itself"
        ),
        FailureClass::Gone => format!(
            "target group {group} does not exist any more ({code}: {message}); create it again, or take it out of \
             the annotation"
        ),
        FailureClass::Refused => {
            let about =
                item.map(|item| format!(", {} of pod {}", item.target, item.pod.name)).unwrap_or_default();
            let others = if alike {
                "others that were refused wait until one of them is taken, and no more than a few are tried again at a time; \
                 the rest is not held up"
            } else {
                "the others are not held up; tried again by itself"
            };
            format!("AWS refuses {action} for target group {group}{about} ({code}: {message}); {others}")
        }
    };
    Some((failure.class.reason(), said))
}

/// What users are told of targets in a zone that the load balancer does not serve.
pub fn zone_not_served(arn: &TargetGroupArn, targets: usize, first: &Target) -> String {
    format!(
        "{targets} of the targets of target group {}, as {first}, are in an Availability Zone that is not enabled for its load \
         balancer: they get no traffic and are never checked, and readiness gates wait for them; enable the zone for the load \
         balancer, or keep the pods out of it",
        arn.name()
    )
}

/// What users are told of targets that somebody else removes again and again.
pub fn unknown_writer(arn: &TargetGroupArn) -> String {
    format!(
        "targets of target group {} vanish again and again soon after they were registered from here: somebody else \
         removes them, as the AWS Load Balancer Controller does where a TargetGroupBinding names the target group, or \
         another Headgate with ownership exclusive; they are registered again every few minutes only; let one \
         controller alone have the target group",
        arn.name()
    )
}

/// What users are told while so many targets do not fit into a group.
pub fn full(arn: &TargetGroupArn, waiting: usize, failure: &Failure) -> String {
    let (code, message) = (&failure.code, &failure.message);
    format!(
        "target group {} takes no more targets ({code}: {message}): {waiting} wait, the longest waiting first; they are \
         registered when others have left, and otherwise tried again by themselves; ask AWS for a higher quota, or \
         bind fewer pods",
        arn.name()
    )
}

/// What users are told of a readiness gate.
pub fn gate(news: &News) -> (Reason, String) {
    let after = |waited: &Duration| format!("after {} s", waited.as_secs());
    match news {
        News::StillClosed(waited, message) => (
            Reason::GateDelayed,
            format!(
                "the readiness gate {OWN_GATE} of this pod is still closed {}: {message}; expected every target of the \
                 pod to become healthy; it opens by itself when that is so",
                after(waited)
            ),
        ),
        News::OpenedLate(waited, message) => (
            Reason::GateDelayed,
            format!("the readiness gate {OWN_GATE} of this pod is open {}: {message}", after(waited)),
        ),
        News::WithoutBinding(message) => (
            Reason::NotSelected,
            format!(
                "the readiness gate {OWN_GATE} of this pod is open without the load balancer's word: {message}; \
                 expected a Service with {} or a TargetBinding that selects the pod, or a pod without the gate",
                annotation::TARGET_GROUPS
            ),
        ),
        News::Unreadable(message) => (
            Reason::HealthUnread,
            format!(
                "the readiness gate {OWN_GATE} of this pod is open without the load balancer's word, as --gate-patience \
                 asks for: {message}; nobody knows whether the pod is healthy; expected AWS to answer \
                 DescribeTargetHealth"
            ),
        ),
        News::Refused(why) => (
            Reason::RightMissing,
            format!(
                "Kubernetes does not let Headgate open the readiness gate {OWN_GATE} of pods ({why}); expected a Role \
                 or ClusterRole with the verb patch on pods/status; tried again by itself"
            ),
        ),
    }
}

/// What users are told of a target that never became healthy.
pub fn never_healthy(arn: &TargetGroupArn, never: &NeverHealthy) -> String {
    let NeverHealthy { target, waited, health, .. } = never;
    let why = if health.reason.is_empty() { String::new() } else { format!(" ({})", health.reason) };
    format!(
        "target {target} of target group {} has been registered for {} s and was never healthy, it is {}{why}; expected \
         this pod to answer the health check of the target group: look at its containers (do they start, and stay?), at \
         the port, path and codes of the health check, and at the security groups; the target stays, and this is over by \
         itself once it is healthy",
        arn.name(),
        waited.as_secs(),
        health.state.as_str(),
    )
}

/// What users are told of a pod that was not held long enough.
pub fn hold_too_short(short: &Short) -> String {
    let Short { group, target, after, bound } = short;
    let when = match after {
        None => "before AWS had answered DeregisterTargets".to_owned(),
        Some(after) => format!("{:.1} s after AWS had answered DeregisterTargets", after.as_secs_f64()),
    };
    format!(
        "this pod ended {when} for its target {target} of target group {}, and its load balancer may go on sending there \
         for {} s after that answer: requests may have been lost; expected the pod to be held until then: by the label \
         {INJECT}=\"true\" of its namespace, or a preStop of more than {} s in its containers and a \
         terminationGracePeriodSeconds that leaves room for it; a force delete, a lost node and an eviction by the \
         kubelet wait for no hold",
        group.name(),
        bound.as_secs_f64(),
        bound.as_secs_f64().ceil(),
    )
}

/// What those who bind such pods are told.
pub fn holds_too_short(short: &Short, pod: &ObjectKey) -> String {
    format!(
        "pods of target group {} end before its load balancer has stopped sending to them, {pod} for one: requests may \
         have been lost; each such pod has an Event {} that says what was expected; \
         headgate_holds_too_short_total counts them",
        short.group.name(),
        Reason::HoldTooShort,
    )
}

/// What users are told of targets that may have become another cluster's.
pub fn suspect(arn: &TargetGroupArn, first: &Target) -> String {
    format!(
        "target {first} of target group {} was registered from here, its pod is gone, and it is healthy: another \
         cluster may have got the address, so it stays; deregister it by hand if nobody needs it",
        arn.name()
    )
}

/// What users are told of an eviction that waits for long because of its budgets, that is let through although something was
/// not done, or that is undone.
pub fn eviction(cause: Cause, why: &str, after: Duration) -> Option<String> {
    let seconds = after.as_secs();
    Some(match cause {
        Cause::EvictionWaitsForBudget | Cause::EvictionWaitsForDeparture => {
            let what = if cause == Cause::EvictionWaitsForBudget {
                "Kubernetes refuses it"
            } else {
                "pods of the same PodDisruptionBudget go first"
            };
            format!(
                "the eviction of this pod was asked for and waits: {what} ({why}); it is tried again by itself for as long as \
                 somebody asks for it; expected other pods of the PodDisruptionBudget to become ready"
            )
        }
        Cause::DeregistrationTooSlow => format!(
            "the eviction of this pod is let through {seconds} s after it was asked for, although AWS has not taken the \
             removal of its targets: requests may be lost; look at headgate_aws_calls_total and at the Events of the \
             Service for what AWS says"
        ),
        Cause::EvictionUncheckable => format!(
            "the eviction of this pod is let through {seconds} s after it was asked for, without having been deregistered \
             before: Kubernetes does not say whether its PodDisruptionBudgets allow it ({why}); requests may be lost; \
             expected a Role or ClusterRole with create on pods/eviction and list on poddisruptionbudgets.policy"
        ),
        Cause::ReplacementTooSlow | Cause::ZoneHasNoRoom => {
            let why = zone_has_no_other(cause);
            format!(
                "the eviction of this pod is let through {seconds} s after it was asked for, although its zone is left with \
                 fewer healthy targets than headgate.dev/min-healthy-per-zone asks for: {why}; expected nodes with room in \
                 each zone"
            )
        }
        Cause::EvictionGivenUp => format!(
            "the eviction of this pod was asked for {seconds} s ago and nobody asks for it any more: the pod stays, and is \
             registered again"
        ),
        Cause::LeavingNotCredible => format!(
            "what was written on this pod about its leaving was taken away again: it has a time that is more than an hour \
             ahead, or asks for a wait of more than an hour; expected {LEAVING} and {DEREGISTERED_AT} to be written by \
             Headgate alone: look for who may patch pods here, and install the policies of config/admission"
        ),
        Cause::LeavingNotRecorded => format!(
            "how far the leaving of this pod is cannot be written on it ({why}); expected a Role or ClusterRole with the \
             verb patch on pods; its eviction is let through after a while"
        ),
        _ => return None,
    })
}

/// What users are told of a pod whose targets go before anybody has asked for its eviction.
pub fn node_goes(node: &str, signal: &Signal, passed_over: PassedOver) -> String {
    let sign = &signal.sign;
    match signal.fate {
        Fate::Dying => format!(
            "node {node} of this pod is about to die ({sign}): the targets of the pod are deregistered at once; they are \
             registered again if that passes"
        ),
        Fate::Deleted => format!(
            "node {node} of this pod is gone ({sign}): the targets of the pod are deregistered at once; they are registered \
             again if it comes back"
        ),
        Fate::Cordoned | Fate::Disrupted if passed_over.on(signal) => format!(
            "node {node} of this pod is to be drained ({sign}), and whoever does that does not evict the pod, or does not \
             wait for it: its targets are deregistered early, whatever its hold; they are registered again if that passes"
        ),
        Fate::Cordoned | Fate::Disrupted => format!(
            "node {node} of this pod is to be drained ({sign}), and nothing keeps the pod alive when it is evicted: its \
             targets are deregistered early; they are registered again if that passes; expected the hold, by the label \
             {INJECT}=\"true\" of its namespace: then it stays until it is evicted"
        ),
    }
}

/// What users are told of such a pod when its node stays.
pub fn node_stays(node: &str) -> String {
    format!("node {node} of this pod was about to go, and stays: the targets of the pod are registered again")
}

fn on_node(pod: &PodFacts) -> String {
    let node = pod.node.as_deref().map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
    format!("pod {} on {node}", pod.key)
}

/// What is said of a pod that shows the address of `holder`.
pub fn waits_for_address(ip: IpAddr, holder: &PodFacts) -> String {
    format!(
        "{} has the address {ip} that this pod's status shows; this pod is no target until that one has ended or lost its \
         sandbox, or its node is gone or not Ready for 30 s; if both run, one status is wrong: compare \
         status.podIP with `ip addr` in each pod",
        on_node(holder)
    )
}

/// What is said of a pod whose address the status of `other` shows.
pub fn another_shows_the_address(ip: IpAddr, other: &PodFacts) -> String {
    format!(
        "the status of {} shows the address {ip} of this pod; this pod keeps it and stays a target; if that pod runs, find \
         out who wrote its status.podIP",
        on_node(other)
    )
}

#[cfg(test)]
mod tests;
