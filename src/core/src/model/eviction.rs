//! Questions and answers about the eviction of a pod, among the drain tool, the leader and the API server.

use std::{sync::Arc, time::Duration};

use crate::model::{
    cause::Cause,
    hold::{Bounds, Hold},
    leaving::Mark,
    load_balancer::LoadBalancerType,
    object::{Labels, ObjectKey, Uid},
};

/// Clients wait at most this long until they ask again. They do so silently, ten times within one call.
pub const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// For how long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time for AWS to accept a removal, and for the API server to check the budgets: then the eviction is
    /// allowed without that.
    pub patience: Duration,
    /// A pod without a request for its eviction in this time is registered again, unless its node is about to be
    /// removed.
    pub given_up_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), given_up_after: Duration::from_secs(60) }
    }
}

impl Limits {
    /// How often it is noted that somebody still asks, or still waits.
    pub fn refresh(&self) -> Duration {
        self.patience.min(self.given_up_after / 3)
    }

    /// Without a decision of a leader in this time, an eviction is allowed. It is longer than any change of the
    /// leader, and than any silence of a living one.
    pub fn silence(&self) -> Duration {
        self.patience.saturating_mul(3)
    }
}

/// What counts for all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// For how long is waited for what.
    pub limits: Limits,
    /// How long load balancers may keep sending.
    pub bounds: Bounds,
}

/// The request for the eviction of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The UID of the pod, if the request names it: `deleteOptions.preconditions.uid`.
    pub uid: Option<Uid>,
    /// `deleteOptions.gracePeriodSeconds`.
    pub grace: Option<u32>,
    /// How long ago, if a record about it had to wait.
    pub ago: Ago,
}

/// How long ago an eviction was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ago {
    /// For the first time.
    pub first: Duration,
    /// And the last time.
    pub last: Duration,
}

/// What is answered when an eviction is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Allowed.
    Pass(Cause),
    /// The eviction of this pod is allowed, and requests may be dropped. No leader has decided for too long
    /// ([`Cause::NobodyDecides`]), the request cuts its hold short ([`Cause::GraceCutsHold`]), or it has no hold and
    /// its node remains ([`Cause::HoldMissing`]).
    Regardless(Cause, Uid),
    /// The pod has no hold. Read its node: if it remains ([`Signals::remains`](crate::model::Signals::remains)), the
    /// eviction is allowed. If it does not, or cannot be read, the eviction waits. [`Ruling::with_node`] is the
    /// answer.
    AskNode {
        /// The node.
        node: Arc<str>,
        /// The value of [`Ruling::Wait`], if the eviction waits.
        retry: Duration,
        /// The life of the pod that is meant.
        uid: Uid,
        /// The value of [`Ruling::Wait`], if the eviction waits.
        mark: Mark,
    },
    /// Not yet.
    Wait {
        /// Why.
        cause: Cause,
        /// After this time a client should ask again.
        retry: Duration,
        /// The life of the pod that is meant.
        uid: Uid,
        /// What to write on the pod, soon. If that fails, the next request for the eviction is allowed.
        mark: Option<Mark>,
    },
}

impl Ruling {
    /// The answer, once the node was read that has to be: `remains` only if the API server has confirmed that.
    #[must_use]
    pub fn with_node(self, remains: bool) -> Self {
        match self {
            Self::AskNode { uid, .. } if remains => Self::Regardless(Cause::HoldMissing, uid),
            Self::AskNode { retry, uid, mark, .. } => {
                Self::Wait { cause: Cause::EvictionRecorded, retry, uid, mark: Some(mark) }
            }
            ruling => ruling,
        }
    }
}

/// A target group that a pod is a target of, or should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundTo {
    /// What kind of load balancer uses it.
    pub balancer: LoadBalancerType,
    /// For how long its pods are held.
    pub hold: Hold,
    /// Nothing is written there for now.
    pub paused: bool,
}

/// Something to write on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkWrite {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it, and no other, is written to: a precondition of the request.
    pub uid: Uid,
    /// What.
    pub mark: Mark,
}

/// A question to the API server: may this pod be evicted?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The pod.
    pub pod: ObjectKey,
    /// This life of it.
    pub uid: Uid,
    /// Its labels: which budgets are about it.
    pub labels: Labels,
    /// Those of the pods of its namespace that are on their way out already.
    pub departing: Vec<Labels>,
    /// No tool will evict it, so only budgets count that Kubernetes can compute.
    pub passed_over: bool,
}

/// The API server's answer about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// A dry run of the eviction is refused for now, such as by a budget: in these words.
    pub refused: Option<Box<str>>,
    /// The budgets that are about the pod.
    pub budgets: Vec<Budget>,
}

/// The answer of a PodDisruptionBudget that selects the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: Box<str>,
    /// `status.disruptionsAllowed`.
    pub allowed: usize,
    /// How many of the pods that are on their way out already it is about, too.
    pub departing: usize,
}
