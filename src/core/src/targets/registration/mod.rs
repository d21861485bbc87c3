//! What Headgate has sent to AWS about the targets of one group, and what it must still send.
//!
//! * **Owns** the targets of one group, each with its state (`entry.rs`), the desired content of the ledger
//!   (`stored.rs`), and the foreign targets.
//! * **Flow.** The owner of a target changes ([`Registrations::want`]), a call starts or ends, a read succeeds, or the
//!   ledger is read or written. After each of these, `entries.rs` derives again what each target waits for.
//! * **Assumes** that the caller reports when each call starts and ends, and asks for deregistrations first.
//!
//! Each target has a small state machine: what is wanted (the owner, by pod UID), what was sent to AWS, and the calls
//! in flight. Its rules:
//!
//! * A deregistration never waits for a registration. If a `RegisterTargets` is in flight, Headgate sends
//!   `DeregisterTargets` immediately, and again after the first call has ended. AWS may apply the two in either order.
//! * A registration waits for a deregistration of the same target in flight, for the same reason.
//! * If the owner of a registered target changes, Headgate registers the target again for the new owner, so that the
//!   state of the old pod never counts for the new one. It does the same if the owner had lost the address in between.
//! * A lost answer proves nothing. The target counts as perhaps registered until a `DeregisterTargets` has succeeded.
//!   Deregistering a missing target succeeds (ELBv2 API reference).
//! * Headgate only deregisters targets that it has registered.
//! * Headgate remembers a deregistered target until two reads have not shown it and no call can take effect late any
//!   more. AWS may apply a `RegisterTargets` that was given up after the `DeregisterTargets`. If no call of Headgate
//!   can have registered a target that appears again, the target may belong to another installation (`inherit.rs`).
//! * A target that repeatedly disappears soon after its registration is registered less and less often.
//! * A rejected call is halved until the one bad target is alone. That target waits for a while, and the others
//!   continue. If AWS rejects all targets, they wait together, and one of them is retried (`refusals.rs`).
//! * The deregistration of targets of living pods waits until one of the new targets is healthy (`replaced.rs`).
//! * A read counts for a target only if it began after the last call with the target had ended. If the target is
//!   missing, the read must also have begun long enough after the call for AWS to show its effect.

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
mod queue;
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

/// The data of `DescribeTargetHealth` may be this old. AWS publishes no figures; users have seen seconds.
pub const STALE: Duration = Duration::from_secs(5);
/// How often the group is read while Headgate remembers a deregistered target.
const READ_FOR_TOMBSTONES: Duration = Duration::from_secs(20);
/// How many reads must not show a deregistered target before Headgate forgets it.
const READS: u8 = 2;

/// The registrations of one target group. See the module docs.
#[derive(Clone, Debug)]
pub struct Registrations {
    entries: Entries,
    binders: Binders,
    replaced: Replaced,
    room: Room,
    /// How many targets did not fit when AWS last rejected some.
    unplaced: usize,
    adding: Option<RequestId>,
    /// What AWS rejects: registrations and deregistrations.
    unregistered: Refusals,
    unremoved: Refusals,
    stored: Stored,
    departed: Departed,
    holders: Holders,
    family: IpFamily,
    /// How long a call that was given up, or that an earlier leader sent, may still take effect.
    late: Duration,
    /// Whether Headgate tracks since when AWS has a target that no read has confirmed.
    dates_answers: bool,
}

impl Registrations {
    /// Handles a failed read of the group. Does nothing.
    pub const fn unread(&mut self, _now: Moment) {}

    /// Begins the term with this number. Does nothing.
    pub const fn begins(&mut self, _term: u64, _now: Moment) {}

    /// Starts without wanted targets and without a ledger. `seed` is for jitter.
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

    /// Sets the owner of a target, or the bindings through which the owner has it. `of_the_pod`: whether the cause is
    /// the pod, not the configuration.
    pub fn want(&mut self, ownership: Ownership, of_the_pod: bool) {
        let Ownership { through, target, owner, cause, seen } = ownership;
        self.note_family(target.ip);
        if let Some(entry) = self.entries.get(&target) {
            let (last, before) = (entry.last.clone(), entry.cause);
            let has_gone_before = self.departed.of(&target, PodMark::of(&last.uid)).is_some();
            match &owner {
                // An earlier record about this pod is outdated.
                None if entry.told.mark().is_none() || has_gone_before => {
                    let departure = Departure { owner: last, through: Some(through.clone()), cause, seen };
                    self.departed.note(target, departure);
                }
                // The ledger may name the pod that lost the target, and may be read again.
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
            // A sight from before the deregistration does not count if the target remains registered after all.
            let stands = |entry: &Entry| !entry.is_wanted() || (entry.is_registered() && !went);
            entry.sight = entry.sight.filter(|_| stands(entry));
        });
    }

    /// The pods that lost a target, even if AWS may still have the target.
    pub fn departed(&self, now: Moment) -> Departed {
        let mut departed = self.departed.clone();
        for (target, entry) in self.entries.iter().filter(|(_, entry)| !entry.is_wanted()) {
            let Entry { last, through, cause, .. } = entry;
            let (owner, through) = (last.clone(), through.clone());
            departed.note(*target, Departure { owner, through, cause: *cause, seen: now });
        }
        departed
    }

    /// Takes over the pods that lost a target.
    pub fn have_departed(&mut self, departed: Departed) {
        self.departed = departed;
    }

    /// Cause time of the oldest deregistration that AWS has not accepted yet. It may be waiting, backing off or in
    /// flight.
    pub fn oldest_untaken_removal(&self) -> Option<Moment> {
        let waiting = self.entries.all_waiting(Action::Deregister).map(|(since, _)| *since);
        let in_flight =
            self.entries.values().filter(|entry| !entry.is_wanted() && entry.deregistering.is_some());
        waiting.chain(in_flight.map(|entry| entry.since)).min()
    }

    /// The target group does not exist, so it has no targets, and none can appear again.
    pub fn group_is_gone(&mut self) {
        // Headgate may read the ledger again before the ledger records this.
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

    /// How many wanted targets somebody else deregisters repeatedly.
    pub fn contested(&self) -> usize {
        let contested = |entry: &&Entry| entry.is_wanted() && entry.vanishing.is_removed_by_another();
        self.entries.values().filter(contested).count()
    }

    /// How long until a read can show something new about a deregistered target.
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

    /// Whether AWS may still have an unwanted target of `origin`, or a call with one is in flight. A target that
    /// `origin` had recently also counts if the ledger names another pod for it.
    pub fn is_leaving(&self, origin: &Origin) -> bool {
        let has = |entry: &Entry| entry.through.as_ref().is_some_and(|through| through.is_of(origin));
        let had = |target: &Target| self.departed.had(target, origin);
        self.leaving().any(|(target, entry)| has(entry) || (entry.goes_for_good() && had(target)))
    }

    /// Like [`Self::is_leaving`], for targets that only the ledger names, which may belong to any object. Targets that
    /// a binding may turn out to want do not count.
    pub fn is_leaving_unknown(&self) -> bool {
        self.leaving().any(|(_, entry)| entry.through.is_none() && entry.goes_for_good())
    }

    /// The unwanted targets that AWS may have. A target that another cluster may have got does not count.
    fn leaving(&self) -> impl Iterator<Item = (&Target, &Entry)> {
        let leaves = |(_, entry): &(&Target, &Entry)| {
            !entry.is_wanted() && !entry.is_tombstone() && entry.orphan() != Some(&Orphan::Suspect)
        };
        self.entries.iter().filter(leaves)
    }

    /// Forgets the pods that lost a target long ago.
    pub fn forget_departed(&mut self, now: Moment) {
        self.departed.forget(now);
    }

    /// Whether there is no target, no pod that recently lost one, and no namespace that holds the group.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.departed.is_empty() && self.holders.is_empty()
    }

    /// Whether `target` is registered for the pod that should have it.
    pub fn is_registered(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(Entry::is_registered)
    }

    /// The unwanted targets that AWS may have for a pod with these addresses, each with the requested hold. This
    /// includes targets of an earlier leader. It also includes targets that briefly belonged to another pod and were
    /// not registered for it.
    pub fn all_of<'a>(
        &'a self,
        uid: &'a Uid,
        ips: &'a [IpAddr],
    ) -> impl Iterator<Item = (&'a Target, AskedHold)> {
        let its = self.had_by(uid).filter(move |(target, entry)| !is_lost(target, entry, uid, ips));
        its.map(|(target, entry)| (target, entry.asked))
    }

    /// Whether an earlier leader registered the pod at an address that the pod has not been seen with since. The pod
    /// may have got that address by now.
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

    /// Whether a target belongs, or belonged, to this pod.
    pub fn knows_pod(&self, mark: PodMark) -> bool {
        self.entries.knows_pod(mark)
    }

    /// The pods for which [`Self::knows_pod`] may have changed since the last call.
    pub fn take_pods_changed(&mut self) -> BTreeSet<PodMark> {
        self.entries.take_pods_changed()
    }

    /// Whether AWS has accepted the deregistration of `target`, and no call can register it again, for the pod that had
    /// it and has these addresses. Also true if the target belongs, or may belong, to another pod.
    pub fn is_out(&self, target: &Target, uid: &Uid, ips: &[IpAddr]) -> bool {
        let is_anothers = |entry: &Entry| {
            is_lost(target, entry, uid, ips) || entry.owner().is_some_and(|owner| owner.uid != *uid)
        };
        self.entries.get(target).is_none_or(|entry| entry.is_seen_out() || is_anothers(entry))
    }

    /// Whether `target` should be registered.
    pub fn wants(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(Entry::is_wanted)
    }

    /// Whether `target` is wanted, or Headgate has registered it.
    pub fn knows(&self, target: &Target) -> bool {
        self.entries.get(target).is_some()
    }

    /// The targets of a binding that will be or were just deregistered. Each with its last pod, the reason, and whether
    /// AWS has yet to accept the deregistration.
    pub fn ending(&self, binding: &BindingKey) -> impl Iterator<Item = (&Target, &ObjectKey, Cause, bool)> {
        let ends = move |entry: &Entry| !entry.is_wanted() && entry.binding() == Some(binding);
        let ending = self.entries.iter().filter(move |(_, entry)| ends(entry));
        ending.map(|(target, entry)| (target, &entry.last.pod, entry.cause, !entry.is_tombstone()))
    }

    /// The targets that should be registered.
    pub fn wanted(&self) -> impl Iterator<Item = &Target> {
        self.entries.which(Entry::is_wanted)
    }

    /// The targets that should be registered, each with its pod.
    pub fn wanted_by(&self) -> impl Iterator<Item = (&Target, &Owner)> {
        self.entries.iter().filter_map(|(target, entry)| Some((target, entry.owner()?)))
    }

    /// The pod that should have `target`, or had it last.
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

    /// The unwanted targets that a pod of this name had. `uid`: also requires this UID.
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

    /// Whether this target is unwanted, and AWS has not accepted its deregistration.
    pub fn is_to_go(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(|entry| !entry.is_wanted() && !entry.is_tombstone())
    }

    /// The targets that AWS may have.
    pub fn told(&self) -> BTreeSet<Target> {
        self.entries.which(|entry| entry.told.mark().is_some()).copied().collect()
    }

    /// Records the address family, which all targets of a group share.
    fn note_family(&mut self, ip: IpAddr) {
        self.family = if ip.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
    }

    /// Removes the entry of `target`, which is no longer needed.
    fn drop_entry(&mut self, target: &Target) {
        self.entries.remove(target);
        if self.stored.content().get(target).is_some() {
            self.stored.touch();
        }
    }

    /// Removes the entries that satisfy `over`.
    fn drop_those(&mut self, over: impl Fn(&Entry) -> bool) {
        for target in self.entries.which(over).copied().collect::<Vec<_>>() {
            self.drop_entry(&target);
        }
    }

    /// Which targets may be registered has changed.
    fn requeue(&mut self) {
        let waiting = self.entries.all_waiting(Action::Register).chain(self.entries.waiting(Queue::Note));
        for target in waiting.map(|(_, target)| *target).collect::<Vec<_>>() {
            self.change(target, |_| {});
        }
    }

    /// Adds an entry for a new target.
    fn insert(&mut self, target: Target, entry: Entry) {
        self.entries.insert(target, entry);
        self.change(target, |_| {});
    }

    /// Changes the entry of `target`, if there is one, and everything that depends on it.
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

/// Whether a pod with these addresses no longer has a part in a target that it had. The target remains registered for
/// others, for example for a pod that got the address and is being replaced.
fn is_lost(target: &Target, entry: &Entry, uid: &Uid, ips: &[IpAddr]) -> bool {
    let is_held_for_another = || entry.replaced().is_some_and(|owner| owner.uid != *uid);
    (entry.is_left_to_others() || is_held_for_another()) && !ips.contains(&target.ip)
}

#[cfg(test)]
mod tests;
