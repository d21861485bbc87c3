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
    /// From the answer of `RegisterTargets` to the first answer of `DescribeTargetHealth` that lists the target as
    /// healthy.
    RegisterToHealthy,
    /// From the answer that lists the pod's last target as healthy to the completed write that opens the pod's
    /// readiness gate.
    HealthyToGate,
    /// From the first request for the eviction of a pod until the eviction is allowed.
    Departure,
}

/// An action for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this request, and report the result with [`Input::Answered`](crate::Input::Answered).
    Send {
        /// The id of the request. The caller returns the id with the answer.
        id: RequestId,
        /// The request.
        request: Request,
        /// How long a call to AWS waited for a token or for other calls of a burst. `None` for look-ups and for all
        /// requests that are not calls to AWS.
        waited: Option<Duration>,
    },
    /// A call that Headgate does not send because the binding is paused or Headgate is read-only.
    Planned(Call),
    /// Report this notice to the user.
    Notice(Notice),
    /// Request a new list of this watch and scope, and report the list with
    /// [`Change::Relisted`](crate::Change::Relisted). The last list or the watch reported most objects as deleted, and
    /// Headgate must confirm the deletions.
    Relist(Watch, Scope),
    /// A pod that was a target of this group terminated while its load balancer could still send to the pod.
    HoldTooShort(TargetGroupArn),
    /// A change for the journal.
    Happened(Transition),
    /// A measured duration, and what was measured.
    Took(Span, Duration),
    /// Show this new view, or remove the view of a deleted object.
    Shows(Picture),
    /// Remove the finalizer of this deleted TargetBinding. AWS has accepted the deregistration of all targets of the
    /// TargetBinding.
    Released(ObjectKey, Uid),
    /// A leader of this term has written a ledger, and this replica leads with an earlier one. If this replica holds the
    /// Lease, somebody has deleted the Lease: give it a later term.
    Outdated(u64),
    /// This namespace is selected now, or no longer. Sent only if Headgate selects namespaces by their labels.
    Selected(Arc<str>, bool),
}
