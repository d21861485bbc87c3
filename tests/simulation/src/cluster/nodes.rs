//! What happens to nodes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::Cluster;
use crate::words::gone;
use headgate_core::model::{
    Change, Failure, NodeFacts, PodFacts, Uid,
    node::DetachedWrite,
    signal::{DISRUPTED, DYING},
};

/// After so long the machine of a node that is not ready has ended.
const LOST_AFTER: Duration = Duration::from_secs(45);

/// The nodes, each with its zone.
const NODES: [(&str, &str); 4] = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")];

fn node(name: &str, zone: &str) -> NodeFacts {
    NodeFacts {
        name: name.into(),
        uid: Uid::new(format!("{name}-0")),
        created: 0,
        zone: Some(zone.into()),
        takes_pods: true,
        taints: Vec::new(),
        cordoned: false,
        not_ready: false,
        shuts_down: false,
        detached: false,
    }
}

/// All of them, as they are when nothing happens to them.
pub fn all() -> BTreeMap<Arc<str>, NodeFacts> {
    NODES.iter().map(|(name, zone)| ((*name).into(), node(name, zone))).collect()
}

/// One of them.
pub fn any(rng: &mut fastrand::Rng) -> Arc<str> {
    NODES[rng.usize(0..NODES.len())].0.into()
}

impl Cluster {
    pub(super) fn change_nodes(&mut self, rng: &mut fastrand::Rng) -> Option<&'static str> {
        let name = any(rng);
        let taint = |keys: &[&str], rng: &mut fastrand::Rng| vec![keys[rng.usize(0..keys.len())].into()];
        let Some(node) = self.nodes.get_mut(&name) else {
            self.node_is_well(&name);
            return Some("event: node comes again");
        };
        let before = node.clone();
        let event = match rng.u8(0..12) {
            0..=1 => {
                node.taints = taint(&DISRUPTED, rng);
                "event: node disrupted"
            }
            2 => {
                node.taints = taint(&DYING, rng);
                "event: node about to die"
            }
            3 => {
                node.shuts_down = true;
                "event: node shuts down"
            }
            4 => {
                node.cordoned = true;
                "event: node cordoned"
            }
            5 => {
                self.nodes.remove(&name);
                self.say_node(&Change::Deleted(before));
                return Some("event: node deleted");
            }
            6..=7 => {
                node.not_ready = true;
                self.not_ready.entry(name.clone()).or_insert(self.now);
                "event: node not ready"
            }
            _ => {
                self.node_is_well(&name);
                return (self.nodes[&name] != before).then_some("event: node stays");
            }
        };
        node.takes_pods = !node.cordoned && !node.shuts_down && node.taints.is_empty();
        let node = node.clone();
        (node != before).then(|| {
            self.say_node(&Change::Applied(node));
            event
        })
    }

    /// Nothing is wrong with a node any more.
    pub(super) fn node_is_well(&mut self, name: &Arc<str>) {
        let zone = NODES.iter().find(|(known, _)| *known == &**name).map_or("a", |(_, zone)| zone);
        // What comes again is another one.
        let is = |node: &NodeFacts| (node.created, node.detached);
        let (created, detached) = self.nodes.get(name).map_or((self.seconds(), false), is);
        let uid = Uid::new(format!("{name}-{created}"));
        self.not_ready.remove(name);
        let node = NodeFacts { uid, created, detached, ..node(name, zone) };
        if self.nodes.insert(name.clone(), node.clone()).as_ref() != Some(&node) {
            self.say_node(&Change::Applied(node));
        }
    }

    /// Whether a node is gone, or has not been ready for so long that the VPC gives away what it had.
    pub(super) fn is_lost(&self, name: &Arc<str>) -> bool {
        let since = self.not_ready.get(name);
        !self.nodes.contains_key(name) || since.is_some_and(|since| *since + LOST_AFTER <= self.now)
    }

    /// A node gets a taint, or is cordoned.
    pub fn mark_node(&mut self, name: &Arc<str>, taint: Option<&str>) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.taints.extend(taint.map(Into::into));
        (node.cordoned, node.takes_pods) = (true, false);
        let node = node.clone();
        self.say_node(&Change::Applied(node));
    }

    /// That no load balancer sends to a node is written on it, or taken away.
    pub fn write_detached(&mut self, write: &DetachedWrite) -> Result<(), Failure> {
        let node = self.nodes.get_mut(&write.node).filter(|node| node.uid == write.uid).ok_or_else(gone)?;
        if node.detached != write.at.is_some() {
            node.detached = write.at.is_some();
            let node = node.clone();
            self.say_node(&Change::Applied(node));
        }
        Ok(())
    }

    /// The other nodes of its zone.
    pub fn neighbours(&self, name: &Arc<str>) -> Vec<Arc<str>> {
        let zone = self.nodes.get(name).and_then(|node| node.zone.as_ref());
        let here = self.nodes.values().filter(|node| node.zone.as_ref() == zone && node.name != *name);
        here.map(|node| node.name.clone()).collect()
    }

    /// All nodes are there, and nothing is wrong with any.
    pub fn nodes_are_well(&mut self) {
        for (name, _) in NODES {
            self.node_is_well(&name.into());
        }
    }

    /// Whether the node of a pod takes no new ones, or is not there.
    pub fn is_closed(&self, pod: &PodFacts) -> bool {
        let node = pod.node.as_ref().map(|name| self.nodes.get(name));
        node.is_some_and(|node| node.is_none_or(|node| !node.takes_pods))
    }

    /// What a GET of a node gives, if there is one.
    pub fn node(&self, name: &Arc<str>) -> Option<&NodeFacts> {
        self.nodes.get(name)
    }

    /// Whether the replicas may see nodes.
    pub fn nodes_are_watched(&self) -> bool {
        self.nodes_are_watched
    }

    fn say_node(&mut self, change: &Change<NodeFacts>) {
        if self.nodes_are_watched {
            self.watches.iter_mut().for_each(|watches| watches.nodes.say(change.clone()));
        }
    }
}
