//! Requests to AWS and Kubernetes: their identity, the calls to AWS, and the kinds of failures.

use crate::model::{
    cause::Cause,
    object::{ObjectKey, Uid},
    reason::Reason,
    target::Target,
    target_group::{GroupRef, TargetGroupArn},
    time::Moment,
    words::words,
};

/// Identifies a request in flight. Every request has a unique ID, so Headgate matches a late answer to the right
/// request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A call to AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `RegisterTargets`.
    Register {
        /// The target group.
        group: TargetGroupArn,
        /// The targets, from 1 to [`MAX_TARGETS_PER_CALL`](crate::model::rates::MAX_TARGETS_PER_CALL).
        items: Vec<CallItem>,
    },
    /// `DeregisterTargets`.
    Deregister {
        /// The target group.
        group: TargetGroupArn,
        /// The targets, from 1 to [`MAX_TARGETS_PER_CALL`](crate::model::rates::MAX_TARGETS_PER_CALL).
        items: Vec<CallItem>,
    },
    /// `DescribeTargetHealth` of the whole group.
    ReadHealth {
        /// The target group.
        group: TargetGroupArn,
    },
    /// `DescribeTargetGroups`.
    FindGroups {
        /// The target groups of one account: 1 to 20 ARNs, or 1 to 20 names.
        references: Vec<GroupRef>,
    },
    /// `DescribeTargetGroupAttributes`, for which the IAM permission is optional.
    ReadAttributes {
        /// The target group.
        group: TargetGroupArn,
    },
}

impl Call {
    /// The action that reads the health of targets.
    pub const READ_HEALTH: &'static str = "DescribeTargetHealth";

    /// The action that adds targets.
    pub const REGISTER: &'static str = "RegisterTargets";
    /// The action that removes targets.
    pub const DEREGISTER: &'static str = "DeregisterTargets";

    /// The name of the API action in AWS and in the metrics.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Register { .. } => Self::REGISTER,
            Self::Deregister { .. } => Self::DEREGISTER,
            Self::ReadHealth { .. } => Self::READ_HEALTH,
            Self::FindGroups { .. } => "DescribeTargetGroups",
            Self::ReadAttributes { .. } => "DescribeTargetGroupAttributes",
        }
    }

    /// Whether the call only looks up target groups or their attributes. Any replica may send a look-up.
    pub const fn is_look_up(&self) -> bool {
        matches!(self, Self::FindGroups { .. } | Self::ReadAttributes { .. })
    }

    /// The target group of the call, which determines the AWS account. `None`: the call looks up names in the first
    /// account.
    pub fn group(&self) -> Option<&TargetGroupArn> {
        match self {
            Self::Register { group, .. }
            | Self::Deregister { group, .. }
            | Self::ReadHealth { group }
            | Self::ReadAttributes { group } => Some(group),
            Self::FindGroups { references } => references.first().and_then(GroupRef::arn),
        }
    }
}

/// One target in a call, with the reason for the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallItem {
    /// The target.
    pub target: Target,
    /// The pod that has or had the target.
    pub pod: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// Why the call is needed for this target.
    pub reason: Cause,
    /// When Headgate received the event that caused the call.
    pub since: Moment,
    /// The number of this attempt, counted from 1.
    pub attempt: u32,
}

words! {
    /// The kind of a failed request, with its name in metrics.
    FailureClass {
        /// The server throttled the request, which had no effect.
        Throttled = "Throttled",
        /// The server did not answer, the answer was lost, or the server failed. The request may have taken effect, or
        /// may still take effect.
        Unavailable = "Unavailable",
        /// The server denied the request, which had no effect. Retries fail until an administrator grants the
        /// permission.
        Denied = "Denied",
        /// The target group, pod or other object of the request does not exist.
        Gone = "Gone",
        /// The object has changed since Headgate read it, so the request had no effect.
        Conflict = "Conflict",
        /// The content of the request is invalid.
        Refused = "Refused",
        /// A quota is exhausted.
        Full = "Full",
    }
}

impl FailureClass {
    /// The reason for a failed call to AWS.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Throttled => Reason::Throttled,
            // AWS returns no conflicts, so `Conflict` needs no reason of its own.
            Self::Unavailable | Self::Conflict => Reason::Unavailable,
            Self::Denied => Reason::AccessDenied,
            Self::Gone => Reason::TargetGroupNotFound,
            Self::Refused => Reason::TargetRefused,
            Self::Full => Reason::QuotaExceeded,
        }
    }
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of the failure.
    pub class: FailureClass,
    /// The error code of the server, or of the connection.
    pub code: Box<str>,
    /// The message for the user.
    pub message: Box<str>,
}

impl Failure {
    /// Creates a failure of this class, with a message for the user.
    pub fn new(class: FailureClass, code: impl Into<Box<str>>, message: impl Into<Box<str>>) -> Self {
        Self { class, code: code.into(), message: message.into() }
    }

    /// Whether only a user can fix the failure: a missing permission or an invalid request.
    pub const fn is_lasting(&self) -> bool {
        matches!(self.class, FailureClass::Denied | FailureClass::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arn;

    #[test]
    fn a_call_names_its_target_group_unless_it_looks_one_up_by_name() {
        let of = |call: Call| call.group().cloned();
        let found = |reference| of(Call::FindGroups { references: vec![reference] });
        assert_eq!(of(Call::ReadHealth { group: arn("blue") }), Some(arn("blue")));
        assert_eq!(of(Call::ReadAttributes { group: arn("blue") }), Some(arn("blue")));
        assert_eq!(of(Call::Register { group: arn("blue"), items: Vec::new() }), Some(arn("blue")));
        assert_eq!(of(Call::Deregister { group: arn("blue"), items: Vec::new() }), Some(arn("blue")));
        assert_eq!(found(GroupRef::Arn(arn("blue"))), Some(arn("blue")));
        assert_eq!(found(GroupRef::Name("blue".into())), None);
    }
}
