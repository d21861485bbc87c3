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
    /// List what this watch sees of this scope once more, and say so with [`Change::Relisted`](crate::Change::Relisted): it is
    /// doubted that most of it is gone, as the last list said, or the watch.
    Relist(Watch, Scope),
    /// A pod that was a target of this group has ended before its load balancer had stopped sending to it.
    HoldTooShort(TargetGroupArn),
    /// This has become otherwise: for the journal.
    Happened(Transition),
    /// Something took so long.
    Took(Span, Duration),
    /// Show this.
    Shows(Picture),
    /// AWS has taken the removal of every target of this deleted TargetBinding: nothing keeps it any more.
    Released(ObjectKey, Uid),
    /// This namespace has come to be selected, or is not selected any more. Said only if namespaces are selected at all.
    Selected(Arc<str>, bool),
}
