//! What things are called in every part of a world.

use std::net::{IpAddr, Ipv4Addr};

use headgate_core::model::{Failure, FailureClass, Target, TargetGroupArn};

/// The namespace of everything here.
pub const NAMESPACE: &str = "shop";

pub fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

/// The names of the groups.
pub const GROUPS: [&str; 3] = ["blue", "green", "red"];
/// The one that an Application Load Balancer uses.
pub const APPLICATION: &str = "red";

/// The one that asks for more than one healthy target.
pub const MANY_HEALTHY: &str = "green";

/// A target of a group.
pub type Key = (TargetGroupArn, Target);

/// Who sent something: a replica, in one of its lives.
pub type Sender = (usize, u64);

/// Nobody has answered.
pub fn no_answer() -> Failure {
    Failure::new(FailureClass::Unavailable, "Timeout", "no answer")
}

/// Kubernetes does not allow it.
pub fn forbidden() -> Failure {
    Failure::new(FailureClass::Denied, "Forbidden", "forbidden")
}

/// What it is about is not there.
pub fn gone() -> Failure {
    Failure::new(FailureClass::Gone, "NotFound", "not found")
}
