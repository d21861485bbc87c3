//! Checks the target groups, and lists the problems that Headgate reports about AWS, Services and TargetBindings.

use std::collections::BTreeMap;

use headgate::explain::report::Word;
use headgate_core::{Reason, model::target_group::TargetType};

use super::pods::origin;
use crate::doctor::{
    facts::{Bound, Facts},
    finding::Finding,
    inspect::Inspected,
};

/// The reasons that are temporary or intended.
const HARMLESS: [Reason; 9] = [
    Reason::ExclusiveNotGranted,
    Reason::Throttled,
    Reason::Paused,
    Reason::ReadOnly,
    Reason::RemovalHeld,
    Reason::ListDoubted,
    Reason::BindingRemoved,
    Reason::TargetClaimedTwice,
    Reason::ForeignTarget,
];
/// The minimum deregistration delay in seconds. A shorter delay interrupts open requests.
const SHORTEST_DELAY: u32 = 5;

pub fn examine(facts: &Facts) -> Vec<Finding> {
    let Ok(shown) = &facts.shown else { return Vec::new() };
    // Another check reports `NoGrant`: once per target group, with the missing grant.
    let own = |word: &&Word| word.reason != Reason::NoGrant.as_str();
    let mut found = Vec::new();
    found.extend(shown.aws.iter().map(|word| met("AWS".to_owned(), word)));
    for bound in &shown.bindings {
        found.extend(bound.troubles.iter().filter(own).map(|word| met(origin(bound), word)));
    }
    for object in &shown.origins {
        let about = format!("{} {}/{}", object.kind, object.namespace, object.name);
        found.extend(object.problems.iter().filter(own).map(|word| met(about.clone(), word)));
    }
    let bindings: BTreeMap<&str, &Bound> =
        shown.bindings.iter().map(|bound| (&*bound.target_group, bound)).collect();
    match &facts.groups {
        Err(why) => found.push(Finding::unchecked("target groups", why)),
        Ok(groups) => {
            for (arn, group) in groups {
                let Some(bound) = bindings.get(arn.as_str()) else { continue };
                let about = format!("target group {}, bound by {}", arn.name(), origin(bound));
                match group {
                    Ok(group) => found.extend(judge(group, bound, &about)),
                    Err(why) => found.push(Finding::unchecked(about, why)),
                }
            }
        }
    }
    found
}

/// Converts a problem that Headgate reports to a finding with the same reason.
fn met(about: String, word: &Word) -> Finding {
    let harmless = HARMLESS.iter().any(|reason| reason.as_str() == word.reason);
    let finding = if harmless { Finding::warning } else { Finding::error };
    finding(&word.reason, about, &word.message)
}

fn judge(group: &Inspected, bound: &Bound, about: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if group.target_type.is_none_or(|kind| kind != TargetType::Ip) {
        let said = "its targets are not IP addresses. Use a target group of type ip";
        found.push(Finding::error(Reason::TargetGroupUnsupported, about, said));
    }
    if group.load_balancers == 0 {
        let said = "no load balancer uses it, so its targets get no requests and no health checks. Create a \
                    listener that forwards to it";
        found.push(Finding::warning(Reason::TargetUnused, about, said));
    }
    if !group.checks_health {
        let said =
            "its health checks are disabled, so no target ever becomes healthy or unhealthy. Enable them";
        found.push(Finding::warning(Reason::RiskyTargetGroup, about, said));
    }
    let delay = group.attributes.deregistration_delay();
    if let Some(delay) = delay.filter(|delay| *delay < SHORTEST_DELAY) {
        let said = format!(
            "its deregistration_delay is {delay} s, which cuts requests that take longer. Set it to the \
             duration of your longest requests, and at most to the hold ({} s)",
            bound.hold.wanted
        );
        found.push(Finding::warning(Reason::RiskyTargetGroup, about, said));
    }
    found.extend(attributes(group, bound, about));
    found
}

/// Returns the risks of the target group's attributes for deregistered pods and for zones.
fn attributes(group: &Inspected, bound: &Bound, about: &str) -> Vec<Finding> {
    let (Inspected { attributes, protocol, .. }, hold) = (group, bound.hold.wanted);
    let mut found = Vec::new();
    let cut =
        attributes.deregistration_delay().filter(|delay| attributes.closes_connections() && *delay < hold);
    if let Some(delay) = cut {
        let said = format!(
            "it closes open connections {delay} s after a target is deregistered \
             (deregistration_delay.connection_termination.enabled), but the pod would serve them for its \
             hold of {hold} s. Set deregistration_delay to {hold} s or more, or disable connection \
             termination"
        );
        found.push(Finding::warning(Reason::RiskyTargetGroup, about, said));
    }
    if let (true, Some(delay)) =
        (matches!(protocol.as_str(), "UDP" | "TCP_UDP"), attributes.deregistration_delay())
        && (delay > hold || !attributes.closes_connections())
    {
        let until = if attributes.closes_connections() {
            format!("for {delay} s")
        } else {
            "while they are not idle for two minutes".to_owned()
        };
        let said = format!(
            "its UDP flows continue to a deregistered target, {until}, and the pod stops after its hold of \
             {hold} s, so later packets are dropped. Set deregistration_delay to at most {hold} s with \
             deregistration_delay.connection_termination.enabled, or set a longer hold (headgate.dev/hold)"
        );
        found.push(Finding::warning(Reason::RiskyTargetGroup, about, said));
    }
    if let (Some(false), Some((zone, _))) =
        (group.cross_zone, group.zones.iter().find(|(_, count)| **count == 1))
    {
        let said = format!(
            "cross-zone load balancing is disabled, and zone {zone} has one target: if it is unhealthy, \
             requests to that zone fail. Run two targets in each zone, or enable cross-zone load balancing \
             (load_balancing.cross_zone.enabled)"
        );
        found.push(Finding::warning(Reason::RiskyTargetGroup, about, said));
    }
    // Client IP preservation cannot be disabled for UDP.
    if attributes.preserves_client_ip() && matches!(protocol.as_str(), "TCP" | "TLS") {
        let said = "it preserves client addresses (preserve_client_ip.enabled): a pod that calls this load \
                    balancer and reaches itself gets no answer until its connection times out. Disable that \
                    and use proxy_protocol_v2 if you need the addresses, or keep clients out of the target \
                    group";
        found.push(Finding::warning(Reason::RiskyTargetGroup, about, said));
    }
    if group.checks_health && group.health_protocol == "TCP" {
        let said = "its health check only opens a TCP connection: a proxy that cannot serve, or is draining, \
                    remains healthy while it listens. Use an HTTP check";
        found.push(Finding::info(Reason::RiskyTargetGroup, about, said));
    }
    for (what, done) in [
        ("dns_failover", "removes a zone from DNS"),
        ("unhealthy_state_routing", "sends to all targets of a zone, including unhealthy ones,"),
    ] {
        let least = match attributes.least_healthy(what) {
            (Some(count), _) if count > 1 => format!("{count} targets"),
            (_, Some(percent)) => format!("{percent} % of its targets"),
            _ => continue,
        };
        let said = format!(
            "it {done} while fewer than {least} are healthy there (target_group_health.{what}); the zone \
             guard keeps headgate.dev/min-healthy-per-zone targets, by default 1: set it higher than this. \
             Headgate registers new pods there when their containers are ready, if it may read this \
             attribute. Allow elasticloadbalancing:DescribeTargetGroupAttributes, or set \
             headgate.dev/register-when: containers-ready and a readiness probe"
        );
        found.push(Finding::info(Reason::RiskyTargetGroup, about, said));
    }
    found
}
