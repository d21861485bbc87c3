//! Named sets of behaviour: how late nodes learn, and what comes with it.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{Batches, Behaviour, Effect, Fault, Lag, Quotas, Range, Throttling};

/// A profile. Each has a lag that can be given to a single target group; given to the whole stand-in, those of
/// one kind of load balancer concern that kind only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Everything is known everywhere at once.
    Instant,
    /// Application Load Balancers as they are observed, with AWS's limits and API latency.
    TypicalAlb,
    /// Network Load Balancers as they are observed, with AWS's limits and API latency.
    TypicalNlb,
    /// Network Load Balancers that take three minutes to learn of anything.
    SlowNlb,
    /// All load balancers take five minutes, the most that anyone has published.
    Worst,
    /// Slow, with batches that are applied in part, small quotas, tight rates, and one call in twenty failing in
    /// each of the ways that calls fail.
    Pessimistic,
}

impl Profile {
    /// How late nodes learn.
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

    /// Makes it the behaviour of the whole stand-in. What the profile says nothing about stays.
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
