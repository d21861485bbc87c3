//! IngressDaemonSets for `headgate status` and the page. `headgate daemonsets` manages the sets and writes their
//! status.

use std::sync::Arc;

use dashmap::DashMap;
use headgate_core::model::object::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::ingress_daemon_set::IngressDaemonSetStatus;

/// An IngressDaemonSet with its generation and status.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownSet {
    /// The generation of the set's spec.
    pub generation: i64,
    /// The status from `headgate daemonsets`. `None`: the set has no status yet.
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

/// IngressDaemonSets by name. Only the watch of IngressDaemonSets writes to the map.
pub type Sets = DashMap<ObjectKey, Arc<ShownSet>>;
