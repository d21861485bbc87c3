//! What the index says has changed.

use std::collections::BTreeSet;

use crate::{
    binding::BindingKey,
    input::Scope,
    object::{ObjectKey, Uid},
    origin::Origin,
    reason::Reason,
    target::Target,
    target_group::TargetGroupArn,
    time::Moment,
};

/// A target and the pod whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of the pod.
    pub uid: Uid,
}

/// The owner of a target has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The binding whose claim began or ended last; it names the target group.
    pub binding: BindingKey,
    /// The target.
    pub target: Target,
    /// Whose it is now; `None`: nobody's, so it must go.
    pub owner: Option<Owner>,
    /// Why.
    pub reason: Reason,
    /// When the event that caused this reached Headgate.
    pub seen: Moment,
}

/// Something a user should know about a Service and its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Pods of the Service cannot be targets.
    Pod {
        /// Of which binding.
        binding: BindingKey,
        /// [`Reason::NoSuchPort`] or [`Reason::WrongIpFamily`].
        reason: Reason,
    },
    /// Two Services, or TargetBindings, claim the same targets of one group.
    ClaimedTwice {
        /// The group.
        group: TargetGroupArn,
        /// What claimed them first.
        first: Origin,
        /// The other one.
        second: Origin,
    },
    /// Pods of the host network want the same target.
    HostNetwork {
        /// The pod that waits.
        waiting: ObjectKey,
        /// The pod that has it.
        owner: ObjectKey,
        /// The target.
        target: Target,
    },
}

impl Trouble {
    /// Whether it would have gone with this binding.
    pub(super) fn is_of(&self, key: &BindingKey) -> bool {
        match self {
            Self::Pod { binding, .. } => binding == key,
            Self::ClaimedTwice { group, first, second } => {
                *group == key.group && (*first == key.origin || *second == key.origin)
            }
            Self::HostNetwork { .. } => false,
        }
    }
}

/// What a method changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Targets whose owner changed, in the order it happened.
    pub ownerships: Vec<Ownership>,
    /// Troubles that began, each with an example: the pod or target that shows it.
    pub troubles: Vec<(Trouble, String)>,
    /// Bindings whose set of targets changed.
    pub bindings: BTreeSet<BindingKey>,
    /// A list that is doubted: list once more.
    pub relist: Option<Scope>,
}
