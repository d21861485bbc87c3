//! The data that every replica has, as leader or standby: the state from the watches, and the requests to its webhooks.

use crate::{
    eviction::Evictions, gate::Gates, hold::Creations, index::Index, model::Settings, nodes::Nodes,
    services::Services,
};

/// The data of every replica. See the module docs.
#[derive(Clone, Debug)]
pub struct Knowledge {
    pub(super) index: Index,
    pub(super) services: Services,
    pub(super) nodes: Nodes,
    /// The state of gates and evictions from the watches. A new leader starts with a copy of the state.
    pub(super) gates: Gates,
    pub(super) evictions: Evictions,
    pub(super) creations: Creations,
    pub(super) gone: super::gone::Gone,
}

impl Knowledge {
    /// Creates a value without any data.
    pub fn new(settings: &Settings) -> Self {
        Self {
            index: Index::new(settings.not_ready_for, settings.relist_patience),
            services: Services::new(settings),
            nodes: Nodes::new(settings.signals.clone(), settings.relist_patience),
            gates: Gates::new(settings.binding_patience, settings.gate_patience, settings.seed),
            evictions: Evictions::default(),
            creations: Creations::new(),
            gone: super::gone::Gone::default(),
        }
    }
}
