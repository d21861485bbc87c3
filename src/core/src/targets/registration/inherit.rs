//! Takeover: what the ledger records about the term before, and how this leader judges it.
//!
//! A target that is wanted for the pod for which it was registered needs no call after a read has shown it. An unwanted
//! target is deregistered:
//!
//! * immediately, if this replica has seen its pod lose the target, or a pod of this cluster has the address;
//! * immediately, despite any doubt, if the pod at the address will be evicted or its node will be removed;
//! * in all other cases when a read shows that it is not healthy. If it is healthy and no pod of this cluster has the
//!   address, another cluster of the VPC may have got the address. Headgate reports such a target and checks it at
//!   every read. In a group that belongs to Headgate alone, it deregisters the target.
//! * Headgate judges a deregistered target that appears again in the same way, if no `RegisterTargets` of Headgate can
//!   have caused that. Another installation that shares the group may have registered the address.
//! * Headgate does not deregister the target while a doubtful Service might want the living pod at the address, or the
//!   pod only has to become ready. A Service is doubtful if its annotation is invalid or a target group in it was not
//!   found. After a restart, Headgate does not know what was in force before. A doubt that begins later cancels a
//!   deregistration that was never sent, for example because of a pause, a backoff or a hold.

use super::{
    Entry, Orphan, PutBack, Registrations, Told, Tombstone,
    entry::{Goes, Out, Since, Wish, told_by},
    evidence::{Past, Unproven},
};
use crate::{
    ledger::{Ledger, Noted, PodMark},
    model::{AskedHold, Cause, HealthState, Moment, ObjectKey, Owner, Target, Uid, Written},
};

/// Which pod of this cluster has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No pod, or only a pod that has ended and may have lost the address since.
    Nobody,
    /// A pod of this cluster, and no Service can turn out to want the target for it.
    Pod,
    /// A living pod, and a doubtful Service may turn out to want the target for it.
    Doubtful(ObjectKey),
}

/// What a read that counts has shown of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The target is missing or draining.
    Missing,
    /// The target is there.
    There(HealthState),
}

impl Entry {
    /// Whether the target was judged stale, and its deregistration was never sent.
    fn is_stale_and_unsent(&self) -> bool {
        let is_judged = !self.is_wanted() && self.orphan().is_none() && matches!(self.told, Told::Perhaps(_));
        is_judged && self.cause == Cause::StaleTarget && self.attempts == 0
    }

    /// Whether a late call has registered the target again, and its deregistration was not sent since that was seen.
    fn is_back_and_unsent(&self) -> bool {
        let goes = !self.is_wanted() && self.orphan().is_none() && matches!(self.told, Told::Perhaps(_));
        goes && self.cause == Cause::TargetReappeared && self.attempts == 0
    }
}

impl Registrations {
    /// Takes in the ledger. What this leader already knows about a target is newer and remains.
    pub fn inherit(&mut self, ledger: &Ledger, now: Moment) {
        // If the ledger does not record since when, the time counts from now.
        let out_since = |target: &Target, noted: Noted| {
            let known = ledger.out_since(target).map(|at| Since::Ledger(Written::new(at, now)));
            known.or(Some(Since::now(now))).filter(|_| noted == Noted::Removed)
        };
        let given_up = self.dates_answers.then_some(now);
        for (target, noted, mark) in ledger.iter() {
            let other = self.departed.last(target).is_some_and(|departure| departure.mark() != mark);
            if !self.knows(target) {
                let mut entry = Entry::inherited(noted, mark, out_since(target, noted), now);
                entry.evidence.removal_given_up = given_up;
                self.insert(*target, entry);
                continue;
            }
            self.change(*target, |entry| {
                if entry.told == Told::Nothing {
                    entry.told = told_by(noted, mark, out_since(target, noted));
                    (entry.ended, entry.added) = (Some(now), Some(now));
                    entry.evidence.unproven = Some(Unproven::new(now, true));
                    entry.evidence.removal_given_up = given_up;
                    entry.taken_from = Some(mark).filter(|_| noted == Noted::Removed);
                    let own = entry.owner().map(|owner| PodMark::of(&owner.uid));
                    let is_put_back = own.is_some() && own == entry.taken_from;
                    entry.put_back = if is_put_back { PutBack::Due } else { PutBack::No };
                    entry.evidence.past = if other { Past::Registered } else { Past::Removed };
                    entry.counts_from(now);
                }
            });
        }
    }

    /// The leftover targets: the ledger named them, nothing wants them, and Headgate has not made its final decision.
    pub fn orphans(&self) -> impl Iterator<Item = (&Target, &Orphan)> {
        self.entries.iter().filter_map(|(target, entry)| Some((target, entry.orphan()?)))
    }

    /// The targets that were judged stale and whose deregistration was never sent. A doubt cancels the deregistration.
    pub fn stale_and_unsent(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_stale_and_unsent)
    }

    /// The targets that a late call has registered again, and whose deregistration was not sent since that was seen.
    pub fn back_and_unsent(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_back_and_unsent)
    }

    /// A late call has registered `target` again, and its pod will be evicted or its node removed (`cause`). The target
    /// is deregistered for that reason. If the pod remains after all, the target is registered again.
    pub fn goes_for(&mut self, target: &Target, pod: &Owner, cause: Cause, now: Moment) {
        let mark = PodMark::of(&pod.uid);
        self.change(*target, |entry| {
            if entry.is_back_and_unsent() && entry.told.mark() == Some(mark) {
                (entry.cause, entry.since, entry.taken_from) = (cause, now, Some(mark));
            }
        });
    }

    /// When this leader learned from the ledger about this leftover target.
    pub fn orphan_since(&self, target: &Target) -> Option<Moment> {
        self.entries.get(target).filter(|entry| entry.orphan().is_some())?.ended
    }

    /// Whether a target from the ledger waits for a read.
    pub fn waits_for_read(&self) -> bool {
        self.entries.values().any(|entry| {
            entry.orphan() == Some(&Orphan::Unjudged)
                || (entry.is_wanted() && matches!(entry.told, Told::Believed(_)))
        })
    }

    /// For each deregistered target of a pod: since when AWS no longer has it, and the hold that was requested for it.
    pub fn out_of(&self, uid: &Uid) -> impl Iterator<Item = (Since, AskedHold)> {
        let mark = PodMark::of(uid);
        let was_its = move |entry: &&Entry| {
            entry.out().of == Some(mark) || (entry.is_tombstone() && Tombstone(entry).mark() == mark)
        };
        let out = self.entries.of_pod(mark).map(|(_, entry)| entry).filter(was_its);
        out.filter_map(|entry| Some((entry.out().since?, entry.asked)))
    }

    /// The targets of a pod that only the ledger shows as deregistered.
    pub fn said_out_of(&self, uid: &Uid) -> impl Iterator<Item = &Target> {
        let mark = PodMark::of(uid);
        let is_said = move |entry: &Entry| {
            entry.is_tombstone() && !entry.is_seen_out() && Tombstone(entry).marks().any(|its| its == mark)
        };
        let of_pod = self.entries.of_pod(mark);
        of_pod.filter(move |(_, entry)| is_said(entry)).map(|(target, _)| target)
    }

    /// A Service may still turn out to want `target` for this living pod. Cancels the deregistration, if it was never
    /// sent.
    pub fn call_off(&mut self, target: &Target, pod: &ObjectKey) {
        self.change(*target, |entry| {
            if entry.is_stale_and_unsent() {
                entry.wish = Wish::Gone(Goes::Orphan(Orphan::Doubted(pod.clone())));
                entry.through = None;
            }
        });
    }

    /// Decides about a leftover target. `holder`: which pod has its address. `living`: the only living pod that has the
    /// address, if there is one, and why Headgate deregisters that pod while it is alive, if it does. `sight`: what the
    /// last read that counts has shown. `exclusive`: whether the group belongs to Headgate alone.
    pub fn judge(
        &mut self,
        target: &Target,
        holder: &Holder,
        living: Option<(Owner, Option<Cause>)>,
        sight: Option<Sight>,
        exclusive: bool,
        now: Moment,
    ) {
        let (living, leaves) = living.map_or((None, None), |(pod, leaves)| (Some(pod), leaves));
        let departed = &self.departed;
        let Some(entry) = self.entries.get(target) else { return };
        let mark = match entry.told {
            Told::Perhaps(mark) | Told::Believed(mark) | Told::Registered(mark) => mark,
            Told::Nothing | Told::Out(_) => PodMark::of(&entry.last.uid),
        };
        let its = departed.of(target, mark);
        let is_told = matches!(entry.told, Told::Perhaps(_) | Told::Believed(_));
        // A pod that has its address again has not lost it.
        let has_it_again = living.as_ref().is_some_and(|pod| PodMark::of(&pod.uid) == mark);
        let seen_to_go =
            its.filter(|departure| is_told && !(has_it_again && departure.cause.loses_the_address()));
        let seen_to_go = seen_to_go.cloned();
        // Used if the bindings of the target's pod are unknown. Another pod may have lost the target since.
        let through = its.or_else(|| departed.last(target)).and_then(|departure| departure.through.clone());
        self.change(*target, |entry| {
            if entry.orphan().is_none() {
                return;
            }
            let is_back = entry.cause == Cause::TargetReappeared;
            let stale = if is_back { Cause::TargetReappeared } else { Cause::StaleTarget };
            let mut goes = |cause, since| {
                entry.told = Told::Perhaps(mark);
                (entry.cause, entry.since, entry.attempts) = (cause, since, 0);
                let lives_on = |pod: &&Owner| cause.spares_the_pod() && PodMark::of(&pod.uid) == mark;
                let replaced = living.as_ref().filter(lives_on).cloned();
                entry.wish = Wish::Gone(replaced.map_or(Goes::Now, Goes::Replaced));
                entry.sight = sight;
                if entry.through.is_none() {
                    entry.through.clone_from(&through);
                }
            };
            // That its pod lost the target does not show who has registered the target since.
            if let Some(departure) = seen_to_go.filter(|_| !is_back) {
                goes(departure.cause, departure.seen);
                (entry.last, entry.through) = (departure.owner, departure.through);
                return;
            }
            // Any Service that may want the target would deregister it as well, and nothing holds the deregistration.
            if let Some(cause) = leaves {
                goes(cause, now);
                // The target is deregistered because of its pod. If the pod remains after all, the target is registered
                // again.
                if has_it_again {
                    entry.taken_from = Some(mark);
                }
                return;
            }
            let waits = |entry: &mut Entry, orphan| entry.wish = Wish::Gone(Goes::Orphan(orphan));
            match (holder, sight) {
                (Holder::Doubtful(pod), _) => waits(entry, Orphan::Doubted(pod.clone())),
                (Holder::Nobody, None) => waits(entry, Orphan::Unjudged),
                (Holder::Nobody, Some(Sight::Missing)) => {
                    entry.wish = Wish::Gone(Goes::Now);
                    (entry.told, entry.ended) = (Told::Out(Out::since(Some(Since::now(now)))), Some(now));
                }
                // It is too early to decide: the target may have been registered a moment ago.
                (Holder::Nobody, Some(Sight::There(HealthState::Initial))) => {
                    waits(entry, Orphan::Unjudged);
                }
                (Holder::Nobody, Some(Sight::There(HealthState::Healthy | HealthState::ZonalShift)))
                    if !exclusive =>
                {
                    waits(entry, Orphan::Suspect);
                }
                (Holder::Pod, _) | (Holder::Nobody, Some(Sight::There(_))) => goes(stale, now),
            }
        });
    }
}
