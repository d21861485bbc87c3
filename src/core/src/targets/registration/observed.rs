//! The consequences of a read of the group.
//!
//! A read may show the state five seconds ago. It counts for a target only if it began that long after the last call
//! with the target had ended. There is one exception: a wanted target that the ledger records as registered counts as
//! soon as a read shows it. Headgate then checks it again.

use std::collections::BTreeMap;

use super::{Entry, Goes, Orphan, Out, Registrations, STALE, Sight, Since, Told, Wish, refusals::Refused};
use crate::{
    ledger::PodMark,
    model::{AskedHold, Cause, Health, HealthState, Moment, Target},
};

/// What is known of a deregistered target.
#[derive(Clone, Copy, Debug)]
pub struct Tombstone<'a>(pub(super) &'a Entry);

impl Tombstone<'_> {
    /// Whether the target may be registered again for the pod for which it was deregistered.
    pub const fn may_be_put_back(&self) -> bool {
        self.0.taken_from.is_some()
    }

    /// The last pod of the target.
    pub fn mark(&self) -> PodMark {
        self.0.taken_from.unwrap_or_else(|| PodMark::of(&self.0.last.uid))
    }

    /// The last pod of the target, and the pod for which AWS had it. They differ if another pod briefly got the
    /// address.
    pub fn marks(&self) -> impl Iterator<Item = PodMark> {
        std::iter::once(self.mark()).chain(self.0.out().of)
    }

    /// The hold that was requested for the target.
    pub const fn asked_hold(&self) -> AskedHold {
        self.0.asked
    }

    /// Since when AWS no longer has the target.
    pub const fn out_since(&self) -> Option<Since> {
        self.0.out().since
    }
}

impl Registrations {
    /// Takes in a read that began at `began`. Missing targets will be registered again. A target that appears again is
    /// deregistered again if a late call of Headgate may have registered it. If not, Headgate judges it like a leftover
    /// target, because it may belong to another installation. Records of deregistered targets that are no longer needed
    /// are dropped.
    ///
    /// `keeps` tells which records must remain. Returns whether somebody else has deregistered a target.
    pub fn observed(
        &mut self,
        states: &BTreeMap<Target, Health>,
        began: Moment,
        now: Moment,
        keeps: impl Fn(&Target, Tombstone<'_>) -> bool,
    ) -> bool {
        let mut taken = false;
        let known: Vec<Target> = self.entries.iter().map(|(target, _)| *target).collect();
        let late = self.late;
        for target in known {
            let counts = |health: &Health| health.state != HealthState::Draining;
            let there = states.get(&target).is_some_and(counts);
            self.change(target, |entry| {
                if there {
                    entry.vanishing.seen(began);
                }
                entry.evidence.unread_since.take_if(|since| began >= *since);
                let counts = |ended: &Moment| entry.is_idle() && *ended < began;
                let Some(ended) = entry.ended.filter(counts) else { return };
                let old_enough = began.since(ended) >= STALE;
                match (entry.is_wanted(), &mut entry.told) {
                    (true, Told::Believed(mark)) if there => entry.told = Told::Registered(*mark),
                    (true, Told::Registered(_) | Told::Believed(_)) if !there && old_enough => {
                        // Somebody, perhaps the earlier leader, has deregistered it. The time is unknown, so it counts
                        // as now.
                        taken |= matches!(entry.told, Told::Registered(_));
                        entry.told = Told::Out(Out::since(Some(Since::now(now))));
                        (entry.cause, entry.since, entry.attempts) = (Cause::TargetMissing, now, 0);
                        entry.set_aside = entry.vanishing.vanished(now).map(|wait| now + wait);
                    }
                    // AWS rejects the deregistration and does not have the target. For example, AWS may reject an
                    // address outside the VPC.
                    (false, Told::Registered(_) | Told::Believed(_) | Told::Perhaps(_))
                        if entry.refused == Refused::Waits && !states.contains_key(&target) && old_enough =>
                    {
                        entry.told = Told::Out(Out::since(Some(Since::now(now))));
                        entry.forget_refusals();
                    }
                    (false, Told::Out(out)) if there && old_enough => {
                        // Nobody else was registered since, but another pod may have had the address for a moment.
                        let had = out.of.unwrap_or_else(|| PodMark::of(&entry.last.uid));
                        entry.taken_from = entry.taken_from.or(out.for_the_pod.then_some(had));
                        entry.told = Told::Perhaps(had);
                        (entry.cause, entry.since, entry.attempts) = (Cause::TargetReappeared, now, 0);
                        let may_be_late = entry.added.is_some_and(|added| began.since(added) < late);
                        entry.let_go();
                        if !may_be_late && !entry.is_foreign() {
                            entry.wish = Wish::Gone(Goes::Orphan(Orphan::Unjudged));
                        }
                    }
                    (false, Told::Out(out)) if old_enough => out.missing = out.missing.saturating_add(1),
                    _ => {}
                }
                let shown = states.get(&target).copied();
                entry.sight = Some(shown.map_or(Sight::Missing, |health| Sight::There(health.state)));
            });
            let stays = |entry: &Entry| keeps(&target, Tombstone(entry));
            let done = |entry: &Entry| entry.has_done_its_duty(self.late, began) && !stays(entry);
            if self.entries.get(&target).is_some_and(done) {
                self.drop_entry(&target);
            }
        }
        taken
    }
}
