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
mod tests {
    use super::*;
    use crate::{
        object::ObjectKey,
        testing::{arn, target},
    };

    const T: u8 = 1;

    fn owned(by: Option<&str>) -> Ownership {
        Ownership {
            group: arn("blue"),
            target: target(T, 80),
            owner: by.map(|uid| Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) }),
            reason: if by.is_some() { Reason::PodHasIp } else { Reason::PodTerminating },
            seen: Moment::START,
        }
    }

    #[derive(Default)]
    struct Drive(Registrations, u64);

    impl Drive {
        fn want(&mut self, by: Option<&str>) {
            self.0.want(owned(by));
        }
        fn add(&mut self) -> (CallId, Vec<CallItem>) {
            assert!(self.0.oldest_addition().is_some(), "no registration is due");
            self.1 += 1;
            (CallId(self.1), self.0.start_addition(CallId(self.1), 100))
        }
        fn remove(&mut self) -> (CallId, Vec<CallItem>) {
            assert!(self.0.oldest_removal().is_some(), "no removal is due");
            self.1 += 1;
            (CallId(self.1), self.0.start_removal(CallId(self.1), 100))
        }
        fn due(&self) -> (bool, bool) {
            (self.0.oldest_addition().is_some(), self.0.oldest_removal().is_some())
        }
        fn registered(&mut self, call: &(CallId, Vec<CallItem>), ok: bool) {
            let ended = if ok { Ended::Well } else { Ended::Badly };
            self.0.registered(call.0, &call.1, ended, Moment::START);
        }
        fn refused(&mut self, call: &(CallId, Vec<CallItem>)) {
            self.0.registered(call.0, &call.1, Ended::Refused, Moment::START);
        }
        fn deregistered(&mut self, call: &(CallId, Vec<CallItem>), ok: bool) {
            self.0.deregistered(call.0, &call.1, ok, Moment::START);
        }
        fn with_a_registered() -> Self {
            let mut drive = Self::default();
            drive.want(Some("a"));
            let call = drive.add();
            drive.registered(&call, true);
            drive
        }
    }

    #[test]
    fn a_wanted_target_is_registered_once_and_removed_once() {
        let mut drive = Drive::with_a_registered();
        assert!(drive.0.is_registered(&target(T, 80)));
        assert_eq!(drive.due(), (false, false));
        drive.want(None);
        let call = drive.remove();
        assert_eq!((call.1[0].uid.as_str(), call.1[0].reason), ("a", Reason::PodTerminating));
        assert_eq!(drive.due(), (false, false));
        drive.deregistered(&call, true);
        assert!(drive.0.has_tombstones());
    }

    #[test]
    fn what_was_never_registered_from_here_is_never_removed() {
        let mut drive = Drive::default();
        drive.want(None);
        assert_eq!(drive.due(), (false, false));
        drive.want(Some("a"));
        drive.want(None);
        assert!(drive.0.is_empty());
    }

    #[test]
    fn a_removal_goes_at_once_beside_a_registration_in_flight_and_again_after_it() {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        let register = drive.add();
        drive.want(None);
        let first = drive.remove();
        drive.deregistered(&first, true);
        assert_eq!(drive.due(), (false, false), "the registration is still in flight");
        drive.registered(&register, true);
        let second = drive.remove();
        drive.deregistered(&second, true);
        assert!(drive.0.has_tombstones());
    }

    #[test]
    fn a_registration_waits_for_the_removal_of_the_same_target() {
        let mut drive = Drive::with_a_registered();
        drive.want(None);
        let removal = drive.remove();
        drive.want(Some("b"));
        assert_eq!(drive.due(), (false, false));
        drive.deregistered(&removal, true);
        assert_eq!(drive.add().1[0].uid.as_str(), "b");
    }

    #[test]
    fn a_target_that_passes_to_another_pod_is_registered_again_and_not_removed() {
        let mut drive = Drive::with_a_registered();
        drive.want(Some("b"));
        assert_eq!(drive.due(), (true, false));
        assert!(!drive.0.is_registered(&target(T, 80)), "b has not been registered");
        let call = drive.add();
        drive.registered(&call, true);
        assert!(drive.0.is_registered(&target(T, 80)));
    }

    #[test]
    fn a_removal_that_was_not_sent_yet_is_called_off_by_a_new_owner() {
        let mut drive = Drive::with_a_registered();
        drive.want(None);
        drive.want(Some("b"));
        assert_eq!(drive.due(), (true, false));
    }

    #[test]
    fn a_failed_registration_is_tried_again_and_removed_if_no_longer_wanted() {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        let call = drive.add();
        drive.registered(&call, false);
        let retry = drive.add();
        assert_eq!((retry.1[0].reason, retry.1[0].attempt), (Reason::PodHasIp, 2));
        drive.registered(&retry, false);
        drive.want(None);
        assert_eq!(drive.due(), (false, true), "its answer may have been lost");
    }

    #[test]
    fn a_failed_removal_is_tried_again() {
        let mut drive = Drive::with_a_registered();
        drive.want(None);
        let call = drive.remove();
        drive.deregistered(&call, false);
        assert_eq!(drive.due(), (false, true));
    }

    #[test]
    fn one_registration_call_at_a_time_and_what_comes_meanwhile_travels_together() {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        let call = drive.add();
        for last in [2, 3] {
            drive.0.want(Ownership { target: target(last, 80), ..owned(Some("b")) });
        }
        assert_eq!(drive.due(), (false, false));
        drive.registered(&call, true);
        assert_eq!(drive.add().1.len(), 2);
    }

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn removed() -> Drive {
        let mut drive = Drive::with_a_registered();
        drive.want(None);
        let call = drive.remove();
        drive.deregistered(&call, true);
        drive
    }

    #[test]
    fn a_target_that_somebody_else_removed_is_registered_again_once_a_late_enough_read_misses_it() {
        let draining = BTreeMap::from([(target(T, 80), HealthState::Draining)]);
        for states in [BTreeMap::new(), draining] {
            let mut drive = Drive::with_a_registered();
            drive.0.observed(&states, at(4), at(4));
            assert_eq!(drive.due(), (false, false), "the read may be older than the registration");
            drive.0.observed(&states, at(5), at(5));
            assert_eq!(drive.add().1[0].reason, Reason::TargetMissing);
        }
    }

    #[test]
    fn a_removed_target_that_a_late_call_brought_back_is_removed_again() {
        let mut drive = removed();
        drive.0.observed(&BTreeMap::from([(target(T, 80), HealthState::Initial)]), at(1), at(1));
        assert_eq!(drive.remove().1[0].reason, Reason::TargetReappeared);
    }

    #[test]
    fn a_read_that_began_before_the_last_call_ended_says_nothing() {
        let mut drive = removed();
        drive.0.observed(&BTreeMap::from([(target(T, 80), HealthState::Healthy)]), Moment::START, at(1));
        assert_eq!(drive.due(), (false, false));
    }

    #[test]
    fn a_tombstone_is_dropped_after_two_reads_without_it_and_when_no_call_can_land_any_more() {
        let nothing = BTreeMap::new();
        let mut drive = removed();
        for second in [1, 2, 29] {
            drive.0.observed(&nothing, at(second), at(second));
            assert!(drive.0.has_tombstones(), "{second}");
        }
        drive.0.observed(&nothing, at(30), at(30));
        assert!(drive.0.is_empty());
        let mut drive = removed();
        drive.0.observed(&nothing, at(60), at(60));
        assert!(drive.0.has_tombstones(), "one read is not enough");
    }

    #[test]
    fn a_group_that_is_gone_needs_no_tombstones() {
        let mut drive = removed();
        drive.0.group_is_gone();
        assert!(drive.0.is_empty());
    }

    #[test]
    fn a_refused_call_is_halved_until_the_bad_target_is_alone_and_set_aside() {
        let mut drive = Drive::default();
        for last in 1..=8 {
            drive.0.want(Ownership { target: target(last, 80), ..owned(Some("a")) });
        }
        let bad = target(6, 80);
        let (mut calls, mut registered) = (0, 0);
        while drive.due().0 {
            let call = drive.add();
            calls += 1;
            if call.1.iter().any(|item| item.target == bad) {
                drive.refused(&call);
            } else {
                registered += call.1.len();
                drive.registered(&call, true);
            }
        }
        assert_eq!((calls, registered), (7, 7), "8, 4, 4, 2, 2, 1, 1");
        assert_eq!(drive.0.next_take_up(), Some(Moment::START + FIRST_SET_ASIDE));
        drive.0.take_up(Moment::START + FIRST_SET_ASIDE);
        let again = drive.add();
        assert_eq!(again.1[0].target, bad);
        drive.refused(&again);
        assert_eq!(drive.0.next_take_up(), Some(Moment::START + 2 * FIRST_SET_ASIDE), "twice as long");
    }

    #[test]
    fn a_new_pod_is_not_set_aside_for_what_the_old_one_did() {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        let call = drive.add();
        drive.refused(&call);
        assert_eq!(drive.due(), (false, false));
        drive.want(Some("b"));
        assert_eq!((drive.due(), drive.0.next_take_up()), ((true, false), None));
    }

    #[test]
    fn what_was_set_aside_and_is_no_longer_wanted_is_removed_at_once() {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        let call = drive.add();
        drive.refused(&call);
        drive.want(None);
        assert_eq!((drive.due(), drive.0.next_take_up()), ((false, true), None));
    }
}
