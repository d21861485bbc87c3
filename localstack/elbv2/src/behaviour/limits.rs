//! The limits of AWS for call rates and for the number of targets.

use serde::{Deserialize, Serialize};

use super::BehaviourError;

/// A token bucket. Each call takes one token, for any number of targets. The bucket works in real time, as API latency
/// does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "(f64, f64)", into = "(f64, f64)")]
pub struct Bucket {
    /// The capacity in tokens.
    pub burst: f64,
    /// The number of tokens that are added per second.
    pub per_second: f64,
}

impl From<(f64, f64)> for Bucket {
    fn from((burst, per_second): (f64, f64)) -> Self {
        Self { burst, per_second }
    }
}

impl From<Bucket> for (f64, f64) {
    fn from(bucket: Bucket) -> Self {
        (bucket.burst, bucket.per_second)
    }
}

/// The token buckets of one access key and region, as `[burst, per second]`. AWS documents the kinds of buckets but not
/// their sizes. The sizes are the assumptions of the AWS Load Balancer Controller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttling {
    /// The bucket of RegisterTargets and DeregisterTargets.
    pub registration: Bucket,
    /// The bucket of all read-only calls.
    pub describe: Bucket,
    /// The bucket of all other calls.
    pub modify: Bucket,
    /// The bucket of all create calls. The limits in AWS are unknown, so the defaults equal the limits of modify calls.
    pub create: Bucket,
}

impl Default for Throttling {
    fn default() -> Self {
        let modify = Bucket { burst: 20.0, per_second: 3.0 };
        Self {
            registration: Bucket { burst: 20.0, per_second: 4.0 },
            describe: Bucket { burst: 200.0, per_second: 50.0 },
            modify,
            create: modify,
        }
    }
}

impl Throttling {
    /// Returns the tightest limits that a controller must be able to work with.
    pub fn tight() -> Self {
        Self {
            registration: Bucket { burst: 5.0, per_second: 1.0 },
            describe: Bucket { burst: 40.0, per_second: 10.0 },
            ..Self::default()
        }
    }

    /// Rejects buckets that would reject every call.
    pub fn check(&self) -> Result<(), BehaviourError> {
        let sound = |bucket: &Bucket| {
            bucket.burst.is_finite()
                && bucket.burst >= 1.0
                && bucket.per_second.is_finite()
                && bucket.per_second > 0.0
        };
        if [self.registration, self.describe, self.modify, self.create].iter().all(sound) {
            Ok(())
        } else {
            Err(BehaviourError::Bucket)
        }
    }
}

/// The quotas for targets and target groups, with the defaults of AWS. By assumption, draining targets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// The maximum number of targets per target group.
    pub targets_per_group: u32,
    /// The maximum number of targets per zone behind one Network Load Balancer.
    pub targets_per_zone: u32,
    /// The maximum number of targets in all zones behind one Network Load Balancer with cross-zone load balancing.
    pub targets_cross_zone: u32,
    /// The maximum number of targets behind one Network Load Balancer.
    pub targets_per_network: u32,
    /// The maximum number of targets behind one Application Load Balancer.
    pub targets_per_application: u32,
    /// The maximum number of target groups in the account.
    pub target_groups: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            targets_per_group: 1000,
            targets_per_zone: 500,
            targets_cross_zone: 500,
            targets_per_network: 3000,
            targets_per_application: 1000,
            target_groups: 3000,
        }
    }
}
