//! Claims: which addresses a load balancer may still send to, and for which pods.
//! [`targets::claims`](crate::targets::claims) contains the rules.

mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use self::stored::{Packed, Unreadable};
use crate::{
    ledger::{LedgerVersion, PodMark},
    model::Target,
};

/// A load balancer may send to a target for this pod, or a call of Headgate may still cause that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The pod.
    pub pod: PodMark,
    /// The object that binds the pod, as `namespace/name`, if it is known.
    pub binding: Option<Arc<str>>,
}

/// Claims by target. A target has at most one.
pub type Claims = BTreeMap<Target, Claim>;

/// The content of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The `leaseTransitions` of the leader that wrote it.
    pub term: u64,
    /// The recorded claims.
    pub claims: Claims,
    /// The namespaces that hold the group.
    pub holders: BTreeSet<Arc<str>>,
}

/// A request to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads it.
    Load,
    /// Replaces this version. `None`: creates the ledger.
    Write(Option<LedgerVersion>, Content),
}

/// Durations of external effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// How long a call that timed out may still take effect, plus one second.
    pub late: Duration,
    /// How old the data of a read may be when the read begins, plus one second.
    pub stale: Duration,
    /// The propagation delay: how long a load balancer may keep sending after AWS has accepted a deregistration.
    pub bound: Duration,
    /// How long a target that fails its health checks may still be shown as healthy: threshold times interval.
    pub notice: Duration,
}

/// The pod that should have a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The pod.
    pub pod: PodMark,
    /// The object that binds it, as `namespace/name`.
    pub binding: Arc<str>,
    /// Whether it may be registered. A pod that will be evicted keeps its targets and gets no new ones.
    pub may_add: bool,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// AWS has accepted it.
    Done,
    /// The target group does not exist.
    Gone,
    /// AWS has rejected the call and not applied it.
    Refused,
    /// The result is unknown: a timeout, a lost connection, or an error of the server.
    Unknown,
}
