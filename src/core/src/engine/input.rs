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
    /// A change from the watch of pods.
    Pod {
        /// The change.
        change: Change<PodFacts>,
        /// The time at which Headgate received the change.
        seen: Moment,
    },
    /// A change from the watch of Services.
    Service {
        /// The change.
        change: Change<ServiceFacts>,
        /// The time at which Headgate received the change.
        seen: Moment,
    },
    /// A change from the watch of TargetBindings.
    Binding {
        /// The change.
        change: Change<BindingFacts>,
        /// The time at which Headgate received the change.
        seen: Moment,
    },
    /// A change from the watch of namespaces, which lists only selected namespaces.
    Namespace {
        /// The change of namespaces, by their names.
        change: Change<Arc<str>>,
        /// The time at which Headgate received the change.
        seen: Moment,
    },
    /// All present grants. A grant states which namespaces may bind which target groups.
    Grants {
        /// The grants.
        all: Vec<GrantFacts>,
        /// The time at which Headgate received the grants.
        seen: Moment,
    },
    /// A change from the watch of nodes, if Headgate watches nodes.
    Node {
        /// The change.
        change: Change<NodeFacts>,
        /// The time at which Headgate received the change.
        seen: Moment,
    },
    /// The result of a request that [`Effect::Send`](crate::Effect::Send) contained.
    Answered {
        /// The id of the request.
        id: RequestId,
        /// The result of the request.
        result: Result<Answer, Failure>,
    },
    /// Whether this replica is the leader now.
    Leadership(Leadership),
    /// The current wall-clock time, after the clock was set or has drifted. The caller sends this input only if the
    /// time differs from the engine's calculation.
    Clock(WallTime),
    /// No event, but the time of [`Engine::next_wakeup`](crate::Engine::next_wakeup) has come.
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
    /// This replica is the leader.
    Leading {
        /// The number of holder changes of the Lease so far. A later leader has a larger number.
        term: u64,
        /// Whether the leader before has recorded, at its clean exit, that none of its calls can take effect late.
        is_settled: bool,
    },
    /// This replica is the leader and will stop soon. The leader writes its ledgers immediately, so that the next
    /// leader has the current state.
    Leaving,
    /// Another replica is or may be the leader. This replica only watches, and is ready to take over.
    Standby,
}
