//! What Headgate needs to know of nodes: where they are, whether they take pods, and whether they are about to go.
//!
//! * **Owns** nodes as last seen, and those that are gone while pods of them are left.
//! * **Flow.** The watch says something ([`Nodes::apply`]): these nodes look otherwise than before.
//! * **Guarantees.** What hangs on a node is decided here alone: its zone, whether it has room, and which sign counts
//!   ([`Signal`]).
//! * **Assumes** nothing of the rights: without the right to watch nodes, what hangs on zones and early signals is left
//!   out, and nothing waits for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use crate::model::signal::{DISRUPTED, DYING, Fate, Signal, Signals};
use crate::model::{Change, NodeFacts};

/// The nodes of the cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    all: BTreeMap<Arc<str>, NodeFacts>,
    /// Those that the watch has said are gone.
    deleted: BTreeSet<Arc<str>>,
    signals: Signals,
}

impl Nodes {
    /// No node is known. These are the signs of one that is about to go.
    pub fn new(signals: Signals) -> Self {
        Self { signals, ..Self::default() }
    }

    /// The watch says this. Gives the nodes of which something is known now that was not.
    pub fn apply(&mut self, change: Change<NodeFacts>) -> Vec<Arc<str>> {
        match change {
            Change::Applied(node) => {
                let name = node.name.clone();
                let came_back = self.deleted.remove(&name);
                let before = self.all.insert(name.clone(), node);
                let same = !came_back && before.as_ref() == self.all.get(&name);
                if same { Vec::new() } else { vec![name] }
            }
            Change::Deleted(node) => {
                self.all.remove(&node.name);
                self.deleted.insert(node.name.clone());
                vec![node.name]
            }
            Change::Relisted(_, nodes) => {
                let before = std::mem::take(&mut self.all);
                self.all = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
                let other = self.all.iter().filter(|(name, node)| before.get(*name) != Some(node));
                let other: Vec<Arc<str>> = other.map(|(name, _)| name.clone()).collect();
                let (missing, stay): (Vec<_>, Vec<_>) =
                    before.into_keys().partition(|name| !self.all.contains_key(name));
                // A list that is wrong must not take the pods of most nodes away: what it says of those is not known.
                if missing.len() <= stay.len() || missing.len() == 1 {
                    self.deleted.extend(missing.iter().cloned());
                }
                self.deleted.retain(|name| !self.all.contains_key(name));
                other.into_iter().chain(missing).collect()
            }
        }
    }

    /// Forgets that nodes are gone on which there is nothing any more.
    pub fn keep_deleted(&mut self, matters: impl Fn(&Arc<str>) -> bool) {
        self.deleted.retain(matters);
    }

    /// The sign that a node is about to go, if there is one.
    pub fn signal(&self, node: &Arc<str>) -> Option<Signal> {
        match self.all.get(node) {
            Some(node) => self.signals.of(node),
            None if self.deleted.contains(node) => {
                Some(Signal { fate: Fate::Deleted, sign: "its object was deleted".into() })
            }
            None => None,
        }
    }

    /// Whether a node is known to stay.
    pub fn stays(&self, node: Option<&Arc<str>>) -> bool {
        node.and_then(|node| self.all.get(node)).is_some_and(|node| self.signals.of(node).is_none())
    }

    /// The zone of a node, if it is known.
    pub fn zone(&self, node: Option<&Arc<str>>) -> Option<&Arc<str>> {
        self.all.get(node?)?.zone.as_ref()
    }

    /// Whether a node is known to take no new pods.
    pub fn is_closed(&self, node: Option<&Arc<str>>) -> bool {
        node.and_then(|node| self.all.get(node)).is_some_and(|node| !node.takes_pods)
    }

    /// Whether a node of this zone takes new pods.
    pub fn has_room(&self, zone: &str) -> bool {
        let mut here = self.all.values().filter(|node| node.zone.as_deref() == Some(zone));
        here.any(|node| node.takes_pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Scope;

    fn node(name: &str, zone: &str, takes_pods: bool) -> NodeFacts {
        NodeFacts { name: name.into(), zone: Some(zone.into()), takes_pods, ..NodeFacts::default() }
    }

    #[test]
    fn a_zone_has_room_while_one_of_its_nodes_takes_pods() {
        let mut nodes = Nodes::default();
        nodes.apply(Change::Relisted(Scope::Cluster, vec![node("a1", "a", true), node("b1", "b", false)]));
        let name: Arc<str> = "a1".into();
        assert_eq!(nodes.zone(Some(&name)).map(|zone| &**zone), Some("a"));
        assert!(nodes.has_room("a") && !nodes.has_room("b") && !nodes.has_room("c"));
        nodes.apply(Change::Applied(node("a1", "a", false)));
        assert!(!nodes.has_room("a") && nodes.is_closed(Some(&name)));
        nodes.apply(Change::Deleted(node("a1", "a", false)));
        assert!(!nodes.is_closed(Some(&name)) && !nodes.is_closed(None), "what is not known is not closed");
        assert_eq!(nodes.zone(Some(&name)), None);
    }

    fn fate(nodes: &Nodes, name: &str) -> Option<Fate> {
        nodes.signal(&name.into()).map(|signal| signal.fate)
    }

    #[test]
    fn a_node_that_was_deleted_is_gone_until_it_comes_again() {
        let mut nodes = Nodes::new(Signals::default());
        assert_eq!(fate(&nodes, "a1"), None, "one that was never seen may be about to come");
        nodes.apply(Change::Applied(node("a1", "a", true)));
        assert_eq!(nodes.apply(Change::Deleted(node("a1", "a", true))), ["a1".into()]);
        assert_eq!(fate(&nodes, "a1"), Some(Fate::Deleted));
        assert!(!nodes.stays(Some(&"a1".into())));
        nodes.apply(Change::Applied(node("a1", "a", true)));
        assert_eq!(fate(&nodes, "a1"), None);
        assert!(nodes.stays(Some(&"a1".into())));
    }

    #[test]
    fn a_list_without_most_nodes_says_nothing_of_those() {
        let all = ["a1", "a2", "a3", "a4", "a5"];
        for (listed, fate_of_the_last) in [(3, Some(Fate::Deleted)), (2, None), (0, None)] {
            let mut nodes = Nodes::new(Signals::default());
            let list = |count| all[..count].iter().map(|name| node(name, "a", true)).collect();
            nodes.apply(Change::Relisted(Scope::Cluster, list(5)));
            assert_eq!(nodes.apply(Change::Relisted(Scope::Cluster, list(listed))).len(), 5 - listed);
            assert!(nodes.apply(Change::Applied(node("a1", "a", true))).is_empty() || listed == 0);
            assert_eq!(fate(&nodes, "a5"), fate_of_the_last, "{listed} listed");
            assert!(!nodes.stays(Some(&"a5".into())));
        }
    }
}
