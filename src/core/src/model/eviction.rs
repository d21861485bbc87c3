//! The messages about the eviction of a pod between the drain tool, the leader and the API server.

use std::{sync::Arc, time::Duration};

use crate::model::{
    cause::Cause,
    hold::{Bounds, Hold},
    leaving::Mark,
    load_balancer::LoadBalancerType,
    object::{Labels, ObjectKey, Uid},
};

/// Clients retry after at most this long. They retry silently, ten times within one call.
pub const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Timeouts of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long the eviction waits until AWS accepts a deregistration, and until the API server has checked the
    /// budgets. After that it is allowed without them.
    pub patience: Duration,
    /// A pod is registered again if its eviction was not requested for this long, unless its node will be removed.
    pub given_up_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Duration::from_secs(60), given_up_after: Duration::from_secs(60) }
    }
}

impl Limits {
    /// How often a repeated request or a continued wait is written down.
    pub fn refresh(&self) -> Duration {
        self.patience.min(self.given_up_after / 3)
    }

    /// If no leader decides in this time, the eviction is allowed. It is longer than any change of the leader, and than
    /// any pause of a working leader.
    pub fn silence(&self) -> Duration {
        self.patience.saturating_mul(3)
    }
}

/// Rules for all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The timeouts.
    pub limits: Limits,
    /// How long load balancers may keep sending.
    pub bounds: Bounds,
}

/// A request for the eviction of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The UID of the pod, if the request names it: `deleteOptions.preconditions.uid`.
    pub uid: Option<Uid>,
    /// `deleteOptions.gracePeriodSeconds`.
    pub grace: Option<u32>,
    /// How long ago the eviction was requested. Above zero if the record about it was delayed.
    pub ago: Ago,
}

/// How long ago an eviction was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ago {
    /// The first request.
    pub first: Duration,
    /// The last request.
    pub last: Duration,
}

/// The answer to a request for an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Allowed.
    Pass(Cause),
    /// The eviction of this pod is allowed, and requests may be dropped. Possible causes: no leader has decided for too
    /// long ([`Cause::NobodyDecides`]), the request cuts the hold short ([`Cause::GraceCutsHold`]), or the pod has no
    /// hold and its node remains ([`Cause::HoldMissing`]).
    Regardless(Cause, Uid),
    /// The pod has no hold, so its node must be read. If the node remains
    /// ([`Signals::remains`](crate::model::Signals::remains)), the eviction is allowed. If it does not remain or cannot
    /// be read, the eviction waits. [`Ruling::with_node`] returns the answer.
    AskNode {
        /// The node.
        node: Arc<str>,
        /// The value for [`Ruling::Wait`].
        retry: Duration,
        /// The UID of the pod.
        uid: Uid,
        /// The value for [`Ruling::Wait`].
        mark: Mark,
    },
    /// The eviction waits.
    Wait {
        /// Why it waits.
        cause: Cause,
        /// The client should retry after this time.
        retry: Duration,
        /// The UID of the pod.
        uid: Uid,
        /// What to write on the pod soon. If the write fails, the next request is allowed.
        mark: Option<Mark>,
    },
}

impl Ruling {
    /// The answer after the node was read. `remains`: true only if the API server has confirmed that the node remains.
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

/// A target group of which the pod is, or should be, a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundTo {
    /// What kind of load balancer uses it.
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
    /// The UID of the pod: a precondition of the request, so that a later pod of the same name is not changed.
    pub uid: Uid,
    /// The record.
    pub mark: Mark,
}

/// A question to the API server: may this pod be evicted?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The pod.
    pub pod: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// The pod's labels, which decide the budgets that select it.
    pub labels: Labels,
    /// The labels of the pods in its namespace that are already being evicted.
    pub departing: Vec<Labels>,
    /// Whether drain tools skip the pod. If so, only budgets count that Kubernetes can compute.
    pub passed_over: bool,
}

/// The API server's answer to a [`Check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Why a dry run of the eviction is rejected for now, for example by a budget.
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
    /// How many of the pods that are already being evicted the budget selects too.
    pub departing: usize,
}
