//! The handshake with a system that detaches nodes from load balancers. Before the controller updates a node, it
//! requests the detachment with an annotation on the node, and waits.
//!
//! * **Owns** no state. The annotations of the node and the start of the update contain all state.
//! * **Guarantees.** The controller changes no pod on an updating node before the node has the annotation. If the set
//!   waits for the detachment, the node must also report a detachment after the start of the update. The controller
//!   then also waits for the grace period. After the update, the controller removes the annotation. If a node still
//!   reports an earlier detachment, the controller waits up to 60 s before it annotates the node. During the wait, the
//!   other system can see that the earlier update is over.
//! * **Assumes** that the clock of the other system is accurate to within one second.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use headgate_core::model::WallTime;

use crate::model::{
    Handshake, SetFacts, SetNode,
    ask::{Ask, Told},
};

/// The maximum time that the controller waits for the removal of an earlier detachment report.
const STALE: Duration = Duration::from_secs(60);
/// The divisor for the maximum number of annotated nodes: at most 1 in 4 nodes, and at least 1. The limit applies per
/// annotation key, to all sets together. A user with write access to sets therefore cannot detach all nodes.
const ONE_IN: usize = 4;
/// The precision of a stored time.
const SECOND: Duration = Duration::from_secs(1);

/// Returns the requests and waits of all handshakes of a set.
pub fn told(facts: &SetFacts, nodes: &BTreeMap<Arc<str>, SetNode>, wall: WallTime) -> Told {
    let mut told = Told::default();
    let Some(handshake) = &facts.spec.handshake else { return told };
    let asked = nodes.values().filter(|node| node.says(&handshake.key).is_some()).count();
    let mut room = (nodes.len() / ONE_IN).max(1).saturating_sub(asked);
    let is_known = facts.remembered.update.as_ref() == Some(&facts.spec.revision);
    for (name, node) in nodes {
        let is_annotated = is_annotated(handshake, node);
        let ask =
            |value: Option<Arc<str>>| Ask::Annotate { node: name.clone(), key: handshake.key.clone(), value };
        let Some(since) = facts.remembered.turns.get(name).filter(|_| is_known) else {
            told.wants.extend(is_annotated.then(|| ask(None)));
            continue;
        };
        let annotates = *since + STALE;
        let is_stale = is_stale(handshake, node, *since) && wall < annotates;
        if is_stale {
            // The other system must first see that the earlier update is over.
            told.wants.extend(is_annotated.then(|| ask(None)));
            told.due = told.due.into_iter().chain([annotates]).min();
        } else if node.says(&handshake.key).is_none() && room > 0 {
            // The annotation of another set remains, and this set waits.
            room -= 1;
            told.wants.push(ask(Some(handshake.value.clone())));
        }
        if is_stale || !is_annotated {
            told.closed.insert(name.clone());
            continue;
        }
        match detached(handshake, node, *since) {
            Some(from) if from <= wall => {}
            from => {
                told.closed.insert(name.clone());
                told.due = told.due.into_iter().chain(from).min();
            }
        }
    }
    told
}

/// The current handshake of a set, and earlier handshakes whose annotations may remain.
#[derive(Debug, Default)]
pub struct Handshakes(Vec<Arc<Handshake>>);

impl Handshakes {
    /// Records the current handshake. Returns the requests that remove annotations of earlier handshakes.
    pub fn changed(&mut self, now: Option<&Arc<Handshake>>, nodes: &BTreeMap<Arc<str>, SetNode>) -> Vec<Ask> {
        let mut wants = Vec::new();
        self.0.retain(|before| {
            let left = left(before, nodes);
            let is_over = now.is_some_and(|is| (&is.key, &is.value) == (&before.key, &before.value));
            let stays = !is_over && !left.is_empty();
            wants.extend(left.into_iter().filter(|_| stays));
            stays
        });
        self.0.extend(now.cloned());
        wants
    }

    /// Returns the requests that remove all annotations of this set.
    pub fn left(&self, nodes: &BTreeMap<Arc<str>, SetNode>) -> Vec<Ask> {
        self.0.iter().flat_map(|before| left(before, nodes)).collect()
    }
}

/// Returns the requests that remove the annotation of a handshake from all nodes.
fn left(handshake: &Handshake, nodes: &BTreeMap<Arc<str>, SetNode>) -> Vec<Ask> {
    let ask = |name: &Arc<str>| Ask::Annotate { node: name.clone(), key: handshake.key.clone(), value: None };
    nodes.iter().filter(|(_, node)| is_annotated(handshake, node)).map(|(name, _)| ask(name)).collect()
}

/// Returns whether this set has annotated the node.
fn is_annotated(handshake: &Handshake, node: &SetNode) -> bool {
    node.says(&handshake.key).is_some_and(|said| *said.value == *handshake.value)
}

/// Returns whether a node reports a detachment from before the start of this update.
fn is_stale(handshake: &Handshake, node: &SetNode, since: WallTime) -> bool {
    let says = handshake.wait.as_ref().and_then(|wait| node.says(&wait.key));
    says.is_some_and(|said| said.time.is_none_or(|at| at + SECOND <= since))
}

/// Returns the time from which the node counts as detached. `None`: the node reports no detachment.
fn detached(handshake: &Handshake, node: &SetNode, since: WallTime) -> Option<WallTime> {
    let Some(wait) = &handshake.wait else { return Some(WallTime::since_1970(Duration::ZERO)) };
    let at = node.says(&wait.key)?.time?;
    (at + SECOND > since).then(|| at + wait.grace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Noted, Wait};

    const SINCE: u64 = 1_000;

    fn at(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_secs(seconds))
    }

    fn noted(key: &str, value: &str, time: Option<u64>) -> Noted {
        Noted { key: key.into(), value: value.into(), time: time.map(at) }
    }

    /// Returns the requests, whether the node is closed, and the next wait. The node has these annotations and may be
    /// updating.
    fn with(
        has_turn: bool,
        waits: bool,
        annotations: Vec<Noted>,
        wall: u64,
    ) -> (Vec<Ask>, bool, Option<WallTime>) {
        let mut facts = super::super::tests::set();
        facts.spec.handshake = Some(Arc::new(Handshake {
            key: "example.com/detach".into(),
            value: "edge".into(),
            wait: waits
                .then(|| Wait { key: "example.com/detached-at".into(), grace: Duration::from_secs(30) }),
        }));
        if has_turn {
            facts.remembered.turns.insert("n1".into(), at(SINCE));
        }
        let node = SetNode { name: "n1".into(), annotations, ..SetNode::default() };
        let told = told(&facts, &BTreeMap::from([("n1".into(), node)]), at(wall));
        (told.wants, told.closed.contains("n1"), told.due)
    }

    fn ask(value: Option<&str>) -> Vec<Ask> {
        let (node, key) = ("n1".into(), "example.com/detach".into());
        vec![Ask::Annotate { node, key, value: value.map(Into::into) }]
    }

    #[test]
    fn a_node_is_annotated_before_anything_is_done_in_its_turn_and_no_more_after_it() {
        let own = || noted("example.com/detach", "edge", None);
        assert_eq!(with(true, false, vec![], SINCE), (ask(Some("edge")), true, None));
        assert_eq!(with(true, false, vec![own()], SINCE), (vec![], false, None), "nothing is waited for");
        assert_eq!(with(false, false, vec![own()], SINCE), (ask(None), false, None));
        assert_eq!(with(false, false, vec![], SINCE), (vec![], false, None));
        let before = || noted("example.com/detached-at", "a time", Some(SINCE - 90));
        let waits = |wall| with(true, true, vec![before()], wall);
        assert_eq!(
            waits(SINCE + 59),
            (vec![], true, Some(at(SINCE + 60))),
            "the turn before is not over for others"
        );
        assert_eq!(waits(SINCE + 60), (ask(Some("edge")), true, None), "they never take it back");
        let others = noted("example.com/detach", "by hand", None);
        assert_eq!(
            with(false, false, vec![others.clone()], SINCE),
            (vec![], false, None),
            "it is somebody else's"
        );
        assert_eq!(with(true, false, vec![others], SINCE), (vec![], true, None), "and it is waited for");
    }

    #[test]
    fn a_quarter_of_the_nodes_is_annotated_at_a_time_whichever_set_asks() {
        let mut facts = super::super::tests::set();
        facts.spec.handshake =
            Some(Arc::new(Handshake { key: "example.com/detach".into(), value: "edge".into(), wait: None }));
        let names: Vec<Arc<str>> = (0..12).map(|at| format!("n{at:02}").into()).collect();
        facts.remembered.turns.extend(names.iter().map(|name| (name.clone(), at(SINCE))));
        let with_others = |others: usize| {
            let node = |(at_, name): (usize, &Arc<str>)| {
                let theirs = noted("example.com/detach", "other", None);
                let annotations = if at_ < others { vec![theirs] } else { Vec::new() };
                (name.clone(), SetNode { name: name.clone(), annotations, ..SetNode::default() })
            };
            let nodes = names.iter().enumerate().map(node).collect();
            let told = told(&facts, &nodes, at(SINCE));
            (told.wants.len(), told.closed.len())
        };
        assert_eq!([0, 1, 2, 3, 12].map(with_others), [(3, 12), (2, 12), (1, 12), (0, 12), (0, 12)]);
    }

    #[test]
    fn what_a_node_says_of_its_detachment_counts_if_it_is_of_this_turn_and_some_time_ago() {
        let says = |time: Option<u64>| {
            let said = time.map(|time| noted("example.com/detached-at", "a time", Some(time)));
            vec![noted("example.com/detach", "edge", None)].into_iter().chain(said).collect::<Vec<_>>()
        };
        assert_eq!(with(true, true, says(None), SINCE + 600), (vec![], true, None), "it says nothing");
        assert_eq!(
            with(true, true, says(Some(SINCE - 1)), SINCE + 600),
            (vec![], true, None),
            "of a turn before"
        );
        assert_eq!(with(true, true, says(Some(SINCE)), SINCE + 29), (vec![], true, Some(at(SINCE + 30))));
        assert_eq!(with(true, true, says(Some(SINCE)), SINCE + 30), (vec![], false, None));
        let no_time = noted("example.com/detached-at", "yes", None);
        let both = vec![noted("example.com/detach", "edge", None), no_time];
        assert_eq!(with(true, true, both, SINCE + 600), (vec![], true, None), "that is no time");
    }
}
