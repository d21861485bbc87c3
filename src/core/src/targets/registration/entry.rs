//! One target: what is wanted, what Headgate has sent to AWS, and what follows from the two.

use std::{sync::Arc, time::Duration};

use super::{
    READS,
    evidence::{Evidence, Unproven},
    queue::{Action, Queue, Tally},
    refusals::Refused,
    vanishing::Vanishing,
};
use crate::{
    ledger::{Noted, PodMark},
    model::{
        AskedHold, BindingKey, CallItem, Cause, HealthState, Moment, ObjectKey, Owner, RequestId, Target,
        Uid, WallTime, Written, changes::Through,
    },
    targets::registration::Sight,
};

/// The name and the namespace of an unknown pod.
pub const NOBODY: &str = "?";

/// What Headgate has sent to AWS about a target, and for which pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing yet.
    Nothing,
    /// The target was deregistered, or a read has not shown it.
    Out(Out),
    /// A `RegisterTargets` was sent. Its result is unknown, or it failed.
    Perhaps(PodMark),
    /// The ledger records that AWS has accepted the registration. It counts when a read has shown the target.
    Believed(PodMark),
    /// A `RegisterTargets` succeeded.
    Registered(PodMark),
}

impl Told {
    /// The pod for which AWS may have the target, if any.
    pub fn mark(self) -> Option<PodMark> {
        match self {
            Self::Nothing | Self::Out(_) => None,
            Self::Perhaps(mark) | Self::Believed(mark) | Self::Registered(mark) => Some(mark),
        }
    }
}

/// Since when AWS no longer has a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// This replica deregistered it, or found it missing.
    Here {
        /// When that was.
        at: Moment,
        /// A time that was read before. The recorded time will be later than it.
        after: Option<WallTime>,
    },
    /// The ledger records it, by the clock of the leader that wrote it.
    Ledger(Written),
}

impl Since {
    /// Since now, because no earlier time is known.
    pub const fn now(now: Moment) -> Self {
        Self::Here { at: now, after: None }
    }

    /// When `bound` has passed since then.
    pub fn ends(self, bound: Duration) -> Moment {
        match self {
            Self::Here { at, .. } => at + bound,
            Self::Ledger(written) => written.ends(bound),
        }
    }

    /// The time to record in the ledger, which has whole seconds. `started`: the wall clock at the start of the
    /// process.
    pub(super) fn noted(self, started: WallTime) -> WallTime {
        match self {
            Self::Here { at, after } => {
                let after = after.map(|after| after + Duration::from_secs(1)).unwrap_or_default();
                after.max(started + at.elapsed())
            }
            Self::Ledger(written) => written.at(),
        }
    }
}

/// A target that AWS no longer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Out {
    /// Since when, if that is known.
    pub(super) since: Option<Since>,
    /// The pod for which AWS had the target, if that is known. Another pod may have the address by now.
    pub(super) of: Option<PodMark>,
    /// Whether the target became unwanted, because of its pod, after it was deregistered. If a read still shows it,
    /// Headgate deregisters it for that reason.
    pub(super) for_the_pod: bool,
    /// In how many reads since then the target was missing.
    pub(super) missing: u8,
}

impl Out {
    /// AWS no longer has the target since then.
    pub const fn since(since: Option<Since>) -> Self {
        Self { since, of: None, for_the_pod: false, missing: 0 }
    }
}

/// What a leftover target waits for: a ledger names it, and nothing wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// A check of the pods, and then a read of the group.
    Unjudged,
    /// Its pod is alive, and a Service may still turn out to want the target.
    Doubted(ObjectKey),
    /// The target is healthy, and no pod of this cluster has its address. Another cluster may have got the address.
    Suspect,
}

/// Whether a target should be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It should, for this pod.
    There(Owner),
    /// It should not.
    Gone(Goes),
}

/// How an unwanted target is deregistered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goes {
    /// Immediately.
    Now,
    /// A change of the configuration took the target from this pod, which remains alive. The deregistration may be held
    /// (see `replaced.rs`).
    Replaced(Owner),
    /// The target is foreign.
    Foreign,
    /// The ledger named the target, and Headgate must judge it first.
    Orphan(Orphan),
}

/// The state of registering a target again that Headgate deregistered. The load balancer must check its pod again, so
/// the readiness gate of the pod must be closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    No,
    Due,
    /// The gate is being closed. The target waits until then at the latest.
    Closing(Moment),
    /// The gate was not closed in time.
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    Register,
    Deregister,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) wish: Wish,
    /// The reason and the time of the last change of `wish`, and the last pod of the target.
    pub(super) cause: Cause,
    pub(super) since: Moment,
    pub(super) last: Owner,
    /// The bindings of the target. `None`: the ledger does not name one, or the target is foreign.
    pub(super) through: Option<Through>,
    /// What the bindings decide (`binders.rs`): whether the target is paused, and the last requested hold.
    pub(super) paused: bool,
    pub(super) asked: AskedHold,
    /// How many calls were sent since `since`.
    pub(super) attempts: u32,
    pub(super) told: Told,
    /// The pod for which Headgate registered the target before `told`, if it was not deregistered in between.
    pub(super) told_before: Option<PodMark>,
    /// What the last read that counts has shown of the target. A read counts if it began after the last call with the
    /// target had ended.
    pub(super) sight: Option<Sight>,
    pub(super) registering: Option<RequestId>,
    pub(super) deregistering: Option<RequestId>,
    /// Whether a `DeregisterTargets` was sent for the target, and no `RegisterTargets` since.
    pub(super) removal_sent: bool,
    /// When the last call with the target ended, or the ledger was read. `None`: neither has happened.
    pub(super) ended: Option<Moment>,
    /// When the last `RegisterTargets` with the target ended, or the ledger was read. AWS may apply that call for some
    /// time afterwards.
    pub(super) added: Option<Moment>,
    /// Whether AWS has rejected the call that the target waits for, and how often AWS rejected the target alone.
    pub(super) refused: Refused,
    pub(super) refusals: u32,
    /// The target is not registered until then, because somebody else removes it repeatedly.
    pub(super) set_aside: Option<Moment>,
    /// Whether somebody else removes the target repeatedly.
    pub(super) vanishing: Vanishing,
    /// What is known about the health of the target, and which pod that health belongs to.
    pub(super) evidence: Evidence,
    /// The pod for which Headgate last deregistered the target, if the pod was the cause and not the configuration, and
    /// the target was not registered since. For a target from the ledger, the cause is unknown.
    pub(super) taken_from: Option<PodMark>,
    /// Whether the target must be registered again for the pod for which it was deregistered.
    pub(super) put_back: PutBack,
}

impl Entry {
    /// Whether the target is registered for the pod that should have it.
    pub fn is_registered(&self) -> bool {
        matches!(
            (self.owner(), self.told),
            (Some(owner), Told::Registered(mark)) if PodMark::of(&owner.uid) == mark
        )
    }

    /// Whether the load balancer sends to the target. If no listener uses the group, it cannot. The load balancer never
    /// sends to a zone that it does not serve, and sends nothing new to a zone with a zonal shift.
    pub fn serves(&self) -> bool {
        matches!(self.sight, Some(Sight::There(HealthState::Healthy | HealthState::Unused)))
    }

    /// Whether the deregistration may be held once it is due. A target that does not serve because of a zonal shift is
    /// not held.
    pub fn may_be_held(&self) -> bool {
        let may_serve =
            matches!(self.sight, None | Some(Sight::There(HealthState::Healthy | HealthState::Initial)));
        self.replaced().is_some() && may_serve
    }

    pub fn wanted(owner: Owner, through: Option<Through>, cause: Cause, since: Moment) -> Self {
        Self {
            last: owner.clone(),
            through,
            paused: false,
            asked: AskedHold::default(),
            wish: Wish::There(owner),
            cause,
            since,
            attempts: 0,
            told: Told::Nothing,
            told_before: None,
            sight: None,
            registering: None,
            deregistering: None,
            removal_sent: false,
            ended: None,
            added: None,
            refused: Refused::No,
            refusals: 0,
            set_aside: None,
            vanishing: Vanishing::default(),
            evidence: Evidence::default(),
            taken_from: None,
            put_back: PutBack::No,
        }
    }

    /// A target that the ledger names and that nothing wants so far.
    pub fn inherited(noted: Noted, mark: PodMark, out_since: Option<Since>, now: Moment) -> Self {
        let unknown = Owner { pod: ObjectKey::new(NOBODY, NOBODY), uid: Uid::new(format!("mark {mark:?}")) };
        let mut entry = Self::wanted(unknown, None, Cause::StaleTarget, now);
        entry.told = told_by(noted, mark, out_since);
        let goes = if noted == Noted::Removed { Goes::Now } else { Goes::Orphan(Orphan::Unjudged) };
        entry.wish = Wish::Gone(goes);
        (entry.ended, entry.added) = (Some(now), Some(now));
        entry.evidence.unproven = Some(Unproven::new(now, true));
        entry.taken_from = Some(mark);
        entry
    }

    /// The pod that should have the target.
    pub const fn owner(&self) -> Option<&Owner> {
        match &self.wish {
            Wish::There(owner) => Some(owner),
            Wish::Gone(_) => None,
        }
    }

    /// Whether the target should be registered.
    pub const fn is_wanted(&self) -> bool {
        matches!(self.wish, Wish::There(_))
    }

    /// What the target waits for, if the ledger named it and nothing wants it.
    pub const fn orphan(&self) -> Option<&Orphan> {
        match &self.wish {
            Wish::Gone(Goes::Orphan(orphan)) => Some(orphan),
            _ => None,
        }
    }

    /// Whether the target remains registered for now, because another pod with its address or another cluster may own
    /// it. Requests to the target cannot reach a pod that has lost the address.
    pub const fn is_left_to_others(&self) -> bool {
        matches!(self.orphan(), Some(Orphan::Doubted(_) | Orphan::Suspect))
    }

    /// Whether the target is foreign and will be deregistered.
    pub const fn is_foreign(&self) -> bool {
        matches!(self.wish, Wish::Gone(Goes::Foreign))
    }

    /// The living pod of the target, if the deregistration may be held for it.
    pub const fn replaced(&self) -> Option<&Owner> {
        match &self.wish {
            Wish::Gone(Goes::Replaced(owner)) => Some(owner),
            _ => None,
        }
    }

    /// The living pod of the target, if the deregistration waits for it or may have to.
    pub const fn spared(&self) -> Option<&Owner> {
        self.replaced()
    }

    /// The pod of the target ends, so the deregistration is no longer held.
    pub fn pod_ends(&mut self) {
        self.let_go();
    }

    /// Stops holding the deregistration.
    pub fn let_go(&mut self) {
        if self.replaced().is_some() {
            self.wish = Wish::Gone(Goes::Now);
        }
    }

    /// The binding through which the target was last gained or lost, if it is known.
    pub const fn binding(&self) -> Option<&BindingKey> {
        match &self.through {
            Some(through) => Some(&through.last),
            None => None,
        }
    }

    /// The namespace of the target's current or last pod, if it is known.
    pub fn namespace(&self) -> Option<&Arc<str>> {
        Some(&self.last.pod.namespace).filter(|namespace| &***namespace != NOBODY)
    }

    /// Whether Headgate registered the target, and nothing may turn out to want it.
    pub fn goes_for_good(&self) -> bool {
        !self.is_foreign() && !matches!(self.orphan(), Some(Orphan::Doubted(_)))
    }

    /// The call that is due for the target and may be sent.
    pub fn need(&self) -> Need {
        if self.paused { Need::Nothing } else { self.due() }
    }

    /// The call that would be due without a pause.
    pub fn due(&self) -> Need {
        if self.deregistering.is_some() {
            return Need::Nothing;
        }
        match (&self.wish, self.told) {
            (Wish::Gone(_), Told::Nothing | Told::Out(_)) | (Wish::Gone(Goes::Orphan(_)), _) => Need::Nothing,
            (Wish::Gone(_), _) => Need::Deregister,
            (Wish::There(_), _) if self.registering.is_some() || self.set_aside.is_some() => Need::Nothing,
            (Wish::There(_), _) if self.put_back != PutBack::No => Need::Nothing,
            (Wish::There(owner), Told::Registered(mark) | Told::Believed(mark))
                if mark == PodMark::of(&owner.uid) =>
            {
                Need::Nothing
            }
            (Wish::There(_), _) => Need::Register,
        }
    }

    /// The queue in which the target waits. `allows`: whether the ledger already permits to register it for this pod.
    pub fn queue(&self, allows: impl FnOnce(PodMark) -> bool) -> Option<Queue> {
        match (self.due(), self.owner()) {
            (Need::Register, _) if self.paused => Some(Queue::Paused(Action::Register)),
            (Need::Deregister, _) if self.paused => Some(Queue::Paused(Action::Deregister)),
            _ if self.paused => None,
            _ if self.put_back != PutBack::No => Some(Queue::Gate),
            (Need::Register, Some(owner)) if allows(PodMark::of(&owner.uid)) => {
                Some(Queue::Register(self.refused))
            }
            (Need::Register, _) => Some(Queue::Note),
            (Need::Deregister, _) if self.may_be_held() => Some(Queue::Held),
            (Need::Deregister, _) => Some(Queue::Deregister(self.refused)),
            (Need::Nothing, _) => None,
        }
    }

    /// What the target adds to the counts.
    pub fn tally(&self) -> Tally {
        // If the target is wanted again during its deregistration, it will be missing for a moment.
        let registered = self.is_registered() && self.deregistering.is_none();
        Tally {
            wanted: usize::from(self.is_wanted()),
            registered: usize::from(registered),
            serving: usize::from(registered && self.serves()),
        }
    }

    /// Whether the deregistration is held, or may be.
    pub fn is_spare(&self) -> bool {
        self.told.mark().is_some() && self.replaced().is_some()
    }

    /// The pods of the target: the last one, the one for which it was deregistered, the one of the last registration,
    /// and the one for which AWS had it.
    pub fn pods(&self) -> [Option<PodMark>; 4] {
        [Some(PodMark::of(&self.last.uid)), self.taken_from, self.told.mark(), self.out().of]
    }

    /// When a wait of the target ends because time passes.
    pub fn waits_until(&self) -> Option<Moment> {
        self.set_aside.into_iter().chain(self.put_back.until()).min()
    }

    /// Records that AWS has rejected a call with the target. `part`: the part of the halved call. `None`: the target
    /// alone was rejected.
    pub fn note_refusal(&mut self, part: Option<u32>) {
        self.refused = part.map_or(Refused::Waits, Refused::Among);
        self.refusals += u32::from(part.is_none());
    }

    /// Forgets the rejections: the last call succeeded, or the target now waits for another call.
    pub fn forget_refusals(&mut self) {
        (self.refused, self.refusals) = (Refused::No, 0);
    }

    /// Advances the time.
    pub fn pass(&mut self, now: Moment) {
        self.set_aside.take_if(|until| *until <= now);
        if self.put_back.until().is_some_and(|until| until <= now) {
            self.put_back = PutBack::Late;
        }
    }

    /// What the ledger should record about the target. `before`: what it records now.
    pub fn note(&self, before: Option<(Noted, PodMark)>) -> Option<(Noted, PodMark)> {
        if let (Some(owner), Need::Register) = (self.owner(), self.need()) {
            return Some((Noted::Intended, PodMark::of(&owner.uid)));
        }
        if self.is_foreign() {
            return None;
        }
        match self.told {
            Told::Registered(mark) | Told::Believed(mark) => Some((Noted::Registered, mark)),
            Told::Perhaps(mark) => Some((Noted::Intended, mark)),
            Told::Out(_) => {
                let before = self.taken_from.or(before.map(|(_, mark)| mark));
                Some((Noted::Removed, before.unwrap_or_else(|| PodMark::of(&self.last.uid))))
            }
            Told::Nothing => None,
        }
    }

    /// Headgate is about to register the target for this pod.
    pub fn tells(&mut self, mark: PodMark) {
        let before = self.told.mark().filter(|told| *told != mark);
        if before.is_some() || self.told.mark().is_none() {
            self.told_before = before;
        }
        self.told = Told::Perhaps(mark);
    }

    /// Since when AWS no longer has the target, if it was deregistered.
    pub const fn out(&self) -> Out {
        match self.told {
            Told::Out(out) => out,
            _ => Out::since(None),
        }
    }

    /// Whether no call with the target is in flight.
    pub const fn is_idle(&self) -> bool {
        self.registering.is_none() && self.deregistering.is_none()
    }

    /// Whether the record of a deregistered target is no longer needed. The target must have been missing in enough
    /// reads. The last of them `began` so `late` that no call that was given up, or sent by an earlier leader, could
    /// still take effect.
    pub fn has_done_its_duty(&self, late: Duration, began: Moment) -> bool {
        self.is_tombstone()
            && self.out().missing >= READS
            && self.ended.is_some_and(|ended| began.since(ended) >= late)
    }

    /// Whether the target is deregistered, and more than the ledger proves it. A call of an earlier leader may have
    /// registered it since, or may yet deregister it. A read that began after the ledger was read proves it.
    pub fn is_seen_out(&self) -> bool {
        let by_word = matches!(self.told, Told::Out(Out { since: Some(Since::Ledger(_)), .. }));
        let is_missed = matches!(self.sight, Some(Sight::Missing | Sight::There(HealthState::Draining)));
        self.is_tombstone() && (!by_word || is_missed)
    }

    pub fn is_tombstone(&self) -> bool {
        !self.is_wanted() && self.told.mark().is_none() && self.is_idle()
    }

    pub fn item(&self, target: Target) -> CallItem {
        let owner = self.owner().unwrap_or(&self.last);
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

/// What was sent to AWS, as recorded in the ledger.
pub fn told_by(noted: Noted, mark: PodMark, out_since: Option<Since>) -> Told {
    match noted {
        Noted::Registered => Told::Believed(mark),
        Noted::Intended => Told::Perhaps(mark),
        Noted::Removed => Told::Out(Out::since(out_since)),
    }
}
