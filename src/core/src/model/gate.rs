//! What the status of a pod says of its readiness gate.

use std::net::IpAddr;

/// What a pod says of its own gate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateFacts {
    /// The condition in its status.
    pub shown: Shown,
    /// The annotation `headgate.dev/expected-bindings`.
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
}
