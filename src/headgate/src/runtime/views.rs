//! The engine's views, which readers access without the engine. Each binding and each target group has one entry, which
//! is replaced only when it changes.

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

/// The views of bindings, target groups and other objects. Only the owner of the engine writes the views.
#[derive(Debug, Default)]
pub struct Views {
    /// The views of bindings.
    pub bindings: DashMap<BindingKey, Arc<BindingView>>,
    /// The views of target groups.
    pub groups: DashMap<TargetGroupArn, Arc<GroupView>>,
    /// The views of the Services and TargetBindings that bind ports.
    pub origins: DashMap<Origin, Arc<OriginView>>,
    /// Namespaces that are or were selected. The map of namespaces is unused if all namespaces are managed.
    pub selections: DashMap<Arc<str>, Selection>,
    /// Deleted TargetBindings without remaining targets. The task that removes a finalizer also removes the entry.
    pub released: DashMap<ObjectKey, Uid>,
    /// Nodes that will be removed, and deleted nodes that still have pods.
    pub nodes: DashMap<Arc<str>, Fate>,
    /// By target group, the number of pods that stopped while the load balancer could still send to them.
    pub too_short: DashMap<TargetGroupArn, TooShort>,
    /// Whether only selected namespaces are managed.
    pub namespaces_are_selected: bool,
    /// IngressDaemonSets, if Headgate shows them. The sets come from the API server, not from the engine.
    pub sets: Arc<Sets>,
}

impl Views {
    /// Replaces the list of nodes that will be removed.
    pub fn nodes_go<'a>(&self, going: impl Iterator<Item = (&'a Arc<str>, Fate)>) {
        let going: HashMap<&Arc<str>, Fate> = going.collect();
        self.nodes.retain(|node, fate| going.get(node) == Some(fate));
        for (node, fate) in going {
            if !self.nodes.contains_key(node) {
                self.nodes.insert(node.clone(), fate);
            }
        }
    }

    /// A sorted copy of the bindings. Because of the copy, a slow reader does not block the owner of the engine.
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

    /// A sorted copy of the Services and TargetBindings that bind ports.
    pub fn all_origins(&self) -> Vec<Arc<OriginView>> {
        let mut all: Vec<_> = self.origins.iter().map(|entry| entry.value().clone()).collect();
        all.sort_by(|one, other| one.origin.cmp(&other.origin));
        all
    }
}

/// Pods of one target group that stopped too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// The number of pods that stopped too early since this replica started.
    pub pods: u64,
    /// The time when Headgate last saw a pod stop too early.
    pub last: Moment,
}

/// Whether `--namespace-selector` selects a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The namespace is selected.
    Selected,
    /// The namespace was selected until this time.
    Left(Instant),
}
