//! One target: which pod should have it and why, and what that means for its state.

use std::sync::Arc;

use super::{
    queue::{Action, Queue, Tally},
    refusals::Refused,
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

/// The name and the namespace of an unknown pod.
pub const NOBODY: &str = "?";

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

/// The state of taking a target from a pod that remains alive. Its readiness gate is closed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOut {
    /// The pod ends, or has no target there.
    No,
    /// The gate must be closed.
    Due,
    /// The gate is being closed.
    Closing,
    /// The gate is closed, or was not open.
    Closed,
}

/// Whether an unwanted target may be deregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Yes, immediately.
    Now,
    /// No: all its bindings are paused.
    Paused,
    /// No: Headgate does not know the pod and must first judge the target.
    Unjudged,
    /// No: all targets are being replaced, and the new targets do not serve yet.
    Held,
    /// No: the readiness gate of its living pod must be closed first.
    AfterGate,
    /// No: the pod is alive, and an earlier leader may open its gate until then.
    AfterTerm(Moment),
}

/// A target that AWS has and that was never healthy so far.
#[derive(Clone, Copy, Debug)]
pub struct Unproven {
    /// Since when AWS has the target, as far as this leader knows.
    pub(super) since: Moment,
    /// Whether the target was registered before this leader.
    pub(super) inherited: bool,
    /// Whether Headgate has reported that the target never became healthy.
    pub(super) told: bool,
}

/// The call that is due if nothing delays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    Register,
    Deregister,
}

/// See the module docs.
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
    /// Whether AWS has rejected the call that the target waits for, and how often AWS rejected the target alone.
    pub(super) refused: Refused,
    pub(super) refusals: u32,
    /// The target is not registered until then, because somebody else removes it repeatedly.
    pub(super) set_aside: Option<Moment>,
    pub(super) vanishing: Vanishing,
    pub(super) unproven: Option<Unproven>,
    pub(super) take_out: TakeOut,
    /// Whether the pod from which the target is taken remains alive.
    pub(super) lives_on: bool,
    /// As of the last change: the state, the call that is due, whether the target may be deregistered, and until when
    /// it waits.
    pub(super) state: Option<State>,
    /// The health in the last read, even if that read does not count for the pod.
    pub(super) shown: Option<HealthState>,
    pub(super) way: Option<Way>,
    pub(super) removal: Removal,
    pub(super) until: Option<Moment>,
}

/// A pod of which only the hash of its UID is known.
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
            shown: None,
            way: None,
            removal: Removal::Now,
            until: None,
        }
    }

    /// A target that the ledger names and that nothing wants so far.
    pub fn inherited(mark: PodMark, now: Moment) -> Self {
        let mut entry = Self::wanted(unknown(mark), None, Cause::StaleTarget, now);
        entry.wish = Wish::Gone(Goes::Orphan(Orphan::Unjudged));
        entry.inherits(now);
        entry
    }

    /// Records that an earlier leader registered the target.
    pub fn inherits(&mut self, now: Moment) {
        self.unproven.get_or_insert(Unproven { since: now, inherited: true, told: false });
    }

    /// The pod that the ledger names for the target, if any.
    pub const fn claimed(&self) -> Option<PodMark> {
        match &self.state {
            Some(state) => state.pod(),
            None => None,
        }
    }

    /// The pod for which AWS may have the target. AWS has not accepted a deregistration for it.
    pub const fn told(&self) -> Option<PodMark> {
        match &self.state {
            Some(State::Draining(_) | State::Absent { .. } | State::Claiming { .. }) | None => None,
            Some(state) => state.pod(),
        }
    }

    /// Whether the target is registered for the pod that should have it.
    pub fn is_registered(&self) -> bool {
        matches!(
            (self.owner(), &self.state),
            (Some(owner), Some(State::Registered { pod, .. })) if PodMark::of(&owner.uid) == *pod
        )
    }

    /// Whether the ledger names the target for the pod that should have it, and no read has shown yet that AWS has it.
    /// A registration without an answer does not count.
    pub fn is_believed(&self) -> bool {
        matches!(
            (self.owner(), &self.state),
            (Some(owner), Some(State::Unsettled { pod, adds: None, .. })) if PodMark::of(&owner.uid) == *pod
        )
    }

    const fn health(&self) -> Option<HealthState> {
        match &self.state {
            Some(State::Registered { health, .. }) => *health,
            _ => None,
        }
    }

    /// Whether the deregistration may be held once it is due. A target that does not serve because of a zonal shift is
    /// not held.
    pub fn may_be_held(&self) -> bool {
        self.replaced().is_some()
            && self.told().is_some()
            && matches!(self.shown, None | Some(HealthState::Healthy | HealthState::Initial))
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
    /// it.
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
        match (&self.wish, self.removal) {
            (Wish::Gone(Goes::Replaced(owner)), _) => Some(owner),
            (Wish::Gone(Goes::Now), Removal::AfterTerm(_) | Removal::AfterGate) => Some(&self.last),
            _ => None,
        }
    }

    /// The pod of the target ends, so the deregistration is no longer held.
    pub fn pod_ends(&mut self) {
        self.let_go();
        (self.take_out, self.lives_on) = (TakeOut::No, false);
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

    /// Whether AWS has accepted the deregistration, or never had the target.
    pub const fn is_out(&self) -> bool {
        self.told().is_none()
    }

    /// Whether no call with the target is in flight.
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

    /// The call that is due for the target if nothing delays it.
    pub fn due(&self) -> Need {
        let is_for = |pod: PodMark| self.owner().is_some_and(|owner| PodMark::of(&owner.uid) == pod);
        match (&self.wish, self.state) {
            // The deregistration does not wait for the answer to the registration, only for the gate.
            (_, Some(State::Registering { .. })) if self.removal == Removal::AfterGate => Need::Deregister,
            (Wish::Gone(Goes::Orphan(_)), _)
            | (_, Some(State::Registering { .. } | State::Deregistering { .. })) => Need::Nothing,
            (Wish::There(_), _) if self.set_aside.is_some() => Need::Nothing,
            (Wish::There(_), Some(State::Registered { pod, .. })) if is_for(pod) => Need::Nothing,
            (_, Some(State::Unsettled { .. })) => match self.way {
                Some(Way::In) => Need::Register,
                None if self.is_wanted() || self.removal == Removal::Now => Need::Nothing,
                Some(Way::Out) | None => Need::Deregister,
            },
            (_, Some(State::Registered { .. }))
            | (Wish::Gone(Goes::Foreign), Some(State::Claiming { .. })) => Need::Deregister,
            (Wish::There(_), _) => Need::Register,
            (Wish::Gone(_), _) => Need::Nothing,
        }
    }

    /// The queue in which the target waits.
    pub fn queue(&self) -> Option<Queue> {
        match self.due() {
            Need::Register if self.paused => Some(Queue::Paused(Action::Register)),
            Need::Deregister if self.paused => Some(Queue::Paused(Action::Deregister)),
            _ if self.paused => None,
            Need::Register if self.way == Some(Way::In) => Some(Queue::Register(self.refused)),
            Need::Deregister if self.way == Some(Way::Out) => Some(Queue::Deregister(self.refused)),
            Need::Register | Need::Deregister if matches!(self.state, Some(State::Claiming { .. })) => {
                Some(Queue::Note)
            }
            Need::Deregister if self.removal == Removal::Held => Some(Queue::Held),
            Need::Deregister if self.removal == Removal::AfterGate => Some(Queue::Gate),
            _ => None,
        }
    }

    /// What the target adds to the counts.
    pub fn tally(&self) -> Tally {
        let serves = matches!(self.health(), Some(HealthState::Healthy | HealthState::Unused));
        Tally {
            wanted: usize::from(self.is_wanted()),
            registered: usize::from(self.is_registered()),
            serving: usize::from(self.is_registered() && serves),
        }
    }

    /// Whether the deregistration is held, or may be.
    pub fn is_spare(&self) -> bool {
        self.told().is_some() && self.spared().is_some()
    }

    /// The pods of the target: its last pod and the pod of its claim.
    pub fn pods(&self) -> [Option<PodMark>; 2] {
        [Some(PodMark::of(&self.last.uid)), self.claimed()]
    }

    /// When a wait of the target ends because time passes.
    pub fn waits_until(&self) -> Option<Moment> {
        let removal = match self.removal {
            Removal::AfterTerm(until) => Some(until),
            _ => None,
        };
        self.set_aside.into_iter().chain(self.until).chain(removal).min()
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
    }

    /// Takes in a new state.
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
