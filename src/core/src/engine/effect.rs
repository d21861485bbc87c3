//! What comes out of the engine.

use std::{sync::Arc, time::Duration};

use crate::{
    model::{BindingKey, Call, Notice, ObjectKey, Origin, RequestId, Scope, TargetGroupArn, Uid},
    reports::Picture,
    requests::Request,
    view::{BindingView, GroupView, OriginView},
};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From the answer of RegisterTargets to that of the first read which shows the target healthy.
    RegisterToHealthy,
    /// From the answer of the read which shows the last target of a pod healthy to that of the write which opens its
    /// readiness gate.
    HealthyToGate,
    /// From the first request for the eviction of a pod to its being let through.
    Departure,
}

/// What should be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this, and say how it ended with [`Input::Answered`](crate::Input::Answered).
    Send {
        /// To be given back with the answer.
        id: RequestId,
        /// What is asked.
        request: Request,
        /// For how long a call to AWS had to wait for a token, or for its turn in a burst; `None` for look-ups, which
        /// hardly ever have to, and for all else.
        waited: Option<Duration>,
    },
    /// This call would be made, if nothing was paused.
    Planned(Call),
    /// Tell the user.
    Notice(Notice),
    /// List the pods of this scope once more, and say so with [`Change::Relisted`](crate::Change::Relisted): the last list is doubted.
    Relist(Scope),
    /// A pod that was a target of this group has ended before its load balancer had stopped sending to it.
    HoldTooShort(TargetGroupArn),
    /// Something took so long.
    Took(Span, Duration),
    /// This binding looks like this now.
    Binding(BindingView),
    /// This binding is no more.
    BindingGone(BindingKey),
    /// This target group looks like this now.
    Group(GroupView),
    /// Nothing is bound to this target group any more.
    GroupGone(TargetGroupArn),
    /// An object that binds looks like this now.
    Origin(OriginView),
    /// It binds nothing any more.
    OriginGone(Origin),
    /// AWS has taken the removal of every target of this deleted TargetBinding: nothing keeps it any more.
    Released(ObjectKey, Uid),
    /// This namespace has come to be selected, or is not selected any more. Said only if namespaces are selected at all.
    Selected(Arc<str>, bool),
}

impl From<Picture> for Effect {
    fn from(picture: Picture) -> Self {
        match picture {
            Picture::Binding(view) => Self::Binding(view),
            Picture::BindingGone(key) => Self::BindingGone(key),
            Picture::Group(view) => Self::Group(view),
            Picture::GroupGone(arn) => Self::GroupGone(arn),
        }
    }
}
