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

/// The input of the engine.
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
    /// Which namespaces may bind which target groups: all present grants.
    Grants {
        /// All of them.
        all: Vec<GrantFacts>,
        /// When that reached Headgate.
        seen: Moment,
    },
    /// From the watch of nodes, if there is one.
    Node {
        /// The event.
        change: Change<NodeFacts>,
        /// When it reached Headgate.
        seen: Moment,
    },
    /// A request has ended: [`Effect::Send`](crate::Effect::Send).
    Answered {
        /// Which.
        id: RequestId,
        /// How.
        result: Result<Answer, Failure>,
    },
    /// This replica leads from now on, or no longer.
    Leadership(Leadership),
    /// The wall clock shows this now: it was set, or has drifted. Sent only if it differs from the engine's
    /// calculation.
    Clock(WallTime),
    /// Time has passed: [`Engine::next_wakeup`](crate::Engine::next_wakeup) was reached.
    Tick,
}

impl Input {
    /// The watch that has listed, and of which scope.
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
    /// It is.
    Leading {
        /// How often the Lease had changed its holder by then: of two leaders the later one has more.
        term: u64,
    },
    /// It is, and is about to stop: what it knows is written down at once, so that the next one need not ask.
    Leaving,
    /// Another one is, or may be: this one watches and keeps itself ready.
    Standby,
}
