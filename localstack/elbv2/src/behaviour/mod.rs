//! Settings that may change while the stand-in runs, for example the time scale, propagation delays, and whether the
//! API answers.
//!
//! Plain data with patches. A patch with any invalid part changes nothing. Durations are AWS seconds, multiplied by the
//! time scale where they are used. API latency and throttling are in real time.

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
    /// The value at the fraction `share` (0..=1) of the range.
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

/// What RegisterTargets does with a draining target. AWS does not document it fully: its ALB guide requires a wait for
/// the deregistration delay, its NLB guide does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDraining {
    /// A new registration begins. Default for target groups of Network Load Balancers.
    Revive,
    /// The call succeeds and the target continues to drain.
    Ignore,
    /// ValidationError for the whole call. Default for target groups of Application Load Balancers.
    Reject,
}

/// What a node does with the flows of a target whose address is registered again. With a real load balancer, the
/// packets of an old flow reach the current owner of the address. A new owner resets flows that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnReuse {
    /// Flows continue, because the address still belongs to the same program. Default.
    Keep,
    /// Flows of the earlier registration are reset when the node learns of the new one.
    Reset,
}

/// What a call does when AWS rejects one of its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batches {
    /// None of the targets is registered or deregistered. The default.
    Whole,
    /// The other targets are registered or deregistered, and the call fails.
    Partial,
}

/// Which signatures calls need. Only the form and the scope are checked; the signature itself is never verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Signatures {
    /// No signature.
    Ignored,
    /// A signature must be well-formed and for this region and service, if there is one. Default.
    IfPresent,
    /// Like `IfPresent`, and a call without a signature is rejected.
    Required,
}

/// Run-time behaviour; `GET /settings` shows it, `PATCH /settings` changes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// The last chosen profile, if any.
    pub profile: Option<Profile>,
    /// Real seconds per AWS second. A change affects only values that are drawn later.
    pub time_scale: f64,
    /// Network Load Balancers.
    pub network: Lag,
    /// Application Load Balancers.
    pub application: Lag,
    /// False closes the listening socket of the AWS API. Everything else continues.
    pub api_available: bool,
    /// Real milliseconds added to each API answer, drawn per call.
    pub api_latency_ms: Range,
    /// What a call does when one of its targets is rejected.
    pub batches: Batches,
    /// Rate limits of calls. `None`: no limits.
    pub throttling: Option<Throttling>,
    /// Limits of the number of targets. `None`: no limits.
    pub quotas: Option<Quotas>,
    /// Which signatures calls need.
    pub signatures: Signatures,
    /// The actions that an access key may call, such as `Describe*`. A key that is not listed may call all.
    pub permissions: BTreeMap<String, Vec<String>>,
    /// Whether DescribeTargetHealth returns `no_override` for targets without a zonal shift.
    pub no_override_shown: bool,
    /// The faults of calls, in this order.
    pub faults: Vec<Fault>,
}

impl Behaviour {
    /// The published and measured delays of real load balancers, without limits and faults.
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

    /// The delays of one kind.
    pub fn lag(&self, kind: Kind) -> Lag {
        match kind {
            Kind::Network => self.network,
            Kind::Application => self.application,
        }
    }

    /// AWS seconds as real time. Negative values become zero.
    pub fn scaled(&self, seconds: f64) -> Duration {
        Duration::try_from_secs_f64((seconds * self.time_scale).max(0.0)).unwrap_or_default()
    }

    /// A timeout in AWS seconds as real time, at least one real second, because the machine is not faster with a faster
    /// clock.
    pub fn time_out(&self, seconds: f64) -> Duration {
        self.scaled(seconds).max(Duration::from_secs(1))
    }

    /// This behavior with a patch applied (RFC 7396: objects merge, null removes, lists are replaced). If the patch
    /// names a profile, the profile is applied first.
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

/// Merges as in RFC 7396.
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
    /// Bounds are swapped, negative, not finite or longer than a day.
    #[error("{name}: [{low}, {high}] is not a range; give [low, high] with low <= high, within a day")]
    Range {
        /// The key in the patch.
        name: String,
        /// Lower bound given.
        low: f64,
        /// Upper bound given.
        high: f64,
    },
    /// Zero, negative, not finite or too large.
    #[error("time_scale: {0} is not usable; give real seconds per AWS second between 0.0001 and 100")]
    TimeScale(f64),
    /// A rate that is not a number or would never let a call through.
    #[error("throttling: give a burst of at least 1 and calls per second above 0")]
    Bucket,
    /// Not within 0 and 1.
    #[error("faults: the probability {0} is not between 0 and 1")]
    Probability(f64),
    /// The patch does not match the settings.
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
