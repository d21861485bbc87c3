//! Chooses the nodes that are updated to a new revision now.
//!
//! The update of a node is written into the status of the set before the update begins, and is stored nowhere else. A
//! new leader therefore continues with the same nodes, and never updates more nodes simultaneously than allowed.
//!
//! * **Owns** no state.
//! * **Guarantees.** The number of updating nodes is at most the limit of the set. Nodes that were already updated in
//!   this rollout, but are degraded, count as updating. A node that misses the deadline stops the rollout: no further
//!   node begins its update. Updating nodes continue. When the late node completes its update, the rollout continues.
//!   If a node has old pods but no pod that serves, the node's update begins immediately, because it cannot drop
//!   requests.
//! * **Assumes** that a node cannot be updated while it is not ready or accepts no pods. If an updating node is no
//!   longer ready or no longer accepts pods, the update is cancelled, and begins again later.

use std::{collections::BTreeMap, sync::Arc};

use headgate_core::model::WallTime;

use crate::model::node::{NodeNow, Progress, Standing, TurnTerms, Turns};

/// Returns the nodes that are updated from now on. `before`: the nodes that were being updated until now.
pub fn turns(
    nodes: &[NodeNow<'_>],
    before: &BTreeMap<Arc<str>, WallTime>,
    terms: TurnTerms<'_>,
    wall: WallTime,
) -> Turns {
    let progress = |node: &NodeNow<'_>| node.progress(terms.update, terms.wanted);
    let goes_on = |node: &&NodeNow<'_>| node.can_turn() && progress(node) != Progress::Updated;
    let mut turns = Turns::default();
    for node in nodes.iter().filter(goes_on) {
        if let Some(since) = before.get(node.name) {
            turns.have.insert(node.name.clone(), *since);
            let due = *since + terms.deadline;
            if due <= wall {
                turns.late.insert(node.name.clone());
            } else {
                turns.due = Some(turns.due.map_or(due, |first| first.min(due)));
            }
        }
    }
    if terms.is_paused {
        return turns;
    }
    let wait = |node: &&NodeNow<'_>| {
        let waits = matches!(progress(node), Progress::Outdated | Progress::Mixed);
        waits && node.can_turn() && !turns.have.contains_key(node.name)
    };
    let mut waiting: Vec<&NodeNow<'_>> = nodes.iter().filter(wait).collect();
    // A node that was updated but is degraded delays all further nodes.
    let tried = |node: &&NodeNow<'_>| {
        let has_nothing_old = progress(node) == Progress::Degraded && !turns.have.contains_key(node.name);
        has_nothing_old && node.can_turn() && !terms.is_settled
    };
    let takes = nodes.iter().filter(|node| node.standing == Standing::Takes).count();
    let busy = turns.have.len() + nodes.iter().filter(tried).count();
    let mut zones: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for node in nodes {
        let (have, updated) = zones.entry(node.zone).or_default();
        *have += usize::from(turns.have.contains_key(node.name));
        *updated += usize::from(progress(node) == Progress::Updated);
    }
    let mut room = terms.at_once.at_most(takes).saturating_sub(busy);
    if !turns.late.is_empty() {
        room = 0;
    }
    loop {
        // Nodes without an available pod come first: an update drops no request on such a node, and the node may block
        // evictions on other nodes. The next nodes are nodes with a started update, and then nodes with missing pods.
        // The zone decides between equal nodes.
        let next = waiting.iter().enumerate().min_by_key(|(_, node)| {
            let begun = progress(node) == Progress::Mixed;
            let zone = zones.get(node.zone).copied().unwrap_or_default();
            (!node.is_down(), !begun, !node.is_short(terms.wanted), zone, node.zone, node.name)
        });
        let Some((at, node)) = next else { break };
        if !node.is_down() && room == 0 {
            break;
        }
        room = room.saturating_sub(1);
        let node = waiting.swap_remove(at);
        zones.entry(node.zone).or_default().0 += 1;
        turns.have.insert(node.name.clone(), wall);
        let due = wall + terms.deadline;
        turns.due = Some(turns.due.map_or(due, |first| first.min(due)));
    }
    turns
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use headgate_core::model::Uid;

    use super::*;
    use crate::model::{
        Amount,
        node::{PodNow, State},
    };

    const DEADLINE: Duration = Duration::from_secs(600);

    fn at(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(seconds))
    }

    struct Played {
        names: Vec<(Arc<str>, &'static str, bool, Vec<PodNow>)>,
        before: BTreeMap<Arc<str>, WallTime>,
        at_once: Amount,
        is_paused: bool,
        is_settled: bool,
    }

    /// Creates nodes by name. Each node has one pod in the given state. The first letter of the name is the zone.
    fn played(nodes: &[(&str, &str)]) -> Played {
        let node = |(name, word): &(&str, &str)| {
            let pod = |(revision, state): (&str, State)| PodNow {
                uid: Some(Uid::new(*name)),
                revision: revision.into(),
                state,
                created: at(0),
                scheduled: true,
            };
            let pods: &[(&str, State)] = match *word {
                "old" | "tired" => &[("a", State::Available)],
                "down" => &[("a", State::Starting)],
                "mixed" => &[("a", State::Available), ("b", State::Starting)],
                "bad" => &[("b", State::Starting)],
                "new" => &[("b", State::Available)],
                _ => &[],
            };
            let zone = match name.chars().next() {
                Some('a') => "a",
                Some('b') => "b",
                _ => "c",
            };
            ((*name).into(), zone, *word != "tired", pods.iter().copied().map(pod).collect())
        };
        Played {
            names: nodes.iter().map(node).collect(),
            before: BTreeMap::new(),
            at_once: Amount::Number(1),
            is_paused: false,
            is_settled: false,
        }
    }

    impl Played {
        fn turns(&self, wall: WallTime) -> Turns {
            let nodes: Vec<NodeNow<'_>> = self
                .names
                .iter()
                .map(|(name, zone, ready, pods)| NodeNow {
                    name,
                    zone,
                    standing: Standing::Takes,
                    ready: *ready,
                    pods: pods.clone(),
                })
                .collect();
            let update = "b".into();
            let terms = TurnTerms {
                update: &update,
                wanted: 1,
                at_once: self.at_once,
                deadline: DEADLINE,
                is_paused: self.is_paused,
                is_settled: self.is_settled,
            };
            turns(&nodes, &self.before, terms, wall)
        }

        fn have(&self) -> Vec<String> {
            self.turns(at(0)).have.keys().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn nodes_have_their_turns_across_zones() {
        let mut roll = played(&[("a1", "old"), ("a2", "old"), ("b1", "old"), ("c1", "old")]);
        assert_eq!(roll.have(), ["a1"]);
        roll.at_once = Amount::Number(3);
        assert_eq!(roll.have(), ["a1", "b1", "c1"]);
        assert_eq!(played(&[("a1", "new"), ("a2", "old"), ("b1", "old")]).have(), ["b1"]);
        roll.at_once = Amount::Percent(50);
        assert_eq!(roll.have(), ["a1", "b1"]);
    }

    #[test]
    fn what_was_begun_comes_first_and_where_nothing_serves_at_once() {
        assert_eq!(played(&[("a1", "old"), ("c1", "mixed")]).have(), ["c1"]);
        assert_eq!(played(&[("a1", "old"), ("b1", "down")]).have(), ["b1"]);
        assert_eq!(played(&[("a1", "old"), ("b1", "down"), ("c1", "down")]).have(), ["b1", "c1"]);
        let mut roll = played(&[("a1", "mixed"), ("b1", "down"), ("c1", "old")]);
        roll.before.insert("a1".into(), at(0));
        assert_eq!(roll.turns(at(600)).have.keys().map(|name| &**name).collect::<Vec<_>>(), ["a1", "b1"]);
    }

    #[test]
    fn a_turn_goes_on_until_the_node_is_updated_or_can_do_nothing() {
        let mut roll = played(&[("a1", "mixed"), ("b1", "old")]);
        roll.before.insert("a1".into(), at(0));
        assert_eq!(roll.have(), ["a1"]);
        let mut roll = played(&[("a1", "empty"), ("b1", "old")]);
        roll.before.insert("a1".into(), at(0));
        assert_eq!(roll.have(), ["a1"], "its old pods are gone, and the new ones to come");
        let mut roll = played(&[("a1", "new"), ("b1", "old")]);
        roll.before.insert("a1".into(), at(0));
        assert_eq!(roll.have(), ["b1"]);
        let mut roll = played(&[("a1", "tired"), ("b1", "old")]);
        roll.before.insert("a1".into(), at(0));
        assert_eq!(roll.have(), ["b1"], "one that is not ready is passed over");
    }

    #[test]
    fn the_first_bad_node_stops_the_roll_and_goes_on_itself() {
        let mut roll = played(&[("a1", "mixed"), ("b1", "old")]);
        roll.at_once = Amount::Number(2);
        roll.before.insert("a1".into(), at(0));
        let before = roll.turns(at(599));
        assert_eq!((before.have.len(), before.late.len(), before.due), (2, 0, Some(at(600))));
        let after = roll.turns(at(600));
        assert_eq!((after.have.len(), after.late.len(), after.due), (1, 1, None));
    }

    #[test]
    fn what_was_tried_and_is_not_as_it_should_be_holds_up_the_others() {
        let mut roll = played(&[("a1", "bad"), ("b1", "old"), ("c1", "old")]);
        assert!(roll.have().is_empty());
        roll.at_once = Amount::Number(2);
        assert_eq!(roll.have(), ["b1"]);
        roll.at_once = Amount::Number(1);
        roll.is_settled = true;
        assert_eq!(roll.have(), ["b1"], "when going back to what nodes have anyway, nothing is tried");
    }

    #[test]
    fn no_node_gets_its_turn_in_a_pause() {
        let mut roll = played(&[("a1", "mixed"), ("b1", "old")]);
        roll.is_paused = true;
        assert!(roll.have().is_empty());
        roll.before.insert("a1".into(), at(0));
        assert_eq!(roll.have(), ["a1"]);
    }
}
