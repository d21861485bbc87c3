//! The types of load balancers.

/// The type of the load balancer that sends requests to the targets of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadBalancerType {
    /// A Network Load Balancer, which takes longer to stop sending requests. An unknown type counts as a Network Load
    /// Balancer.
    #[default]
    Network,
    /// An Application Load Balancer.
    Application,
}

impl LoadBalancerType {
    /// The type of the load balancer that can use a target group with this protocol.
    pub fn of(protocol: &str) -> Self {
        match protocol {
            "HTTP" | "HTTPS" => Self::Application,
            _ => Self::Network,
        }
    }
}
