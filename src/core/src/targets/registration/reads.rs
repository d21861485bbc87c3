//! The consequences of a read of the group, and what the readiness gates need to know from it.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Registrations,
    entry::{Entry, Unproven},
};
use crate::{
    ledger::PodMark,
    model::{AskedHold, Cause, Health, HealthState, Moment, Owner, Target, Uid, health::NeverHealthy},
    targets::claims::State,
};

impl Registrations {
    /// Takes in a read that began at `began`. Missing targets will be registered again. Returns whether somebody else
    /// has deregistered a target.
    pub fn observed(&mut self, states: &BTreeMap<Target, Health>, began: Moment, now: Moment) -> bool {
        self.now = now;
        let shown = states.iter().map(|(target, health)| (*target, health.state)).collect();
        self.claims.read(began, shown, now);
        let mut taken = false;
        let all: Vec<Target> = self.entries.which(|_| true).copied().collect();
        for target in all {
            let vanished = matches!(self.claims.state(&target), Some(State::Draining(_)));
            let is_there = states.get(&target).is_some_and(|health| health.state != HealthState::Draining);
            self.change(target, |entry| {
                if is_there {
                    entry.vanishing.seen(began);
                }
                if vanished && entry.is_registered() {
                    taken = true;
                    (entry.cause, entry.since, entry.attempts) = (Cause::TargetMissing, now, 0);
                    entry.set_aside = entry.vanishing.vanished(now).map(|wait| now + wait);
                }
            });
        }
        taken
    }

    /// Handles a failed read of the group.
    pub fn unread(&mut self, now: Moment) {
        self.now = now;
        self.claims.reads_mut().fail();
        self.change_all();
    }

    /// Whether `target` is registered for this pod, and the last read shows the health of that pod.
    pub fn is_told_by(&self, target: &Target, uid: &Uid) -> bool {
        let health = self.claims.health(target, PodMark::of(uid));
        let own = self.owner(target).is_some_and(|owner| owner == uid);
        own && health.is_some() && health == self.claims.reads().health(target)
    }

    /// Since when AWS has `target` for this pod, if this leader has registered it and no later read has succeeded.
    pub fn unread_since(&self, target: &Target, uid: &Uid) -> Option<Moment> {
        let entry = self.entries.get(target).filter(|_| self.settings.dates_registrations)?;
        let is_new = entry.unproven.is_some_and(|unproven| !unproven.inherited);
        match entry.state {
            Some(State::Registered { pod, since, .. }) if is_new && pod == PodMark::of(uid) => {
                (entry.is_registered() && self.claims.reads().began().is_none_or(|read| read < since))
                    .then_some(since)
            }
            _ => None,
        }
    }

    /// The pod of `target`, if AWS may have the target, and whether the target may serve. The load balancer sends
    /// nothing to a new target before it is healthy. A target from the ledger always may, because its history is
    /// unknown.
    pub fn may_be_sent_to(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        let registered = entry.told().is_some() && !matches!(entry.state, Some(State::Registering { .. }));
        let new_since = entry.unproven.filter(|unproven| !unproven.inherited).map(|unproven| unproven.since);
        // An earlier read may show what AWS had there before.
        let is_healthy = |since| {
            let shown = self
                .claims
                .reads()
                .health(target)
                .filter(|_| self.claims.reads().began().is_some_and(|read| read > since));
            shown.is_some_and(HealthState::is_healthy)
        };
        registered.then_some((&entry.last, new_since.is_none_or(is_healthy)))
    }

    /// Whether a read that began at `began` still counts for `target`. It does not if a call with the target is in
    /// flight or has ended since.
    pub fn is_untouched_since(&self, target: &Target, began: Moment) -> bool {
        let is_untouched =
            |entry: &Entry| entry.is_idle() && self.ended(entry).is_none_or(|ended| ended <= began);
        self.entries.get(target).is_none_or(is_untouched)
    }

    /// The pod that should have `target`.
    pub fn owner(&self, target: &Target) -> Option<&Uid> {
        self.entries.get(target)?.owner().map(|owner| &owner.uid)
    }

    /// How long each target took to become healthy that is healthy for the first time since its registration.
    pub fn grown_healthy(&mut self, now: Moment) -> Vec<Duration> {
        let mut took = Vec::new();
        for (_, entry) in self.entries.iter_mut() {
            if matches!(entry.state, Some(State::Registered { health: Some(HealthState::Healthy), .. }))
                && let Some(unproven) = entry.unproven.take()
                && !unproven.inherited
            {
                took.push(now.since(unproven.since));
            }
        }
        took
    }

    /// How many targets were reported as never healthy.
    pub fn never_healthy(&self) -> usize {
        let is_never = |entry: &&Entry| entry.is_registered() && entry.unproven.is_some_and(|it| it.told);
        self.entries.values().filter(is_never).count()
    }

    /// Returns each target once that has been registered for `long` and was never healthy. `was_healthy` tells whether
    /// a pod from before this leader was healthy then.
    pub fn find_never_healthy(
        &mut self,
        seen: &BTreeMap<Target, Health>,
        long: Duration,
        was_healthy: impl Fn(&Owner) -> bool,
        now: Moment,
    ) -> Vec<NeverHealthy> {
        let mut found = Vec::new();
        for (target, entry) in self.entries.iter_mut() {
            let (Some(unproven), Some(health), Some(owner)) =
                (entry.unproven, seen.get(target), entry.owner().cloned())
            else {
                continue;
            };
            let Some(State::Registered { health: Some(state), .. }) = entry.state else { continue };
            let fails = matches!(
                state,
                HealthState::Initial | HealthState::Unhealthy | HealthState::UnhealthyDraining
            );
            let waited = now.since(unproven.since);
            if !fails || waited < long || unproven.told || !entry.is_registered() {
                continue;
            }
            if unproven.inherited && was_healthy(&owner) {
                entry.unproven = None;
                continue;
            }
            entry.unproven = Some(Unproven { told: true, ..unproven });
            found.push(NeverHealthy { target: *target, owner, waited, health: *health });
        }
        found
    }

    /// For each deregistered target of a pod: when AWS accepted the deregistration, and the hold that was requested for
    /// the target.
    pub fn out_of(&self, uid: &Uid) -> impl Iterator<Item = (Moment, AskedHold)> {
        let mark = PodMark::of(uid);
        self.entries.of_pod(mark).filter_map(move |(_, entry)| match entry.state {
            Some(State::Draining(draining)) if draining.pod() == mark => {
                Some((draining.accepted()?, entry.asked))
            }
            _ => None,
        })
    }
}
