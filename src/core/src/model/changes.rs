//! The changes of the index.

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

/// The bindings through which a pod has a target, or had it until it terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// The binding that began or ended last.
    pub last: BindingKey,
    /// The other bindings.
    pub others: Vec<BindingKey>,
}

impl Through {
    /// All these bindings.
    pub fn all(&self) -> impl Iterator<Item = &BindingKey> {
        self.others.iter().chain([&self.last])
    }

    /// Whether this object makes one of these bindings.
    pub fn is_of(&self, origin: &Origin) -> bool {
        self.all().any(|binding| binding.origin == *origin)
    }
}

/// A target has a new owner, or its owner has it through other bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The bindings; they name the target group.
    pub through: Through,
    /// The target.
    pub target: Target,
    /// The present owner. `None`: the target must be deregistered.
    pub owner: Option<Owner>,
    /// Why the owner changed.
    pub cause: Cause,
    /// When Headgate received the event that caused this.
    pub seen: Moment,
}

/// A pod has ended: no process in it answers any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The pod.
    pub pod: Owner,
    /// The pod's annotation `headgate.dev/hold`.
    pub hold: Option<Hold>,
    /// The node on which the pod ran.
    pub node: Option<Arc<str>>,
    /// When Headgate received that event. The pod may have ended earlier.
    pub seen: Moment,
}

/// A pod shows an address that a pod of another node has and keeps.
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
    /// Pods cannot be targets: [`Cause::NoSuchPort`] or [`Cause::WrongIpFamily`].
    Unfit(Cause),
    /// Another Service or TargetBinding has the same targets in the group.
    ClaimedTwice(Origin),
    /// Two pods of the host network should have the same target.
    HostNetwork {
        /// The pod that waits.
        waiting: ObjectKey,
        /// The pod that has the target.
        owner: ObjectKey,
        /// The target.
        target: Target,
    },
    /// Most of the binding's pods were missing in a list, and a second list must confirm that.
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

/// The changes that a call made.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Targets with a new owner or other bindings, in the order of the changes.
    pub ownerships: Vec<Ownership>,
    /// Pods that were deleted.
    pub gone: Vec<Owner>,
    /// Pods that were alive and have ended.
    pub ended: Vec<Ended>,
    /// Pods, each with a part that exceeds a limit and did not before.
    pub beyond: Vec<(Owner, Excess)>,
    /// Pods that have begun to wait for an address of a pod on another node.
    pub contests: Vec<Contest>,
    /// Problems that have begun or ended.
    pub troubles: BTreeSet<Trouble>,
    /// Bindings with a changed set of targets.
    pub bindings: BTreeSet<BindingKey>,
    /// The scope to list once more, because a list is doubted.
    pub relist: Option<Scope>,
    /// Whether a changed Service or TargetBinding caused all of this, and not a pod.
    pub written: bool,
}
