//! The readiness gate of a pod: its status, its conditions, and what to write there.

use std::{net::IpAddr, time::Duration};

use super::{Cause, GateWhenUnused, Health, Moment, ObjectKey, Origin, Target, TargetGroupArn, Uid};

/// The gate in the pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The condition in its status.
    pub shown: Shown,
    /// Whether it is open for [`Cause::HealthUnreadable`]: the pod's health is unknown.
    pub unread: bool,
    /// The annotation `headgate.dev/expected-bindings`.
    pub expected: Option<Box<str>>,
}

impl GateFacts {
    /// Reads the condition, and takes the annotation.
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

/// The condition as a pod's status has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// There is none.
    #[default]
    Missing,
    /// It is not true.
    Closed,
    /// It is not true, and was before: Headgate has closed it again.
    ClosedAgain,
    /// It is true, for this IP; `None`: without an IP, because another program has set it.
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

    /// Whether it is true for a pod with these addresses.
    pub fn is_open_for(self, ips: &[IpAddr]) -> bool {
        match self {
            Self::Missing | Self::Closed | Self::ClosedAgain => false,
            Self::Open(None) => true,
            Self::Open(Some(ip)) => ips.contains(&ip),
        }
    }
}

/// How a pod stands in a target group that it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It is not a target there (yet), for this reason.
    NoTarget(Cause),
    /// AWS has not taken its registration yet.
    Unregistered,
    /// It will not be registered: its node is being drained, and the drain tool skips it.
    LeftToItsNode,
    /// It will not be registered for now: nothing is written there.
    Paused,
    /// No read that counts has shown it. Contains how long that has been so, if AWS has answered no read since it
    /// accepted the registration.
    Unread(Option<Unread>),
    /// The result of a read that counts.
    Read(Health),
}

/// AWS has taken the registration of a pod from this leader, and no read that began since has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// When AWS has taken it.
    pub since: Moment,
    /// Whether a read that began since has failed.
    pub tried: bool,
}

/// One binding of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The target group.
    pub group: TargetGroupArn,
    /// The target, if the pod is one there.
    pub target: Option<Target>,
    /// How it stands there.
    pub stands: Stands,
    /// What counts while no listener uses the target group.
    pub when_unused: GateWhenUnused,
}

/// Something that may yet turn out to bind a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// A target group that it names has not been looked up yet.
    Pending(Origin),
    /// What is written there cannot be followed, and never could be.
    Unreadable(Origin),
    /// It may not bind the target group.
    Refused(Origin),
}

/// What is known of a pod whose gate is judged, without the gate itself.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The IP it has.
    pub ip: Option<IpAddr>,
    /// Its bindings.
    pub bound: Vec<Bound>,
    /// The annotation of the pod.
    pub expected: Option<&'a str>,
    /// Something that may yet bind it.
    pub doubt: Option<Doubt>,
    /// Its containers are ready.
    pub runs: bool,
}

/// For how long a gate waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// When a binding that is missing is given up.
    pub gives_up: Moment,
    /// It opens when the health of registered targets could not be read for this time; `None`: it does not.
    pub unread_for: Option<Duration>,
}

/// Whether a gate may be open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It may.
    pub open: bool,
    /// Why, or why not (yet).
    pub reason: Cause,
    /// A sentence for the user: the message of the condition.
    pub message: String,
    /// When to look again, if nothing happens before.
    pub look_again: Option<Moment>,
}

/// What to write into a pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its status.
    pub open: bool,
    /// Whether the status is another one than the pod shows.
    pub turns: bool,
    /// Its reason.
    pub reason: Cause,
    /// Its message.
    pub message: String,
}

/// A condition to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWrite {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it, and no other, is written to: a precondition of the request.
    pub uid: Uid,
    /// The condition.
    pub condition: Condition,
    /// Since when its reason is that.
    pub since: Moment,
}

const OPEN_FOR: &str = "pod IP ";
/// The beginning of the message of a gate that was open before: the next leader must know that.
pub(crate) const CLOSED_AGAIN: &str = "closed again";

/// The beginning of the message of an open gate, with its IP.
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
