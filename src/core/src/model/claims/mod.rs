//! Claims: which addresses a load balancer may still send to, and for which pods. [`targets::claims`](crate::targets::claims) has the
//! rules about them.

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

/// A load balancer may send to a target for this pod, or a call of ours may still make it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The pod.
    pub pod: PodMark,
    /// The object that binds the pod, as `namespace/name`, if that is known.
    pub binding: Option<Arc<str>>,
}

/// At most one for a target.
pub type Claims = BTreeMap<Target, Claim>;

/// The content of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The Lease's transitions of the leader that wrote it.
    pub term: u64,
    /// What it claims.
    pub claims: Claims,
    /// The namespaces that hold the group.
    pub holders: BTreeSet<Arc<str>>,
}

/// A request to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads it.
    Load,
    /// Replaces this version; `None`: creates it.
    Write(Option<LedgerVersion>, Content),
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// How long a call that was given up may still take effect, and a second more.
    pub late: Duration,
    /// How old what a read shows may be when the read begins, and a second more.
    pub stale: Duration,
    /// How long a load balancer may go on sending after AWS has accepted a removal: its propagation delay.
    pub bound: Duration,
    /// How long a target of which health checks fail may be shown as healthy: threshold times interval.
    pub notice: Duration,
}

/// Which pod should have a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The pod.
    pub pod: PodMark,
    /// The object that binds it, as `namespace/name`.
    pub binding: Arc<str>,
    /// Whether it may be registered. A pod that was asked to leave keeps what it has and gets nothing new.
    pub may_add: bool,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// AWS has accepted it.
    Done,
    /// AWS says that there is no such group.
    Gone,
    /// AWS has refused it: it was not done.
    Refused,
    /// Nobody knows: a time-out, a lost connection, an error of the server.
    Unknown,
}

/// What a group needs now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// To be deregistered.
    pub remove: Vec<Target>,
    /// To be registered.
    pub add: Vec<Target>,
    /// To be asked of the ledger.
    pub ledger: Option<Request>,
    /// When time alone makes something due.
    pub again: Option<Moment>,
}
