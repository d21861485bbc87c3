//! What comes out of the engine.

use std::{sync::Arc, time::Duration};

use crate::{
    binding::BindingKey,
    gate::GateWrite,
    leaving::{Check, MarkWrite},
    ledger::{LedgerVersion, PackedLedger},
    model::{
        object::{ObjectKey, Uid},
        origin::Origin,
        request::{Call, CallId},
        target_group::TargetGroupArn,
        watch::Scope,
    },
    notice::Notice,
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
    /// Make this call, and say how it ended with [`Input::Answered`](crate::Input::Answered).
    Call {
        /// To be given back with the answer.
        id: CallId,
        /// The call.
        call: Call,
        /// For how long it had to wait for a token, or for its turn in a burst; `None` for look-ups, which hardly ever
        /// have to.
        waited: Option<Duration>,
    },
    /// This call would be made, if nothing was paused.
    Planned(Call),
    /// Read all ledgers, consistently, and give them with [`Input::LedgersLoaded`](crate::Input::LedgersLoaded).
    LoadLedgers {
        /// To be given back with the answer.
        id: CallId,
    },
    /// Read the ledger of this target group, consistently, and give it with [`Input::LedgerLoaded`](crate::Input::LedgerLoaded).
    LoadLedger {
        /// To be given back with the answer.
        id: CallId,
        /// The target group; the object's name is [`ledger::object_name`](crate::ledger::object_name).
        group: TargetGroupArn,
    },
    /// Write this ledger, and say how it ended with [`Input::LedgerWritten`](crate::Input::LedgerWritten).
    WriteLedger {
        /// To be given back with the answer.
        id: CallId,
        /// The state it replaces, which the write must carry as `resourceVersion`; `None`: create the object.
        base: Option<LedgerVersion>,
        /// The new content.
        ledger: PackedLedger,
    },
    /// Delete the ledger of this target group, and say how it ended with [`Input::LedgerDropped`](crate::Input::LedgerDropped).
    DropLedger {
        /// To be given back with the answer.
        id: CallId,
        /// The target group.
        group: TargetGroupArn,
        /// The state that may be deleted, and no other: a precondition of the request.
        base: LedgerVersion,
    },
    /// Tell the user.
    Notice(Notice),
    /// List the pods of this scope once more, and say so with [`Change::Relisted`](crate::Change::Relisted): the last list is doubted.
    Relist(Scope),
    /// Write our condition into the pod's status, and say how it ended with [`Input::GateWritten`](crate::Input::GateWritten).
    WriteGate(GateWrite),
    /// A pod that was a target of this group has ended before its load balancer had stopped sending to it.
    HoldTooShort(TargetGroupArn),
    /// Ask the API server whether a pod may be evicted, and give the answer with [`Input::EvictionChecked`](crate::Input::EvictionChecked).
    CheckEviction(Check),
    /// Write on a pod how far its leaving is, and say how it ended with [`Input::MarkWritten`](crate::Input::MarkWritten).
    Mark(MarkWrite),
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
