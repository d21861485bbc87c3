//! Compares the registered targets in AWS with the targets that Headgate wants, and predicts the result for each
//! target. The functions are pure.
//!
//! The prediction uses the rule of the core ([`verdict`]), which the controller itself uses.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::{
    Origin, Reason, Target,
    model::{
        Binding as CoreBinding, BindingKey, IpFamily, LeastHealthy, LoadBalancerType, Policy, Standing,
        health::HealthState,
        service::ServicePort,
        target_group::{GroupRef, TargetGroupArn},
    },
    verdict,
};
use serde::Serialize;

use super::facts::{Binding, Pod};
use crate::doctor::facts::{Bound, Shown};

/// The effect of the migration on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Then {
    /// The target is registered, and Headgate wants it. Headgate registers the target again, which changes nothing in
    /// AWS, and records the target in the ledger.
    Adopted,
    /// The target is not registered, and Headgate will register it.
    Registered,
    /// The target is registered, but Headgate does not want it. The target remains registered.
    LeftAlone,
    /// The target is draining.
    Drains,
    /// The pod has no registered target, and Headgate does not want to register one yet.
    NotYet,
}

/// One row of the comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The address as `ip:port`. `None`: the pod is not a target.
    pub target: Option<String>,
    /// The name of the pod. `None`: no pod of the namespace has the address.
    pub pod: Option<String>,
    /// The health state that AWS reports. `None`: the target is not registered.
    pub aws: Option<String>,
    /// The effect of the migration on the target.
    pub then: Then,
    /// The reason why Headgate wants or does not want the target.
    pub reason: String,
    /// The effect of the migration, as text.
    pub says: String,
}

/// Returns the Service port that a TargetGroupBinding names.
pub fn port_of(binding: &Binding) -> Option<&ServicePort> {
    let wanted = binding.spec.service_ref.port();
    let ports = &binding.service.as_ref()?.facts.ports;
    let by_name = ports.iter().find(|port| !port.name.is_empty() && *port.name == *wanted);
    by_name.or_else(|| ports.iter().find(|port| port.port.to_string() == wanted))
}

/// Returns the binding as Headgate will read it. `None`: Headgate would have no binding.
fn as_headgate_has_it(binding: &Binding) -> Option<CoreBinding> {
    let service = binding.service.as_ref()?;
    let port = port_of(binding)?;
    let arn = TargetGroupArn::parse(binding.arn()?).ok()?;
    let family = match &binding.group {
        Some(Ok(group)) => group.facts.ip_family,
        _ if binding.spec.is_ipv6() => IpFamily::V6,
        _ => IpFamily::V4,
    };
    let protocol = match &binding.group {
        Some(Ok(group)) => &*group.facts.protocol,
        _ => binding.spec.protocol.as_deref().unwrap_or_default(),
    };
    let origin = Origin::Service(service.facts.key.clone());
    Some(CoreBinding {
        key: BindingKey { origin, port: port.to_string().into(), group: arn.clone() },
        reference: GroupRef::Arn(arn),
        port: port.clone(),
        selector: service.facts.selector.clone().into(),
        family,
        balancer: LoadBalancerType::of(protocol),
        // The zone guard does not affect which ready pods are targets.
        least_healthy: Some(LeastHealthy::DEFAULT),
        policy: Policy::read(&service.facts.policy, Policy::default()).0,
        admits: true,
        withheld: None,
    })
}

/// Returns the registered targets. If AWS was not queried, returns the wanted targets that the leader reports. `None`:
/// unknown.
pub fn at_aws(binding: &Binding, shown: Option<&Shown>) -> Option<BTreeMap<Target, HealthState>> {
    if let Some(Ok(group)) = &binding.group {
        return Some(group.targets.clone());
    }
    let bound = bound_of(binding, shown?)?;
    let told = bound.targets.iter().filter_map(|target| {
        let (ip, port) = target.target.rsplit_once(':')?;
        let ip = ip.trim_matches(['[', ']']).parse().ok()?;
        Some((Target::new(ip, port.parse().ok()?), HealthState::parse(target.state.as_deref()?)))
    });
    Some(told.collect())
}

/// Returns the binding as the leader reports it.
pub fn bound_of<'a>(binding: &Binding, shown: &'a Shown) -> Option<&'a Bound> {
    let port = port_of(binding)?.to_string();
    let arn = binding.arn();
    let is_named = |bound: &&Bound| {
        let name = match &*bound.kind {
            "Service" => &*binding.spec.service_ref.name,
            _ => &*binding.key.name,
        };
        *bound.namespace == *binding.key.namespace && bound.name == name
    };
    let is_its = |bound: &&Bound| match arn {
        Some(arn) => bound.target_group == arn,
        None => bound.target_group.split('/').nth(1) == binding.spec.name.as_deref(),
    };
    shown.bindings.iter().find(|bound| is_named(bound) && is_its(bound) && bound.port == port)
}

/// Returns all pods of the Service, each with its wanted target or with the reason why it should not be a target.
pub fn wanted(binding: &Binding) -> Vec<(&Pod, Result<Target, Reason>)> {
    let Some(core) = as_headgate_has_it(binding) else { return Vec::new() };
    let wants = |pod: &Pod| verdict(&pod.facts, Standing::NotYet, None, &core).map_err(Reason::from);
    binding.selected().map(|pod| (pod, wants(pod))).collect()
}

/// Compares all targets. `None`: the targets in AWS are unknown.
pub fn diff(binding: &Binding, shown: Option<&Shown>) -> Option<Vec<Row>> {
    let there = at_aws(binding, shown)?;
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    for (pod, wants) in wanted(binding) {
        match wants {
            Ok(target) => {
                seen.insert(target);
                rows.push(wanted_row(pod, target, there.get(&target).copied()));
            }
            Err(reason) => {
                let its = |target: &&Target| pod.facts.ips.contains(&target.ip);
                let mut is_there = false;
                for target in there.keys().filter(its) {
                    is_there = true;
                    seen.insert(*target);
                    rows.push(unwanted_row(Some(pod), *target, there[target], reason));
                }
                if !is_there {
                    rows.push(Row {
                        target: None,
                        pod: Some(pod.facts.key.name.to_string()),
                        aws: None,
                        then: Then::NotYet,
                        reason: reason.as_str().to_owned(),
                        says: format!("Headgate does not want it ({})", reason.as_str()),
                    });
                }
            }
        }
    }
    for (target, state) in there.iter().filter(|(target, _)| !seen.contains(target)) {
        let pod = binding.pods.iter().find(|pod| pod.facts.ips.contains(&target.ip) && !pod.facts.finished);
        rows.push(unwanted_row(pod, *target, *state, Reason::NotSelected));
    }
    rows.sort_by(|one, other| (&one.target, &one.pod).cmp(&(&other.target, &other.pod)));
    Some(rows)
}

fn wanted_row(pod: &Pod, target: Target, state: Option<HealthState>) -> Row {
    let (then, says) = match state {
        None | Some(HealthState::Draining) => {
            (Then::Registered, "Headgate registers it when the pause ends".to_owned())
        }
        Some(_) => (
            Then::Adopted,
            "Headgate records it as its own when the pause ends, and registers it once more, which changes \
             nothing"
                .to_owned(),
        ),
    };
    Row {
        target: Some(target.to_string()),
        pod: Some(pod.facts.key.name.to_string()),
        aws: state.map(|state| state.as_str().to_owned()),
        then,
        reason: Reason::PodSelected.as_str().to_owned(),
        says,
    }
}

fn unwanted_row(pod: Option<&Pod>, target: Target, state: HealthState, reason: Reason) -> Row {
    let name = pod.map(|pod| pod.facts.key.name.to_string());
    let (then, reason, says) = match (&name, state) {
        (_, HealthState::Draining) => (Then::Drains, "TargetPending", "it is draining".to_owned()),
        (Some(_), _) => (
            Then::LeftAlone,
            reason.as_str(),
            "Headgate does not want it and has not registered it, so it remains; LBC would deregister it"
                .to_owned(),
        ),
        (None, _) => (
            Then::LeftAlone,
            "ForeignTarget",
            "no pod of the namespace has this address, so it remains; LBC would deregister it".to_owned(),
        ),
    };
    Row {
        target: Some(target.to_string()),
        pod: name,
        aws: Some(state.as_str().to_owned()),
        then,
        reason: reason.to_owned(),
        says,
    }
}
