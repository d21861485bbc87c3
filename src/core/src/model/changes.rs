//! The changes of the index.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use super::{BindingKey, Cause, Hold, Moment, ObjectKey, Origin, Reason, Scope, Target, Uid, limits::Excess};

/// A target and the pod whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of the pod.
    pub uid: Uid,
}

/// The bindings through which a pod has a target, or had it until it terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// The one whose claim began or ended last.
    pub last: BindingKey,
    /// The others.
    pub others: Vec<BindingKey>,
}

impl Through {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &BindingKey> {
        self.others.iter().chain([&self.last])
    }

    /// Whether a binding of this object is one of them.
    pub fn is_of(&self, origin: &Origin) -> bool {
        self.all().any(|binding| binding.origin == *origin)
    }
}

/// The owner of a target has changed, or the bindings through which it has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// They name the target group.
    pub through: Through,
    /// The target.
    pub target: Target,
    /// Its present owner; `None`: it must be removed.
    pub owner: Option<Owner>,
    /// Why.
    pub cause: Cause,
    /// When the event that caused this reached Headgate.
    pub seen: Moment,
}

/// A pod has ended: nothing in it answers any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The pod, and its life.
    pub pod: Owner,
    /// Its own annotation `headgate.dev/hold`.
    pub hold: Option<Hold>,
    /// Its earlier address.
    pub node: Option<Arc<str>>,
    /// When that event reached Headgate: the pod may have ended earlier.
    pub seen: Moment,
}

/// A pod shows an address that a pod of another node has and keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The address.
    pub ip: IpAddr,
    /// The pod that has it.
    pub holder: ObjectKey,
    /// The pod that waits for it.
    pub waits: ObjectKey,
}

/// Something a user should know about a binding and its pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trouble {
    /// Of which binding.
    pub binding: BindingKey,
    /// What.
    pub kind: TroubleKind,
}

/// What a [`Trouble`] is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// Pods cannot be targets: [`Cause::NoSuchPort`] or [`Cause::WrongIpFamily`].
    Unfit(Cause),
    /// Another Service, or TargetBinding, claims the same targets of the group.
    ClaimedTwice(Origin),
    /// Two pods of the host network want the same target.
    HostNetwork {
        /// The pod that waits.
        waiting: ObjectKey,
        /// The pod that has it.
        owner: ObjectKey,
        /// The target.
        target: Target,
    },
    /// A list of pods left out most of the binding's, and a second one is awaited.
    ListDoubted,
}

impl Trouble {
    /// The reason for it.
    pub fn reason(&self) -> Reason {
        match &self.kind {
            TroubleKind::Unfit(cause) => cause.reason(),
            TroubleKind::ClaimedTwice(_) => Reason::TargetClaimedTwice,
            TroubleKind::HostNetwork { .. } => Reason::AddressContested,
            TroubleKind::ListDoubted => Reason::ListDoubted,
        }
    }
}

/// What a method changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Targets whose owner changed, or the bindings through which it has them, in the order it happened.
    pub ownerships: Vec<Ownership>,
    /// Pods that are not there any more.
    pub gone: Vec<Owner>,
    /// Pods that were alive and have ended.
    pub ended: Vec<Ended>,
    /// Pods of which something exceeds a limit that did not before.
    pub beyond: Vec<(Owner, Excess)>,
    /// Pods that have begun to wait for an address that a pod of another node has.
    pub contests: Vec<Contest>,
    /// Troubles that have begun or ended.
    pub troubles: BTreeSet<Trouble>,
    /// Bindings whose set of targets changed.
    pub bindings: BTreeSet<BindingKey>,
    /// A list that is doubted: list once more.
    pub relist: Option<Scope>,
    /// Whether what is written on a Service or TargetBinding has changed it all, and not what became of pods.
    pub written: bool,
}
