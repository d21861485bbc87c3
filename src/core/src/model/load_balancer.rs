//! The kinds of load balancers.

/// The kind of load balancer that sends to the targets of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadBalancerType {
    /// A Network Load Balancer, which takes longer to stop sending. Unknown kinds count as this one.
    #[default]
    Network,
    /// An Application Load Balancer.
    Application,
}

impl LoadBalancerType {
    /// The kind that uses a target group of this protocol.
    pub fn of(protocol: &str) -> Self {
        match protocol {
            "HTTP" | "HTTPS" => Self::Application,
            _ => Self::Network,
        }
    }
}
