//! Requests to AWS and to Kubernetes, which are sent now and answered later: their identity, the calls to AWS, and
//! how any request may fail.

use crate::model::{
    cause::Cause,
    object::{ObjectKey, Uid},
    reason::Reason,
    target::Target,
    target_group::{GroupRef, TargetGroupArn},
    time::Moment,
    words::words,
};

/// Names a request in flight. No two have the same, so that an answer that comes after the engine has moved on is seen
/// as such.
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
    /// `DescribeTargetGroupAttributes`, which Headgate need not be allowed to.
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
    /// The action that takes targets out.
    pub const DEREGISTER: &'static str = "DeregisterTargets";

    /// The API action, as AWS and the metrics name it.
    pub const fn action(&self) -> &'static str {
        match self {
            Self::Register { .. } => Self::REGISTER,
            Self::Deregister { .. } => Self::DEREGISTER,
            Self::ReadHealth { .. } => Self::READ_HEALTH,
            Self::FindGroups { .. } => "DescribeTargetGroups",
            Self::ReadAttributes { .. } => "DescribeTargetGroupAttributes",
        }
    }

    /// Whether it asks what there is and how it is set up, for which no replica has to lead.
    pub const fn is_look_up(&self) -> bool {
        matches!(self, Self::FindGroups { .. } | Self::ReadAttributes { .. })
    }

    /// The target group of the call, which decides its account. `None`: some are looked up by name, in the first
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

/// One target within a call, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallItem {
    /// The target.
    pub target: Target,
    /// The pod it belongs to, or did.
    pub pod: ObjectKey,
    /// The life of that pod.
    pub uid: Uid,
    /// Why.
    pub reason: Cause,
    /// When the event that caused this reached Headgate.
    pub since: Moment,
    /// 1 for the first call that event led to, 2 for the next, and so on.
    pub attempt: u32,
}

words! {
    /// The meaning of a failed request to any receiver, with its name in metrics.
    FailureClass {
        /// We are asked to slow down: nothing was done.
        Throttled = "Throttled",
        /// No answer, a lost one, or a fault of the receiver: it may or may not have taken effect, or still do so.
        Unavailable = "Unavailable",
        /// We are not allowed to: nothing was done, and it will not be until somebody helps.
        Denied = "Denied",
        /// What it is about does not exist (any more): the target group, the pod, the object.
        Gone = "Gone",
        /// What it is about has changed since it was read: nothing was done.
        Conflict = "Conflict",
        /// It was understood and refused: something is wrong with what is in it.
        Refused = "Refused",
        /// There is no room for it: a quota.
        Full = "Full",
    }
}

impl FailureClass {
    /// The reason word for a failed call to AWS.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Throttled => Reason::Throttled,
            // AWS has no such answer.
            Self::Unavailable | Self::Conflict => Reason::Unavailable,
            Self::Denied => Reason::AccessDenied,
            Self::Gone => Reason::TargetGroupNotFound,
            Self::Refused => Reason::TargetRefused,
            Self::Full => Reason::QuotaExceeded,
        }
    }
}

/// A failed end of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How to take it.
    pub class: FailureClass,
    /// The error code of the receiver, or the failure on the way.
    pub code: Box<str>,
    /// A sentence for the user.
    pub message: Box<str>,
}

impl Failure {
    /// A failure of this class; its message is for people.
    pub fn new(class: FailureClass, code: impl Into<Box<str>>, message: impl Into<Box<str>>) -> Self {
        Self { class, code: code.into(), message: message.into() }
    }

    /// Whether it lasts until somebody helps: a right is missing, or the request is wrong.
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
