//! What is asked and said about the eviction of a pod: by whoever drains its node, by the leader, and by the API server.

use std::{sync::Arc, time::Duration};

use crate::model::{
    cause::Cause,
    hold::{Bounds, Hold},
    leaving::Mark,
    load_balancer::LoadBalancerType,
    object::{Labels, ObjectKey, Uid},
};

/// Clients wait so long at most until they ask again. They do so silently, ten times within one call.
pub const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// For how long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For AWS to take a removal, and for the API server to say what the budgets allow: then the eviction is let
    /// through without.
    pub patience: Duration,
    /// A pod that nobody has asked to leave for so long is put back, unless its node goes.
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

    /// Without a word of a leader for so long, an eviction is let through: longer than any leader is missed, and longer
    /// than one that is there is silent.
    pub fn silence(&self) -> Duration {
        self.patience.saturating_mul(3)
    }
}

/// What counts for all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// For how long is waited for what.
    pub limits: Limits,
    /// For how long load balancers may go on sending.
    pub bounds: Bounds,
}

/// The request for the eviction of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Of which life of the pod, if that is said: `deleteOptions.preconditions.uid`.
    pub uid: Option<Uid>,
    /// `deleteOptions.gracePeriodSeconds`.
    pub grace: Option<u32>,
    /// How long ago, if what is to be noted about it had to wait.
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
    /// Let through.
    Pass(Cause),
    /// This life of the pod is let through, and requests may be lost: no leader has said a word about it for too long
    /// ([`Cause::NobodyDecides`]), the request cuts its hold short ([`Cause::GraceCutsHold`]), or it has no hold and its
    /// node remains ([`Cause::HoldMissing`]).
    Regardless(Cause, Uid),
    /// The pod has no hold. Read its node: if it remains ([`Signals::remains`](crate::model::Signals::remains)), the eviction
    /// passes; otherwise, or if it cannot be read, the eviction waits. [`Ruling::with_node`] is the answer.
    AskNode {
        /// The node.
        node: Arc<str>,
        /// As in [`Ruling::Wait`], if the eviction waits.
        retry: Duration,
        /// The life of the pod that is meant.
        uid: Uid,
        /// As in [`Ruling::Wait`], if the eviction waits.
        mark: Mark,
    },
    /// Not yet.
    Wait {
        /// Why.
        cause: Cause,
        /// After so long it is worth asking again.
        retry: Duration,
        /// The life of the pod that is meant.
        uid: Uid,
        /// What is to be written on the pod, soon. If that cannot be, the eviction is let through when it is asked for again.
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

/// Something that is to be written on a pod.
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
    /// Nobody will evict it, so that only budgets count which Kubernetes can compute.
    pub passed_over: bool,
}

/// What the API server says about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// A dry run of the eviction is refused for now, as by a budget: in these words.
    pub refused: Option<Box<str>>,
    /// The budgets that are about the pod.
    pub budgets: Vec<Budget>,
}

/// What a PodDisruptionBudget that is about the pod says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its name.
    pub name: Box<str>,
    /// `status.disruptionsAllowed`.
    pub allowed: usize,
    /// How many of the pods that are on their way out already it is about, too.
    pub departing: usize,
}
