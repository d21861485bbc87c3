//! What comes out of the engine.

use std::{sync::Arc, time::Duration};

use crate::{
    leadership::Watch,
    model::{Call, Notice, ObjectKey, RequestId, Scope, TargetGroupArn, Transition, Uid, view::Picture},
    requests::Request,
};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From the answer of RegisterTargets to that of the first read which shows the target healthy.
    RegisterToHealthy,
    /// From the answer of the read which shows the last target of a pod healthy to that of the write which opens its
    /// readiness gate.
    HealthyToGate,
    /// From the first request for the eviction of a pod until it is allowed.
    Departure,
}

/// What should be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this, and report the result with [`Input::Answered`](crate::Input::Answered).
    Send {
        /// Returned with the answer.
        id: RequestId,
        /// What is asked.
        request: Request,
        /// How long a call to AWS had to wait for a token, or for its place in a burst. `None` for everything else,
        /// also for look-ups, which hardly ever wait.
        waited: Option<Duration>,
    },
    /// This call would be made, if nothing was paused.
    Planned(Call),
    /// Tell the user.
    Notice(Notice),
    /// List the objects of this watch and scope once more, and report them with
    /// [`Change::Relisted`](crate::Change::Relisted). The last list or the watch contained the end of most of them,
    /// and that is doubted.
    Relist(Watch, Scope),
    /// A pod that was a target of this group has ended before its load balancer had stopped sending to it.
    HoldTooShort(TargetGroupArn),
    /// A change, for the journal.
    Happened(Transition),
    /// The time that something took.
    Took(Span, Duration),
    /// Show this.
    Shows(Picture),
    /// AWS has taken the removal of every target of this deleted TargetBinding: nothing keeps it any more.
    Released(ObjectKey, Uid),
    /// This namespace is selected now, or no longer. Sent only if namespaces are selected at all.
    Selected(Arc<str>, bool),
}
