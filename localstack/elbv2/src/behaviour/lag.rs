//! The propagation delays of load balancer nodes, and patches for them.

use serde::{Deserialize, Serialize};

use super::{BehaviourError, Range};

/// The propagation delays of one kind of load balancer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// The delay from RegisterTargets to the first probe of a node.
    pub registration: Range,
    /// The delay from DeregisterTargets until a node stops sending new connections.
    pub deregistration: Range,
    /// The delay from a health change in the API until a node acts on the change. A negative value means that the node
    /// acts first.
    pub health_skew: Range,
    /// The additional delay until a node stops sending new connections to a target that the API shows as unhealthy.
    /// Does not include the health skew.
    pub unhealthy: Range,
    /// The delay from CreateLoadBalancer to the state `active`.
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

/// A patch of a [`Lag`], or the delays of one target group that differ from the delays of its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LagPatch {
    /// See [`Lag::registration`]. Must not be negative.
    pub registration: Option<Range>,
    /// See [`Lag::deregistration`]. Must not be negative.
    pub deregistration: Option<Range>,
    /// See [`Lag::health_skew`]. Can be negative.
    pub health_skew: Option<Range>,
    /// See [`Lag::unhealthy`]. Must not be negative.
    pub unhealthy: Option<Range>,
    /// See [`Lag::provisioning`]. Must not be negative. Has no effect on a target group.
    pub provisioning: Option<Range>,
}

impl LagPatch {
    /// Returns `base` with this patch applied.
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
