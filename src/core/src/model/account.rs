//! The state of one target, as part of an answer about its pod.

use super::{BindingKey, Cause, Moment, Origin, Uid};

/// The state of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// AWS has registered the target for the desired pod.
    Registered,
    /// The ledger contains the target, but no `DescribeTargetHealth` response has listed it yet.
    Believed,
    /// A `RegisterTargets` call for the target is in flight.
    Registering,
    /// The target should be registered, and no condition of this target blocks the registration.
    ToRegister,
    /// Headgate registers the target after it has written the target to the ledger.
    ToNote,
    /// AWS rejects the target, so Headgate does not register it before this time.
    SetAside(Moment),
    /// Another writer removes the target repeatedly, so Headgate does not register it before this time.
    Contested(Moment),
    /// Headgate registers the target after AWS has answered the deregistration.
    AfterRemoval,
    /// The target should be deregistered.
    ToRemove,
    /// Headgate deregisters the target when the readiness gate of the living pod is closed.
    AfterGate,
    /// Headgate deregisters the target at this time. The pod is alive, and an earlier leader may still open its gate.
    AfterTerm(Moment),
    /// The deregistration of the target waits, because all targets of the group are being replaced.
    Held,
    /// A `DeregisterTargets` call for the target is in flight.
    Removing,
    /// The target is registered, but none of the pods known so far needs it.
    Doubted,
    /// The target is registered, and no pod of this cluster needs it. A pod of another cluster may have the target's
    /// address.
    Suspect,
    /// AWS has accepted the deregistration of the target.
    Removed,
}

/// A target with its current or last pod.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The UID of the pod.
    pub uid: &'a Uid,
    /// The binding of the pod to the target.
    pub binding: Option<&'a BindingKey>,
    /// Whether Headgate makes no calls for the target.
    pub paused: bool,
    /// The paused object, or `None` if all of Headgate is paused.
    pub paused_by: Option<&'a Origin>,
    /// The state of the target.
    pub under: Under,
    /// Why the target should or should not be registered.
    pub cause: Cause,
    /// When Headgate received the event that caused this state.
    pub since: Moment,
    /// When AWS answered the last call for the target, or when the ledger was written.
    pub ended: Option<Moment>,
    /// The number of calls for the target since the event.
    pub attempts: u32,
}
