//! Since when a read shows the health of the pod for which a target was registered. Also, targets that never become
//! healthy: the app does not start, nothing serves the port, or the health check asks for something else.
//!
//! AWS knows addresses, not pods. The health of an address may belong to the pod that had it before:
//!
//! * A read may show the state five seconds ago. If AWS had the target shortly before it was registered, only a read
//!   that began five seconds after the registration counts.
//! * A target that is registered again keeps its health. If it was not deregistered between two pods, its health counts
//!   after a read has shown it as not healthy. It also counts after the load balancer has had the time to notice that
//!   the old pod has ended. The same applies to a pod that had lost the address in between. It has another sandbox, and
//!   any pod may have answered at the address in the meantime.

use std::{collections::BTreeMap, time::Duration};

use super::{Entry, PutBack, Registrations, STALE, Sight, Told};
use crate::{
    ledger::PodMark,
    model::{CallItem, Health, HealthState, Moment, Owner, Target, Uid, health::NeverHealthy},
};

/// After an address got another pod, the load balancer may report the health of the old pod for this long. The defaults
/// of AWS are two failed checks, 30 s apart, with a timeout of 10 s.
const CARRIED: Duration = Duration::from_secs(90);

/// What AWS had at an address before it was registered for a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Past {
    /// Nothing.
    #[default]
    Nothing,
    /// A deregistered target, which a late read may still show.
    Removed,
    /// A registered target, perhaps of another pod.
    Registered,
}

/// A target that AWS has and that was never healthy so far.
#[derive(Clone, Copy, Debug)]
pub struct Unproven {
    /// Since when AWS has the target, as far as this leader knows. The ledger does not record the time of a
    /// registration.
    since: Moment,
    /// Whether the target was registered before this leader.
    inherited: bool,
    told: bool,
}

impl Unproven {
    /// A target that was registered now, or that the ledger names.
    pub const fn new(now: Moment, inherited: bool) -> Self {
        Self { since: now, inherited, told: false }
    }
}

/// What is known about the health of a target, and which pod that health belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// What AWS had at the target before it was registered for its owner.
    pub(super) past: Past,
    /// Reads that began after this time show the owner's health.
    pub(super) own_health_from: Moment,
    /// When AWS accepted the registration, until a read shows the target as healthy.
    pub(super) registered_at: Option<Moment>,
    /// When AWS accepted the registration by this leader, until a later read succeeds. `None` if a deregistration that
    /// was given up might remove the target unnoticed.
    pub(super) unread_since: Option<Moment>,
    /// When the last deregistration that may still take effect was given up. For a target from the ledger, the time
    /// when the ledger was read, because its writer may have sent one.
    pub(super) removal_given_up: Option<Moment>,
    /// Set while AWS has the target and the load balancer has not reported it as healthy.
    pub(super) unproven: Option<Unproven>,
}

impl Entry {
    /// What AWS has at the target before it is registered for this pod.
    pub(super) fn past_before(&self, mark: PodMark) -> Past {
        match self.told {
            Told::Out(_) => Past::Removed,
            Told::Nothing => self.evidence.past,
            Told::Perhaps(told) | Told::Believed(told) | Told::Registered(told) if told == mark => {
                self.evidence.past
            }
            Told::Perhaps(_) | Told::Believed(_) | Told::Registered(_) => Past::Registered,
        }
    }

    /// The target is wanted again, perhaps by the pod for which it was deregistered. That pod may have lost the address
    /// in between. AWS may then know the health of an earlier sandbox, or of another pod at the address. The earlier
    /// registration no longer counts, even if AWS never accepted the deregistration.
    pub(super) fn comes_back(&mut self) {
        if !self.is_wanted()
            && self.cause.may_lose_the_address()
            && let Some(mark) = self.told.mark()
        {
            (self.evidence.past, self.told) = (Past::Registered, Told::Perhaps(mark));
        }
    }

    /// AWS has accepted the registration, or the ledger records that.
    pub(super) fn counts_from(&mut self, now: Moment) {
        self.evidence.own_health_from = match self.evidence.past {
            Past::Nothing => now,
            Past::Removed => now + STALE,
            Past::Registered => now + CARRIED,
        };
    }

    /// AWS has accepted the registration. Records that no read has shown it since, unless a deregistration may still
    /// take effect within `late`.
    pub(super) fn dates_from(&mut self, late: Duration, now: Moment) {
        let given_up = self.evidence.removal_given_up;
        let may_go = self.deregistering.is_some() || given_up.is_some_and(|at| now.since(at) < late);
        self.evidence.unread_since = (!may_go).then_some(now);
    }

    fn is_never_healthy(&self) -> bool {
        self.is_registered() && self.evidence.unproven.is_some_and(|unproven| unproven.told)
    }
}

impl Registrations {
    /// Headgate is about to register these targets, and the last read has shown `seen`. `unread`: there was no read.
    pub fn there_before(&mut self, items: &[CallItem], seen: &BTreeMap<Target, Health>, unread: bool) {
        for item in items {
            let past = match seen.get(&item.target).map(|health| health.state) {
                None if unread => Past::Removed,
                None => continue,
                Some(HealthState::Draining) => Past::Removed,
                Some(_) => Past::Registered,
            };
            if let Some(entry) = self.entries.get_mut(&item.target).filter(|entry| entry.ended.is_none()) {
                entry.evidence.past = entry.evidence.past.max(past);
            }
        }
    }

    /// Whether `target` is registered for this pod, and a read that began at `began` shows the health of that pod.
    pub fn is_told_by(&self, target: &Target, uid: &Uid, began: Moment) -> bool {
        self.entries.get(target).is_some_and(|entry| {
            let own = entry.owner().is_some_and(|owner| owner.uid == *uid);
            let settled = entry.is_idle() && entry.put_back == PutBack::No;
            let registered = entry.told == Told::Registered(PodMark::of(uid));
            own && settled && registered && began > entry.evidence.own_health_from
        })
    }

    /// Since when AWS has `target` for this pod, if this leader has registered it and no later read has succeeded. The
    /// record in the ledger is not enough, because deregistrations do not wait for the ledger.
    pub fn unread_since(&self, target: &Target, uid: &Uid) -> Option<Moment> {
        let entry = self.entries.get(target)?;
        let own = entry.owner().is_some_and(|owner| owner.uid == *uid);
        let settled = entry.is_idle() && entry.put_back == PutBack::No;
        entry.evidence.unread_since.filter(|_| own && settled && entry.is_registered())
    }

    /// The pod of `target`, if AWS may have the target, and whether the target may serve. The load balancer sends
    /// nothing to a new target before it is healthy. A target from the ledger always may, because its history is
    /// unknown.
    pub fn may_be_sent_to(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        let registered = match entry.told {
            Told::Nothing | Told::Out(_) => false,
            Told::Perhaps(_) => entry.ended.is_some(),
            Told::Believed(_) | Told::Registered(_) => true,
        };
        let is_healthy = matches!(entry.sight, Some(Sight::There(state)) if state.is_healthy());
        registered.then_some((&entry.last, entry.evidence.registered_at.is_none() || is_healthy))
    }

    /// Whether a read that began at `began` still counts for `target`. It does not if a call with the target is in
    /// flight or has ended since. A target that is wanted again may still be in a deregistration.
    pub fn is_untouched_since(&self, target: &Target, began: Moment) -> bool {
        let is_untouched = |entry: &Entry| entry.is_idle() && entry.ended.is_none_or(|ended| ended <= began);
        self.entries.get(target).is_none_or(is_untouched)
    }

    /// The pod that should have `target`.
    pub fn owner(&self, target: &Target) -> Option<&Uid> {
        self.entries.get(target)?.owner().map(|owner| &owner.uid)
    }

    /// Takes in a read that began at `began`. Returns how long each target took to become healthy that is healthy for
    /// the first time since its registration.
    pub fn grown_healthy(
        &mut self,
        seen: &BTreeMap<Target, Health>,
        began: Moment,
        now: Moment,
    ) -> Vec<Duration> {
        let mut took = Vec::new();
        for (target, entry) in self.entries.iter_mut() {
            let state = seen.get(target).map(|health| health.state);
            let registered = matches!(entry.told, Told::Registered(_)) && entry.registering.is_none();
            if !registered || entry.ended.is_none_or(|ended| began < ended) {
                continue;
            }
            if state.is_some_and(HealthState::is_healthy) {
                if began > entry.evidence.own_health_from {
                    took.extend(entry.evidence.registered_at.take().map(|since| now.since(since)));
                }
            } else if state.is_some() && entry.ended.is_some_and(|ended| began.since(ended) >= STALE) {
                entry.evidence.own_health_from = entry.evidence.own_health_from.min(began + STALE);
            }
        }
        took
    }

    /// How many targets were reported as never healthy.
    pub fn never_healthy(&self) -> usize {
        self.entries.values().filter(|entry| entry.is_never_healthy()).count()
    }

    /// Returns each target once that has been registered for `long` and was never healthy. `seen`: the read that began
    /// at `began`. `was_healthy` tells whether a pod from before this leader was healthy then.
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
                state if state.is_healthy() && began > entry.evidence.own_health_from => {
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
                // No health check runs, the health is unknown, or it may belong to the pod before.
                _ => {}
            }
        }
        found
    }
}
