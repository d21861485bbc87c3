//! Requests to AWS and Kubernetes, which are sent now and answered later: their identity, the calls to AWS, and the
//! kinds of failures.

use crate::model::{
    cause::Cause,
    object::{ObjectKey, Uid},
    reason::Reason,
    target::Target,
    target_group::{GroupRef, TargetGroupArn},
    time::Moment,
    words::words,
};

/// Identifies a request in flight. No two requests have the same ID, so a late answer cannot be confused with another
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A call to AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `RegisterTargets`.
    Register {
        /// The target group.
        group: TargetGroupArn,
        /// 1 to [`MAX_TARGETS_PER_CALL`](crate::model::rates::MAX_TARGETS_PER_CALL) targets.
        items: Vec<CallItem>,
    },
    /// `DeregisterTargets`.
    Deregister {
        /// The target group.
        group: TargetGroupArn,
        /// 1 to [`MAX_TARGETS_PER_CALL`](crate::model::rates::MAX_TARGETS_PER_CALL) targets.
        items: Vec<CallItem>,
    },
    /// `DescribeTargetHealth` of the whole group.
    ReadHealth {
        /// The target group.
        group: TargetGroupArn,
    },
    /// `DescribeTargetGroups`.
    FindGroups {
        /// 1 to 20 ARNs, or 1 to 20 names, of one account.
        references: Vec<GroupRef>,
    },
    /// `DescribeTargetGroupAttributes`. The IAM permission for it is optional.
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

    /// Whether the call only looks up target groups or their attributes. Any replica may send it.
    pub const fn is_look_up(&self) -> bool {
        matches!(self, Self::FindGroups { .. } | Self::ReadAttributes { .. })
    }

    /// The target group of the call, which decides its account. `None`: the call looks up names, in the first account.
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

/// One target within a call, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallItem {
    /// The target.
    pub target: Target,
    /// The pod that has or had the target.
    pub pod: ObjectKey,
    /// The UID of that pod.
    pub uid: Uid,
    /// Why the call is needed for this target.
    pub reason: Cause,
    /// When Headgate received the event that caused this.
    pub since: Moment,
    /// 1 for the first call after that event, 2 for the next, and so on.
    pub attempt: u32,
}

words! {
    /// The kind of a failed request, with its name in metrics.
    FailureClass {
        /// Too many requests: nothing was done.
        Throttled = "Throttled",
        /// No answer, a lost answer, or a fault of the server. The request may have taken effect, or may still do so.
        Unavailable = "Unavailable",
        /// Permission denied: nothing was done, and retries will fail until a permission is granted.
        Denied = "Denied",
        /// The target group, pod or other object of the request does not exist.
        Gone = "Gone",
        /// The object has changed since it was read: nothing was done.
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
            // AWS does not return these.
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
    /// A sentence for the user.
    pub message: Box<str>,
}

impl Failure {
    /// A failure of this class. The message is for people.
    pub fn new(class: FailureClass, code: impl Into<Box<str>>, message: impl Into<Box<str>>) -> Self {
        Self { class, code: code.into(), message: message.into() }
    }

    /// Whether the failure lasts until somebody fixes it: a permission is missing, or the request is wrong.
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
