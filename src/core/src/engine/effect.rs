//! The output of the engine.

use std::{sync::Arc, time::Duration};

use crate::{
    leadership::Watch,
    model::{Call, Notice, ObjectKey, RequestId, Scope, TargetGroupArn, Transition, Uid, view::Picture},
    requests::Request,
};

/// A measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From the answer of RegisterTargets to the answer of the first read that shows the target healthy.
    RegisterToHealthy,
    /// From the answer of the read that shows the pod's last target healthy to the answer of the write that opens the
    /// pod's readiness gate.
    HealthyToGate,
    /// From the first request for the eviction of a pod until it is allowed.
    Departure,
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this, and report the result with [`Input::Answered`](crate::Input::Answered).
    Send {
        /// The caller returns it with the answer.
        id: RequestId,
        /// The request.
        request: Request,
        /// How long a call to AWS waited for a token, or for its place in a burst. `None` for all other requests, and
        /// for look-ups, which rarely wait.
        waited: Option<Duration>,
    },
    /// Headgate would make this call if nothing was paused.
    Planned(Call),
    /// Report this to the user.
    Notice(Notice),
    /// List the objects of this watch and scope again, and report them with
    /// [`Change::Relisted`](crate::Change::Relisted). The last list or the watch reported most of them as deleted, and
    /// Headgate doubts that.
    Relist(Watch, Scope),
    /// A pod that was a target of this group ended while its load balancer could still send to it.
    HoldTooShort(TargetGroupArn),
    /// A change, for the journal.
    Happened(Transition),
    /// The time that something took.
    Took(Span, Duration),
    /// Show this new picture, or the end of one.
    Shows(Picture),
    /// AWS has accepted the deregistration of every target of this deleted TargetBinding: remove its finalizer.
    Released(ObjectKey, Uid),
    /// A leader of this term has written a ledger, and this replica leads with an earlier one. If this replica holds the
    /// Lease, somebody has deleted the Lease: give it a later term.
    Outdated(u64),
    /// This namespace is selected now, or no longer. Sent only if Headgate selects namespaces by their labels.
    Selected(Arc<str>, bool),
}
