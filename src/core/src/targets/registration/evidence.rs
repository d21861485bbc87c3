//! From when on a read says how healthy the very pod is that a target was registered for; and targets that never become
//! healthy: an app that does not start, a port that nothing serves, a health check that asks for something else.
//!
//! AWS knows addresses, not pods. What it says of an address may be about the pod that had it before:
//!
//! * A read may show what was five seconds ago. So if the target was there shortly before it was registered, only a
//!   read that began so much later counts.
//! * A target that is registered once more keeps the health it had. If it was never taken out between two pods, its
//!   health counts when it has been seen to be another than healthy since, or when the load balancer has had the time
//!   to notice that the old pod is gone. The same holds for a pod that had lost the address in between: it is another
//!   sandbox, and anybody may have answered there meanwhile.

use std::{collections::BTreeMap, time::Duration};

use super::{Entry, PutBack, Registrations, STALE, Sight, Told};
use crate::{
    ledger::PodMark,
    model::{CallItem, Health, HealthState, Moment, Owner, Target, Uid, health::NeverHealthy},
};

/// So long after an address got another pod the load balancer may still call it healthy because of the old one: two
/// failed checks 30 s apart and a time-out of 10 s are AWS's defaults.
const CARRIED: Duration = Duration::from_secs(90);

/// What AWS had at an address when it was registered for a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Past {
    /// Nothing.
    #[default]
    Nothing,
    /// What had been taken out, and what a late read may still show.
    Removed,
    /// A registered target, perhaps of another pod.
    Registered,
}

/// AWS has a target, and the load balancer has not called it healthy so far.
#[derive(Clone, Copy, Debug)]
pub struct Unproven {
    /// Since when AWS has it, as far as this leader knows: when it was registered is not written in the ledger.
    since: Moment,
    /// Whether it was there before this leader.
    inherited: bool,
    told: bool,
}

impl Unproven {
    /// It was registered now, or the ledger tells of it.
    pub const fn new(now: Moment, inherited: bool) -> Self {
        Self { since: now, inherited, told: false }
    }
}

/// What is known of the health of a target, and of whose health that is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// What AWS had there when it was registered for its owner.
    pub(super) past: Past,
    /// From when on a read tells of the owner's health.
    pub(super) own_health_from: Moment,
    /// When AWS took its registration, until it is seen healthy.
    pub(super) registered_at: Option<Moment>,
    /// When AWS took its registration from this leader, until a read that began since is answered, whatever it says. Not
    /// if a removal that was given up may take it out unnoticed.
    pub(super) unread_since: Option<Moment>,
    /// When a removal was last given up that may still be applied, or the ledger told of it, whose writer may have sent one.
    pub(super) removal_given_up: Option<Moment>,
    /// Set while AWS has it and the load balancer has not called it healthy.
    pub(super) unproven: Option<Unproven>,
}

impl Entry {
    /// What AWS has there, when it is about to be registered for the pod of this mark.
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

    /// It is wanted, perhaps again by the pod that it was removed from. If that had lost the address, or may have, AWS may
    /// know the health of the sandbox that had it before, or of whoever answered there meanwhile: the registration of then
    /// counts no more, though AWS may never have taken the removal.
    pub(super) fn comes_back(&mut self) {
        if !self.is_wanted()
            && self.cause.may_lose_the_address()
            && let Some(mark) = self.told.mark()
        {
            (self.evidence.past, self.told) = (Past::Registered, Told::Perhaps(mark));
        }
    }

    /// AWS has taken its registration, or the ledger says so.
    pub(super) fn counts_from(&mut self, now: Moment) {
        self.evidence.own_health_from = match self.evidence.past {
            Past::Nothing => now,
            Past::Removed => now + STALE,
            Past::Registered => now + CARRIED,
        };
    }

    /// AWS has taken its registration: from now on it has not been read, if that counts. A removal may be applied so `late`.
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
    /// These are about to be registered, and a read has shown some of them; `unread`: there was none.
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

    /// Whether `target` is registered for this pod, and a read that began then says how healthy the pod is.
    pub fn is_told_by(&self, target: &Target, uid: &Uid, began: Moment) -> bool {
        self.entries.get(target).is_some_and(|entry| {
            let own = entry.owner().is_some_and(|owner| owner.uid == *uid);
            let settled = entry.is_idle() && entry.put_back == PutBack::No;
            let registered = entry.told == Told::Registered(PodMark::of(uid));
            own && settled && registered && began > entry.evidence.own_health_from
        })
    }

    /// Since when AWS has `target` for this pod, if this leader has registered it and no read that began since has been
    /// answered. What the ledger says of a registration is not enough: removals do not wait for the ledger.
    pub fn unread_since(&self, target: &Target, uid: &Uid) -> Option<Moment> {
        let entry = self.entries.get(target)?;
        let own = entry.owner().is_some_and(|owner| owner.uid == *uid);
        let settled = entry.is_idle() && entry.put_back == PutBack::No;
        entry.evidence.unread_since.filter(|_| own && settled && entry.is_registered())
    }

    /// The pod that had `target`, if AWS may have it, and whether it was seen healthy: before, the load balancer does not
    /// send to it. Of one that the ledger tells of that is not known.
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

    /// Whether what a read has shown of `target` that began then still counts: not if a call about it is under way, or has
    /// ended since. One that is wanted again may be on its way out.
    pub fn is_untouched_since(&self, target: &Target, began: Moment) -> bool {
        let is_untouched = |entry: &Entry| entry.is_idle() && entry.ended.is_none_or(|ended| ended <= began);
        self.entries.get(target).is_none_or(is_untouched)
    }

    /// Whose `target` should be.
    pub fn owner(&self, target: &Target) -> Option<&Uid> {
        self.entries.get(target)?.owner().map(|owner| &owner.uid)
    }

    /// A read that began then has shown these: gives how long it took those to become healthy that are seen so for the
    /// first time since they were registered.
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
                // Nobody checks it, or nobody knows; or what is said may be about the pod before.
                _ => {}
            }
        }
        found
    }
}
