//! What Headgate needs to know of nodes: where they are, whether they take pods, and whether they are about to go.
//!
//! * **Owns** nodes as last seen, and which are about to go; those that are gone while pods of them are left.
//! * **Flow.** The watch says something ([`Nodes::apply`]): these nodes are about to go, or stay.
//! * **Guarantees.** What hangs on a node is decided here alone: its zone, whether it has room, and which sign counts
//!   ([`Signal`]).
//! * **Assumes** nothing of the rights: without the right to watch nodes, what hangs on zones and early signals is left
//!   out, and nothing waits for it.

use std::{collections::BTreeMap, sync::Arc};

use crate::model::{Change, Fate, NodeFacts, Signal, Signals, WallTime};

/// The nodes of the cluster.
#[derive(Debug, Default)]
pub struct Nodes {
    all: BTreeMap<Arc<str>, NodeFacts>,
    /// Those that are about to go, or gone, and when that was seen.
    going: BTreeMap<Arc<str>, (Signal, WallTime)>,
    signals: Signals,
}

impl Nodes {
    /// No node is known. These are the signs of one that is about to go.
    pub fn new(signals: Signals) -> Self {
        Self { signals, ..Self::default() }
    }

    /// The watch says this. Gives the nodes that go since then, or stay; `None`: nothing is new.
    pub fn apply(&mut self, change: Change<NodeFacts>, wall: WallTime) -> Option<Vec<Arc<str>>> {
        let (other, gone) = match change {
            Change::Applied(node) => {
                let name = node.name.clone();
                let before = self.all.insert(name.clone(), node);
                if before.as_ref() == self.all.get(&name) {
                    return None;
                }
                (vec![name], Vec::new())
            }
            Change::Deleted(node) => {
                self.all.remove(&node.name);
                (Vec::new(), vec![node.name])
            }
            Change::Relisted(_, nodes) => {
                let before = std::mem::take(&mut self.all);
                self.all = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
                let other = self.all.iter().filter(|(name, node)| before.get(*name) != Some(node));
                let other: Vec<Arc<str>> = other.map(|(name, _)| name.clone()).collect();
                let (missing, stay): (Vec<_>, Vec<_>) =
                    before.into_keys().partition(|name| !self.all.contains_key(name));
                if other.is_empty() && missing.is_empty() {
                    return None;
                }
                // A list that is wrong must not take the pods of most nodes away: what it says of those is not known.
                let believed = missing.len() <= stay.len() || missing.len() == 1;
                (other, if believed { missing } else { Vec::new() })
            }
        };
        let all = other.into_iter().chain(gone);
        Some(all.filter(|node| self.look(node, wall)).collect())
    }

    /// Whether it is another thing that becomes of a node now.
    fn look(&mut self, node: &Arc<str>, wall: WallTime) -> bool {
        let signal = match self.all.get(node) {
            Some(facts) => self.signals.of(facts),
            None => Some(Signal { fate: Fate::Deleted, sign: "its object was deleted".into() }),
        };
        let before = self.going.remove(node);
        let fate = |signal: &Signal| signal.fate;
        let is_new = before.as_ref().map(|(signal, _)| fate(signal)) != signal.as_ref().map(fate);
        let since = before.filter(|_| !is_new).map_or(wall, |(_, since)| since);
        self.going.extend(signal.map(|signal| (node.clone(), (signal, since))));
        is_new
    }

    /// Forgets a node that is gone and on which there is nothing any more.
    pub fn forget(&mut self, node: &Arc<str>) {
        self.going.remove(node);
    }

    /// The nodes that are about to go, or gone while pods are left of them.
    pub fn going(&self) -> impl Iterator<Item = (&Arc<str>, &Signal)> {
        self.going.iter().map(|(node, (signal, _))| (node, signal))
    }

    /// The sign that a node is about to go, and since when it is one of what becomes of the node now, if there is one.
    pub fn signal(&self, node: &Arc<str>) -> Option<(&Signal, WallTime)> {
        self.going.get(node).map(|(signal, since)| (signal, *since))
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

    const WALL: WallTime = WallTime::since_1970(std::time::Duration::ZERO);

    fn node(name: &str, zone: &str, takes_pods: bool) -> NodeFacts {
        NodeFacts { name: name.into(), zone: Some(zone.into()), takes_pods, ..NodeFacts::default() }
    }

    #[test]
    fn a_zone_has_room_while_one_of_its_nodes_takes_pods() {
        let mut nodes = Nodes::default();
        nodes.apply(
            Change::Relisted(Scope::Cluster, vec![node("a1", "a", true), node("b1", "b", false)]),
            WALL,
        );
        let name: Arc<str> = "a1".into();
        assert_eq!(nodes.zone(Some(&name)).map(|zone| &**zone), Some("a"));
        assert!(nodes.has_room("a") && !nodes.has_room("b") && !nodes.has_room("c"));
        nodes.apply(Change::Applied(node("a1", "a", false)), WALL);
        assert!(!nodes.has_room("a") && nodes.is_closed(Some(&name)));
        nodes.apply(Change::Deleted(node("a1", "a", false)), WALL);
        assert!(!nodes.is_closed(Some(&name)) && !nodes.is_closed(None), "what is not known is not closed");
        assert_eq!(nodes.zone(Some(&name)), None);
    }

    fn fate(nodes: &Nodes, name: &str) -> Option<Fate> {
        nodes.signal(&name.into()).map(|(signal, _)| signal.fate)
    }

    #[test]
    fn a_node_that_was_deleted_is_gone_until_it_comes_again() {
        let mut nodes = Nodes::new(Signals::default());
        assert_eq!(fate(&nodes, "a1"), None, "one that was never seen may be about to come");
        nodes.apply(Change::Applied(node("a1", "a", true)), WALL);
        assert_eq!(nodes.apply(Change::Deleted(node("a1", "a", true)), WALL), Some(vec!["a1".into()]));
        assert_eq!(fate(&nodes, "a1"), Some(Fate::Deleted));
        assert!(!nodes.stays(Some(&"a1".into())));
        nodes.apply(Change::Applied(node("a1", "a", true)), WALL);
        assert_eq!(fate(&nodes, "a1"), None);
        assert!(nodes.stays(Some(&"a1".into())));
    }

    #[test]
    fn a_list_without_most_nodes_says_nothing_of_those() {
        let all = ["a1", "a2", "a3", "a4", "a5"];
        for (listed, fate_of_the_last) in [(3, Some(Fate::Deleted)), (2, None), (0, None)] {
            let mut nodes = Nodes::new(Signals::default());
            let list = |count| all[..count].iter().map(|name| node(name, "a", true)).collect();
            nodes.apply(Change::Relisted(Scope::Cluster, list(5)), WALL);
            assert_eq!(
                nodes.apply(Change::Relisted(Scope::Cluster, list(listed)), WALL).is_some(),
                listed < 5
            );
            assert!(nodes.apply(Change::Applied(node("a1", "a", true)), WALL).is_none() || listed == 0);
            assert_eq!(fate(&nodes, "a5"), fate_of_the_last, "{listed} listed");
            assert!(!nodes.stays(Some(&"a5".into())));
        }
    }
}
