//! The views that readers can read without the engine: one entry per binding and per target group, replaced only when
//! it changes.

use std::{collections::HashMap, sync::Arc};

use dashmap::DashMap;
use headgate_core::{
    Moment,
    model::{
        BindingKey, Fate,
        object::{ObjectKey, Uid},
        origin::Origin,
        target_group::TargetGroupArn,
    },
    view::{BindingView, GroupView, OriginView},
};
use tokio::time::Instant;

use super::sets::{Sets, ShownSet};

/// The views. Only the owner of the engine writes them.
#[derive(Debug, Default)]
pub struct Views {
    /// The views of bindings.
    pub bindings: DashMap<BindingKey, Arc<BindingView>>,
    /// The views of target groups.
    pub groups: DashMap<TargetGroupArn, Arc<GroupView>>,
    /// The views of objects that bind.
    pub origins: DashMap<Origin, Arc<OriginView>>,
    /// Namespaces that are or were selected. Unused if all namespaces are managed.
    pub selections: DashMap<Arc<str>, Selection>,
    /// Deleted TargetBindings without remaining targets. The task that removes a finalizer also removes the entry.
    pub released: DashMap<ObjectKey, Uid>,
    /// Nodes that will be removed, or were deleted while they have pods.
    pub nodes: DashMap<Arc<str>, Fate>,
    /// By target group, the pods that stopped before the load balancer had stopped sending to them.
    pub too_short: DashMap<TargetGroupArn, TooShort>,
    /// Whether only selected namespaces are managed.
    pub namespaces_are_selected: bool,
    /// IngressDaemonSets, if they are shown. They come from the API server, not from the engine.
    pub sets: Arc<Sets>,
}

impl Views {
    /// Replaces the nodes that will be removed.
    pub fn nodes_go<'a>(&self, going: impl Iterator<Item = (&'a Arc<str>, Fate)>) {
        let going: HashMap<&Arc<str>, Fate> = going.collect();
        self.nodes.retain(|node, fate| going.get(node) == Some(fate));
        for (node, fate) in going {
            if !self.nodes.contains_key(node) {
                self.nodes.insert(node.clone(), fate);
            }
        }
    }

    /// The bindings in order. The copy means that a slow reader does not block the owner of the engine.
    pub fn all_bindings(&self) -> Vec<Arc<BindingView>> {
        let mut all: Vec<_> = self.bindings.iter().map(|entry| entry.value().clone()).collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// A copy of the IngressDaemonSets of managed namespaces.
    pub fn all_sets(&self) -> Vec<(ObjectKey, Arc<ShownSet>)> {
        let counts = |namespace: &Arc<str>| {
            let selection = || self.selections.get(namespace).map(|selection| *selection);
            !self.namespaces_are_selected || selection() == Some(Selection::Selected)
        };
        let counted = self.sets.iter().filter(|entry| counts(&entry.key().namespace));
        let mut all: Vec<_> = counted.map(|entry| (entry.key().clone(), entry.value().clone())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// A copy of the objects that bind.
    pub fn all_origins(&self) -> Vec<Arc<OriginView>> {
        let mut all: Vec<_> = self.origins.iter().map(|entry| entry.value().clone()).collect();
        all.sort_by(|one, other| one.origin.cmp(&other.origin));
        all
    }
}

/// Pods that stopped too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Their number, since this replica started.
    pub pods: u64,
    /// When the last one was seen.
    pub last: Moment,
}

/// Whether a namespace is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// It is selected.
    Selected,
    /// It was selected until this time.
    Left(Instant),
}
