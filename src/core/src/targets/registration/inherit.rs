//! Taking over: what the ledger says of the time before, and what becomes of it.
//!
//! A target that is wanted for the very pod it was registered for needs no call, once a read has shown it. One that
//! nothing wants is removed:
//!
//! * at once, if this replica has seen its pod go, or a pod of this cluster has the address;
//! * at once and whatever is in doubt, if the pod that lives there leaves: for its eviction, or with its node;
//! * otherwise when a read says that it is not healthy. If it is healthy and nobody here has the address, another
//!   cluster of the VPC may have got it: that one is reported, and looked at again at every read; unless the group is
//!   ours alone.
//! * The same is asked of a target that was taken out from here and is there again, if no `RegisterTargets` of ours can have
//!   brought it back: another installation that shares the group may have registered what is at the address now.
//! * Not while a pod lives there and a Service beside it is doubtful (its annotation cannot be read, or a target group
//!   it names has not been found), or the pod only has to become ready: what was in force before is not known after a
//!   restart. A removal that waits (for the end of a pause, a backoff, or those that replace the target) and was never
//!   sent is called off if such a doubt comes up meanwhile.

use super::{
    Entry, Orphan, PutBack, Registrations, Told, Tombstone,
    entry::{Goes, Out, Since, Wish, told_by},
    evidence::{Past, Unproven},
};
use crate::{
    ledger::{Ledger, Noted, PodMark},
    model::{AskedHold, Cause, HealthState, Moment, ObjectKey, Owner, Target, Uid, Written},
};

/// Who has an address, as far as this cluster knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No pod, or only one that has ended and may have lost it since.
    Nobody,
    /// A pod of this cluster, which nothing can turn out to want there.
    Pod,
    /// A living pod, which a doubtful Service beside it may turn out to want there.
    Doubtful(ObjectKey),
}

/// What a read that counts has shown of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// No such target, or one that is draining.
    Missing,
    /// It is there.
    There(HealthState),
}

impl Entry {
    /// Whether it was judged stale, and its removal was never sent.
    fn is_stale_and_unsent(&self) -> bool {
        let is_judged = !self.is_wanted() && self.orphan().is_none() && matches!(self.told, Told::Perhaps(_));
        is_judged && self.cause == Cause::StaleTarget && self.attempts == 0
    }

    /// Whether a late call has brought it back, and its removal was not sent since that was seen.
    fn is_back_and_unsent(&self) -> bool {
        let goes = !self.is_wanted() && self.orphan().is_none() && matches!(self.told, Told::Perhaps(_));
        goes && self.cause == Cause::TargetReappeared && self.attempts == 0
    }
}

impl Registrations {
    /// The ledger says this. What is known here about a target already is newer and stays.
    pub fn inherit(&mut self, ledger: &Ledger, now: Moment) {
        // Where the ledger does not say since when, it counts from now.
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

    /// The targets that came with the ledger, that nothing wants and that have not been judged for good.
    pub fn orphans(&self) -> impl Iterator<Item = (&Target, &Orphan)> {
        self.entries.iter().filter_map(|(target, entry)| Some((target, entry.orphan()?)))
    }

    /// Those that were judged stale, and whose removals were never sent: a doubt calls them off.
    pub fn stale_and_unsent(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_stale_and_unsent)
    }

    /// Those that a late call has brought back, and whose removals were not sent since that was seen.
    pub fn back_and_unsent(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_back_and_unsent)
    }

    /// A late call has brought `target` back while this pod has it, and leaves: it goes for that. Should the pod stay after
    /// all, it is put back.
    pub fn goes_for(&mut self, target: &Target, pod: &Owner, cause: Cause, now: Moment) {
        let mark = PodMark::of(&pod.uid);
        self.change(*target, |entry| {
            if entry.is_back_and_unsent() && entry.told.mark() == Some(mark) {
                (entry.cause, entry.since, entry.taken_from) = (cause, now, Some(mark));
            }
        });
    }

    /// When the ledger told of this orphan.
    pub fn orphan_since(&self, target: &Target) -> Option<Moment> {
        self.entries.get(target).filter(|entry| entry.orphan().is_some())?.ended
    }

    /// Whether anything that came with the ledger waits for a read.
    pub fn waits_for_read(&self) -> bool {
        self.entries.values().any(|entry| {
            entry.orphan() == Some(&Orphan::Unjudged)
                || (entry.is_wanted() && matches!(entry.told, Told::Believed(_)))
        })
    }

    /// Since when AWS has had each target of a pod no more that was taken out, and the hold that was asked for it.
    pub fn out_of(&self, uid: &Uid) -> impl Iterator<Item = (Since, AskedHold)> {
        let mark = PodMark::of(uid);
        let was_its = move |entry: &&Entry| {
            entry.out().of == Some(mark) || (entry.is_tombstone() && Tombstone(entry).mark() == mark)
        };
        let out = self.entries.of_pod(mark).map(|(_, entry)| entry).filter(was_its);
        out.filter_map(|entry| Some((entry.out().since?, entry.asked)))
    }

    /// Which targets of a pod are out by the word of the ledger alone.
    pub fn said_out_of(&self, uid: &Uid) -> impl Iterator<Item = &Target> {
        let mark = PodMark::of(uid);
        let is_said = move |entry: &Entry| {
            entry.is_tombstone() && !entry.is_seen_out() && Tombstone(entry).marks().any(|its| its == mark)
        };
        let of_pod = self.entries.of_pod(mark);
        of_pod.filter(move |(_, entry)| is_said(entry)).map(|(target, _)| target)
    }

    /// This living pod may yet turn out to be wanted at `target`: its removal is called off, if it was never sent.
    pub fn call_off(&mut self, target: &Target, pod: &ObjectKey) {
        self.change(*target, |entry| {
            if entry.is_stale_and_unsent() {
                entry.wish = Wish::Gone(Goes::Orphan(Orphan::Doubted(pod.clone())));
                entry.through = None;
            }
        });
    }

    /// Decides what becomes of an orphan. `holder`: who has its address; `living`: the one living pod that has it, if it is
    /// one, and why that leaves, if it does; `sight`: what the last read has shown of it, if that counts; `exclusive`:
    /// whether the group is ours alone.
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
        // One that has its address again has not lost it.
        let has_it_again = living.as_ref().is_some_and(|pod| PodMark::of(&pod.uid) == mark);
        let seen_to_go =
            its.filter(|departure| is_told && !(has_it_again && departure.cause.loses_the_address()));
        let seen_to_go = seen_to_go.cloned();
        // If it is not known through which bindings its pod had it: another one may have gone from there since.
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
            // That its pod went says nothing of who has registered it since.
            if let Some(departure) = seen_to_go.filter(|_| !is_back) {
                goes(departure.cause, departure.seen);
                (entry.last, entry.through) = (departure.owner, departure.through);
                return;
            }
            // Whatever may turn out to want it lets it go as well, and it is held for nothing.
            if let Some(cause) = leaves {
                goes(cause, now);
                // It goes for its pod: should that stay after all, it is put back.
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
                // Too early to tell: it may have been registered a moment ago.
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
