//! What is known of one target, for questions about its pod.

use super::{BindingKey, Cause, Moment, Origin, Uid};

/// What happens to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// AWS has taken it for the pod that should have it.
    Registered,
    /// The ledger contains it, and no read has shown it yet.
    Believed,
    /// Its `RegisterTargets` is in flight.
    Registering,
    /// It should be registered, and waits for nothing of its own.
    ToRegister,
    /// It should be registered when the ledger contains it.
    ToNote,
    /// It should be registered when the readiness gate of its pod is closed, or then at the latest.
    AfterGate(Option<Moment>),
    /// It is not registered until then: AWS refuses it.
    SetAside(Moment),
    /// It is not registered until then: somebody else removes it again and again.
    Contested(Moment),
    /// It should be registered when AWS has answered its removal.
    AfterRemoval,
    /// It should be removed.
    ToRemove,
    /// Its removal is held: all are being replaced.
    Held,
    /// Its `DeregisterTargets` is in flight.
    Removing,
    /// It is registered and nothing here wants it: something may yet turn out to.
    Doubted,
    /// It is registered and nothing here wants it: another cluster may.
    Suspect,
    /// AWS has taken its removal.
    Removed,
}

/// One target, and whose it is or was last.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The pod.
    pub uid: &'a Uid,
    /// Through which binding.
    pub binding: Option<&'a BindingKey>,
    /// Whether nothing is written about it.
    pub paused: bool,
    /// The paused object, if not Headgate as a whole.
    pub paused_by: Option<&'a Origin>,
    /// What happens to it.
    pub under: Under,
    /// Why it should be there, or should not, and since when.
    pub cause: Cause,
    /// When the event that caused this reached Headgate.
    pub since: Moment,
    /// When the last call about it was answered, or the ledger contained it.
    pub ended: Option<Moment>,
    /// How many calls about it were sent since `since`.
    pub attempts: u32,
}
