//! From when on a read says how healthy the very pod is that a target was registered for.
//!
//! AWS knows addresses, not pods. What it says of an address may be about the pod that had it before:
//!
//! * A read may show what was five seconds ago. So if the target was there shortly before it was registered, only a
//!   read that began so much later counts.
//! * A target that is registered once more keeps the health it had. If it was never taken out between two pods, its
//!   health counts when it has been seen to be another than healthy since, or when the load balancer has had the time
//!   to notice that the old pod is gone.

use std::{collections::BTreeMap, time::Duration};

use super::{Entry, PutBack, Registrations, STALE, Sight, Told, unproven::Unproven};
use crate::{
    ledger::PodMark,
    model::{CallItem, Health, HealthState, Moment, Owner, Target, Uid},
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

/// What is known of the health of a target, and of whose health that is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// What AWS had there when it was registered for its owner.
    pub past: Past,
    /// From when on a read tells of the owner's health.
    pub own_health_from: Moment,
    /// When AWS took its registration, until it is seen healthy.
    pub registered_at: Option<Moment>,
    /// Set while AWS has it and the load balancer has not called it healthy.
    pub unproven: Option<Unproven>,
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

    /// AWS has taken its registration, or the ledger says so.
    pub(super) fn counts_from(&mut self, now: Moment) {
        self.evidence.own_health_from = match self.evidence.past {
            Past::Nothing => now,
            Past::Removed => now + STALE,
            Past::Registered => now + CARRIED,
        };
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

    /// The pod that had `target`, if AWS may have it, and whether it was seen healthy: before, the load balancer does not
    /// send to it. Of one that the ledger tells of that is not known.
    pub fn may_be_sent_to(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        let registered = match entry.told {
            Told::Nothing | Told::Out(_) => false,
            Told::Perhaps(_) => entry.ended.is_some(),
            Told::Believed(_) | Told::Registered(_) => true,
        };
        let is_healthy = entry.sight == Some(Sight::There(HealthState::Healthy));
        registered.then_some((&entry.last, entry.evidence.registered_at.is_none() || is_healthy))
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
            if state == Some(HealthState::Healthy) {
                if began > entry.evidence.own_health_from {
                    took.extend(entry.evidence.registered_at.take().map(|since| now.since(since)));
                }
            } else if state.is_some() && entry.ended.is_some_and(|ended| began.since(ended) >= STALE) {
                entry.evidence.own_health_from = entry.evidence.own_health_from.min(began + STALE);
            }
        }
        took
    }
}
