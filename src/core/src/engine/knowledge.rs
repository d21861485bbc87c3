//! What every replica knows, as leader or standby: what the watches have shown, and what its webhooks were asked.

use crate::{
    eviction::Evictions, gate::Gates, hold::Creations, index::Index, model::Settings, nodes::Nodes,
    services::Services,
};

/// See the module.
#[derive(Clone, Debug)]
pub struct Knowledge {
    pub(super) index: Index,
    pub(super) services: Services,
    pub(super) nodes: Nodes,
    /// The gates and the pods that should be deregistered early, as the watches show them. A leader starts with a copy.
    pub(super) gates: Gates,
    pub(super) evictions: Evictions,
    pub(super) creations: Creations,
    pub(super) gone: super::gone::Gone,
}

impl Knowledge {
    /// Starts without any knowledge.
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
