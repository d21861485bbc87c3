//! What AWS has been told about the targets of one group, and what it must still be told.
//!
//! A small machine per target: what is wanted (the owner, by pod UID), what AWS was told, and the calls in
//! flight. Its rules:
//!
//! * A removal never waits for a registration: a `DeregisterTargets` for a target whose `RegisterTargets` is in
//!   flight goes at once, and again after that has ended, since AWS may apply the two in either order.
//! * A registration waits for a removal of the same target that is in flight, for the same reason.
//! * A target whose owner changed while it stayed registered is registered again for the new owner, so that
//!   nothing about the old pod is ever taken for the new one.
//! * An answer that is lost proves nothing: the target counts as perhaps registered until a `DeregisterTargets`
//!   has succeeded. Deregistering a target that is not there succeeds (ELBv2 API reference).
//! * Only what was registered from here is ever removed.
//! * A removed target is remembered as a tombstone until it was missing in two reads and no call of ours can land
//!   late any more: a `RegisterTargets` that was given up may still be applied after the `DeregisterTargets`.
//! * A refused call is halved until the one bad target is alone; that one is set aside for a while, the rest go on.
//! * What a read shows counts for a target only if the read began after our last call about it had ended, and, for
//!   a target that is missing, long enough after it for AWS to show what it did.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    health::HealthState,
    index::{Owner, Ownership},
    input::{CallId, CallItem},
    object::Uid,
    planted::{Bug, planted},
    reason::Reason,
    target::Target,
    time::Moment,
};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// A `RegisterTargets` was sent for this pod; how it ended is not known, or not well.
    Perhaps(Uid),
    /// A `RegisterTargets` for this pod succeeded.
    Registered(Uid),
}

#[derive(Debug)]
struct Entry {
    want: Option<Owner>,
    /// Why and since when `want` is what it is, and whose the target was last.
    cause: Reason,
    since: Moment,
    last: Owner,
    /// How often a call was sent since then.
    attempts: u32,
    told: Told,
    registering: Option<CallId>,
    deregistering: Option<CallId>,
    /// When the last call about it ended; `None`: none was ever sent.
    ended: Option<Moment>,
    /// In how many reads since then it was missing.
    missing: u8,
    /// Which half of a refused call it belongs to; 0: none.
    half: u32,
    /// How often it was refused alone, and until when it is set aside for that.
    refusals: u32,
    set_aside: Option<Moment>,
}

/// How a `RegisterTargets` has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Applied.
    Well,
    /// Perhaps applied, perhaps not.
    Badly,
    /// Understood and refused: something is wrong with a target in it.
    Refused,
}

/// A target that is refused alone is set aside this long, then twice as long each time.
const FIRST_SET_ASIDE: Duration = Duration::from_secs(10);
const LAST_SET_ASIDE: Duration = Duration::from_secs(160);

/// `DescribeTargetHealth` may be this old (facts about its consistency are not published; people saw seconds).
const STALE: Duration = Duration::from_secs(5);
/// A call that was given up may still be applied for this long: the operation time-out and some more.
const LATE: Duration = Duration::from_secs(30);
/// Reads without the target before a tombstone is dropped.
const READS: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Register,
    Deregister,
}

impl Entry {
    fn need(&self) -> Need {
        if self.deregistering.is_some() && !(planted(Bug::RegisterRacesDeregister) && self.want.is_some()) {
            return Need::Nothing;
        }
        match (&self.want, &self.told) {
            (None, Told::Nothing) => Need::Nothing,
            (None, _) => Need::Deregister,
            (Some(_), _) if self.registering.is_some() || self.set_aside.is_some() => Need::Nothing,
            (Some(owner), Told::Registered(uid)) if *uid == owner.uid => Need::Nothing,
            (Some(_), _) => Need::Register,
        }
    }

    fn is_tombstone(&self) -> bool {
        self.want.is_none()
            && self.told == Told::Nothing
            && self.registering.is_none()
            && self.deregistering.is_none()
    }

    fn item(&self, target: Target) -> CallItem {
        let owner = self.want.as_ref().unwrap_or(&self.last);
        CallItem {
            target,
            pod: owner.pod.clone(),
            uid: owner.uid.clone(),
            reason: self.cause,
            since: self.since,
            attempt: self.attempts + 1,
        }
    }
}

/// Bugs that drop a tombstone at once.
fn forgetful() -> bool {
    planted(Bug::TombstonesAreDroppedAtOnce)
        || planted(Bug::LostAnswerIsSuccess)
        || planted(Bug::LostAnswerIsFailure)
}

/// The registrations of one target group. See the module.
#[derive(Debug, Default)]
pub struct Registrations {
    entries: BTreeMap<Target, Entry>,
    to_add: BTreeSet<(Moment, Target)>,
    to_remove: BTreeSet<(Moment, Target)>,
    set_aside: BTreeSet<(Moment, Target)>,
    adding: Option<CallId>,
    halves: u32,
}

impl Registrations {
    /// The owner of a target is another one now.
    pub fn want(&mut self, ownership: Ownership) {
        let Ownership { target, owner, reason, seen, .. } = ownership;
        self.change(target, |entry| match (entry, owner) {
            (Some(entry), owner) => {
                if let Some(owner) = &owner {
                    entry.last = owner.clone();
                }
                (entry.want, entry.cause, entry.since, entry.attempts) = (owner, reason, seen, 0);
                (entry.half, entry.refusals, entry.set_aside) = (0, 0, None);
                None
            }
            (None, Some(owner)) => Some(Entry {
                last: owner.clone(),
                want: Some(owner),
                cause: reason,
                since: seen,
                attempts: 0,
                told: Told::Nothing,
                registering: None,
                deregistering: None,
                ended: None,
                missing: 0,
                half: 0,
                refusals: 0,
                set_aside: None,
            }),
            (None, None) => None,
        });
    }

    /// When the longest waiting removal was caused; `None`: nothing is to be removed.
    pub fn oldest_removal(&self) -> Option<Moment> {
        self.to_remove.first().map(|(since, _)| *since)
    }

    /// How many targets are to be removed.
    pub fn removals(&self) -> usize {
        self.to_remove.len()
    }

    /// When the longest waiting registration was caused, if one may be sent now: one `RegisterTargets` at a time,
    /// so that what comes meanwhile travels together in the next.
    pub fn oldest_addition(&self) -> Option<Moment> {
        self.to_add.first().filter(|_| self.adding.is_none()).map(|(since, _)| *since)
    }

    /// Takes up to `most` removals into the call `id`, the longest waiting first.
    pub fn start_removal(&mut self, id: CallId, most: usize) -> Vec<CallItem> {
        let targets: Vec<Target> = self.to_remove.iter().take(most).map(|(_, target)| *target).collect();
        self.start(&targets, |entry| entry.deregistering = Some(id))
    }

    /// Takes up to `most` registrations into the call `id`: the longest waiting first, and of a call that was
    /// refused only the half that this one belongs to.
    pub fn start_addition(&mut self, id: CallId, most: usize) -> Vec<CallItem> {
        let half = |target: &Target| self.entries.get(target).map(|entry| entry.half);
        let first = self.to_add.first().and_then(|(_, target)| half(target));
        let together = self.to_add.iter().map(|(_, target)| *target).filter(|target| half(target) == first);
        let targets: Vec<Target> = together.take(most).collect();
        self.adding = Some(id);
        self.start(&targets, |entry| {
            entry.registering = Some(id);
            if let Some(owner) = &entry.want {
                entry.told = Told::Perhaps(owner.uid.clone());
            }
        })
    }

    fn start(&mut self, targets: &[Target], mark: impl Fn(&mut Entry)) -> Vec<CallItem> {
        let mut items = Vec::with_capacity(targets.len());
        for target in targets {
            self.change(*target, |entry| {
                if let Some(entry) = entry {
                    items.push(entry.item(*target));
                    entry.attempts += 1;
                    mark(entry);
                }
                None
            });
        }
        items
    }

    /// A `RegisterTargets` of these items has ended.
    pub fn registered(&mut self, id: CallId, items: &[CallItem], ended: Ended, now: Moment) {
        if self.adding == Some(id) {
            self.adding = None;
        }
        let succeeded = ended == Ended::Well;
        self.halves += 2;
        let halves = self.halves;
        for (at, item) in items.iter().enumerate() {
            self.change(item.target, |entry| {
                if let Some(entry) = entry.filter(|entry| entry.registering == Some(id)) {
                    entry.registering = None;
                    entry.ended = Some(now);
                    entry.missing = 0;
                    // Also when a removal has succeeded meanwhile: this call may have been applied after it.
                    entry.told = if succeeded {
                        Told::Registered(item.uid.clone())
                    } else {
                        Told::Perhaps(item.uid.clone())
                    };
                    (entry.half, entry.set_aside) = (0, None);
                    match ended {
                        Ended::Well => entry.refusals = 0,
                        Ended::Badly => {}
                        Ended::Refused if items.len() > 1 => {
                            let second = at >= items.len() / 2;
                            entry.half = halves + u32::from(second);
                            if second && planted(Bug::HalvingDropsTheGoodHalf) {
                                entry.told = Told::Registered(item.uid.clone());
                            }
                        }
                        // Meanwhile nobody wants it: there is nothing to set aside.
                        Ended::Refused if entry.want.is_none() => {}
                        Ended::Refused => {
                            let longer = FIRST_SET_ASIDE.saturating_mul(1 << entry.refusals.min(8));
                            entry.refusals += 1;
                            entry.set_aside = Some(now + longer.min(LAST_SET_ASIDE));
                        }
                    }
                    if !succeeded && planted(Bug::LostAnswerIsFailure) {
                        entry.told = Told::Nothing;
                    }
                }
                None
            });
        }
    }

    /// Takes up again what was set aside until now.
    pub fn take_up(&mut self, now: Moment) {
        while self.set_aside.first().is_some_and(|(until, _)| *until <= now) {
            let Some((_, target)) = self.set_aside.pop_first() else { return };
            self.change(target, |entry| {
                if let Some(entry) = entry {
                    entry.set_aside = None;
                }
                None
            });
        }
    }

    /// When something that was set aside is to be taken up again.
    pub fn next_take_up(&self) -> Option<Moment> {
        self.set_aside.first().map(|(until, _)| *until)
    }

    /// A `DeregisterTargets` of these items has ended.
    pub fn deregistered(&mut self, id: CallId, items: &[CallItem], succeeded: bool, now: Moment) {
        for item in items {
            self.change(item.target, |entry| {
                if let Some(entry) = entry.filter(|entry| entry.deregistering == Some(id)) {
                    entry.deregistering = None;
                    entry.ended = Some(now);
                    entry.missing = 0;
                    if succeeded || planted(Bug::LostAnswerIsSuccess) {
                        entry.told = Told::Nothing;
                    }
                }
                None
            });
        }
    }

    /// A read that began at `began` has shown these targets. What is missing is registered again, what has come
    /// back is removed again, and tombstones that have done their duty are dropped.
    pub fn observed(&mut self, states: &BTreeMap<Target, HealthState>, began: Moment, now: Moment) {
        #[cfg(test)]
        if planted(Bug::StrangersAreRemoved) {
            self.adopt_strangers(states, now);
        }
        let known: Vec<Target> = self.entries.keys().copied().collect();
        for target in known {
            let counts = |state: &HealthState| {
                *state != HealthState::Draining || planted(Bug::DrainingCountsAsPresent)
            };
            let there = states.get(&target).is_some_and(counts);
            self.change(target, |entry| {
                let entry = entry?;
                let idle = entry.registering.is_none() && entry.deregistering.is_none();
                let ended = entry.ended.filter(|ended| idle && *ended < began)?;
                match (&entry.want, &entry.told) {
                    (Some(_), Told::Registered(_)) if !there && began.since(ended) >= STALE => {
                        entry.told = Told::Nothing;
                        (entry.cause, entry.since, entry.attempts) = (Reason::TargetMissing, now, 0);
                    }
                    (None, Told::Nothing) if there => {
                        entry.told = Told::Perhaps(entry.last.uid.clone());
                        (entry.cause, entry.since, entry.attempts) = (Reason::TargetReappeared, now, 0);
                    }
                    (None, Told::Nothing) => entry.missing = entry.missing.saturating_add(1),
                    _ => {}
                }
                None
            });
            let done = |entry: &Entry| {
                entry.is_tombstone()
                    && entry.missing >= READS
                    && entry.ended.is_some_and(|ended| now.since(ended) >= LATE)
            };
            if self.entries.get(&target).is_some_and(done) {
                self.entries.remove(&target);
            }
        }
    }

    /// The bug of that name.
    #[cfg(test)]
    fn adopt_strangers(&mut self, states: &BTreeMap<Target, HealthState>, now: Moment) {
        for target in states.keys() {
            let nobody = Owner { pod: crate::object::ObjectKey::new("", ""), uid: Uid::new("") };
            self.entries.entry(*target).or_insert(Entry {
                want: None,
                cause: Reason::TargetReappeared,
                since: now,
                last: nobody,
                attempts: 0,
                told: Told::Nothing,
                registering: None,
                deregistering: None,
                ended: Some(Moment::START),
                missing: 0,
                half: 0,
                refusals: 0,
                set_aside: None,
            });
        }
    }

    /// The target group does not exist: nothing can come back.
    pub fn group_is_gone(&mut self) {
        self.entries.retain(|_, entry| !entry.is_tombstone());
    }

    /// Whether a removed target is still remembered.
    pub fn has_tombstones(&self) -> bool {
        self.entries.values().any(Entry::is_tombstone)
    }

    /// Whether a target that should not be there may still be, or a call about it is in flight.
    pub fn is_leaving(&self) -> bool {
        self.entries.values().any(|entry| entry.want.is_none() && !entry.is_tombstone())
    }

    /// Whether nothing is wanted, registered or in flight any more, and nothing can come back.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `target` is registered for the pod that should have it.
    pub fn is_registered(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(|entry| {
            matches!((&entry.want, &entry.told), (Some(owner), Told::Registered(uid)) if owner.uid == *uid)
        })
    }

    /// Whether `target` should be there.
    pub fn wants(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(|entry| entry.want.is_some())
    }

    /// Whether `target` is wanted, or was registered from here.
    pub fn knows(&self, target: &Target) -> bool {
        self.entries.contains_key(target)
    }

    /// The targets that should be there.
    pub fn wanted(&self) -> impl Iterator<Item = &Target> {
        self.entries.iter().filter(|(_, entry)| entry.want.is_some()).map(|(target, _)| target)
    }

    /// Changes the entry of `target` (or inserts the one returned) and keeps the queues right.
    fn change(&mut self, target: Target, change: impl FnOnce(Option<&mut Entry>) -> Option<Entry>) {
        if let Some(entry) = self.entries.get(&target) {
            self.to_add.remove(&(entry.since, target));
            self.to_remove.remove(&(entry.since, target));
            if let Some(until) = entry.set_aside {
                self.set_aside.remove(&(until, target));
            }
        }
        if let Some(new) = change(self.entries.get_mut(&target)) {
            self.entries.insert(target, new);
        }
        let Some(entry) = self.entries.get(&target) else { return };
        if let Some(until) = entry.set_aside {
            self.set_aside.insert((until, target));
        }
        match entry.need() {
            Need::Register => {
                self.to_add.insert((entry.since, target));
            }
            Need::Deregister => {
                self.to_remove.insert((entry.since, target));
            }
            Need::Nothing if entry.is_tombstone() && (entry.ended.is_none() || forgetful()) => {
                self.entries.remove(&target);
            }
            Need::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests;
