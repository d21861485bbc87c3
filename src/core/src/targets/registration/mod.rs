//! What Headgate has sent to AWS about the targets of one group, and what it must still send.
//!
//! * **Owns** which pod should have which target, and why (`entry.rs`). [`claims`](crate::targets::claims) owns what
//!   AWS may have and what the ledger contains.
//! * **Flow.** The owner of a target changes ([`Registrations::want`]), a call starts or ends, a read succeeds, or the
//!   ledger is read or written. After each of these, `change` derives again what each target waits for.
//! * **Assumes** that the caller reports when each call starts and ends, and asks for deregistrations first.
//!
//! [`State`] has the rules for one target, and `removal.rs` decides when a target is deregistered. `refusals.rs`
//! handles what AWS rejects, `room.rs` how many targets fit, `vanishing.rs` what somebody else deregisters, and
//! `replaced.rs` the replacement of all targets.

mod binders;
mod calls;
mod entries;
mod entry;
mod holders;
mod inherit;
mod queue;
mod reads;
mod refusals;
mod removal;
mod replaced;
mod room;
mod vanishing;
mod waiting;
mod writing;

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

pub use self::{
    binders::{Binders, Planned},
    entry::Orphan,
    inherit::{Holder, Sight},
};
use self::{
    entries::{Action, Entries, Queue},
    entry::{Entry, Goes, Removal, TakeOut, Wish},
    holders::Holders,
    refusals::{Refusals, Refused},
    replaced::Replaced,
    room::Room,
    writing::Pace,
};
use crate::{
    ledger::PodMark,
    model::{
        AskedHold, BindingKey, Bounds, Cause, IpFamily, Moment, ObjectKey, Origin, Owner, RequestId, Target,
        Uid,
        account::{Account, Under},
        changes::Ownership,
        claims::{Began, Delays, Wanted},
        target_group::GroupSettings,
    },
    targets::claims::{State, Targets, Way},
};

/// The data of `DescribeTargetHealth` may be this old. AWS publishes no figures; users have seen seconds.
pub const STALE: Duration = Duration::from_secs(5);
/// Added to durations that are compared with times of AWS.
const MARGIN: Duration = Duration::from_secs(1);
/// A read counts only if it began after an event, not at the same time.
const A_MOMENT: Duration = Duration::from_millis(10);
/// The shortest delay of a read for deregistered targets.
const SOON: Duration = Duration::from_secs(2);
/// After an address got another pod, the load balancer may report the health of the old pod for this long. The defaults
/// of AWS are two failed checks, 30 s apart, with a timeout of 10 s.
const NOTICE: Duration = Duration::from_secs(90);

/// The term of this leader, for one group.
#[derive(Clone, Copy, Debug)]
struct Term {
    number: u64,
    /// Whether the ledger of the group was read in this term.
    has_begun: bool,
    /// Until when calls of the term before may take effect.
    settled: Moment,
}

/// The registration call in flight, and how many targets did not fit when AWS last rejected some.
#[derive(Clone, Copy, Debug, Default)]
struct Adding {
    call: Option<RequestId>,
    unplaced: usize,
}

/// The registrations of one target group. See the module docs.
#[derive(Clone, Debug)]
pub struct Registrations {
    entries: Entries,
    claims: Targets,
    binders: Binders,
    replaced: Replaced,
    room: Room,
    adding: Adding,
    /// What AWS rejects: registrations and deregistrations.
    unregistered: Refusals,
    unremoved: Refusals,
    holders: Holders,
    stored: Pace,
    family: IpFamily,
    settings: GroupSettings,
    term: Term,
    now: Moment,
}

impl Registrations {
    /// Starts without wanted targets and without a ledger. `seed` is for jitter.
    pub fn new(settings: &GroupSettings, seed: u64) -> Self {
        let delays = Delays {
            late: settings.late + MARGIN,
            stale: STALE + MARGIN,
            bound: settings.bounds.network,
            notice: NOTICE,
        };
        Self {
            entries: Entries::default(),
            claims: Targets::new(delays),
            binders: Binders::none(settings.read_only),
            replaced: Replaced::new(settings.replacement_grace),
            room: Room::default(),
            adding: Adding::default(),
            unregistered: Refusals::default(),
            unremoved: Refusals::default(),
            holders: Holders::new(settings.holder_patience),
            stored: Pace::new(seed),
            family: IpFamily::V4,
            settings: *settings,
            term: Term { number: 0, has_begun: false, settled: Moment::START },
            now: Moment::START,
        }
    }

    /// Begins a term with this number. `is_settled`: the leader before has recorded that none of its calls can take
    /// effect late.
    pub fn begins(&mut self, Began { term, at, is_settled }: Began) {
        let late = if is_settled { Duration::ZERO } else { self.settings.late + MARGIN };
        (self.term.number, self.term.settled) = (term, at + late);
    }

    /// Whether nothing of this term or of the one before can take effect late.
    pub fn is_settled(&self) -> bool {
        self.claims.is_settled() || (self.is_empty() && !self.has_ledger())
    }

    /// Sets the owner of a target, or the bindings through which the owner has it. `of_the_pod`: whether the cause is
    /// the pod, not the configuration.
    pub fn want(&mut self, ownership: Ownership, of_the_pod: bool) {
        let Ownership { through, target, owner, cause, seen } = ownership;
        self.note_family(target.ip);
        self.now = self.now.max(seen);
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
            let may_live = cause.may_come_back() || cause == Cause::NodeDisrupted;
            let is_its = entry.owner().is_some_and(|owner| entry.told() == Some(PodMark::of(&owner.uid)));
            let is_taken_out = owner.is_none() && of_the_pod && may_live && is_its;
            entry.take_out = if is_taken_out { TakeOut::Due } else { TakeOut::No };
            entry.lives_on = owner.is_none() && (may_live || cause.spares_the_pod());
            let replaced = cause.spares_the_pod().then(|| Goes::Replaced(entry.last.clone()));
            entry.wish = match owner {
                Some(owner) => Wish::There(owner),
                None if entry.is_foreign() => Wish::Gone(Goes::Foreign),
                None => Wish::Gone(replaced.unwrap_or(Goes::Now)),
            };
            (entry.cause, entry.since, entry.attempts) = (cause, seen, 0);
            entry.forget_refusals();
            entry.set_aside = None;
        });
    }

    /// Cause time of the oldest deregistration that AWS has not accepted yet. It may be waiting, backing off or in
    /// flight.
    pub fn oldest_untaken_removal(&self) -> Option<Moment> {
        let waiting = self.entries.all_waiting(Action::Deregister).map(|(since, _)| *since);
        let is_removed = |entry: &&Entry| !entry.is_wanted() && entry.told().is_some() && !entry.is_idle();
        waiting.chain(self.entries.values().filter(is_removed).map(|entry| entry.since)).min()
    }

    /// The target group does not exist, so it has no targets, and none can appear again.
    pub fn group_is_gone(&mut self) {
        self.claims.group_is_gone(self.now);
        self.change_all();
        self.let_go(usize::MAX);
        self.room = Room::default();
    }

    /// How many wanted targets somebody else deregisters repeatedly.
    pub fn contested(&self) -> usize {
        let contested = |entry: &&Entry| entry.is_wanted() && entry.vanishing.is_removed_by_another();
        self.entries.values().filter(contested).count()
    }

    /// How long until a read can show something new about an unwanted target, or about a claim of an earlier leader.
    pub fn next_look(&self, now: Moment) -> Option<Duration> {
        let all = self.entries.values().filter_map(|entry| entry.state.as_ref());
        let due = all.filter_map(|state| self.claims.counts_from(state)).min()?;
        Some((due + A_MOMENT).since(now).max(SOON))
    }

    /// Whether AWS may still have an unwanted target of `origin`, or a call with one is in flight.
    pub fn is_leaving(&self, origin: &Origin) -> bool {
        let named = origin.to_string();
        self.leaving().any(|(target, entry)| match &entry.through {
            Some(through) => through.is_of(origin),
            None => {
                entry.goes_for_good() && self.claims.binding(target).is_some_and(|binding| **binding == named)
            }
        })
    }

    /// Like [`Self::is_leaving`], for targets whose binding is unknown.
    pub fn is_leaving_unknown(&self) -> bool {
        let is_unknown = |(target, entry): (&Target, &Entry)| {
            entry.through.is_none() && entry.goes_for_good() && self.claims.binding(target).is_none()
        };
        self.leaving().any(is_unknown)
    }

    /// The unwanted targets that AWS may have. A target that another cluster may have got does not count.
    fn leaving(&self) -> impl Iterator<Item = (&Target, &Entry)> {
        let leaves = |(_, entry): &(&Target, &Entry)| {
            !entry.is_wanted() && entry.told().is_some() && entry.orphan() != Some(&Orphan::Suspect)
        };
        self.entries.iter().filter(leaves)
    }

    /// Whether there is no target and no namespace that holds the group.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.holders.is_empty()
    }

    /// Whether `target` is registered for the pod that should have it.
    pub fn is_registered(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(Entry::is_registered)
    }

    /// Whether the ledger names `target` for the pod that should have it, and no read has shown yet that AWS has it.
    pub fn is_believed(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(Entry::is_believed)
    }

    /// The unwanted targets that AWS may have for a pod with these addresses, each with the requested hold. This
    /// includes targets of an earlier leader.
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
        let is_its = move |entry: &Entry| !entry.is_wanted() && entry.told() == Some(mark) && !entry.paused;
        self.entries.of_pod(mark).filter(move |(_, entry)| is_its(entry))
    }

    /// Whether a target belongs, or belonged, to this pod.
    pub fn knows_pod(&self, mark: PodMark) -> bool {
        self.entries.knows_pod(mark)
    }

    /// The pods for which [`Self::knows_pod`] may have changed since the last call.
    pub fn take_pods_changed(&mut self) -> BTreeSet<PodMark> {
        self.entries.take_pods_changed()
    }

    /// Whether AWS has accepted the deregistration of `target`, for the pod that had it and has these addresses. Also
    /// true if the target belongs, or may belong, to another pod.
    pub fn is_out(&self, target: &Target, uid: &Uid, ips: &[IpAddr]) -> bool {
        let is_anothers = |entry: &Entry| {
            is_lost(target, entry, uid, ips) || entry.owner().is_some_and(|owner| owner.uid != *uid)
        };
        self.entries.get(target).is_none_or(|entry| entry.is_out() || is_anothers(entry))
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
        ending.map(|(target, entry)| (target, &entry.last.pod, entry.cause, entry.told().is_some()))
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
            under: self.under(entry),
            cause: entry.cause,
            since: entry.since,
            ended: self.ended(entry),
            attempts: entry.attempts,
        })
    }

    /// When the last call with the target ended, or the ledger was read.
    fn ended(&self, entry: &Entry) -> Option<Moment> {
        match entry.state? {
            State::Registered { since, .. } | State::Absent { since } => Some(since),
            State::Draining(draining) => draining.accepted(),
            State::Unsettled { .. } => Some(self.term.settled),
            State::Claiming { .. } | State::Registering { .. } | State::Deregistering { .. } => None,
        }
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

    fn under(&self, entry: &Entry) -> Under {
        let set_aside = |refusals: &Refusals, or: Under| match entry.refused {
            Refused::Waits => refusals.until().map_or(or, Under::SetAside),
            _ => or,
        };
        if !entry.is_wanted() {
            return match (&entry.wish, entry.state, entry.removal) {
                (_, Some(State::Deregistering { .. }), _) => Under::Removing,
                (Wish::Gone(Goes::Orphan(Orphan::Suspect)), ..) => Under::Suspect,
                (Wish::Gone(Goes::Orphan(_)), ..) => Under::Doubted,
                (_, Some(State::Unsettled { call: Some(_), .. }), _) => Under::Removing,
                _ if entry.told().is_none() => Under::Removed,
                (_, _, Removal::Held) => Under::Held,
                (_, _, Removal::AfterGate) => Under::AfterGate,
                (_, _, Removal::AfterTerm(until)) => Under::AfterTerm(until),
                _ => set_aside(&self.unremoved, Under::ToRemove),
            };
        }
        match (entry.state, entry.set_aside) {
            (Some(State::Registering { .. } | State::Unsettled { call: Some((_, Way::In)), .. }), _) => {
                Under::Registering
            }
            (Some(State::Deregistering { .. }), _) => Under::AfterRemoval,
            (_, Some(until)) => Under::Contested(until),
            _ if entry.is_registered() => Under::Registered,
            _ if entry.is_believed() => Under::Believed,
            (Some(State::Claiming { .. }), _) if entry.way.is_none() => Under::ToNote,
            _ => set_aside(&self.unregistered, Under::ToRegister),
        }
    }

    /// Whether this target is unwanted, and AWS has not accepted its deregistration.
    pub fn is_to_go(&self, target: &Target) -> bool {
        self.entries.get(target).is_some_and(|entry| !entry.is_wanted() && entry.told().is_some())
    }

    /// The targets that AWS may have.
    pub fn told(&self) -> BTreeSet<Target> {
        self.entries.which(|entry| entry.told().is_some()).copied().collect()
    }

    /// The targets that are taken from living pods, whose gates must be closed first.
    pub fn put_backs(&self) -> impl Iterator<Item = &Target> {
        self.entries.waiting(Queue::Gate).map(|(_, target)| target)
    }

    /// The pod from which `target` is taken, and whether its gate is being closed already.
    pub fn put_back(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        (entry.removal == Removal::AfterGate).then_some((&entry.last, entry.take_out == TakeOut::Closing))
    }

    /// Sets the state of the pod's gate: open and being closed, or not open.
    pub fn gate_is(&mut self, target: &Target, is_open: bool, now: Moment) {
        self.now = now;
        self.change(*target, |entry| {
            entry.take_out = if is_open { TakeOut::Closing } else { TakeOut::Closed };
        });
    }

    /// Records the address family, which all targets of a group share.
    fn note_family(&mut self, ip: IpAddr) {
        self.family = if ip.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 };
    }

    /// Something has changed on which all targets may depend.
    fn change_all(&mut self) {
        let all: Vec<Target> = self.entries.which(|_| true).copied().collect();
        for target in all {
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
        let Self { entries, claims, binders, stored, now, .. } = self;
        let (now, settled) = (*now, self.term.settled);
        let bounds = &self.settings.bounds;
        entries.change(target, |entry| {
            change(entry);
            binders.judge(entry);
            claims.set_bound(target, Some(bound(entry.asked, bounds)));
            let wanted = entry.owner().map(|owner| Wanted {
                pod: PodMark::of(&owner.uid),
                binding: entry.binding().map(|key| key.origin.to_string()).unwrap_or_default().into(),
                may_add: !entry.paused && entry.set_aside.is_none(),
            });
            claims.want(target, wanted);
            entry.shown = claims.reads().health(&target);
            // A call that is given up changes the state, and the state decides whether the deregistration is held.
            for _ in 0..2 {
                entry.removal = entry.removal(settled, now);
                entry.way = claims.plan(&target, now, entry.removal == Removal::Now);
                entry.takes(claims.state(&target).copied());
            }
            entry.until = claims.waits_until(&target).filter(|until| *until > now);
        });
        stored.touch();
        let is_over =
            |entry: &Entry| !entry.is_wanted() && matches!(entry.state, None | Some(State::Absent { .. }));
        if entries.get(&target).is_some_and(is_over) {
            // The state remains until a read confirms it. An older read may still show the target, which is not foreign
            // then.
            if entries.get(&target).is_some_and(|entry| entry.state.is_none()) {
                entries.remove(&target);
                claims.set_bound(target, None);
            }
        }
    }
}

/// The propagation delay of the target. A hold of zero does not make it shorter.
fn bound(asked: AskedHold, bounds: &Bounds) -> Duration {
    let all = AskedHold { hold: crate::model::Hold::Auto, ..asked };
    asked.bound(None, bounds).or_else(|| all.bound(None, bounds)).unwrap_or_default()
}

/// Whether a pod with these addresses no longer has a part in a target that it had. The target remains registered for
/// others, for example for a pod that got the address and is being replaced.
fn is_lost(target: &Target, entry: &Entry, uid: &Uid, ips: &[IpAddr]) -> bool {
    let is_held_for_another = || entry.replaced().is_some_and(|owner| owner.uid != *uid);
    (entry.is_left_to_others() || is_held_for_another()) && !ips.contains(&target.ip)
}
