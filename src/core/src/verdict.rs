//! The one rule that says whether a pod should be a target: pure, per pod and binding, with a reason.
//!
//! The planner and every answer to "why is this pod not a target?" go through [`verdict`].

use crate::{
    binding::Binding,
    planted::{Bug, planted},
    pod::PodFacts,
    reason::Reason,
    service::TargetPort,
    target::Target,
};

/// The target that `pod` should be for `binding`.
///
/// Registration happens on the IP, before the pod is ready: the load balancer's own check decides when traffic
/// comes. A pod that is terminating or finished is never a target, whatever its status says: an ended pod's
/// status still carries its IP, which may be another pod's by now.
///
/// # Errors
/// The reason why it should not be a target (now).
pub fn verdict(pod: &PodFacts, binding: &Binding) -> Result<Target, Reason> {
    if pod.terminating && !planted(Bug::TerminatingStaysTarget) {
        return Err(Reason::PodTerminating);
    }
    if pod.finished && !planted(Bug::FinishedStaysTarget) {
        return Err(Reason::PodFinished);
    }
    if !binding.selector.selects(&pod.labels) {
        return Err(Reason::NotSelected);
    }
    let port = match &binding.port.target_port {
        TargetPort::Number(number) => *number,
        TargetPort::Name(name) => pod.port_named(name, binding.port.protocol).ok_or(Reason::NoSuchPort)?,
    };
    if pod.ips.is_empty() {
        return Err(Reason::NoIp);
    }
    let ip = pod.ips.iter().find(|ip| binding.family.has(ip)).ok_or(Reason::WrongIpFamily)?;
    Ok(Target::new(*ip, port))
}
