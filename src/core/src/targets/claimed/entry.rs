//! One target: who should have it and why, and what that makes of its state.

use std::sync::Arc;

use super::{
    entries::{Action, Queue, Tally},
    refusals::Refused,
    removal::Removal,
    vanishing::Vanishing,
};
use crate::{
    ledger::PodMark,
    model::{
        AskedHold, BindingKey, CallItem, Cause, HealthState, Moment, ObjectKey, Owner, Target, Uid,
        changes::Through,
    },
    targets::claims::{State, Way},
};

/// The pod and the namespace of what nobody here knows.
pub const NOBODY: &str = "?";

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

/// How far it is that a target is taken from a pod that lives on: its readiness gate is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOut {
    /// The pod ends, or has no target there.
    No,
    /// The gate is to be closed.
    Due,
    /// It is being closed.
    Closing,
    /// It is closed, or was not open.
    Closed,
}

/// AWS has a target, and the load balancer has not called it healthy so far.
#[derive(Clone, Copy, Debug)]
pub struct Unproven {
    /// Since when AWS has it, as far as this leader knows.
    pub since: Moment,
    /// Whether it was there before this leader.
    pub inherited: bool,
    /// Whether that it never became healthy was reported.
    pub told: bool,
}

/// Which call is due, if nothing holds it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    Register,
    Deregister,
}

/// See the module.
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
    /// What AWS has refused of the call that it waits for, and how often it was refused alone.
    pub(super) refused: Refused,
    pub(super) refusals: u32,
    /// Until when it is not registered, because somebody else removes it again and again.
    pub(super) set_aside: Option<Moment>,
    pub(super) vanishing: Vanishing,
    pub(super) unproven: Option<Unproven>,
    pub(super) take_out: TakeOut,
    /// Whether the pod lives on from which it is taken.
    pub(super) lives_on: bool,
    /// Its state, the call that is due, whether its removal goes, and until when it waits, as of the last change.
    pub(super) state: Option<State>,
    pub(super) way: Option<Way>,
    pub(super) removal: Removal,
    pub(super) until: Option<Moment>,
}

/// A pod of which only the mark is known.
fn unknown(mark: PodMark) -> Owner {
    Owner { pod: ObjectKey::new(NOBODY, NOBODY), uid: Uid::new(format!("mark {mark:?}")) }
}

impl Entry {
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
            refused: Refused::No,
            refusals: 0,
            set_aside: None,
            vanishing: Vanishing::default(),
            unproven: None,
            take_out: TakeOut::No,
            lives_on: false,
            state: None,
            way: None,
            removal: Removal::Now,
            until: None,
        }
    }

    /// What the ledger left behind, and nothing wants so far.
    pub fn inherited(mark: PodMark, now: Moment) -> Self {
        let mut entry = Self::wanted(unknown(mark), None, Cause::StaleTarget, now);
        entry.wish = Wish::Gone(Goes::Orphan(Orphan::Unjudged));
        entry.unproven = Some(Unproven { since: now, inherited: true, told: false });
        entry
    }

    /// The pod that the ledger names, if any.
    pub const fn claimed(&self) -> Option<PodMark> {
        match &self.state {
            Some(state) => state.pod(),
            None => None,
        }
    }

    /// The pod that AWS may have it for, and for which its removal was not accepted.
    pub const fn told(&self) -> Option<PodMark> {
        match &self.state {
            Some(State::Draining(_) | State::Absent { .. } | State::Claiming { .. }) | None => None,
            Some(state) => state.pod(),
        }
    }

    /// Whether it is registered for the pod that should have it.
    pub fn is_registered(&self) -> bool {
        matches!(
            (self.owner(), &self.state),
            (Some(owner), Some(State::Registered { pod, .. })) if PodMark::of(&owner.uid) == *pod
        )
    }

    const fn health(&self) -> Option<HealthState> {
        match &self.state {
            Some(State::Registered { health, .. }) => *health,
            _ => None,
        }
    }

    /// Whether its removal may be held, if it is due. One that a zonal shift keeps from serving is not missed.
    pub fn may_be_held(&self) -> bool {
        self.replaced().is_some()
            && self.told().is_some()
            && matches!(self.health(), None | Some(HealthState::Healthy | HealthState::Initial))
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

    /// Whether it stays for now, because it may come to be another pod's that has its address, or be another cluster's.
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
        match (&self.wish, self.removal) {
            (Wish::Gone(Goes::Replaced(owner)), _) => Some(owner),
            (Wish::Gone(Goes::Now), Removal::AfterTerm(_) | Removal::AfterGate) => Some(&self.last),
            _ => None,
        }
    }

    /// Its pod does not live on: its removal is held no longer.
    pub fn pod_ends(&mut self) {
        self.let_go();
        (self.take_out, self.lives_on) = (TakeOut::No, false);
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

    /// Whether AWS has accepted its removal, or never had it.
    pub const fn is_out(&self) -> bool {
        self.told().is_none()
    }

    /// Whether no call about it is in flight.
    pub const fn is_idle(&self) -> bool {
        !matches!(
            self.state,
            Some(
                State::Registering { .. }
                    | State::Deregistering { .. }
                    | State::Unsettled { call: Some(_), .. }
            )
        )
    }

    /// Which call is due for it, if nothing holds it up.
    pub fn due(&self) -> Need {
        let is_for = |pod: PodMark| self.owner().is_some_and(|owner| PodMark::of(&owner.uid) == pod);
        match (&self.wish, self.state) {
            (Wish::Gone(Goes::Orphan(_)), _) => Need::Nothing,
            (_, Some(State::Registering { .. } | State::Deregistering { .. })) => Need::Nothing,
            (Wish::There(_), _) if self.set_aside.is_some() => Need::Nothing,
            (Wish::There(_), Some(State::Registered { pod, .. })) if is_for(pod) => Need::Nothing,
            (_, Some(State::Unsettled { .. })) => match self.way {
                Some(Way::In) => Need::Register,
                Some(Way::Out) => Need::Deregister,
                None if self.is_wanted() || self.removal == Removal::Now => Need::Nothing,
                None => Need::Deregister,
            },
            (_, Some(State::Registered { .. })) => Need::Deregister,
            (Wish::Gone(Goes::Foreign), Some(State::Claiming { .. })) => Need::Deregister,
            (Wish::There(_), _) => Need::Register,
            (Wish::Gone(_), _) => Need::Nothing,
        }
    }

    /// What it waits for.
    pub fn queue(&self, _allows: impl FnOnce(PodMark) -> bool) -> Option<Queue> {
        match self.due() {
            Need::Register if self.paused => Some(Queue::Paused(Action::Register)),
            Need::Deregister if self.paused => Some(Queue::Paused(Action::Deregister)),
            _ if self.paused => None,
            Need::Register if self.way == Some(Way::In) => Some(Queue::Register(self.refused)),
            Need::Register if matches!(self.state, Some(State::Claiming { .. })) => Some(Queue::Note),
            Need::Deregister if self.way == Some(Way::Out) => Some(Queue::Deregister(self.refused)),
            Need::Deregister if self.removal == Removal::Held => Some(Queue::Held),
            Need::Deregister if self.removal == Removal::AfterGate => Some(Queue::Gate),
            _ => None,
        }
    }

    /// How it counts.
    pub fn tally(&self) -> Tally {
        let serves = matches!(self.health(), Some(HealthState::Healthy | HealthState::Unused));
        Tally {
            wanted: usize::from(self.is_wanted()),
            registered: usize::from(self.is_registered()),
            serving: usize::from(self.is_registered() && serves),
        }
    }

    /// Whether its removal is held, or may come to be.
    pub fn is_spare(&self) -> bool {
        self.told().is_some() && self.spared().is_some()
    }

    /// The pods that it has to do with: whose it is or was last, and that of its claim.
    pub fn pods(&self) -> [Option<PodMark>; 4] {
        [Some(PodMark::of(&self.last.uid)), self.claimed(), None, None]
    }

    /// When something that it waits for is over by itself.
    pub fn waits_until(&self) -> Option<Moment> {
        let removal = match self.removal {
            Removal::AfterTerm(until) => Some(until),
            _ => None,
        };
        self.set_aside.into_iter().chain(self.until).chain(removal).min()
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
    }

    /// Its state is another one.
    pub fn takes(&mut self, state: Option<State>) {
        self.state = state;
        if let Some(pod) = self.told().filter(|pod| *pod != PodMark::of(&self.last.uid)) {
            let unknown = unknown(pod);
            if self.last.uid != unknown.uid {
                self.last = unknown;
            }
        }
        if let Some(owner) = self.owner()
            && self.told().is_none_or(|pod| pod == PodMark::of(&owner.uid))
        {
            self.last = owner.clone();
        }
    }

    pub fn item(&self, target: Target) -> CallItem {
        let is_anothers = self.way == Some(Way::Out) && self.is_wanted();
        let owner = self.owner().filter(|_| !is_anothers).unwrap_or(&self.last);
        CallItem {
            target,
            pod: owner.pod.clone(),
            uid: owner.uid.clone(),
            reason: if is_anothers { Cause::IpChanged } else { self.cause },
            since: self.since,
            attempt: self.attempts + 1,
        }
    }
}
