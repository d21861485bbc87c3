//! What goes into the engine, and the calls that come out of it.

use std::{fmt, sync::Arc};

use crate::{
    gate::GateFailure,
    health::Health,
    leaving::{CheckFailure, Checked, MarkFailure},
    ledger::{LedgerFailure, LedgerVersion, StoredLedger},
    node::NodeFacts,
    object::{ObjectKey, Uid},
    pod::PodFacts,
    reason::Reason,
    service::ServiceFacts,
    target::Target,
    target_group::{GroupRef, TargetGroupArn, TargetGroupFacts},
    time::Moment,
    written::BindingFacts,
};

/// Which objects a watch sees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All namespaces.
    Cluster,
    /// One namespace.
    Namespace(Arc<str>),
}

impl Scope {
    /// Whether objects of `namespace` are within this scope.
    pub fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(own) => &**own == namespace,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all namespaces"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
        }
    }
}

/// What a watch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The object is there, and looks like this.
    Applied(T),
    /// The object is gone; this is how it last looked.
    Deleted(T),
    /// All there is within the scope: what is missing is gone. The list is a consistent read, never older than
    /// what was said before.
    Relisted(Scope, Vec<T>),
}

/// What the engine is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// From the watch of pods. `seen` is when the event reached Headgate.
    Pod {
        /// The event.
        change: Change<PodFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of Services.
    Service {
        /// The event.
        change: Change<ServiceFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of the TargetBindings that somebody has written.
    Binding {
        /// The event.
        change: Change<BindingFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of namespaces, which shows only selected ones.
    Namespace {
        /// The event; the item is the namespace's name.
        change: Change<Arc<str>>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of nodes, if there is one.
    Node {
        /// The event.
        change: Change<NodeFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// A call has ended.
    Answered {
        /// Which.
        id: CallId,
        /// How.
        result: Result<Answer, Failure>,
    },
    /// This replica leads from now on, or no longer.
    Leadership(Leadership),
    /// [`Effect::LoadLedgers`](crate::Effect::LoadLedgers) has ended.
    LedgersLoaded {
        /// Which request.
        id: CallId,
        /// All ledgers there are.
        result: Result<Vec<StoredLedger>, LedgerFailure>,
    },
    /// [`Effect::LoadLedger`](crate::Effect::LoadLedger) has ended.
    LedgerLoaded {
        /// Which request.
        id: CallId,
        /// The ledger; `None`: there is none.
        result: Result<Option<StoredLedger>, LedgerFailure>,
    },
    /// [`Effect::WriteLedger`](crate::Effect::WriteLedger) has ended.
    LedgerWritten {
        /// Which request.
        id: CallId,
        /// Its new version.
        result: Result<LedgerVersion, LedgerFailure>,
    },
    /// [`Effect::DropLedger`](crate::Effect::DropLedger) has ended.
    LedgerDropped {
        /// Which request.
        id: CallId,
        /// How.
        result: Result<(), LedgerFailure>,
    },
    /// [`Effect::WriteGate`](crate::Effect::WriteGate) has ended.
    GateWritten {
        /// Which request.
        id: CallId,
        /// How.
        result: Result<(), GateFailure>,
    },
    /// [`Effect::CheckEviction`](crate::Effect::CheckEviction) has ended.
    EvictionChecked {
        /// Which request.
        id: CallId,
        /// What the API server says.
        result: Result<Checked, CheckFailure>,
    },
    /// [`Effect::Mark`](crate::Effect::Mark) has ended.
    MarkWritten {
        /// Which request.
        id: CallId,
        /// How.
        result: Result<(), MarkFailure>,
    },
    /// Time has passed: [`Engine::next_wakeup`](crate::Engine::next_wakeup) was reached.
    Tick,
}

/// Whether this replica is the one that calls AWS, writes the ledgers and tells users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It is.
    Leading,
    /// It is, and is about to stop: what it knows is written down at once, so that the next one need not ask.
    Leaving,
    /// Another one is, or may be: this one watches and keeps itself ready.
    Standby,
}

/// Names a call to AWS or a request about a ledger in flight. No two have the same, so that an answer that comes after
/// the engine has moved on is seen as such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call to AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `RegisterTargets`.
    Register {
        /// The target group.
        group: TargetGroupArn,
        /// 1 to [`MAX_TARGETS_PER_CALL`](crate::lanes::MAX_TARGETS_PER_CALL) targets.
        items: Vec<CallItem>,
    },
    /// `DeregisterTargets`.
    Deregister {
        /// The target group.
        group: TargetGroupArn,
        /// 1 to [`MAX_TARGETS_PER_CALL`](crate::lanes::MAX_TARGETS_PER_CALL) targets.
        items: Vec<CallItem>,
    },
    /// `DescribeTargetHealth` of the whole group.
    ReadHealth {
        /// The target group.
        group: TargetGroupArn,
    },
    /// `DescribeTargetGroups` of one.
    FindGroup {
        /// By ARN or name.
        reference: GroupRef,
    },
}

impl Call {
    /// The API action, as AWS and the metrics name it.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Register { .. } => "RegisterTargets",
            Self::Deregister { .. } => "DeregisterTargets",
            Self::ReadHealth { .. } => "DescribeTargetHealth",
            Self::FindGroup { .. } => "DescribeTargetGroups",
        }
    }
}

/// One target within a call, and why it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallItem {
    /// The target.
    pub target: Target,
    /// The pod it belongs to, or did.
    pub pod: ObjectKey,
    /// The life of that pod.
    pub uid: Uid,
    /// Why.
    pub reason: Reason,
    /// When the event that caused this reached Headgate.
    pub since: Moment,
    /// 1 for the first call that event led to, 2 for the next, and so on.
    pub attempt: u32,
}

/// A successful end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of `RegisterTargets` and `DeregisterTargets`.
    Done,
    /// Of `DescribeTargetHealth`.
    Health(Vec<(Target, Health)>),
    /// Of `DescribeTargetGroups`.
    Group(TargetGroupFacts),
}

/// How a failed call is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// AWS asks to slow down.
    Throttled,
    /// No answer, a lost one, or a fault on AWS's side: the call may or may not have been applied.
    Unavailable,
    /// Not allowed.
    Denied,
    /// The target group does not exist.
    GroupGone,
    /// The call was understood and refused: something is wrong with a target in it.
    TargetRefused,
    /// There are too many targets already.
    Quota,
}

impl ErrorClass {
    /// The reason word for it.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Throttled => Reason::Throttled,
            Self::Unavailable => Reason::Unavailable,
            Self::Denied => Reason::AccessDenied,
            Self::GroupGone => Reason::TargetGroupNotFound,
            Self::TargetRefused => Reason::TargetRefused,
            Self::Quota => Reason::QuotaExceeded,
        }
    }
}

/// A failed end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How to take it.
    pub class: ErrorClass,
    /// AWS's error code, or what went wrong on the way.
    pub code: Box<str>,
    /// A sentence for the user.
    pub message: Box<str>,
}
