//! Requests that are sent and answered later: what names one, and the calls to AWS.

use crate::model::{
    health::Health,
    object::{ObjectKey, Uid},
    reason::Reason,
    target::Target,
    target_group::{GroupRef, TargetGroupArn, TargetGroupFacts},
    time::Moment,
};

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
        /// 1 to [`MAX_TARGETS_PER_CALL`](crate::rate_limit::MAX_TARGETS_PER_CALL) targets.
        items: Vec<CallItem>,
    },
    /// `DeregisterTargets`.
    Deregister {
        /// The target group.
        group: TargetGroupArn,
        /// 1 to [`MAX_TARGETS_PER_CALL`](crate::rate_limit::MAX_TARGETS_PER_CALL) targets.
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
