//! One target: what is wanted, what AWS was told, and what follows from the two.

use std::{sync::Arc, time::Duration};

use super::{
    READS,
    entries::{Action, Queue, Tally},
    evidence::{Evidence, Unproven},
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

/// The pod and the namespace of what nobody here knows.
pub const NOBODY: &str = "?";

/// What AWS was told of a target, and for which pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing yet.
    Nothing,
    /// It was taken out, or is not there as far as could be seen.
    Out(Out),
    /// A `RegisterTargets` was sent; how it ended is not known, or not well.
    Perhaps(PodMark),
    /// The ledger says that AWS has taken it; a read must show it before it counts.
    Believed(PodMark),
    /// A `RegisterTargets` succeeded.
    Registered(PodMark),
}

impl Told {
    /// Of which pod, if of any.
    pub fn mark(self) -> Option<PodMark> {
        match self {
            Self::Nothing | Self::Out(_) => None,
            Self::Perhaps(mark) | Self::Believed(mark) | Self::Registered(mark) => Some(mark),
        }
    }
}

/// Since when AWS has a target no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// This replica saw it go, or found it gone.
    Here {
        /// Then.
        at: Moment,
        /// It is written down as later than this, which was read before.
        after: Option<WallTime>,
    },
    /// The ledger says so, by the clock of the leader that wrote it.
    Ledger(Written),
}

impl Since {
    /// Now, for all that is known.
    pub const fn now(now: Moment) -> Self {
        Self::Here { at: now, after: None }
    }

    /// When this has passed since then.
    pub fn ends(self, bound: Duration) -> Moment {
        match self {
            Self::Here { at, .. } => at + bound,
            Self::Ledger(written) => written.ends(bound),
        }
    }

    /// As the ledger is to say it, where the wall clock showed `started` at the start of the process. The ledger has whole
    /// seconds.
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

/// A target that AWS has no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Out {
    /// Since when, if that is known.
    pub(super) since: Option<Since>,
    /// Of which pod AWS had it until then, if that is known: it may be another's by now, which has the address.
    pub(super) of: Option<PodMark>,
    /// Whether it came to be wanted by nobody while it was out, for what became of its pod: if it is there all the same, it
    /// is removed for that.
    pub(super) for_the_pod: bool,
    /// In how many reads since then it was missing.
    pub(super) missing: u8,
}

impl Out {
    /// Since then.
    pub const fn since(since: Option<Since>) -> Self {
        Self { since, of: None, for_the_pod: false, missing: 0 }
    }
}

/// What a target that the ledger left behind, and that nothing wants, waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// A look at the pods, and then a read of the group.
    Unjudged,
    /// Its pod lives, and a Service may yet turn out to want it.
    Doubted(ObjectKey),
    /// It is healthy, and no pod of this cluster has its address: another cluster may have got it.
    Suspect,
}

/// Whether a target should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// For this pod.
    There(Owner),
    /// It should not.
    Gone(Goes),
}

/// How a target goes that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goes {
    /// At once.
    Now,
    /// What is written has taken it from this pod, which lives on: its removal may be held (see `replaced.rs`).
    Replaced(Owner),
    /// Somebody else has registered it.
    Foreign,
    /// When it has been judged: it comes from the ledger.
    Orphan(Orphan),
}

/// How far it is that a target is registered again which was taken out from here: its pod has to be healthy anew, so its
/// readiness gate must not be open by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutBack {
    No,
    Due,
    /// The gate is being closed; the target waits until then at the latest.
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
    /// Why and since when `wish` is what it is, and whose the target was last.
    pub(super) cause: Cause,
    pub(super) since: Moment,
    pub(super) last: Owner,
    /// Through which bindings; `None`: the ledger does not say, or it is somebody else's.
    pub(super) through: Option<Through>,
    /// What those say who speak for it (`binders.rs`): that nothing is written about it, and its hold, or the last one.
    pub(super) paused: bool,
    pub(super) asked: AskedHold,
    /// How often a call was sent since then.
    pub(super) attempts: u32,
    pub(super) told: Told,
    /// For which pod AWS was told of it before that one, if it was not out in between.
    pub(super) told_before: Option<PodMark>,
    /// What the last read that counts has shown of it: one that began after our last call about it had ended.
    pub(super) sight: Option<Sight>,
    pub(super) registering: Option<RequestId>,
    pub(super) deregistering: Option<RequestId>,
    /// Whether a `DeregisterTargets` was sent for it, and no `RegisterTargets` since.
    pub(super) removal_sent: bool,
    /// When the last call about it ended, or the ledger told of it; `None`: there was none.
    pub(super) ended: Option<Moment>,
    /// When the last `RegisterTargets` about it ended, or the ledger told of it: it may be applied for some time after that.
    pub(super) added: Option<Moment>,
    /// What AWS has refused of the call that it waits for, and how often it was refused alone.
    pub(super) refused: Refused,
    pub(super) refusals: u32,
    /// Until when it is not registered, because somebody else removes it again and again.
    pub(super) set_aside: Option<Moment>,
    /// Whether somebody else removes it again and again.
    pub(super) vanishing: Vanishing,
    /// What is known of its health, and of whose health that is.
    pub(super) evidence: Evidence,
    /// From which pod it was taken out from here last, and not registered since, if that was for what became of the pod and
    /// not for what is written; of what came with the ledger nobody knows why.
    pub(super) taken_from: Option<PodMark>,
    /// Whether it was taken out from here because of the pod that has it again.
    pub(super) put_back: PutBack,
}

impl Entry {
    /// Whether it is registered for the pod that should have it.
    pub fn is_registered(&self) -> bool {
        matches!(
            (self.owner(), self.told),
            (Some(owner), Told::Registered(mark)) if PodMark::of(&owner.uid) == mark
        )
    }

    /// Whether the load balancer sends to it; where no listener uses the group, none could. It never sends to a zone that it
    /// does not serve, and nothing new to one that a zonal shift leads away from.
    pub fn serves(&self) -> bool {
        matches!(self.sight, Some(Sight::There(HealthState::Healthy | HealthState::Unused)))
    }

    /// Whether its removal may be held, if it is due. One that a zonal shift keeps from serving is not missed.
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

    /// What the ledger left behind, and nothing wants so far.
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

    /// Whose it should be.
    pub const fn owner(&self) -> Option<&Owner> {
        match &self.wish {
            Wish::There(owner) => Some(owner),
            Wish::Gone(_) => None,
        }
    }

    /// Whether it should be there.
    pub const fn is_wanted(&self) -> bool {
        matches!(self.wish, Wish::There(_))
    }

    /// What it waits for, if it comes from the ledger and nothing wants it.
    pub const fn orphan(&self) -> Option<&Orphan> {
        match &self.wish {
            Wish::Gone(Goes::Orphan(orphan)) => Some(orphan),
            _ => None,
        }
    }

    /// Whether it stays for now, because it may come to be another pod's that has its address, or be another cluster's. Then
    /// a pod that has lost the address is not sent to there, whatever becomes of the target.
    pub const fn is_left_to_others(&self) -> bool {
        matches!(self.orphan(), Some(Orphan::Doubted(_) | Orphan::Suspect))
    }

    /// Whether somebody else has registered it, and it is to go.
    pub const fn is_foreign(&self) -> bool {
        matches!(self.wish, Wish::Gone(Goes::Foreign))
    }

    /// The pod that lives on, if its removal may be held for that.
    pub const fn replaced(&self) -> Option<&Owner> {
        match &self.wish {
            Wish::Gone(Goes::Replaced(owner)) => Some(owner),
            _ => None,
        }
    }

    /// The pod that lives on, if its removal waits for that, or may come to.
    pub const fn spared(&self) -> Option<&Owner> {
        self.replaced()
    }

    /// Its pod does not live on: its removal is held no longer.
    pub fn pod_ends(&mut self) {
        self.let_go();
    }

    /// Its removal is held no longer.
    pub fn let_go(&mut self) {
        if self.replaced().is_some() {
            self.wish = Wish::Gone(Goes::Now);
        }
    }

    /// The binding whose claim began or ended last, if any is known.
    pub const fn binding(&self) -> Option<&BindingKey> {
        match &self.through {
            Some(through) => Some(&through.last),
            None => None,
        }
    }

    /// The namespace of the pod whose it is or was, if that is known.
    pub fn namespace(&self) -> Option<&Arc<str>> {
        Some(&self.last.pod.namespace).filter(|namespace| &***namespace != NOBODY)
    }

    /// Whether it is ours, and nothing may turn out to want it.
    pub fn goes_for_good(&self) -> bool {
        !self.is_foreign() && !matches!(self.orphan(), Some(Orphan::Doubted(_)))
    }

    /// Which call is due for it and may be sent.
    pub fn need(&self) -> Need {
        if self.paused { Need::Nothing } else { self.due() }
    }

    /// Which call is due for it, if nothing was paused.
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

    /// What it waits for; `allows`: whether the ledger says already that it may be registered for the pod of this mark.
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

    /// How it counts.
    pub fn tally(&self) -> Tally {
        // One that is wanted again while its removal is in flight will be gone for a moment.
        let registered = self.is_registered() && self.deregistering.is_none();
        Tally {
            wanted: usize::from(self.is_wanted()),
            registered: usize::from(registered),
            serving: usize::from(registered && self.serves()),
        }
    }

    /// Whether its removal is held, or may come to be.
    pub fn is_spare(&self) -> bool {
        self.told.mark().is_some() && self.replaced().is_some()
    }

    /// The pods that it has to do with: whose it is or was last, from which it was taken, of which AWS was told, and of which
    /// AWS had it.
    pub fn pods(&self) -> [Option<PodMark>; 4] {
        [Some(PodMark::of(&self.last.uid)), self.taken_from, self.told.mark(), self.out().of]
    }

    /// When something that it waits for is over by itself.
    pub fn waits_until(&self) -> Option<Moment> {
        self.set_aside.into_iter().chain(self.put_back.until()).min()
    }

    /// AWS has refused a call with it: it is in this part of that, or it was refused alone.
    pub fn note_refusal(&mut self, part: Option<u32>) {
        self.refused = part.map_or(Refused::Waits, Refused::Among);
        self.refusals += u32::from(part.is_none());
    }

    /// Nothing is refused of it any more, or nothing so far of what it waits for now.
    pub fn forget_refusals(&mut self) {
        (self.refused, self.refusals) = (Refused::No, 0);
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Moment) {
        self.set_aside.take_if(|until| *until <= now);
        if self.put_back.until().is_some_and(|until| until <= now) {
            self.put_back = PutBack::Late;
        }
    }

    /// What the ledger should say of it; `before` is what it says.
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

    /// It is about to be registered for the pod of this mark.
    pub fn tells(&mut self, mark: PodMark) {
        let before = self.told.mark().filter(|told| *told != mark);
        if before.is_some() || self.told.mark().is_none() {
            self.told_before = before;
        }
        self.told = Told::Perhaps(mark);
    }

    /// Since when AWS has it no more, if it is out.
    pub const fn out(&self) -> Out {
        match self.told {
            Told::Out(out) => out,
            _ => Out::since(None),
        }
    }

    /// Whether no call about it is in flight.
    pub const fn is_idle(&self) -> bool {
        self.registering.is_none() && self.deregistering.is_none()
    }

    /// Whether it is a tombstone that has done its duty: it was missing often enough, also in a read that `began` when no
    /// call could land any more that was given up, or sent by a leader before, so `late`.
    pub fn has_done_its_duty(&self, late: Duration, began: Moment) -> bool {
        self.is_tombstone()
            && self.out().missing >= READS
            && self.ended.is_some_and(|ended| began.since(ended) >= late)
    }

    /// Whether it is out beyond the word of the ledger alone: a call of whoever led before may have put it back since, or
    /// have yet to take it out. Then a read says so, which began after the ledger was read.
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

/// What AWS was told, as the ledger has it.
pub fn told_by(noted: Noted, mark: PodMark, out_since: Option<Since>) -> Told {
    match noted {
        Noted::Registered => Told::Believed(mark),
        Noted::Intended => Told::Perhaps(mark),
        Noted::Removed => Told::Out(Out::since(out_since)),
    }
}
