//! A target of a load balancer.

use std::{fmt, net::IpAddr};

/// An IP and a port within a target group.
///
/// AWS identifies a registration by its IP and port (ELBv2 API): "You can register each EC2 instance or IP address with
/// the same target group multiple times using different ports". Headgate always sends the port. If a target overrides
/// the group's port, `DeregisterTargets` without the port succeeds but has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The pod's address.
    pub ip: IpAddr,
    /// The port that the pod listens on, 1–65535.
    pub port: u16,
}

impl Target {
    /// The target `ip`:`port`.
    pub const fn new(ip: IpAddr, port: u16) -> Self {
        Self { ip, port }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}
