//! The key, zone and state of a target.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The key of a target. The same address with another port is another target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    /// Its address.
    pub ip: IpAddr,
    /// Its port.
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
    /// In one zone.
    Named(Arc<str>),
    /// Outside the VPC, reachable from all zones.
    All,
}

impl Zone {
    /// As the API shows it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(zone) => zone,
            Self::All => "all",
        }
    }

    /// Whether the target is in a zone, or counts as such.
    pub fn covers(&self, zone: &str) -> bool {
        match self {
            Self::Named(own) => **own == *zone,
            Self::All => true,
        }
    }
}

/// Why no node uses a registered target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// No listener forwards to its group.
    NoListener,
    /// The load balancer has no node in its zone.
    ZoneNotEnabled,
    /// Its address belongs to a load balancer.
    IpUnusable,
}

/// Why a target is unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unhealthy {
    /// An answer with a status that does not match.
    Status(u16),
    /// No answer in time.
    Timeout,
    /// No connection, or a broken one.
    Failed,
}

/// What the API shows for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Registered, but not used.
    Unused(Unused),
    /// No node knows it yet.
    Registering,
    /// Nodes probe it and have not decided yet.
    Checking,
    /// It gets traffic.
    Healthy,
    /// It gets no traffic, unless there is no healthy target.
    Unhealthy(Unhealthy),
    /// It gets no new connections. Open ones continue.
    UnhealthyDraining(Unhealthy),
    /// Deregistered. Nodes may still send to it.
    Draining,
}

impl State {
    /// The name in the AWS API.
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

    /// The reason code in the AWS API.
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

    /// The description in the AWS API.
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
