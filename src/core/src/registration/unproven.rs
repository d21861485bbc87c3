//! Targets that never become healthy: an app that does not start, a port that nothing serves, a health check that asks for
//! something else.
//!
//! What the ledger tells of counts from the take-over: when it was registered is not written there.

use std::{collections::BTreeMap, time::Duration};

use super::{Entry, Registrations};
use crate::model::{Health, HealthState, Moment, Owner, Target};

/// AWS has a target, and the load balancer has not called it healthy so far.
#[derive(Clone, Copy, Debug)]
pub struct Unproven {
    /// Since when AWS has it, as far as this leader knows.
    since: Moment,
    /// Whether it was there before this leader.
    inherited: bool,
    told: bool,
}

impl Unproven {
    /// It was registered now.
    pub const fn registered(now: Moment) -> Self {
        Self { since: now, inherited: false, told: false }
    }

    /// The ledger tells of it.
    pub const fn inherited(now: Moment) -> Self {
        Self { since: now, inherited: true, told: false }
    }
}

/// A target that has been registered for long and was never healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverHealthy {
    /// The target.
    pub target: Target,
    /// Its pod.
    pub owner: Owner,
    /// For how long it has been there, as far as this leader knows.
    pub waited: Duration,
    /// What the load balancer says of it.
    pub health: Health,
}

impl Entry {
    fn is_never_healthy(&self) -> bool {
        self.is_registered() && self.evidence.unproven.is_some_and(|unproven| unproven.told)
    }
}

impl Registrations {
    /// How many targets have been registered for long and were never healthy.
    pub fn never_healthy(&self) -> usize {
        self.entries.values().filter(|entry| entry.is_never_healthy()).count()
    }

    /// A read that began then has shown these. Gives those that have been registered for `long` and were never healthy,
    /// each once; `was_healthy` says of a pod from before this leader that it was healthy then.
    pub fn find_never_healthy(
        &mut self,
        seen: &BTreeMap<Target, Health>,
        began: Moment,
        long: Duration,
        was_healthy: impl Fn(&Owner) -> bool,
        now: Moment,
    ) -> Vec<NeverHealthy> {
        let mut found = Vec::new();
        for (target, entry) in self.entries.iter_mut() {
            let (Some(unproven), Some(health)) = (entry.evidence.unproven, seen.get(target)) else {
                continue;
            };
            if !entry.is_idle() || entry.ended.is_none_or(|ended| began < ended) {
                continue;
            }
            let waited = now.since(unproven.since);
            match health.state {
                HealthState::Healthy if began > entry.evidence.own_health_from => {
                    entry.evidence.unproven = None;
                }
                HealthState::Initial | HealthState::Unhealthy | HealthState::UnhealthyDraining
                    if waited >= long && !unproven.told && entry.is_registered() =>
                {
                    let Some(owner) = entry.owner().cloned() else { continue };
                    if unproven.inherited && was_healthy(&owner) {
                        entry.evidence.unproven = None;
                        continue;
                    }
                    entry.evidence.unproven = Some(Unproven { told: true, ..unproven });
                    found.push(NeverHealthy { target: *target, owner, waited, health: *health });
                }
                // Nobody checks it, or nobody knows; or what is said may be about the pod before.
                _ => {}
            }
        }
        found
    }
}
