//! The readiness gate of a pod: its condition, the facts that decide it, and the condition to write.

use std::{net::IpAddr, time::Duration};

use super::{Cause, GateWhenUnused, Health, Moment, ObjectKey, Origin, Target, TargetGroupArn, Uid};

/// The gate in the pod's status and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The gate's condition in the pod's status.
    pub shown: Shown,
    /// Whether the gate is open although the pod's health is unknown ([`Cause::HealthUnreadable`]).
    pub unread: bool,
    /// The annotation `headgate.dev/expected-bindings`.
    pub expected: Option<Box<str>>,
}

impl GateFacts {
    /// Reads the condition and the annotation.
    pub fn read(
        status: Option<&str>,
        reason: Option<&str>,
        message: Option<&str>,
        expected: Option<Box<str>>,
    ) -> Self {
        let shown = Shown::read(status, message);
        let is_open = matches!(shown, Shown::Open(_));
        let unread = is_open && reason == Some(Cause::HealthUnreadable.reason().as_str());
        Self { shown, unread, expected }
    }
}

/// The condition in a pod's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The condition is missing.
    #[default]
    Missing,
    /// The condition is not true.
    Closed,
    /// The condition was true before, but Headgate has closed the gate again.
    ClosedAgain,
    /// The condition is true for this IP. `None`: another program has set the condition without an IP.
    Open(Option<IpAddr>),
}

impl Shown {
    /// Reads the condition.
    pub fn read(status: Option<&str>, message: Option<&str>) -> Self {
        match status {
            Some("True") => Self::Open(message.and_then(ip_in)),
            _ if message.is_some_and(|message| message.starts_with(CLOSED_AGAIN)) => Self::ClosedAgain,
            _ => Self::Closed,
        }
    }

    /// Whether the condition is true for a pod with these addresses.
    pub fn is_open_for(self, ips: &[IpAddr]) -> bool {
        match self {
            Self::Missing | Self::Closed | Self::ClosedAgain => false,
            Self::Open(None) => true,
            Self::Open(Some(ip)) => ips.contains(&ip),
        }
    }
}

/// The state of a pod in a target group of one of its bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// The pod is currently not a target, for this reason.
    NoTarget(Cause),
    /// AWS has not accepted the registration yet.
    Unregistered,
    /// The pod will not be registered, because its node is being drained and the drain tool skips the pod.
    LeftToItsNode,
    /// The pod is not registered for now, because its binding is paused.
    Paused,
    /// No valid `DescribeTargetHealth` response has listed the target. The value is set if AWS has answered no
    /// `DescribeTargetHealth` call since it accepted the registration.
    Unread(Option<Unread>),
    /// The health in the last valid `DescribeTargetHealth` response.
    Read(Health),
}

/// The state of a pod that this leader has registered, until AWS answers a later `DescribeTargetHealth` call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// When AWS accepted the registration.
    pub since: Moment,
    /// Whether a `DescribeTargetHealth` call after the registration has failed.
    pub tried: bool,
}

/// One binding of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The target group.
    pub group: TargetGroupArn,
    /// The pod's target in the target group, if any.
    pub target: Option<Target>,
    /// The state of the pod in the target group.
    pub stands: Stands,
    /// The gate's behavior while no listener uses the target group.
    pub when_unused: GateWhenUnused,
}

/// A binding that may still select a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Headgate has not looked up a target group of this object yet.
    Pending(Origin),
    /// The object is invalid and was never valid.
    Unreadable(Origin),
    /// The object is not allowed to bind its target group.
    Refused(Origin),
}

/// The facts about a pod that determine its gate, except the gate's own condition.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The IP of the pod.
    pub ip: Option<IpAddr>,
    /// The pod's bindings.
    pub bound: Vec<Bound>,
    /// The pod's annotation `headgate.dev/expected-bindings`.
    pub expected: Option<&'a str>,
    /// A binding that may still select the pod.
    pub doubt: Option<Doubt>,
    /// Whether the pod's containers are ready.
    pub runs: bool,
}

/// The timeouts of a readiness gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// When Headgate stops waiting for a missing binding.
    pub gives_up: Moment,
    /// The gate opens if AWS does not return the health of registered targets for this long. `None`: the gate remains
    /// closed.
    pub unread_for: Option<Duration>,
}

/// The decision whether a gate may be open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the gate may be open.
    pub open: bool,
    /// The reason for the decision.
    pub reason: Cause,
    /// The message of the condition, for the user.
    pub message: String,
    /// When to decide again if nothing changes.
    pub look_again: Option<Moment>,
}

/// The condition to write into a pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether the condition is true.
    pub open: bool,
    /// Whether the new status of the condition differs from its current status.
    pub turns: bool,
    /// The reason of the condition.
    pub reason: Cause,
    /// The message of the condition.
    pub message: String,
}

/// A condition to write on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWrite {
    /// The pod.
    pub pod: ObjectKey,
    /// The UID of the pod, which prevents a write to a later pod with the same name.
    pub uid: Uid,
    /// The condition.
    pub condition: Condition,
    /// When the condition got this reason.
    pub since: Moment,
}

const OPEN_FOR: &str = "pod IP ";
/// The message prefix for a gate that Headgate has closed again. The next leader reads the prefix.
pub(crate) const CLOSED_AGAIN: &str = "closed again";

/// The message prefix for an open gate, with the pod's IP.
pub(crate) fn open_for(ip: IpAddr) -> String {
    format!("{OPEN_FOR}{ip}, ")
}

pub(crate) fn ip_in(message: &str) -> Option<IpAddr> {
    message.strip_prefix(OPEN_FOR)?.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_condition_says_for_which_ip_and_one_that_somebody_else_has_set_does_not() {
        let ip: IpAddr = "fd00::7".parse().unwrap();
        let message = format!("{}every target is healthy", open_for(ip));
        let ours = Shown::read(Some("True"), Some(&message));
        assert_eq!(ours, Shown::Open(Some(ip)));
        assert!(ours.is_open_for(&[ip]) && !ours.is_open_for(&["10.0.0.1".parse().unwrap()]));
        let by_hand = Shown::read(Some("True"), Some("let it go"));
        assert_eq!(by_hand, Shown::Open(None));
        assert!(by_hand.is_open_for(&[ip]));
        for status in [None, Some("False"), Some("Unknown"), Some("true")] {
            assert_eq!(Shown::read(status, Some(&message)), Shown::Closed);
        }
    }

    #[test]
    fn a_closed_condition_says_that_it_was_open_before_and_an_open_one_that_nothing_could_be_read() {
        for said in ["closed again: the pod has another IP; why", "closed again; why (since then)"] {
            assert_eq!(Shown::read(Some("False"), Some(said)), Shown::ClosedAgain);
            assert_eq!(Shown::read(Some("True"), Some(said)), Shown::Open(None));
        }
        let unread = |status, reason| GateFacts::read(Some(status), Some(reason), Some("why"), None).unread;
        assert!(unread("True", "HealthUnread"));
        assert!(!unread("True", "TargetsHealthy") && !unread("False", "HealthUnread"));
    }
}
