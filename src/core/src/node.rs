//! What Headgate needs to know of nodes: where they are, and whether they take pods.
//!
//! Nothing waits for it: without the right to watch nodes, what hangs on zones is left out.

use std::{collections::BTreeMap, sync::Arc};

use crate::input::Change;

/// One node as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<Arc<str>>,
    /// Whether it takes new pods: it is not cordoned, and no taint keeps pods in general away.
    pub takes_pods: bool,
}

/// The nodes of the cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    all: BTreeMap<Arc<str>, NodeFacts>,
}

impl Nodes {
    /// The watch says this.
    pub fn apply(&mut self, change: Change<NodeFacts>) {
        match change {
            Change::Applied(node) => _ = self.all.insert(node.name.clone(), node),
            Change::Deleted(node) => _ = self.all.remove(&node.name),
            Change::Relisted(_, nodes) => {
                self.all = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
            }
        }
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
    use crate::input::Scope;

    fn node(name: &str, zone: &str, takes_pods: bool) -> NodeFacts {
        NodeFacts { name: name.into(), zone: Some(zone.into()), takes_pods }
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
}
