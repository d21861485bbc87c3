//! What goes into the engine.

use std::sync::Arc;

use crate::{
    gate::GateFailure,
    leaving::{CheckFailure, Checked, MarkFailure},
    ledger::{LedgerFailure, LedgerVersion, StoredLedger},
    model::{
        node::NodeFacts,
        pod::PodFacts,
        request::{Answer, CallId, Failure},
        service::ServiceFacts,
        target_binding::BindingFacts,
        time::Moment,
        watch::Change,
    },
};

/// What the engine is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// From the watch of pods. `seen` is when the event reached Headgate.
    Pod {
        /// The event.
        change: Change<PodFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of Services.
    Service {
        /// The event.
        change: Change<ServiceFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of the TargetBindings that somebody has written.
    Binding {
        /// The event.
        change: Change<BindingFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of namespaces, which shows only selected ones.
    Namespace {
        /// The event; the item is the namespace's name.
        change: Change<Arc<str>>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// From the watch of nodes, if there is one.
    Node {
        /// The event.
        change: Change<NodeFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// A call has ended.
    Answered {
        /// Which.
        id: CallId,
        /// How.
        result: Result<Answer, Failure>,
    },
    /// This replica leads from now on, or no longer.
    Leadership(Leadership),
    /// [`Effect::LoadLedgers`](crate::Effect::LoadLedgers) has ended.
    LedgersLoaded {
        /// Which request.
        id: CallId,
        /// All ledgers there are.
        result: Result<Vec<StoredLedger>, LedgerFailure>,
    },
    /// [`Effect::LoadLedger`](crate::Effect::LoadLedger) has ended.
    LedgerLoaded {
        /// Which request.
        id: CallId,
        /// The ledger; `None`: there is none.
        result: Result<Option<StoredLedger>, LedgerFailure>,
    },
    /// [`Effect::WriteLedger`](crate::Effect::WriteLedger) has ended.
    LedgerWritten {
        /// Which request.
        id: CallId,
        /// Its new version.
        result: Result<LedgerVersion, LedgerFailure>,
    },
    /// [`Effect::DropLedger`](crate::Effect::DropLedger) has ended.
    LedgerDropped {
        /// Which request.
        id: CallId,
        /// How.
        result: Result<(), LedgerFailure>,
    },
    /// [`Effect::WriteGate`](crate::Effect::WriteGate) has ended.
    GateWritten {
        /// Which request.
        id: CallId,
        /// How.
        result: Result<(), GateFailure>,
    },
    /// [`Effect::CheckEviction`](crate::Effect::CheckEviction) has ended.
    EvictionChecked {
        /// Which request.
        id: CallId,
        /// What the API server says.
        result: Result<Checked, CheckFailure>,
    },
    /// [`Effect::Mark`](crate::Effect::Mark) has ended.
    MarkWritten {
        /// Which request.
        id: CallId,
        /// How.
        result: Result<(), MarkFailure>,
    },
    /// Time has passed: [`Engine::next_wakeup`](crate::Engine::next_wakeup) was reached.
    Tick,
}

/// Whether this replica is the one that calls AWS, writes the ledgers and tells users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// It is.
    Leading,
    /// It is, and is about to stop: what it knows is written down at once, so that the next one need not ask.
    Leaving,
    /// Another one is, or may be: this one watches and keeps itself ready.
    Standby,
}
