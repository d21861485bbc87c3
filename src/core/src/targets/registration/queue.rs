//! The queues in which targets wait, and how targets are counted.

use super::refusals::Refused;

/// What a target waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Queue {
    /// The gate of its pod must be closed before the next step.
    Gate,
    /// `RegisterTargets`, by what AWS has rejected of it.
    Register(Refused),
    /// The ledger must be written before the registration.
    Note,
    /// `DeregisterTargets`, by what AWS has rejected of it.
    Deregister(Refused),
    /// Other targets must replace it before the deregistration.
    Held,
    /// The pause must end before this call.
    Paused(Action),
}

/// A call that changes targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    Register,
    Deregister,
}

impl Action {
    /// The queue of the targets that wait for this call. `refused`: what AWS has rejected of them.
    pub const fn queue(self, refused: Refused) -> Queue {
        match self {
            Self::Register => Queue::Register(refused),
            Self::Deregister => Queue::Deregister(refused),
        }
    }
}

/// How many targets of a group are wanted, registered, and serving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub(super) wanted: usize,
    pub(super) registered: usize,
    pub(super) serving: usize,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.wanted += other.wanted;
        self.registered += other.registered;
        self.serving += other.serving;
    }

    pub fn take(&mut self, other: Self) {
        self.wanted -= other.wanted;
        self.registered -= other.registered;
        self.serving -= other.serving;
    }
}
