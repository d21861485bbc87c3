//! The readiness gate: a pod counts as ready only once the load balancer says that it is healthy.
//!
//! ONE condition, [`OWN_GATE`](crate::readiness::OWN_GATE), for all bindings of a pod. It belongs to the pod's UID and
//! IP, and to the registration that was made from here for the two:
//!
//! * It is true when every target of the pod is healthy in a read that began after its own registration had been
//!   answered, see [`Registrations::is_told_by`](crate::registration::Registrations::is_told_by).
//! * It is false again only when the pod gets another IP, or when Headgate registers a target again that it had taken
//!   out itself, before it does so; never because the load balancer has come to call the pod unhealthy, nor because a
//!   Service was changed: either could take all pods of a Service out of service at once.
//! * Without a binding it opens when all watches have listed, and some time after the pod was first seen and the
//!   bindings of its namespace changed last.
//! * It is left alone in a namespace that is not selected, which may be another installation's; a pod that waited there
//!   while the namespace was selected is seen to all the same.
//!
//! Nothing is remembered across a restart but what the condition itself says, and the ledger of what was taken out: any
//! other pod whose gate is open for the IP it has is left alone, and every one whose gate is closed is judged anew. Who
//! leads writes, oldest first, a few at a time; one pod that cannot be written to holds up no other.
//!
//! ```text
//!  expected  what the webhook expected, as it is written on a pod
//!  judge     may it open? the one rule, with its reason and a sentence
//!  waiting   the pods whose gate is not as it should be, and what is written to them when
//! ```

mod expected;
mod judge;
mod waiting;

use std::net::IpAddr;

pub use expected::{BadExpected, EXPECTED_BINDINGS, Expected};
pub use judge::{Bound, Case, Doubt, Stands, Verdict, judge};
pub use waiting::{Gates, Waiting, Written};

use crate::{
    input::CallId,
    object::{ObjectKey, Uid},
    reason::Reason,
    time::Moment,
};

/// What a pod says of its own gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The condition in its status.
    pub shown: Shown,
    /// The annotation [`EXPECTED_BINDINGS`].
    pub expected: Option<Box<str>>,
}

/// The condition as a pod's status has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// There is none.
    #[default]
    Missing,
    /// It is not true.
    Closed,
    /// It is true, for this IP; `None`: it does not say, because somebody else has set it.
    Open(Option<IpAddr>),
}

impl Shown {
    /// Reads the condition.
    pub fn read(status: Option<&str>, message: Option<&str>) -> Self {
        match status {
            Some("True") => Self::Open(message.and_then(ip_in)),
            _ => Self::Closed,
        }
    }

    /// Whether it is true for a pod with these addresses.
    pub fn is_open_for(self, ips: &[IpAddr]) -> bool {
        match self {
            Self::Missing | Self::Closed => false,
            Self::Open(None) => true,
            Self::Open(Some(ip)) => ips.contains(&ip),
        }
    }
}

const OPEN_FOR: &str = "pod IP ";

/// The beginning of the message of an open gate, which says for which IP it is.
fn open_for(ip: IpAddr) -> String {
    format!("{OPEN_FOR}{ip}, ")
}

pub(crate) fn ip_in(message: &str) -> Option<IpAddr> {
    message.strip_prefix(OPEN_FOR)?.split(',').next()?.parse().ok()
}

/// What is to be written into a pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its status.
    pub open: bool,
    /// Whether the status is another one than the pod shows.
    pub turns: bool,
    /// Its reason.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

/// A condition that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateWrite {
    /// To be given back with the answer.
    pub id: CallId,
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it, and no other, is written to: a precondition of the request.
    pub uid: Uid,
    /// The condition.
    pub condition: Condition,
    /// Since when its reason is that.
    pub since: Moment,
}

/// Why a condition could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateFailure {
    /// The pod is gone, or another one has its name.
    Gone,
    /// Kubernetes does not allow it.
    Denied(Box<str>),
    /// No answer, or none that helps.
    Unavailable(Box<str>),
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
}
