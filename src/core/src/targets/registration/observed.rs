//! What follows from a read of the group.
//!
//! A read may show what was five seconds ago, so it says nothing about a target until that long after our last call
//! about it had ended; only a wanted target that the ledger says is registered counts as soon as it is seen, and is
//! looked at again.

use std::collections::BTreeMap;

use super::{Entry, Goes, Orphan, Out, Registrations, STALE, Sight, Since, Told, Wish, refusals::Refused};
use crate::{
    ledger::PodMark,
    model::{AskedHold, Cause, Health, HealthState, Moment, Target},
};

/// What is known of a target that was taken out.
#[derive(Clone, Copy, Debug)]
pub struct Tombstone<'a>(pub(super) &'a Entry);

impl Tombstone<'_> {
    /// Whether it may be put back for the pod from which it was taken out.
    pub const fn may_be_put_back(&self) -> bool {
        self.0.taken_from.is_some()
    }

    /// Whose it was.
    pub fn mark(&self) -> PodMark {
        self.0.taken_from.unwrap_or_else(|| PodMark::of(&self.0.last.uid))
    }

    /// Whose it was, and of whom AWS had it: another one may have got the address since, for a moment.
    pub fn marks(&self) -> impl Iterator<Item = PodMark> {
        std::iter::once(self.mark()).chain(self.0.out().of)
    }

    /// The hold that was asked for it.
    pub const fn asked_hold(&self) -> AskedHold {
        self.0.asked
    }

    /// Since when AWS has had it no more.
    pub const fn out_since(&self) -> Option<Since> {
        self.0.out().since
    }
}

impl Registrations {
    /// A read that began at `began` has shown these targets. What is missing is registered again. What has come back is
    /// removed again if a late call of ours may have brought it back, and else judged like what the ledger left behind:
    /// it may be another installation's. Tombstones that have done their duty are dropped.
    ///
    /// `keeps` says which tombstones are kept all the same. Says whether somebody else has taken a target out.
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
                        // Whoever has taken it out, perhaps the leader before, did so a moment ago for all that is known.
                        taken |= matches!(entry.told, Told::Registered(_));
                        entry.told = Told::Out(Out::since(Some(Since::now(now))));
                        (entry.cause, entry.since, entry.attempts) = (Cause::TargetMissing, now, 0);
                        entry.set_aside = entry.vanishing.vanished(now).map(|wait| now + wait);
                    }
                    // AWS refuses its removal, and does not have it: as it may refuse an address outside of the VPC.
                    (false, Told::Registered(_) | Told::Believed(_) | Told::Perhaps(_))
                        if entry.refused == Refused::Waits && !states.contains_key(&target) && old_enough =>
                    {
                        entry.told = Told::Out(Out::since(Some(Since::now(now))));
                        entry.forget_refusals();
                    }
                    (false, Told::Out(out)) if there && old_enough => {
                        // Nobody else was registered since, though another one may have had the address for a moment.
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
