//! Settings that can change while the stand-in runs, such as the time scale, the propagation delays, and whether the
//! API answers.
//!
//! The settings are plain data with patches. A patch with an invalid part changes nothing. Durations are AWS seconds,
//! and the code that uses a duration multiplies it by the time scale. API latency and throttling are in real time.

mod fault;
mod lag;
mod limits;
mod profile;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kind::Kind;

pub use fault::{Effect, Fault, is_like};
pub use lag::{Lag, LagPatch};
pub use limits::{Bucket, Quotas, Throttling};
pub use profile::Profile;

/// A range `[low, high]` of AWS seconds, from which values are drawn uniformly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct Range {
    /// The smallest value.
    pub low: f64,
    /// The largest value.
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
    /// Returns the value at the fraction `share` of the range. `share` is between 0 and 1.
    pub fn at(self, share: f64) -> f64 {
        self.low + (self.high - self.low) * share
    }

    pub(crate) fn check(self, name: &str, least: f64) -> Result<(), BehaviourError> {
        let Self { low, high } = self;
        if low.is_finite() && high.is_finite() && low <= high && low >= least && high <= 86_400.0 {
            Ok(())
        } else {
            Err(BehaviourError::Range { name: name.to_owned(), low, high })
        }
    }
}

/// The effect of RegisterTargets on a draining target. The ALB guide of AWS requires a wait for the deregistration
/// delay, but the NLB guide does not. AWS does not document the effect completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDraining {
    /// A new registration begins. The default for target groups of Network Load Balancers.
    Revive,
    /// The call succeeds, and the target continues to drain.
    Ignore,
    /// The whole call fails with a ValidationError. The default for target groups of Application Load Balancers.
    Reject,
}

/// The effect of a repeated registration of an address on open flows. With a real load balancer, the packets of an old
/// flow reach the current owner of the address. A new owner resets unknown flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnReuse {
    /// Flows continue, because the address still belongs to the same program. This is the default.
    Keep,
    /// A node resets the flows of the earlier registration when the node learns of the new registration.
    Reset,
}

/// The effect of a call in which AWS rejects one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batches {
    /// The call registers or deregisters no target. This is the default.
    Whole,
    /// The call registers or deregisters all other targets, and fails.
    Partial,
}

/// Which signatures calls need. The stand-in checks only the form and the scope of a signature. The signature itself is
/// never verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signatures {
    /// Calls need no signature.
    Ignored,
    /// Calls need no signature, but a signature must be well-formed and match this region and service. This is the
    /// default.
    IfPresent,
    /// Every call needs a well-formed signature for this region and service.
    Required,
}

/// The behavior at run time. `GET /settings` returns the behavior, and `PATCH /settings` changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// The profile that was set last. `None`: no profile was set.
    pub profile: Option<Profile>,
    /// Real seconds per AWS second. A change affects only values that are drawn later.
    pub time_scale: f64,
    /// The propagation delays of Network Load Balancers.
    pub network: Lag,
    /// The propagation delays of Application Load Balancers.
    pub application: Lag,
    /// Whether the socket of the AWS API is open. All other functions continue while the socket is closed.
    pub api_available: bool,
    /// The latency of API answers in real milliseconds, drawn per call.
    pub api_latency_ms: Range,
    /// The effect of a call in which one target is rejected.
    pub batches: Batches,
    /// The rate limits of calls. `None`: unlimited.
    pub throttling: Option<Throttling>,
    /// The quotas. `None`: unlimited.
    pub quotas: Option<Quotas>,
    /// Which signatures calls need.
    pub signatures: Signatures,
    /// The actions that an access key may call, such as `Describe*`. An access key that is not listed may call all
    /// actions.
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Whether DescribeTargetHealth returns `no_override` for targets without a zonal shift.
    pub no_override_shown: bool,
    /// The faults of calls. Earlier faults are applied first.
    pub faults: Vec<Fault>,
}

impl Behaviour {
    /// Creates the default behavior: the published and measured delays of AWS load balancers, without limits and
    /// faults.
    pub fn new(time_scale: f64) -> Self {
        Self {
            profile: None,
            time_scale,
            network: Profile::TypicalNlb.lag(),
            application: Profile::TypicalAlb.lag(),
            api_available: true,
            api_latency_ms: Range { low: 0.0, high: 0.0 },
            batches: Batches::Whole,
            throttling: None,
            quotas: None,
            signatures: Signatures::IfPresent,
            permissions: BTreeMap::new(),
            no_override_shown: false,
            faults: Vec::new(),
        }
    }

    /// Returns the propagation delays of one kind of load balancer.
    pub fn lag(&self, kind: Kind) -> Lag {
        match kind {
            Kind::Network => self.network,
            Kind::Application => self.application,
        }
    }

    /// Converts AWS seconds to real time. Negative values become zero.
    pub fn scaled(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64((seconds * self.time_scale).max(0.0)).unwrap_or_default()
    }

    /// Converts a timeout in AWS seconds to real time. The result is at least one real second, because a smaller time
    /// scale does not make the machine faster.
    pub fn time_out(&self, seconds: f64) -> Duration {
        self.scaled(seconds).max(Duration::from_secs(1))
    }

    /// Returns the behavior with a patch applied (RFC 7396): objects are merged, null removes a key, and lists are
    /// replaced. If the patch names a profile, the profile is applied first.
    pub fn patched(&self, patch: &Value) -> Result<Self, BehaviourError> {
        let mut base = self.clone();
        if let Some(profile) = patch.get("profile").filter(|profile| !profile.is_null()) {
            Profile::deserialize(profile)?.apply(&mut base);
        }
        let mut merged = serde_json::to_value(base)?;
        merge(&mut merged, patch);
        let next: Self = serde_json::from_value(merged)?;
        next.check()?;
        Ok(next)
    }

    fn check(&self) -> Result<(), BehaviourError> {
        check_scale(self.time_scale)?;
        self.network.check()?;
        self.application.check()?;
        self.api_latency_ms.check("api_latency_ms", 0.0)?;
        if let Some(throttling) = &self.throttling {
            throttling.check()?;
        }
        self.faults.iter().try_for_each(Fault::check)
    }
}

/// Merges a patch as in RFC 7396.
fn merge(base: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        base.clone_from(patch);
        return;
    };
    if !base.is_object() {
        *base = Value::Object(serde_json::Map::new());
    }
    let Some(fields) = base.as_object_mut() else { return };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// Rejects a time scale that would stop or reverse time.
pub fn check_scale(scale: f64) -> Result<(), BehaviourError> {
    if scale.is_finite() && (0.000_1..=100.0).contains(&scale) {
        Ok(())
    } else {
        Err(BehaviourError::TimeScale(scale))
    }
}

/// An invalid change.
#[derive(Debug, thiserror::Error)]
pub enum BehaviourError {
    /// The range is swapped, negative, not finite, or longer than a day.
    #[error("{name}: [{low}, {high}] is not a range; give [low, high] with low <= high, within a day")]
    Range {
        /// The key in the patch.
        name: String,
        /// The lower end in the patch.
        low: f64,
        /// The upper end in the patch.
        high: f64,
    },
    /// The time scale is zero, negative, not finite or too large.
    #[error("time_scale: {0} is not usable; give real seconds per AWS second between 0.0001 and 100")]
    TimeScale(f64),
    /// The rate is not a number, or would reject every call.
    #[error("throttling: give a burst of at least 1 and calls per second above 0")]
    Bucket,
    /// The probability is not between 0 and 1.
    #[error("faults: the probability {0} is not between 0 and 1")]
    Probability(f64),
    /// The patch does not match the structure of the settings.
    #[error("{0}")]
    Shape(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_changes_only_what_it_names() {
        let before = Behaviour::new(0.05);
        let after =
            before.patched(&json!({"network": {"registration": [1, 2]}, "api_available": false})).unwrap();
        assert_eq!(after.network.registration, Range { low: 1.0, high: 2.0 });
        assert_eq!(after.network.deregistration, before.network.deregistration);
        assert!(!after.api_available);
        assert_eq!(after.application, before.application);
    }

    #[test]
    fn a_range_with_swapped_bounds_is_refused_and_named() {
        let patch = json!({"application": {"deregistration": [20, 1]}});
        let error = Behaviour::new(1.0).patched(&patch).unwrap_err();
        assert!(error.to_string().starts_with("deregistration"));
    }

    #[test]
    fn an_unknown_key_is_refused() {
        for patch in [json!({"speed": 2}), json!({"network": {"speed": [1, 2]}}), json!(3)] {
            assert!(Behaviour::new(1.0).patched(&patch).is_err(), "{patch}");
        }
    }

    #[test]
    fn null_takes_a_limit_away() {
        let limited = Behaviour::new(1.0).patched(&json!({"profile": "typical-nlb"})).unwrap();
        assert!(limited.throttling.is_some());
        assert_eq!(limited.patched(&json!({"throttling": null})).unwrap().throttling, None);
    }

    #[test]
    fn a_time_out_never_falls_below_one_real_second() {
        assert_eq!(Behaviour::new(0.01).time_out(6.0), Duration::from_secs(1));
        assert_eq!(Behaviour::new(1.0).time_out(6.0), Duration::from_secs(6));
    }
}
