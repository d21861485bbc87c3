//! The input of the engine.

use std::sync::Arc;

use crate::{
    leadership::Watch,
    model::{
        BindingFacts, Change, Failure, Moment, NodeFacts, PodFacts, RequestId, Scope, ServiceFacts, WallTime,
        grant::GrantFacts,
    },
    requests::Answer,
};

/// An event for the engine.
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
    /// From the watch of TargetBindings.
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
    /// All present grants: which namespaces may bind which target groups.
    Grants {
        /// The grants.
        all: Vec<GrantFacts>,
        /// When they reached Headgate.
        seen: Moment,
    },
    /// From the watch of nodes, if there is one.
    Node {
        /// The event.
        change: Change<NodeFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// A request has ended. [`Effect::Send`](crate::Effect::Send) sent it.
    Answered {
        /// The id of the request.
        id: RequestId,
        /// Its result.
        result: Result<Answer, Failure>,
    },
    /// This replica leads from now on, or no longer.
    Leadership(Leadership),
    /// The wall clock shows this time now, because it was set or has drifted. Sent only if it differs from the engine's
    /// calculation.
    Clock(WallTime),
    /// Time has passed: [`Engine::next_wakeup`](crate::Engine::next_wakeup) was reached.
    Tick,
}

impl Input {
    /// The watch whose list this input contains, and the scope of the list.
    pub(super) const fn lists(&self) -> Option<(Watch, Option<&Scope>)> {
        match self {
            Self::Pod { change: Change::Relisted(scope, _), .. } => Some((Watch::Pods, Some(scope))),
            Self::Service { change: Change::Relisted(scope, _), .. } => Some((Watch::Services, Some(scope))),
            Self::Binding { change: Change::Relisted(scope, _), .. } => Some((Watch::Bindings, Some(scope))),
            Self::Namespace { change: Change::Relisted(..), .. } => Some((Watch::Namespaces, None)),
            Self::Grants { .. } => Some((Watch::Grants, None)),
            _ => None,
        }
    }
}

/// Whether this replica calls AWS, writes the ledgers and reports to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This replica leads.
    Leading {
        /// How often the Lease had changed its holder by then. A later leader has a larger number.
        term: u64,
        /// Whether the leader before has recorded, at its clean exit, that none of its calls can take effect late.
        is_settled: bool,
    },
    /// This replica leads, and is about to stop. It writes its ledgers at once, so that the next leader need not ask.
    Leaving,
    /// Another replica leads, or may lead. This one watches, and is ready to take over.
    Standby,
}
