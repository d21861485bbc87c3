//! What AWS has been told about the targets of one group, and what it must still be told.
//!
//! * **Owns** the targets of one group, each with its state (`entry.rs`); what its ledger should say (`stored.rs`); what was
//!   found and is not ours.
//! * **Flow.** An owner changes ([`Registrations::want`]), a call starts or ends, a read shows something, the ledger is
//!   read or written: what each target waits for is derived anew (`entries.rs`).
//! * **Assumes** that whoever sends calls says when each starts and ends, and asks for removals first.
//!
//! A small machine per target: what is wanted (the owner, by pod UID), what AWS was told, and the calls in
//! flight. Its rules:
//!
//! * A removal never waits for a registration: a `DeregisterTargets` for a target whose `RegisterTargets` is in
//!   flight goes at once, and again after that has ended, since AWS may apply the two in either order.
//! * A registration waits for a removal of the same target that is in flight, for the same reason.
//! * A target whose owner changed while it stayed registered is registered again for the new owner, so that
//!   nothing about the old pod is ever taken for the new one. So is one whose owner had lost the address meanwhile.
//! * An answer that is lost proves nothing: the target counts as perhaps registered until a `DeregisterTargets`
//!   has succeeded. Deregistering a target that is not there succeeds (ELBv2 API reference).
//! * Only what was registered from here is ever removed.
//! * A removed target is remembered as a tombstone until it was missing in two reads and no call of ours can land
//!   late any more: a `RegisterTargets` that was given up may still be applied after the `DeregisterTargets`.
//!   One that is there again although no call of ours can have brought it back may be another installation's
//!   (`inherit.rs`).
//! * A target that vanishes again and again soon after it was registered is registered ever more rarely.
//! * A refused call is halved until the one bad target is alone; that one is set aside for a while, the rest go on. Targets
//!   that are refused alike are set aside together, and one of them is tried again (`refusals.rs`).
//! * The removal of targets whose pods live on waits until one of those that replace them is healthy (`replaced.rs`).
//! * What a read shows counts for a target only if the read began after our last call about it had ended, and, for
//!   a target that is missing, long enough after it for AWS to show what it did.

mod binders;
mod calls;
mod departed;
mod entries;
mod entry;
mod evidence;
mod foreign;
mod holders;
mod inherit;
mod observed;
mod putting_back;
mod refusals;
mod replaced;
mod room;
mod stored;
mod vanishing;
mod waiting;
mod writing;

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

pub use self::{
    binders::{Binders, Planned},
    entry::{Orphan, Since},
    inherit::{Holder, Sight},
    observed::Tombstone,
};
use self::{
    departed::{Departed, Departure},
    entries::{Action, Entries, Queue},
    entry::{Entry, Goes, Need, Out, PutBack, Told, Wish},
    holders::Holders,
    refusals::{Refusals, Refused},
    replaced::Replaced,
    room::Room,
    stored::Stored,
};
use crate::{
    ledger::PodMark,
    model::{
        AskedHold, BindingKey, Cause, IpFamily, Moment, ObjectKey, Origin, Owner, RequestId, Target, Uid,
        account::{Account, Under},
        changes::Ownership,
        target_group::GroupSettings,
    },
};

/// `DescribeTargetHealth` may be this old (facts about its consistency are not published; people saw seconds).
pub const STALE: Duration = Duration::from_secs(5);
/// While a removed target is still remembered.
const READ_FOR_TOMBSTONES: Duration = Duration::from_secs(20);
/// Reads without the target before a tombstone is dropped.
const READS: u8 = 2;

/// The registrations of one target group. See the module.
#[derive(Clone, Debug)]
pub struct Registrations {
    entries: Entries,
    binders: Binders,
    replaced: Replaced,
    room: Room,
    /// How many did not fit when AWS last said so.
    unplaced: usize,
    adding: Option<RequestId>,
    /// What AWS refuses of registrations, and of removals.
    unregistered: Refusals,
    unremoved: Refusals,
    stored: Stored,
    departed: Departed,
    holders: Holders,
    family: IpFamily,
    /// A call that was given up, or that a leader before has sent, may still be applied for this long.
    late: Duration,
    /// Whether it counts since when AWS has taken a registration and no read was answered.
    dates_answers: bool,
}

impl Registrations {
    /// A read of the group has failed.
    pub const fn unread(&mut self, _now: Moment) {}

    /// A term begins, of this number.
    pub const fn begins(&mut self, _term: u64, _now: Moment) {}

    /// Nothing is wanted, and nothing known of the ledger. `seed` is for jitter.
    pub fn new(settings: &GroupSettings, seed: u64) -> Self {
        Self {
            entries: Entries::default(),
            binders: Binders::none(settings.read_only),
            replaced: Replaced::new(settings.replacement_grace),
            room: Room::default(),
            unplaced: 0,
            adding: None,
            unregistered: Refusals::default(),
            unremoved: Refusals::default(),
            stored: Stored::new(seed),
            departed: Departed::default(),
            holders: Holders::new(settings.holder_patience),
            family: IpFamily::V4,
            late: settings.late,
            dates_answers: settings.dates_registrations,
        }
    }

    /// The owner of a target is another one now, or has it through others; `of_the_pod`: for what became of a pod, and not
    /// for what is written.
    pub fn want(&mut self, ownership: Ownership, of_the_pod: bool) {
        let Ownership { through, target, owner, cause, seen } = ownership;
        self.note_family(target.ip);
        if let Some(entry) = self.entries.get(&target) {
            let (last, before) = (entry.last.clone(), entry.cause);
            let has_gone_before = self.departed.of(&target, PodMark::of(&last.uid)).is_some();
            match &owner {
                // What it was before says nothing any more.
                None if entry.told.mark().is_none() || has_gone_before => {
                    let departure = Departure { owner: last, through: Some(through.clone()), cause, seen };
                    self.departed.note(target, departure);
                }
                // The ledger may name the pod that went, and be read again.
                Some(owner) if last.uid != owner.uid && entry.namespace().is_some() => {
                    let through = entry.through.clone();
                    let cause = if entry.is_wanted() { Cause::IpChanged } else { before };
                    self.departed.note(target, Departure { owner: last, through, cause, seen });
                }
                _ => {}
            }
        }
        if owner.is_none() && cause.spares_the_pod() {
            self.replaced.changes();
        }
        if self.entries.get(&target).is_none() {
            if let Some(owner) = owner {
                self.insert(target, Entry::wanted(owner, Some(through), cause, seen));
            }
            return;
        }
        self.change(target, |entry| {
            entry.through = Some(through);
            if owner.is_some() && entry.owner() == owner.as_ref() {
                return;
            }
            if owner.is_some() {
                entry.comes_back();
            }
            let went = !entry.is_wanted() && (entry.attempts > 0 || entry.deregistering.is_some());
            entry.put_back = entry.put_back_for(owner.as_ref(), of_the_pod, seen);
            if owner.is_none() {
                entry.note_taken_out(of_the_pod);
            }
            if let Some(owner) = &owner {
                entry.last = owner.clone();
            }
            let replaced = cause.spares_the_pod().then(|| Goes::Replaced(entry.last.clone()));
            entry.wish = match owner {
                Some(owner) => Wish::There(owner),
                None if entry.is_foreign() => Wish::Gone(Goes::Foreign),
                None => Wish::Gone(replaced.unwrap_or(Goes::Now)),
            };
            (entry.cause, entry.since, entry.attempts) = (cause, seen, 0);
            entry.forget_refusals();
            entry.set_aside = None;
            // What was seen before its removal was sent says nothing any more, should it stay after all.
            let stands = |entry: &Entry| !entry.is_wanted() || (entry.is_registered() && !went);
            entry.sight = entry.sight.filter(|_| stands(entry));
        });
    }

    /// The pods that were seen to go, also from what AWS may still have.
    pub fn departed(&self, now: Moment) -> Departed {
        let mut departed = self.departed.clone();
        for (target, entry) in self.entries.iter().filter(|(_, entry)| !entry.is_wanted()) {
            let Entry { last, through, cause, .. } = entry;
            let (owner, through) = (last.clone(), through.clone());
            departed.note(*target, Departure { owner, through, cause: *cause, seen: now });
        }
        departed
    }

    /// These were.
    pub fn have_departed(&mut self, departed: Departed) {
        self.departed = departed;
    }

    /// When the longest waiting removal was caused, of those that should be made and that AWS has not taken yet: those that
    /// wait for their turn or for another try, and those in flight.
    pub fn oldest_untaken_removal(&self) -> Option<Moment> {
        let waiting = self.entries.all_waiting(Action::Deregister).map(|(since, _)| *since);
        let in_flight =
            self.entries.values().filter(|entry| !entry.is_wanted() && entry.deregistering.is_some());
        waiting.chain(in_flight.map(|entry| entry.since)).min()
    }

    /// The target group does not exist: nothing is in it, and nothing can come back.
    pub fn group_is_gone(&mut self) {
        // The ledger may be read again before it says so.
        let known =
            self.entries.iter().filter(|(_, entry)| entry.is_tombstone() && entry.namespace().is_some());
        for (target, Entry { last, through, cause, since, .. }) in known {
            let (owner, through) = (last.clone(), through.clone());
            self.departed.note(*target, Departure { owner, through, cause: *cause, seen: *since });
        }
        self.drop_those(|entry| entry.is_tombstone() || entry.orphan().is_some());
        self.let_go(usize::MAX);
        self.room = Room::default();
    }

    /// How many targets that should be there somebody else removes again and again.
    pub fn contested(&self) -> usize {
        let contested = |entry: &&Entry| entry.is_wanted() && entry.vanishing.is_removed_by_another();
        self.entries.values().filter(contested).count()
    }

    /// After which time a read shows something about a target that was removed.
    pub fn next_look(&self, now: Moment) -> Option<Duration> {
        let mut tombstones = self.entries.values().filter(|entry| entry.is_tombstone()).peekable();
        tombstones.peek()?;
        if tombstones.any(|entry| entry.out().missing == 0) {
            return Some(STALE);
        }
        let mut all = self.entries.values();
        all.any(|entry| entry.is_tombstone() && !entry.has_done_its_duty(self.late, now))
            .then_some(READ_FOR_TOMBSTONES)
    }

    /// Whether a target of `origin` that should not be there may still be, or a call about it is in flight. One that it had
    /// a while ago is also its own if the ledger has it under the pod of another.
    pub fn is_leaving(&self, origin: &Origin) -> bool {
        let has = |entry: &Entry| entry.through.as_ref().is_some_and(|through| through.is_of(origin));
        let had = |target: &Target| self.departed.had(target, origin);
        self.leaving().any(|(target, entry)| has(entry) || (entry.goes_for_good() && had(target)))
    }

    /// The same of targets that only the ledger tells of, which may be anybody's. Those that something else may turn out
    /// to want stay for that, however long it takes.
    pub fn is_leaving_unknown(&self) -> bool {
        self.leaving().any(|(_, entry)| entry.through.is_none() && entry.goes_for_good())
    }

    /// One that another cluster may have got is nobody's here any more.
    fn leaving(&self) -> impl Iterator<Item = (&Target, &Entry)> {
        let leaves = |(_, entry): &(&Target, &Entry)| {
            !entry.is_wanted() && !entry.is_tombstone() && entry.orphan() != Some(&Orphan::Suspect)
        };
        self.entries.iter().filter(leaves)
    }

    /// Forgets what need not be remembered any more.
    pub fn forget_departed(&mut self, now: Moment) {
        self.departed.forget(now);
    }

    /// Whether nothing is wanted, registered or in flight any more, nothing can come back, and nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.departed.is_empty() && self.holders.is_empty()
    }

    /// Whether `target` is registered for the pod that should have it.
    pub fn is_registered(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(Entry::is_registered)
    }

    /// What AWS may have of a pod with these addresses, as far as is known, or the leader before has written, and may be
    /// taken out: also what was another's for a moment since, and was not registered for that one. Each with the hold that
    /// is asked for it.
    pub fn all_of<'a>(
        &'a self,
        uid: &'a Uid,
        ips: &'a [IpAddr],
    ) -> impl Iterator<Item = (&'a Target, AskedHold)> {
        let its = self.had_by(uid).filter(move |(target, entry)| !is_lost(target, entry, uid, ips));
        its.map(|(target, entry)| (target, entry.asked))
    }

    /// Whether the leader before had a pod with these addresses at another one, where it has not been seen since. It may have
    /// got that by now.
    pub fn has_elsewhere(&self, uid: &Uid, ips: &[IpAddr]) -> bool {
        self.had_by(uid).any(|(target, entry)| entry.orphan().is_some() && !ips.contains(&target.ip))
    }

    fn had_by<'a>(&'a self, uid: &'a Uid) -> impl Iterator<Item = (&'a Target, &'a Entry)> {
        let mark = PodMark::of(uid);
        let was_its = move |entry: &Entry| entry.last.uid == *uid || entry.taken_from == Some(mark);
        let is_told = move |entry: &Entry| !entry.is_wanted() && entry.told.mark() == Some(mark);
        let is_in = |entry: &Entry| !entry.is_tombstone() && !entry.paused;
        self.entries.of_pod(mark).filter(move |(_, entry)| (was_its(entry) || is_told(entry)) && is_in(entry))
    }

    /// Whether a target has to do with this pod, or had.
    pub fn knows_pod(&self, mark: PodMark) -> bool {
        self.entries.knows_pod(mark)
    }

    /// The pods of which that may be otherwise than when this was called last.
    pub fn take_pods_changed(&mut self) -> BTreeSet<PodMark> {
        self.entries.take_pods_changed()
    }

    /// Whether AWS has taken the removal of `target`, and nothing can come back: as far as the pod is concerned that had
    /// it, and has these addresses, also if it is another's by now or may be.
    pub fn is_out(&self, target: &Target, uid: &Uid, ips: &[IpAddr]) -> bool {
        let is_anothers = |entry: &Entry| {
            is_lost(target, entry, uid, ips) || entry.owner().is_some_and(|owner| owner.uid != *uid)
        };
        self.entries.get(target).is_none_or(|entry| entry.is_seen_out() || is_anothers(entry))
    }

    /// Whether `target` should be there.
    pub fn wants(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(Entry::is_wanted)
    }

    /// Whether `target` is wanted, or was registered from here.
    pub fn knows(&self, target: &Target) -> bool {
        self.entries.get(target).is_some()
    }

    /// The targets of a binding that are to go or have gone a moment ago: each with its last pod, the reason, and
    /// whether AWS has yet to take its removal.
    pub fn ending(&self, binding: &BindingKey) -> impl Iterator<Item = (&Target, &ObjectKey, Cause, bool)> {
        let ends = move |entry: &Entry| !entry.is_wanted() && entry.binding() == Some(binding);
        let ending = self.entries.iter().filter(move |(_, entry)| ends(entry));
        ending.map(|(target, entry)| (target, &entry.last.pod, entry.cause, !entry.is_tombstone()))
    }

    /// The targets that should be there.
    pub fn wanted(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_wanted)
    }

    /// The same, each with its pod.
    pub fn wanted_by(&self) -> impl Iterator<Item = (&Target, &Owner)> {
        self.entries.iter().filter_map(|(target, entry)| Some((target, entry.owner()?)))
    }

    /// Whose `target` is, or was last.
    pub fn whose(&self, target: &Target) -> Option<&Owner> {
        self.entries.get(target).map(|entry| entry.owner().unwrap_or(&entry.last))
    }

    /// What is known of `target`.
    pub fn account(&self, target: &Target) -> Option<Account<'_>> {
        let entry = self.entries.get(target)?;
        Some(Account {
            uid: &self.whose(target)?.uid,
            binding: entry.binding(),
            paused: entry.paused,
            paused_by: self.paused_by(target),
            under: self.under(target, entry),
            cause: entry.cause,
            since: entry.since,
            ended: entry.ended,
            attempts: entry.attempts,
        })
    }

    /// The targets that a pod of this name, and of this UID if that is known, had and should have no more.
    pub fn left_by<'a>(
        &'a self,
        pod: &'a ObjectKey,
        uid: Option<&'a Uid>,
    ) -> impl Iterator<Item = &'a Target> {
        self.entries.which(move |entry| {
            !entry.is_wanted() && entry.last.pod == *pod && uid.is_none_or(|uid| entry.last.uid == *uid)
        })
    }

    fn under(&self, target: &Target, entry: &Entry) -> Under {
        match &entry.wish {
            Wish::There(_) if entry.registering.is_some() => Under::Registering,
            Wish::There(_) if entry.deregistering.is_some() => Under::AfterRemoval,
            Wish::There(_) if entry.put_back != PutBack::No => Under::AfterGate(entry.put_back.until()),
            Wish::There(_) => match (entry.set_aside, entry.due()) {
                (Some(until), _) => Under::Contested(until),
                (None, Need::Register) if entry.refused == Refused::Waits => {
                    self.unregistered.until().map_or(Under::ToRegister, Under::SetAside)
                }
                (None, Need::Register) if self.entries.queue_of(target) == Some(Queue::Note) => Under::ToNote,
                (None, Need::Register) => Under::ToRegister,
                (None, _) if entry.is_registered() => Under::Registered,
                (None, _) => Under::Believed,
            },
            Wish::Gone(_) if entry.deregistering.is_some() => Under::Removing,
            Wish::Gone(Goes::Orphan(Orphan::Suspect)) => Under::Suspect,
            Wish::Gone(Goes::Orphan(_)) => Under::Doubted,
            Wish::Gone(_) if entry.is_tombstone() => Under::Removed,
            Wish::Gone(_) if self.entries.queue_of(target) == Some(Queue::Held) => Under::Held,
            Wish::Gone(_) if entry.refused == Refused::Waits => {
                self.unremoved.until().map_or(Under::ToRemove, Under::SetAside)
            }
            Wish::Gone(_) => Under::ToRemove,
        }
    }

    /// Whether this target is to go, and AWS has not taken its removal.
    pub fn is_to_go(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(|entry| !entry.is_wanted() && !entry.is_tombstone())
    }

    /// The targets of which AWS was told.
    pub fn told(&self) -> BTreeSet<Target> {
        self.entries.which(|entry| entry.told.mark().is_some()).copied().collect()
    }

    /// All targets of a group are of one family.
    fn note_family(&mut self, ip: IpAddr) {
        self.family = if ip.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
    }

    /// The entry of `target` has done its duty.
    fn drop_entry(&mut self, target: &Target) {
        self.entries.remove(target);
        if self.stored.content().get(target).is_some() {
            self.stored.touch();
        }
    }

    /// Those of which this holds have done their duty.
    fn drop_those(&mut self, over: impl Fn(&Entry) -> bool) {
        for target in self.entries.which(over).copied().collect::<Vec<_>>() {
            self.drop_entry(&target);
        }
    }

    /// What may be registered has changed.
    fn requeue(&mut self) {
        let waiting = self.entries.all_waiting(Action::Register).chain(self.entries.waiting(Queue::Note));
        for target in waiting.map(|(_, target)| *target).collect::<Vec<_>>() {
            self.change(target, |_| {});
        }
    }

    /// Nothing was known of `target`.
    fn insert(&mut self, target: Target, entry: Entry) {
        self.entries.insert(target, entry);
        self.change(target, |_| {});
    }

    /// Changes the entry of `target`, if there is one, and all that follows from it.
    fn change(&mut self, target: Target, change: impl FnOnce(&mut Entry)) {
        let Self { entries, stored, binders, .. } = self;
        let judged = |entry: &mut Entry| {
            change(entry);
            binders.judge(entry);
        };
        entries.change(target, |mark| stored.allows(&target, mark), judged);
        let Some(entry) = entries.get(&target) else { return };
        let is_over = entry.due() == Need::Nothing
            && entry.is_tombstone()
            && (entry.ended.is_none() || entry.is_foreign());
        if is_over {
            self.drop_entry(&target);
            return;
        }
        let before = stored.content().get(&target);
        if entry.note(before) != before {
            stored.touch();
        }
    }
}

/// Whether a pod with these addresses has nothing to do any more with a target that it had: it stays for others, as for one
/// that has got the address and is being replaced.
fn is_lost(target: &Target, entry: &Entry, uid: &Uid, ips: &[IpAddr]) -> bool {
    let is_held_for_another = || entry.replaced().is_some_and(|owner| owner.uid != *uid);
    (entry.is_left_to_others() || is_held_for_another()) && !ips.contains(&target.ip)
}

#[cfg(test)]
mod tests;
