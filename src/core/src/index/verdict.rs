//! The rule that decides whether a pod should be a target. The rule is pure, and returns a reason for each pod and
//! binding.
//!
//! The planner uses [`verdict`], and so does every explanation of why a pod is not a target.

use crate::model::{
    Binding, Cause, PodFacts, RegisterWhen, Standing, Target, TargetPort, WhenNotReady, limits,
};

/// Returns the target that `pod` should be for `binding`.
///
/// Headgate registers a pod as soon as the pod has an IP, even before the pod is ready. A Service can require readiness
/// with `register-when`, which applies only to pods that are not targets yet. The load balancer's health check decides
/// when the load balancer sends requests.
///
/// A pod that `had` this target keeps the target while the pod is not ready, unless the Service requests its removal. A
/// terminating or terminated pod is never a target, because another pod may already have its IP.
///
/// # Errors
/// Returns the reason why the pod should not be a target at present.
pub fn verdict(
    pod: &PodFacts,
    standing: Standing,
    had: Option<Target>,
    binding: &Binding,
) -> Result<Target, Cause> {
    if let Some(cause) = pod.goes() {
        return Err(cause);
    }
    if !binding.selector.selects(&pod.labels) {
        let unread = pod.beyond.iter().any(|excess| *excess.limit == limits::POD_LABELS);
        return Err(if unread { Cause::LimitExceeded } else { Cause::NotSelected });
    }
    let port = match &binding.port.target_port {
        TargetPort::Number(number) => *number,
        TargetPort::Name(name) => pod.port_named(name, binding.port.protocol).ok_or(Cause::NoSuchPort)?,
    };
    if pod.ips.is_empty() {
        return Err(Cause::NoIp);
    }
    let ip = pod.ips.iter().find(|ip| binding.family.has(ip)).ok_or(Cause::WrongIpFamily)?;
    let deregisters = binding.policy.when_not_ready == WhenNotReady::Deregister;
    if deregisters && standing == Standing::Lost {
        return Err(Cause::NotReady);
    }
    let ready_enough = match binding.register_when() {
        RegisterWhen::Ready => pod.readiness.is_ready(),
        RegisterWhen::ContainersReady => pod.readiness.containers,
        RegisterWhen::Ip | RegisterWhen::Auto => true,
    };
    let target = Target::new(*ip, port);
    if binding.withheld.as_ref().is_some_and(|withheld| !withheld.stay.contains(&target)) {
        return Err(Cause::NotGranted);
    }
    if !binding.admits && had != Some(target) {
        return Err(Cause::NoSelector);
    }
    if ready_enough || had == Some(target) { Ok(target) } else { Err(Cause::NotReadyYet) }
}
