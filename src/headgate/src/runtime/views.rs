//! What readers may see without asking the engine: one entry per binding and per target group, replaced only when
//! that one has changed.

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

/// The views. Written by the owner of the engine alone.
#[derive(Debug, Default)]
pub struct Views {
    /// By binding.
    pub bindings: DashMap<BindingKey, Arc<BindingView>>,
    /// By target group.
    pub groups: DashMap<TargetGroupArn, Arc<GroupView>>,
    /// By object that binds.
    pub origins: DashMap<Origin, Arc<OriginView>>,
    /// Namespaces that are selected, or were and no longer are. Unused if all namespaces count.
    pub selections: DashMap<Arc<str>, Selection>,
    /// Deleted TargetBindings that nothing keeps any more. The task that removes a finalizer also removes the entry.
    pub released: DashMap<ObjectKey, Uid>,
    /// Nodes that are about to be removed, or were deleted while they have pods.
    pub nodes: DashMap<Arc<str>, Fate>,
    /// By target group: pods that ended before the load balancer had stopped sending to them.
    pub too_short: DashMap<TargetGroupArn, TooShort>,
    /// Whether only those namespaces count that are selected.
    pub namespaces_are_selected: bool,
    /// IngressDaemonSets, where they should be shown. They are as the API server has them, not the engine's.
    pub sets: Arc<Sets>,
}

impl Views {
    /// These nodes are about to be removed, and no others.
    pub fn nodes_go<'a>(&self, going: impl Iterator<Item = (&'a Arc<str>, Fate)>) {
        let going: HashMap<&Arc<str>, Fate> = going.collect();
        self.nodes.retain(|node, fate| going.get(node) == Some(fate));
        for (node, fate) in going {
            if !self.nodes.contains_key(node) {
                self.nodes.insert(node.clone(), fate);
            }
        }
    }

    /// The bindings, in their order. A reader that needs long holds nothing that the owner of the engine waits for.
    pub fn all_bindings(&self) -> Vec<Arc<BindingView>> {
        let mut all: Vec<_> = self.bindings.iter().map(|entry| entry.value().clone()).collect();
        all.sort_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// The IngressDaemonSets of the namespaces that count, in the same way.
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

    /// The objects that bind, in the same way.
    pub fn all_origins(&self) -> Vec<Arc<OriginView>> {
        let mut all: Vec<_> = self.origins.iter().map(|entry| entry.value().clone()).collect();
        all.sort_by(|one, other| one.origin.cmp(&other.origin));
        all
    }
}

/// Pods that ended too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// How many, since this replica began.
    pub pods: u64,
    /// When that was seen of the last one.
    pub last: Moment,
}

/// Whether a namespace is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// It is.
    Selected,
    /// It was, until then.
    Left(Instant),
}
