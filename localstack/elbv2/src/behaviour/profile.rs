//! Named sets of behavior: propagation delays and related settings.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{Batches, Behaviour, Effect, Fault, Lag, Quotas, Range, Throttling};

/// A profile. A single target group can have the delays of any profile. If the whole stand-in gets a profile that is
/// named after one kind of load balancer, only that kind changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// All nodes know every change at once.
    Instant,
    /// Application Load Balancers with measured delays, and with AWS's limits and API latency.
    TypicalAlb,
    /// Network Load Balancers with measured delays, and with AWS's limits and API latency.
    TypicalNlb,
    /// Network Load Balancers that learn of any change after three minutes.
    SlowNlb,
    /// All load balancers learn of changes after five minutes, the longest published delay.
    Worst,
    /// Slow, with partial batches, small quotas, low rates, and one call in twenty failing in each possible way.
    Pessimistic,
}

impl Profile {
    /// Returns the propagation delays of this profile.
    pub fn lag(self) -> Lag {
        let lag = |registration, deregistration, health_skew, unhealthy| Lag {
            registration: Range::from(registration),
            deregistration: Range::from(deregistration),
            health_skew: Range::from(health_skew),
            unhealthy: Range::from(unhealthy),
            provisioning: Range { low: 60.0, high: 120.0 },
        };
        const NONE: (f64, f64) = (0.0, 0.0);
        match self {
            Self::Instant => Lag { provisioning: Range::from(NONE), ..lag(NONE, NONE, NONE, NONE) },
            Self::TypicalAlb => lag((1.0, 5.0), (1.0, 20.0), (-1.0, 1.0), NONE),
            Self::TypicalNlb => lag((30.0, 90.0), (10.0, 120.0), (-5.0, 5.0), (30.0, 40.0)),
            Self::SlowNlb => lag((180.0, 180.0), (180.0, 180.0), (-5.0, 5.0), (30.0, 40.0)),
            Self::Worst => lag((300.0, 300.0), (300.0, 300.0), (-5.0, 5.0), (30.0, 40.0)),
            Self::Pessimistic => lag((180.0, 300.0), (180.0, 300.0), (0.0, 15.0), (30.0, 40.0)),
        }
    }

    /// Applies the profile to the whole stand-in. Settings that are not part of the profile do not change.
    pub fn apply(self, to: &mut Behaviour) {
        const LATENCY: Range = Range { low: 30.0, high: 250.0 };
        to.profile = Some(self);
        match self {
            Self::TypicalAlb => to.application = self.lag(),
            Self::TypicalNlb | Self::SlowNlb => to.network = self.lag(),
            Self::Instant | Self::Worst | Self::Pessimistic => {
                (to.network, to.application) = (self.lag(), self.lag());
            }
        }
        if self == Self::Instant {
            (to.throttling, to.quotas, to.faults) = (None, None, Vec::new());
            (to.batches, to.api_latency_ms) = (Batches::Whole, Range { low: 0.0, high: 0.0 });
            return;
        }
        to.api_latency_ms = LATENCY;
        if self == Self::Pessimistic {
            to.throttling = Some(Throttling::tight());
            to.quotas = Some(Quotas { targets_per_group: 5, ..Quotas::default() });
            to.batches = Batches::Partial;
            to.faults = Effect::all().into_iter().map(|effect| Fault::often(effect, 0.05)).collect();
        } else {
            to.throttling = Some(Throttling::default());
            to.quotas = Some(Quotas::default());
            (to.batches, to.faults) = (Batches::Whole, Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_one_kind_leaves_the_other_alone() {
        let mut behaviour = Behaviour::new(1.0);
        Profile::SlowNlb.apply(&mut behaviour);
        assert_eq!(behaviour.network, Profile::SlowNlb.lag());
        assert_eq!(behaviour.application, Profile::TypicalAlb.lag());
    }

    #[test]
    fn instant_takes_back_what_pessimistic_brought() {
        let mut behaviour = Behaviour::new(1.0);
        Profile::Pessimistic.apply(&mut behaviour);
        Profile::Instant.apply(&mut behaviour);
        assert_eq!((behaviour.throttling, behaviour.quotas, behaviour.faults.len()), (None, None, 0));
        assert_eq!(behaviour.batches, Batches::Whole);
    }
}
