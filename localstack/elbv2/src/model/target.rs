//! What a target is, where it is, and what the API shows of it.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What makes a target itself: the same address on another port is another target.
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

/// Where a target is.
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

    /// Whether it is, or counts as being, in a zone.
    pub fn covers(&self, zone: &str) -> bool {
        match self {
            Self::Named(own) => **own == *zone,
            Self::All => true,
        }
    }
}

/// Why a registered target is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// No listener forwards to its group.
    NoListener,
    /// Its load balancer has no node in its zone.
    ZoneNotEnabled,
    /// A load balancer has its address.
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
    /// Registered without effect.
    Unused(Unused),
    /// No node knows it yet.
    Registering,
    /// Nodes probe it and have not decided.
    Checking,
    /// Takes traffic.
    Healthy,
    /// Takes none, unless there is no healthy one.
    Unhealthy(Unhealthy),
    /// Takes no new connections; the open ones are kept.
    UnhealthyDraining(Unhealthy),
    /// Deregistered; nodes may still send.
    Draining,
}

impl State {
    /// AWS's word.
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

    /// AWS's reason code.
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

    /// AWS's text.
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
