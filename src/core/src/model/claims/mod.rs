//! Claims record the addresses to which a load balancer may still send requests, and the pods at these addresses. The
//! module [`targets::claims`](crate::targets::claims) contains the rules for claims.

mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

pub use self::stored::{Packed, Unreadable};
use crate::{
    ledger::{LedgerVersion, PodMark},
    model::{Moment, Target},
};

/// Records that a load balancer may send requests to a target of this pod, now or as the result of a call in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The pod.
    pub pod: PodMark,
    /// The `namespace/name` of the object that binds the pod, if that object is known.
    pub binding: Option<Arc<str>>,
}

/// Claims by target, at most one for each target.
pub type Claims = BTreeMap<Target, Claim>;

/// The content of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The `leaseTransitions` of the leader that wrote the ledger.
    pub term: u64,
    /// The recorded claims.
    pub claims: Claims,
    /// The namespaces that own the target group.
    pub holders: BTreeSet<Arc<str>>,
}

/// The start of a term.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// The number of the term.
    pub term: u64,
    /// When this replica acquired the Lease.
    pub at: Moment,
    /// Whether no call of the term before can take effect late.
    pub is_settled: bool,
}

/// A request to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads the ledger.
    Load,
    /// Replaces this version of the ledger, or creates the ledger if the version is `None`.
    Write(Option<LedgerVersion>, Content),
}

/// Delays outside Headgate's control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// How long a call that timed out may still take effect, plus one second.
    pub late: Duration,
    /// How outdated a `DescribeTargetHealth` response may be at the start of its call, plus one second.
    pub stale: Duration,
    /// The propagation delay: how long a load balancer may keep sending requests after AWS has accepted a
    /// deregistration.
    pub bound: Duration,
    /// How long AWS may still report a failing target as healthy: the threshold times the interval of the health check.
    pub notice: Duration,
}

/// The pod that should have a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The pod.
    pub pod: PodMark,
    /// The `namespace/name` of the object that binds the pod.
    pub binding: Arc<str>,
    /// Whether the pod may be registered. A pod that will be evicted keeps its targets but gets no new targets.
    pub may_add: bool,
}

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// AWS has accepted the call.
    Done,
    /// The target group does not exist.
    Gone,
    /// AWS has rejected the call, and the call has no effect.
    Refused,
    /// The result is unknown after a timeout, a lost connection or a server error.
    Unknown,
}
