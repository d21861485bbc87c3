//! The propagation delays of the nodes of a load balancer, and changes to them.

use serde::{Deserialize, Serialize};

use super::{BehaviourError, Range};

/// The propagation delays of the nodes of one kind of load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// From RegisterTargets to a node's first probe.
    pub registration: Range,
    /// From DeregisterTargets to the moment a node stops sending new connections.
    pub deregistration: Range,
    /// How long before (negative) or after the API shows a health change a node acts on it.
    pub health_skew: Range,
    /// From the moment the API shows a target as unhealthy until a node stops sending new connections to it, without
    /// the skew.
    pub unhealthy: Range,
    /// From CreateLoadBalancer to `active`.
    pub provisioning: Range,
}

impl Lag {
    /// Rejects invalid ranges.
    pub fn check(&self) -> Result<(), BehaviourError> {
        let own = LagPatch {
            registration: Some(self.registration),
            deregistration: Some(self.deregistration),
            health_skew: Some(self.health_skew),
            unhealthy: Some(self.unhealthy),
            provisioning: Some(self.provisioning),
        };
        own.over(*self).map(|_| ())
    }
}

/// Changes to a [`Lag`], or the delays of one target group that differ from its kind's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LagPatch {
    /// See [`Lag::registration`]. Not negative.
    pub registration: Option<Range>,
    /// See [`Lag::deregistration`]. Not negative.
    pub deregistration: Option<Range>,
    /// See [`Lag::health_skew`]. May be negative.
    pub health_skew: Option<Range>,
    /// See [`Lag::unhealthy`]. Not negative.
    pub unhealthy: Option<Range>,
    /// See [`Lag::provisioning`]. Not negative. Unused for a target group.
    pub provisioning: Option<Range>,
}

impl LagPatch {
    /// `base` with this patch applied.
    pub fn over(&self, base: Lag) -> Result<Lag, BehaviourError> {
        let pick = |name: &str, patch: Option<Range>, base: Range, least: f64| match patch {
            Some(range) => range.check(name, least).map(|()| range),
            None => Ok(base),
        };
        Ok(Lag {
            registration: pick("registration", self.registration, base.registration, 0.0)?,
            deregistration: pick("deregistration", self.deregistration, base.deregistration, 0.0)?,
            health_skew: pick("health_skew", self.health_skew, base.health_skew, -86_400.0)?,
            unhealthy: pick("unhealthy", self.unhealthy, base.unhealthy, 0.0)?,
            provisioning: pick("provisioning", self.provisioning, base.provisioning, 0.0)?,
        })
    }
}
