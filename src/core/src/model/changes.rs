//! Changes in the index.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::{BindingKey, Cause, Hold, Moment, ObjectKey, Origin, Reason, Scope, Target, Uid, limits::Excess};

/// The pod that owns a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The pod.
    pub pod: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
}

/// The bindings of a pod's target, or the last bindings if the pod has terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// The binding that was added or removed last.
    pub last: BindingKey,
    /// The other bindings.
    pub others: Vec<BindingKey>,
}

impl Through {
    /// Returns the last binding and the other bindings.
    pub fn all(&self) -> impl Iterator<Item = &BindingKey> {
        self.others.iter().chain([&self.last])
    }

    /// Whether the object defines at least one of the bindings.
    pub fn is_of(&self, origin: &Origin) -> bool {
        self.all().any(|binding| binding.origin == *origin)
    }
}

/// A change of a target's owner, or of the bindings between the owner and the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The bindings, which name the target group.
    pub through: Through,
    /// The target.
    pub target: Target,
    /// The current owner. `None`: the target must be deregistered.
    pub owner: Option<Owner>,
    /// Why the owner changed.
    pub cause: Cause,
    /// When Headgate received the event that caused the change.
    pub seen: Moment,
}

/// A terminated pod: none of its processes answers requests any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The pod.
    pub pod: Owner,
    /// The pod's annotation `headgate.dev/hold`.
    pub hold: Option<Hold>,
    /// The node on which the pod ran.
    pub node: Option<Arc<str>>,
    /// When Headgate received the event that the pod terminated. The pod may have terminated earlier.
    pub seen: Moment,
}

/// A pod reports an address that a pod on another node has and keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The address.
    pub ip: IpAddr,
    /// The pod that has the address.
    pub holder: ObjectKey,
    /// The pod that waits for the address.
    pub waits: ObjectKey,
}

/// A problem of a binding and its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// The binding.
    pub binding: BindingKey,
    /// The problem.
    pub kind: TroubleKind,
}

/// The kind of a [`Trouble`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// Pods cannot be targets, because of [`Cause::NoSuchPort`] or [`Cause::WrongIpFamily`].
    Unfit(Cause),
    /// Another Service or TargetBinding binds the same targets in the group.
    ClaimedTwice(Origin),
    /// Two host-network pods need the same target.
    HostNetwork {
        /// The pod that waits.
        waiting: ObjectKey,
        /// The pod that has the target.
        owner: ObjectKey,
        /// The target.
        target: Target,
    },
    /// Most of the binding's pods were missing from a list, and a second list must confirm the result.
    ListDoubted,
}

impl Trouble {
    /// The reason that users see.
    pub fn reason(&self) -> Reason {
        match &self.kind {
            TroubleKind::Unfit(cause) => cause.reason(),
            TroubleKind::ClaimedTwice(_) => Reason::TargetClaimedTwice,
            TroubleKind::HostNetwork { .. } => Reason::AddressContested,
            TroubleKind::ListDoubted => Reason::ListDoubted,
        }
    }
}

/// All changes from one call to the index.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Targets with a new owner or other bindings, in the order of the changes.
    pub ownerships: Vec<Ownership>,
    /// Pods that were deleted.
    pub gone: Vec<Owner>,
    /// Pods that ran before and have terminated.
    pub ended: Vec<Ended>,
    /// Pods that have begun to exceed a limit, each with the excess.
    pub beyond: Vec<(Owner, Excess)>,
    /// Pods that have begun to wait for an address of a pod on another node.
    pub contests: Vec<Contest>,
    /// Problems that were found or resolved.
    pub troubles: BTreeSet<Trouble>,
    /// Bindings with a changed set of targets.
    pub bindings: BTreeSet<BindingKey>,
    /// The scope to list again, because a second list must confirm the first list.
    pub relist: Option<Scope>,
    /// Whether a changed Service or TargetBinding, and not a pod, caused all changes.
    pub written: bool,
}
