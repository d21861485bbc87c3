//! The key, zone and state of a target.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The key of a target. The same address with another port is another target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    pub ip: IpAddr,
    pub port: u16,
}

impl From<TargetKey> for SocketAddr {
    fn from(key: TargetKey) -> Self {
        Self::new(key.ip, key.port)
    }
}

/// The zone of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// The target is in this zone.
    Named(Arc<str>),
    /// The target is outside the VPC, and all zones can reach it.
    All,
}

impl Zone {
    /// Returns the zone as the API shows it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(zone) => zone,
            Self::All => "all",
        }
    }

    /// Returns whether the target is in a zone. A target outside the VPC counts as in every zone.
    pub fn covers(&self, zone: &str) -> bool {
        match self {
            Self::Named(own) => **own == *zone,
            Self::All => true,
        }
    }
}

/// The reason why no node uses a registered target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// No listener forwards to the target group.
    NoListener,
    /// The load balancer has no node in the zone of the target.
    ZoneNotEnabled,
    /// The address belongs to a load balancer.
    IpUnusable,
}

/// The reason why a target is unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unhealthy {
    /// The target answered with a status that does not match.
    Status(u16),
    /// The target did not answer in time.
    Timeout,
    /// The node could not connect, or the connection broke.
    Failed,
}

/// The state that the API shows for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The target is registered, but no node uses it.
    Unused(Unused),
    /// No node has learned of the target yet.
    Registering,
    /// Nodes probe the target, but have not decided yet.
    Checking,
    /// Nodes send to the target.
    Healthy,
    /// Nodes do not send to the target, unless they fail open.
    Unhealthy(Unhealthy),
    /// Nodes send no new connections to the target. Open connections continue.
    UnhealthyDraining(Unhealthy),
    /// The target is deregistered, but nodes may still send to it.
    Draining,
}

impl State {
    /// Returns the name in the AWS API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unused(_) => "unused",
            Self::Registering | Self::Checking => "initial",
            Self::Healthy => "healthy",
            Self::Unhealthy(_) => "unhealthy",
            Self::UnhealthyDraining(_) => "unhealthy.draining",
            Self::Draining => "draining",
        }
    }

    /// Returns the reason code in the AWS API.
    pub fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::Unused(Unused::IpUnusable) => "Target.IpUnusable",
            Self::Unused(_) => "Target.NotInUse",
            Self::Registering => "Elb.RegistrationInProgress",
            Self::Checking => "Elb.InitialHealthChecking",
            Self::Healthy => return None,
            Self::Unhealthy(Unhealthy::Status(_)) | Self::UnhealthyDraining(Unhealthy::Status(_)) => {
                "Target.ResponseCodeMismatch"
            }
            Self::Unhealthy(Unhealthy::Timeout) | Self::UnhealthyDraining(Unhealthy::Timeout) => {
                "Target.Timeout"
            }
            Self::Unhealthy(Unhealthy::Failed) | Self::UnhealthyDraining(Unhealthy::Failed) => {
                "Target.FailedHealthChecks"
            }
            Self::Draining => "Target.DeregistrationInProgress",
        })
    }

    /// Returns the description in the AWS API.
    pub fn description(self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Self::Unused(Unused::NoListener) => {
                "Target group is not configured to receive traffic from the load balancer"
            }
            Self::Unused(Unused::ZoneNotEnabled) => {
                "Target is in an Availability Zone that is not enabled for the load balancer"
            }
            Self::Unused(Unused::IpUnusable) => {
                "The target IP address is reserved for use by a load balancer"
            }
            Self::Registering => "Target registration is in progress",
            Self::Checking => "Initial health checks in progress",
            Self::Healthy => return None,
            Self::Unhealthy(Unhealthy::Status(code)) | Self::UnhealthyDraining(Unhealthy::Status(code)) => {
                return Some(Cow::Owned(format!("Health checks failed with these codes: [{code}]")));
            }
            Self::Unhealthy(Unhealthy::Timeout) | Self::UnhealthyDraining(Unhealthy::Timeout) => {
                "Request timed out"
            }
            Self::Unhealthy(Unhealthy::Failed) | Self::UnhealthyDraining(Unhealthy::Failed) => {
                "Health checks failed"
            }
            Self::Draining => "Target deregistration is in progress",
        }))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "{}/{reason}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}
