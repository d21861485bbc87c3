//! IngressDaemonSets for readers. `headgate daemonsets` manages them, and writes their status.

use std::sync::Arc;

use dashmap::DashMap;
use headgate_core::model::object::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::ingress_daemon_set::IngressDaemonSetStatus;

/// A set for readers.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownSet {
    /// The generation of its spec.
    pub generation: i64,
    /// The status from `headgate daemonsets`. `None`: there is none yet.
    pub status: Option<IngressDaemonSetStatus>,
}

impl ShownSet {
    /// A condition of the present generation.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let status = self.status.as_ref()?;
        let is_it = |condition: &&Condition| {
            condition.type_ == kind && condition.observed_generation == Some(self.generation)
        };
        status.conditions.iter().find(is_it)
    }
}

/// The sets by name. Only their watch writes them.
pub type Sets = DashMap<ObjectKey, Arc<ShownSet>>;
