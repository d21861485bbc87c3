//! Nodes: their zones, whether they accept pods, and whether they will be removed.
//!
//! * **Owns** the last known state of each node, and which nodes will be removed. The module keeps a deleted node while
//!   the node has pods.
//! * **Flow.** [`Nodes::apply`] records a change from the watch, and [`Nodes::pass`] advances the time. Both functions
//!   return the nodes whose announced removal has changed. [`LastSeen`] answers queries about single nodes.
//! * **Guarantees.** Only this module determines the zone of a node, whether a zone accepts pods, and which sign
//!   applies to a node ([`Signal`]). If a list or a watch reports the deletion of most nodes, Headgate changes nothing
//!   until another list confirms the deletion. If nodes are really lost, Kubernetes soon deletes their pods, and
//!   Headgate deregisters the deleted pods immediately.
//! * **Assumes** no permissions. Without permission to watch nodes, Headgate knows no zones and no early signs, and
//!   waits for no node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    agenda::Agenda,
    brake::{Becomes, Brake, most_of},
    model::{Change, Fate, Moment, NodeFacts, PodFacts, Scope, Signal, Signals, WallTime, node::Presence},
};

/// The nodes of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    all: BTreeMap<Arc<str>, NodeFacts>,
    /// The nodes that will be removed or were deleted, each with its sign and the time when Headgate saw the sign.
    going: BTreeMap<Arc<str>, (Signal, WallTime)>,
    /// For each taint that announces a drain, the number of nodes with the taint.
    marked: BTreeMap<Box<str>, usize>,
    /// The nodes with the annotation `detached-at`.
    detached: BTreeSet<Arc<str>>,
    signals: Signals,
    brake: Brake<Arc<str>>,
    /// When each unready node will count as lost.
    unready: Agenda<Moment, Arc<str>>,
    /// The nodes that have been unready for [`LOST_AFTER`].
    lost: BTreeSet<Arc<str>>,
    /// The nodes whose presence has changed since the last call of [`Self::take_turned`].
    turned: Vec<(Arc<str>, Presence)>,
}

/// A node counts as lost after it has been unready for this long. The VPC does not reuse the addresses of an instance
/// before the instance has terminated.
const LOST_AFTER: Duration = Duration::from_secs(30);

/// A read-only view of single nodes.
#[derive(Clone, Copy, Debug)]
pub struct LastSeen<'a>(&'a Nodes);

impl Nodes {
    /// Creates the state without any nodes. `signals` are the signs of a node that will be removed. `patience` limits
    /// how long the deletion of most nodes waits for a confirmation.
    pub fn new(signals: Signals, patience: Duration) -> Self {
        Self { signals, brake: Brake::new(patience), ..Self::default() }
    }

    /// Applies a change that the watch reports. Returns the nodes whose announced removal has changed, or `None`
    /// without any change.
    pub fn apply(
        &mut self,
        change: Change<NodeFacts>,
        seen: Moment,
        wall: WallTime,
    ) -> Option<Vec<Arc<str>>> {
        let (mut touched, became) = match change {
            Change::Applied(node) => {
                self.brake.shows(&node.name);
                (self.put(node, seen).into_iter().collect(), Vec::new())
            }
            Change::Deleted(node) if self.all.contains_key(&node.name) => {
                (Vec::new(), self.brake.deleted(&node.name, self.all.keys(), seen))
            }
            Change::Deleted(node) => (vec![node.name], Vec::new()),
            Change::Relisted(scope, nodes) => {
                let there: BTreeSet<&Arc<str>> = nodes.iter().map(|node| &node.name).collect();
                let missing = self.all.keys().filter(|name| !there.contains(name));
                let missing: Vec<Arc<str>> = missing.cloned().collect();
                let most = most_of(&missing, self.all.len());
                let became = self.brake.listed(&scope, missing, &most, seen);
                (nodes.into_iter().filter_map(|node| self.put(node, seen)).collect(), became)
            }
        };
        for (name, _) in became.into_iter().filter(|(_, becomes)| *becomes == Becomes::Gone) {
            self.drop(&name);
            touched.push(name);
        }
        if touched.is_empty() {
            return None;
        }
        Some(touched.into_iter().filter(|node| self.look(node, wall)).collect())
    }

    /// Stores a node, and returns the name of the node if the node has changed.
    fn put(&mut self, node: NodeFacts, seen: Moment) -> Option<Arc<str>> {
        let name = node.name.clone();
        self.note_ready(&node, seen);
        if node.detached {
            self.detached.insert(name.clone());
        } else {
            self.detached.remove(&name);
        }
        let before = self.all.insert(name.clone(), node);
        (before.as_ref() != self.all.get(&name)).then_some(name)
    }

    /// Records the readiness of a node. A node that is unready at its first appearance counts as lost, because it was
    /// unready before this replica started.
    fn note_ready(&mut self, node: &NodeFacts, seen: Moment) {
        let (name, before) = (&node.name, self.all.get(&node.name));
        let (is_new, was_ready) = (before.is_none(), before.is_some_and(|before| !before.not_ready));
        if !node.not_ready {
            self.unready.put(name, None);
            if self.lost.remove(name) || is_new {
                self.turned.push((name.clone(), Presence::Well));
            }
        } else if was_ready {
            self.unready.put(name, Some(seen + LOST_AFTER));
        } else if is_new {
            self.loses(name.clone());
        }
    }

    fn loses(&mut self, node: Arc<str>) {
        self.lost.insert(node.clone());
        self.turned.push((node, Presence::Lost));
    }

    /// Takes the nodes whose presence has changed since the last call.
    pub fn take_turned(&mut self) -> Vec<(Arc<str>, Presence)> {
        std::mem::take(&mut self.turned)
    }

    /// Removes a node.
    fn drop(&mut self, node: &Arc<str>) {
        self.all.remove(node);
        self.detached.remove(node);
        self.unready.put(node, None);
        self.lost.remove(node);
        self.turned.push((node.clone(), Presence::Gone));
    }

    /// Advances the time. Returns the nodes that now count as deleted, because no list has confirmed their existence.
    pub fn pass(&mut self, now: Moment, wall: WallTime) -> Vec<Arc<str>> {
        while let Some(node) = self.unready.take(now) {
            self.loses(node);
        }
        let mut gone = self.brake.pass(now);
        for node in &gone {
            self.drop(node);
        }
        gone.retain(|node| self.look(node, wall));
        gone
    }

    /// Takes the scope to list again, if any.
    pub const fn take_asks(&mut self) -> Option<Scope> {
        self.brake.take_asks()
    }

    /// Checks whether a node will be removed. Returns whether the result has changed.
    fn look(&mut self, node: &Arc<str>, wall: WallTime) -> bool {
        let signal = match self.all.get(node) {
            Some(facts) => self.signals.of(facts),
            None => Some(Signal::deleted()),
        };
        let before = self.forget(node);
        let fate = |signal: &Signal| (signal.fate, signal.drainer, signal.cordoned);
        let is_new = before.as_ref().map(|(signal, _)| fate(signal)) != signal.as_ref().map(fate);
        let is_same =
            |(before, _): &(Signal, WallTime)| signal.as_ref().is_some_and(|is| is.fate == before.fate);
        let since = before.filter(is_same).map_or(wall, |(_, since)| since);
        if let Some(signal) = signal {
            if signal.fate == Fate::Disrupted {
                *self.marked.entry(signal.sign.clone()).or_default() += 1;
            }
            self.going.insert(node.clone(), (signal, since));
        }
        is_new
    }

    /// Drops the record that a node will be removed or was deleted.
    pub fn forget(&mut self, node: &Arc<str>) -> Option<(Signal, WallTime)> {
        let known = self.going.remove(node);
        if let Some((signal, _)) = known.as_ref().filter(|(signal, _)| signal.fate == Fate::Disrupted)
            && let Some(count) = self.marked.get_mut(&signal.sign)
        {
            *count -= 1;
            if *count == 0 {
                self.marked.remove(&signal.sign);
            }
        }
        known
    }

    /// The nodes that will be removed, and deleted nodes that still have pods.
    pub fn going(&self) -> impl Iterator<Item = (&Arc<str>, &Signal)> {
        self.going.iter().map(|(node, (signal, _))| (node, signal))
    }

    /// The sign that a node will be removed, and when Headgate first saw the sign. `None`: the node has no sign.
    pub fn signal(&self, node: &Arc<str>) -> Option<(&Signal, WallTime)> {
        self.going.get(node).map(|(signal, since)| (signal, *since))
    }

    /// Returns a read-only view of single nodes.
    pub const fn last_seen(&self) -> LastSeen<'_> {
        LastSeen(self)
    }
}

impl<'a> LastSeen<'a> {
    /// The node with this name.
    pub fn named(self, node: &str) -> Option<&'a NodeFacts> {
        self.0.all.get(node)
    }

    fn get(self, node: Option<&Arc<str>>) -> Option<&'a NodeFacts> {
        self.0.all.get(node?)
    }

    /// Whether Headgate knows that the node of a pod remains. Only signs that concern the pod count.
    pub fn stays(self, pod: &PodFacts) -> bool {
        let signal = self.get(pod.node.as_ref()).map(|node| self.0.signals.of(node));
        signal.is_some_and(|signal| signal.is_none_or(|signal| !signal.concerns(pod)))
    }

    /// Whether Headgate may act now on the sign of a node. Headgate ignores a taint on more than a quarter of all
    /// nodes. A tool may taint all nodes of a node group before it drains the first node.
    pub fn is_its_turn(self, signal: &Signal) -> bool {
        let marked = self.0.marked.get(&signal.sign).copied().unwrap_or_default();
        signal.cordoned || signal.fate != Fate::Disrupted || marked <= 1 || marked * 4 <= self.0.all.len()
    }

    /// When a node was created, in seconds since 1970, if it is known.
    pub fn created(self, node: Option<&Arc<str>>) -> Option<i64> {
        self.get(node).map(|node| node.created)
    }

    /// The zone of a node, if it is known.
    pub fn zone(self, node: Option<&Arc<str>>) -> Option<&'a Arc<str>> {
        self.get(node)?.zone.as_ref()
    }

    /// Whether Headgate knows that a node accepts no new pods.
    pub fn is_closed(self, node: Option<&Arc<str>>) -> bool {
        self.get(node).is_some_and(|node| !node.takes_pods)
    }

    /// The existing nodes that will be removed or have the annotation `detached-at`. The flag is true if the node will
    /// be removed.
    pub fn may_be_detached(self) -> impl Iterator<Item = (&'a NodeFacts, bool)> {
        let Nodes { all, going, detached, .. } = self.0;
        let stay = detached.iter().filter(|name| !going.contains_key(*name));
        let stay = stay.filter_map(|name| Some((all.get(name)?, false)));
        going.keys().filter_map(|name| Some((all.get(name)?, true))).chain(stay)
    }

    /// Whether a node of this zone accepts new pods.
    pub fn has_room(self, zone: &str) -> bool {
        let mut here = self.0.all.values().filter(|node| node.zone.as_deref() == Some(zone));
        here.any(|node| node.takes_pods)
    }

    /// When Headgate accepts the unconfirmed deletion of this node, if any.
    pub fn given_up_at(self, node: Option<&Arc<str>>) -> Option<Moment> {
        self.0.brake.doubted_until(node?)
    }

    /// The next time at which [`Nodes::pass`] must run.
    pub fn next_due(self) -> Option<Moment> {
        self.0.brake.next_due().into_iter().chain(self.0.unready.next_due()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Cordon, Scope, signal::DISRUPTED},
        testing::pod,
    };

    const WALL: WallTime = WallTime::since_1970(Duration::ZERO);
    const SEEN: Moment = Moment::START;
    const PATIENCE: Duration = Duration::from_secs(30);

    fn node(name: &str, zone: &str, takes_pods: bool) -> NodeFacts {
        NodeFacts { name: name.into(), zone: Some(zone.into()), takes_pods, ..NodeFacts::default() }
    }

    #[test]
    fn a_zone_has_room_while_one_of_its_nodes_takes_pods() {
        let mut nodes = Nodes::default();
        nodes.apply(
            Change::Relisted(Scope::Cluster, vec![node("a1", "a", true), node("b1", "b", false)]),
            SEEN,
            WALL,
        );
        let name: Arc<str> = "a1".into();
        assert_eq!(nodes.last_seen().zone(Some(&name)).map(|zone| &**zone), Some("a"));
        assert!(
            nodes.last_seen().has_room("a")
                && !nodes.last_seen().has_room("b")
                && !nodes.last_seen().has_room("c")
        );
        nodes.apply(Change::Applied(node("a1", "a", false)), SEEN, WALL);
        assert!(!nodes.last_seen().has_room("a") && nodes.last_seen().is_closed(Some(&name)));
        nodes.apply(Change::Deleted(node("a1", "a", false)), SEEN, WALL);
        assert!(
            !nodes.last_seen().is_closed(Some(&name)) && !nodes.last_seen().is_closed(None),
            "what is not known is not closed"
        );
        assert_eq!(nodes.last_seen().zone(Some(&name)), None);
    }

    fn stays(nodes: &Nodes, name: &str) -> bool {
        nodes.last_seen().stays(&pod("web", "u-1").on(name).build())
    }

    fn fate(nodes: &Nodes, name: &str) -> Option<Fate> {
        nodes.signal(&name.into()).map(|(signal, _)| signal.fate)
    }

    #[test]
    fn a_node_that_was_deleted_is_gone_until_it_comes_again() {
        let mut nodes = Nodes::new(Signals::default(), PATIENCE);
        assert_eq!(fate(&nodes, "a1"), None, "one that was never seen may be about to come");
        nodes.apply(Change::Applied(node("a1", "a", true)), SEEN, WALL);
        assert_eq!(nodes.apply(Change::Deleted(node("a1", "a", true)), SEEN, WALL), Some(vec!["a1".into()]));
        assert_eq!(fate(&nodes, "a1"), Some(Fate::Deleted));
        assert!(!stays(&nodes, "a1"));
        nodes.apply(Change::Applied(node("a1", "a", true)), SEEN, WALL);
        assert_eq!(fate(&nodes, "a1"), None);
        assert!(stays(&nodes, "a1"));
    }

    /// Applies a list with the first `count` of five nodes. Returns whether anything has changed.
    fn listed(nodes: &mut Nodes, count: usize) -> bool {
        let all = ["a1", "a2", "a3", "a4", "a5"];
        let list = all[..count].iter().map(|name| node(name, "a", true)).collect();
        nodes.apply(Change::Relisted(Scope::Cluster, list), SEEN, WALL).is_some()
    }

    fn five() -> Nodes {
        let mut nodes = Nodes::new(Signals::default(), PATIENCE);
        assert!(listed(&mut nodes, 5));
        nodes
    }

    #[test]
    fn that_most_nodes_are_missing_in_a_list_is_believed_when_a_second_one_says_the_same() {
        for (count, asks, last) in [(3, false, Some(Fate::Deleted)), (2, true, None), (0, true, None)] {
            let mut nodes = five();
            assert_eq!(listed(&mut nodes, count), !asks);
            assert_eq!(nodes.take_asks().is_some(), asks, "{count} listed");
            assert_eq!(fate(&nodes, "a5"), last, "{count} listed");
            let name = "a5".into();
            assert_eq!(stays(&nodes, "a5"), asks, "it stays as it was");
            assert_eq!(nodes.last_seen().given_up_at(Some(&name)), asks.then_some(SEEN + PATIENCE));
            listed(&mut nodes, count);
            assert_eq!(fate(&nodes, "a5"), Some(Fate::Deleted), "{count} listed");
        }
    }

    #[test]
    fn a_second_list_that_has_the_nodes_says_that_nothing_was() {
        let mut nodes = five();
        listed(&mut nodes, 0);
        assert!(!listed(&mut nodes, 5));
        assert_eq!(nodes.pass(SEEN + PATIENCE, WALL), [""; 0].map(Arc::from));
    }

    #[test]
    fn that_most_nodes_are_deleted_within_a_moment_is_believed_after_a_while() {
        let mut nodes = five();
        let delete = |nodes: &mut Nodes, name: &str| {
            nodes.apply(Change::Deleted(node(name, "a", true)), SEEN, WALL).map_or(0, |nodes| nodes.len())
        };
        assert_eq!(["a1", "a2", "a3", "a4"].map(|name| delete(&mut nodes, name)), [1, 0, 0, 0]);
        assert_eq!(nodes.take_asks(), Some(Scope::Cluster));
        assert_eq!(fate(&nodes, "a2"), None);
        nodes.apply(Change::Applied(node("a4", "a", true)), SEEN, WALL);
        assert_eq!(nodes.last_seen().next_due(), Some(SEEN + PATIENCE));
        assert_eq!(nodes.pass(SEEN + PATIENCE, WALL), ["a2", "a3"].map(Arc::from));
        assert_eq!(["a3", "a4", "a5"].map(|name| fate(&nodes, name)), [Some(Fate::Deleted), None, None]);
    }
    #[test]
    fn a_cordoned_node_stays_for_pods_that_are_evicted_and_not_for_those_that_are_passed_over() {
        let mut nodes = Nodes::default();
        nodes.apply(Change::Applied(NodeFacts { cordoned: true, ..node("a1", "a", false) }), SEEN, WALL);
        assert!(stays(&nodes, "a1"));
        assert!(!nodes.last_seen().stays(&pod("web", "u-1").on("a1").of_daemon_set().build()));
    }

    /// Returns whether Headgate may act on the first of five nodes, of which `marked` nodes have a taint. `cordoned` is
    /// true if the first node is cordoned.
    fn is_turn(marked: usize, cordoned: bool) -> bool {
        let mut nodes = five();
        for at in 1..=marked {
            let taints = vec![DISRUPTED[0].into()];
            let cordoned = cordoned && at == 1;
            let marked = NodeFacts { taints, cordoned, ..node(&format!("a{at}"), "a", false) };
            assert!(nodes.apply(Change::Applied(marked), SEEN, WALL).is_some_and(|nodes| nodes.len() == 1));
        }
        nodes.last_seen().is_its_turn(nodes.signal(&"a1".into()).unwrap().0)
    }

    #[test]
    fn a_mark_that_many_nodes_have_says_of_none_that_its_turn_has_come_and_a_cordon_does() {
        assert_eq!([1, 2, 3, 5].map(|marked| is_turn(marked, false)), [true, false, false, false]);
        assert_eq!([1, 2, 5].map(|marked| is_turn(marked, true)), [true; 3]);
    }

    #[test]
    fn when_enough_of_those_that_were_marked_are_well_again_the_turn_of_the_others_has_come() {
        let mut nodes = Nodes::new(Signals { cordon: Cordon::All, ..Signals::default() }, PATIENCE);
        for at in 0..8 {
            nodes.apply(Change::Applied(node(&format!("a{at}"), "a", true)), SEEN, WALL);
        }
        let mut mark = |at: u8, taints: Vec<Box<str>>| {
            let node = NodeFacts { taints, ..node(&format!("a{at}"), "a", true) };
            nodes.apply(Change::Applied(node), SEEN, WALL);
            nodes.signal(&"a0".into()).map(|(signal, _)| nodes.last_seen().is_its_turn(signal))
        };
        let taints = || vec![DISRUPTED[0].into()];
        assert_eq!([0, 1, 2].map(|at| mark(at, taints())), [Some(true), Some(true), Some(false)]);
        assert_eq!(mark(1, taints()), Some(false), "said once more it counts once");
        assert_eq!(mark(1, vec![DISRUPTED[1].into()]), Some(true), "another mark is another one's");
        assert_eq!(mark(1, vec![]), Some(true));
        assert_eq!(mark(0, vec![]), None);
    }
}
