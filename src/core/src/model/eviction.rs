//! Messages that the drain tool, the leader and the API server exchange about pod evictions.

use std::{sync::Arc, time::Duration};

use crate::model::{
    cause::Cause,
    hold::{Bounds, Hold},
    leaving::Mark,
    load_balancer::LoadBalancerType,
    object::{Labels, ObjectKey, Uid},
};

/// The longest retry delay in an answer to a client. A client retries silently, ten times within one call.
pub const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Timeouts of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long an eviction waits for AWS to accept a deregistration, and for the API server to check the budgets.
    /// After this time, Headgate allows the eviction without the deregistration or the check.
    pub patience: Duration,
    /// Headgate registers a pod again if no client has requested its eviction for this long, unless its node will be
    /// removed.
    pub given_up_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), given_up_after: Duration::from_secs(60) }
    }
}

impl Limits {
    /// How often Headgate updates the pod's record of a repeated request or a continued wait.
    pub fn refresh(&self) -> Duration {
        self.patience.min(self.given_up_after / 3)
    }

    /// If no leader decides in this time, the eviction is allowed. The timeout is longer than any change of the leader,
    /// and longer than any pause of a working leader.
    pub fn silence(&self) -> Duration {
        self.patience.saturating_mul(3)
    }
}

/// Eviction rules for all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The timeouts.
    pub limits: Limits,
    /// The propagation delays of the load balancers.
    pub bounds: Bounds,
}

/// A request for the eviction of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The UID of the pod, if the request names it: `deleteOptions.preconditions.uid`.
    pub uid: Option<Uid>,
    /// `deleteOptions.gracePeriodSeconds`.
    pub grace: Option<u32>,
    /// How long ago the eviction was requested. The value is above zero if Headgate recorded the request late.
    pub ago: Ago,
}

/// How long ago an eviction was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ago {
    /// The time since the first request.
    pub first: Duration,
    /// The time since the last request.
    pub last: Duration,
}

/// The answer to a request for an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// The eviction is allowed.
    Pass(Cause),
    /// The eviction of this pod is allowed, although requests may be dropped. The cause is one of:
    ///
    /// * [`Cause::NobodyDecides`]: no leader has decided for too long.
    /// * [`Cause::GraceCutsHold`]: the request cuts the hold short.
    /// * [`Cause::HoldMissing`]: the pod has no hold, and its node remains.
    Regardless(Cause, Uid),
    /// The pod has no hold, so the caller must read the pod's node. If the node remains
    /// ([`Signals::remains`](crate::model::Signals::remains)), the eviction is allowed. If the node does not remain or
    /// cannot be read, the eviction waits. [`Ruling::with_node`] returns the final answer.
    AskNode {
        /// The node.
        node: Arc<str>,
        /// The value of `retry` in [`Ruling::Wait`].
        retry: Duration,
        /// The UID of the pod.
        uid: Uid,
        /// The value of `mark` in [`Ruling::Wait`].
        mark: Mark,
    },
    /// The eviction waits.
    Wait {
        /// Why the eviction waits.
        cause: Cause,
        /// The client should retry after this time.
        retry: Duration,
        /// The UID of the pod.
        uid: Uid,
        /// The record to write to the pod soon. If Headgate cannot write the record, it allows the next request.
        mark: Option<Mark>,
    },
}

impl Ruling {
    /// Returns the answer after the node was read. `remains` is true only if the API server has confirmed that the node
    /// remains.
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

/// A target group in which the pod is, or should be, registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundTo {
    /// The type of the load balancer that uses the target group.
    pub balancer: LoadBalancerType,
    /// How long the pods of the binding are held.
    pub hold: Hold,
    /// Whether the binding is paused.
    pub paused: bool,
}

/// A record to write on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkWrite {
    /// The pod.
    pub pod: ObjectKey,
    /// The UID of the pod, which prevents a write to a later pod with the same name.
    pub uid: Uid,
    /// The record.
    pub mark: Mark,
}

/// A check whether the API server would allow the eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The pod.
    pub pod: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// The pod's labels, which determine the PodDisruptionBudgets that select the pod.
    pub labels: Labels,
    /// The labels of other pods in the namespace whose eviction has already begun.
    pub departing: Vec<Labels>,
    /// Whether drain tools skip the pod. For a skipped pod, Headgate ignores budgets that Kubernetes cannot compute.
    pub passed_over: bool,
}

/// The API server's answer to a [`Check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Why the API server rejects a dry run of the eviction for now, for example because of a budget.
    pub refused: Option<Box<str>>,
    /// The budgets that select the pod.
    pub budgets: Vec<Budget>,
}

/// A PodDisruptionBudget that selects the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The name of the budget.
    pub name: Box<str>,
    /// `status.disruptionsAllowed`.
    pub allowed: usize,
    /// How many pods of the budget are already being evicted.
    pub departing: usize,
}
