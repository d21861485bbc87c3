//! The state of one target, for questions about its pod.

use super::{BindingKey, Cause, Moment, Origin, Uid};

/// What happens to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// AWS has accepted it for the pod that should have it.
    Registered,
    /// The ledger contains it, and no read has shown it yet.
    Believed,
    /// Its `RegisterTargets` is in flight.
    Registering,
    /// It should be registered, and nothing of its own blocks that.
    ToRegister,
    /// It should be registered after the ledger contains it.
    ToNote,
    /// It is not registered until this time, because AWS rejects it.
    SetAside(Moment),
    /// It is not registered until this time, because another writer removes it repeatedly.
    Contested(Moment),
    /// It should be registered after AWS has answered its deregistration.
    AfterRemoval,
    /// It should be deregistered.
    ToRemove,
    /// It should be deregistered when the readiness gate of its living pod is closed.
    AfterGate,
    /// It should be deregistered at this time, because its pod is alive and an earlier leader may still open its gate.
    AfterTerm(Moment),
    /// Its deregistration waits, because all targets are being replaced.
    Held,
    /// Its `DeregisterTargets` is in flight.
    Removing,
    /// It is registered, and no known pod needs it. A pod that needs it may still become known.
    Doubted,
    /// It is registered, and no pod of this cluster needs it. Another cluster may have got its address.
    Suspect,
    /// AWS has accepted its deregistration.
    Removed,
}

/// One target, and its present or last pod.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The pod.
    pub uid: &'a Uid,
    /// The binding of the pod to the target.
    pub binding: Option<&'a BindingKey>,
    /// Whether Headgate makes no calls about it.
    pub paused: bool,
    /// The paused object; `None`: Headgate as a whole.
    pub paused_by: Option<&'a Origin>,
    /// What happens to the target.
    pub under: Under,
    /// Why it should or should not be registered.
    pub cause: Cause,
    /// When Headgate received the event that caused this.
    pub since: Moment,
    /// When the last call about it was answered, or when the ledger was written.
    pub ended: Option<Moment>,
    /// The number of calls about it since `since`.
    pub attempts: u32,
}
