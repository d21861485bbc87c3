//! What may change while the stand-in runs: the time scale, how late nodes learn, whether the API answers.
//!
//! Plain data with patches: a patch that is wrong in any part changes nothing. Durations are AWS seconds and
//! are multiplied by the time scale where they are used; API latency is real milliseconds and is not.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::Kind;

/// A uniform range `[low, high]`, in AWS seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct Range {
    /// Smallest value drawn.
    pub low: f64,
    /// Largest value drawn.
    pub high: f64,
}

impl From<(f64, f64)> for Range {
    fn from((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}

impl From<Range> for (f64, f64) {
    fn from(range: Range) -> Self {
        (range.low, range.high)
    }
}

impl Range {
    /// The value `share` (0..=1) of the way through.
    pub fn at(self, share: f64) -> f64 {
        self.low + (self.high - self.low) * share
    }

    fn check(self, name: &str, least: f64) -> Result<(), BehaviourError> {
        let Self { low, high } = self;
        if low.is_finite() && high.is_finite() && low <= high && low >= least && high <= 86_400.0 {
            Ok(())
        } else {
            Err(BehaviourError::Range { name: name.to_owned(), low, high })
        }
    }
}

/// How late the nodes of one kind of load balancer learn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lag {
    /// From RegisterTargets to a node's first probe.
    pub registration: Range,
    /// From DeregisterTargets to the moment a node stops sending new connections.
    pub deregistration: Range,
    /// By how much a node acts on a health change before (negative) or after the API shows it.
    pub health_skew: Range,
    /// From CreateLoadBalancer to `active`.
    pub provisioning: Range,
}

/// What RegisterTargets does with a target that is draining. AWS documents none of it: its ALB guide says
/// that one must wait for the deregistration delay, its NLB guide does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDraining {
    /// A new registration begins; the default of groups for Network Load Balancers.
    Revive,
    /// 200, and the target drains on.
    Ignore,
    /// ValidationError for the whole call; the default of groups for Application Load Balancers.
    Reject,
}

/// Run-time behaviour; `GET /settings` shows it, `PATCH /settings` changes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Behaviour {
    /// Real seconds per AWS second. A change concerns what is drawn from then on.
    pub time_scale: f64,
    /// Network Load Balancers.
    pub network: Lag,
    /// Application Load Balancers.
    pub application: Lag,
    /// False closes the AWS API's listening socket; everything else goes on.
    pub api_available: bool,
    /// Real milliseconds added to each API answer, drawn per call.
    pub api_latency_ms: Range,
}

impl Behaviour {
    /// The published and measured defaults of real load balancers.
    pub fn new(time_scale: f64) -> Self {
        let lag = |registration, deregistration, skew: f64, provisioning| Lag {
            registration: Range::from(registration),
            deregistration: Range::from(deregistration),
            health_skew: Range { low: -skew, high: skew },
            provisioning: Range::from(provisioning),
        };
        Self {
            time_scale,
            network: lag((30.0, 90.0), (10.0, 120.0), 5.0, (60.0, 120.0)),
            application: lag((1.0, 5.0), (1.0, 20.0), 1.0, (60.0, 120.0)),
            api_available: true,
            api_latency_ms: Range { low: 0.0, high: 0.0 },
        }
    }

    /// The lag of one kind.
    pub fn lag(&self, kind: Kind) -> Lag {
        match kind {
            Kind::Network => self.network,
            Kind::Application => self.application,
        }
    }

    /// AWS seconds as real time; negative becomes zero.
    pub fn scaled(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64((seconds * self.time_scale).max(0.0)).unwrap_or_default()
    }

    /// A time-out in AWS seconds as real time, never below one real second: a machine does not get faster
    /// because the clock does.
    pub fn time_out(&self, seconds: f64) -> Duration {
        self.scaled(seconds).max(Duration::from_secs(1))
    }

    /// This behaviour with a patch applied.
    pub fn patched(&self, patch: &BehaviourPatch) -> Result<Self, BehaviourError> {
        let mut next = self.clone();
        if let Some(scale) = patch.time_scale {
            check_scale(scale)?;
            next.time_scale = scale;
        }
        if let Some(lag) = &patch.network {
            next.network = lag.over(self.network)?;
        }
        if let Some(lag) = &patch.application {
            next.application = lag.over(self.application)?;
        }
        if let Some(available) = patch.api_available {
            next.api_available = available;
        }
        if let Some(latency) = patch.api_latency_ms {
            latency.check("api_latency_ms", 0.0)?;
            next.api_latency_ms = latency;
        }
        Ok(next)
    }
}

/// Refuses a time scale that would stop time or turn it round.
pub fn check_scale(scale: f64) -> Result<(), BehaviourError> {
    if scale.is_finite() && (0.000_1..=100.0).contains(&scale) {
        Ok(())
    } else {
        Err(BehaviourError::TimeScale(scale))
    }
}

/// Changes to [`Behaviour`]; what is absent stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BehaviourPatch {
    /// See [`Behaviour::time_scale`]; 0.0001 to 100.
    pub time_scale: Option<f64>,
    /// See [`Behaviour::network`].
    pub network: Option<LagPatch>,
    /// See [`Behaviour::application`].
    pub application: Option<LagPatch>,
    /// See [`Behaviour::api_available`].
    pub api_available: Option<bool>,
    /// See [`Behaviour::api_latency_ms`].
    pub api_latency_ms: Option<Range>,
}

/// Changes to a [`Lag`], or one target group's deviation from its kind's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LagPatch {
    /// See [`Lag::registration`]; not negative.
    pub registration: Option<Range>,
    /// See [`Lag::deregistration`]; not negative.
    pub deregistration: Option<Range>,
    /// See [`Lag::health_skew`]; may be negative.
    pub health_skew: Option<Range>,
    /// See [`Lag::provisioning`]; not negative, without meaning for a target group.
    pub provisioning: Option<Range>,
}

impl LagPatch {
    /// `base` with this patch over it.
    pub fn over(&self, base: Lag) -> Result<Lag, BehaviourError> {
        let pick = |name: &str, patch: Option<Range>, base: Range, least: f64| match patch {
            Some(range) => range.check(name, least).map(|()| range),
            None => Ok(base),
        };
        Ok(Lag {
            registration: pick("registration", self.registration, base.registration, 0.0)?,
            deregistration: pick("deregistration", self.deregistration, base.deregistration, 0.0)?,
            health_skew: pick("health_skew", self.health_skew, base.health_skew, -86_400.0)?,
            provisioning: pick("provisioning", self.provisioning, base.provisioning, 0.0)?,
        })
    }
}

/// A change that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BehaviourError {
    /// Bounds swapped, negative, not finite or longer than a day.
    #[error("{name}: [{low}, {high}] is not a range; give [low, high] with low <= high, within a day")]
    Range {
        /// The key in the patch.
        name: String,
        /// Lower bound given.
        low: f64,
        /// Upper bound given.
        high: f64,
    },
    /// Zero, negative, not finite or absurd.
    #[error("time_scale: {0} is not usable; give real seconds per AWS second between 0.0001 and 100")]
    TimeScale(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_only_what_it_names() {
        let before = Behaviour::new(0.05);
        let patch: BehaviourPatch =
            serde_json::from_str(r#"{"network":{"registration":[1,2]},"api_available":false}"#).unwrap();
        let after = before.patched(&patch).unwrap();
        assert_eq!(after.network.registration, Range { low: 1.0, high: 2.0 });
        assert_eq!(after.network.deregistration, before.network.deregistration);
        assert!(!after.api_available);
        assert_eq!(after.application, before.application);
    }

    #[test]
    fn a_range_with_swapped_bounds_is_refused_and_named() {
        let patch: BehaviourPatch =
            serde_json::from_str(r#"{"application":{"deregistration":[20,1]}}"#).unwrap();
        let error = Behaviour::new(1.0).patched(&patch).unwrap_err();
        assert!(error.to_string().starts_with("deregistration"));
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(serde_json::from_str::<BehaviourPatch>(r#"{"speed":2}"#).is_err());
    }

    #[test]
    fn a_time_out_never_falls_below_one_real_second() {
        assert_eq!(Behaviour::new(0.01).time_out(6.0), Duration::from_secs(1));
        assert_eq!(Behaviour::new(1.0).time_out(6.0), Duration::from_secs(6));
    }
}
