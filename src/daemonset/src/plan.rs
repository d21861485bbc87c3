//! Plans a set in its current state: the steps, the data for the status, and the status itself.
//!
//! * **Owns** no state: [`plan`] is a pure function of the watched objects.
//! * **Guarantees.** The steps use only node updates and revisions that the stored status contains. A new leader
//!   therefore continues with the same node updates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headgate_core::model::{WallTime, limits::Excess};

use super::{budget::min_available, node, placement::standing, turns::turns};
use crate::model::{
    Remembered, Revision, SetFacts, SetNode, Strategy,
    node::{NodeNow, NodeTerms, PodNow, Progress, Standing, State, TurnTerms, Turns},
    plan::Plan,
    status::{Roll, Status, Waits},
};

/// Plans the steps for a set with these pods by node. `kept`: the revisions that pods can be created from. `closed`:
/// the updating nodes that are not detached yet.
pub fn plan(
    set: &SetFacts,
    nodes: &BTreeMap<Arc<str>, SetNode>,
    mut pods: BTreeMap<Arc<str>, Vec<PodNow>>,
    kept: &BTreeSet<Revision>,
    closed: &BTreeSet<Arc<str>>,
    wall: WallTime,
) -> Plan {
    let spec = &set.spec;
    let mut fleet = Vec::new();
    for (name, node) in nodes {
        let here = pods.remove(name).unwrap_or_default();
        let standing = standing(node, &spec.placement);
        if standing == Standing::Takes || !here.is_empty() {
            fleet.push(NodeNow { name, zone: &node.zone, standing, ready: node.ready, pods: here });
        }
    }
    let gone: Vec<(Arc<str>, Vec<PodNow>)> = pods.into_iter().collect();
    fleet.extend(gone.iter().map(|(name, pods)| NodeNow {
        name,
        zone: "",
        standing: Standing::Gone,
        ready: false,
        pods: pods.clone(),
    }));

    let update = &spec.revision;
    let known = set.remembered.update.as_ref() == Some(update);
    let before = if known { set.remembered.turns.clone() } else { BTreeMap::new() };
    let current = set.remembered.current.clone().filter(|current| kept.contains(current));
    let current = current.unwrap_or_else(|| update.clone());
    let terms = TurnTerms {
        update,
        wanted: spec.pods_per_node,
        at_once: spec.nodes_at_once,
        deadline: spec.deadline,
        is_paused: spec.paused || spec.strategy == Strategy::OnDelete,
        is_settled: current == *update,
    };
    let turns = turns(&fleet, &before, terms, wall);
    let settled = turns.have.is_empty() && is_settled(&fleet, update, spec.pods_per_node);
    let next = if settled { update.clone() } else { current.clone() };

    let wanted = fleet.iter().map(|node| match node.standing {
        Standing::Takes => spec.pods_per_node,
        _ => node.pods.iter().filter(|pod| pod.state != State::Finished).count(),
    });
    let budget = spec.may_miss.map(|may_miss| min_available(wanted.sum(), may_miss));
    let available = fleet.iter().flat_map(|node| &node.pods).filter(|pod| pod.state == State::Available);
    let mut spare = budget.map_or(usize::MAX, |least| available.count().saturating_sub(least));
    let mut steps = Vec::new();
    // The stored status must contain the revision before the first step.
    if set.remembered.current.is_some() && known {
        for node in &fleet {
            let has_turn = before.contains_key(node.name) && turns.have.contains_key(node.name);
            let in_turn = has_turn && !spec.paused && !closed.contains(node.name);
            let terms = NodeTerms {
                wanted: spec.pods_per_node,
                strategy: spec.strategy,
                update,
                current: &current,
                in_turn,
            };
            let here = node::steps(&node.pods, node.standing, &terms, &mut spare);
            steps.extend(here.into_iter().map(|step| (node.name.clone(), step)));
        }
    }
    let due = turns.due;
    let remembered =
        Remembered { current: Some(next), update: Some(update.clone()), turns: turns.have.clone() };
    let mut status = status(set, &fleet, &turns, remembered);
    for (node, waits) in status.waits.iter_mut().filter(|(node, _)| closed.contains(*node)) {
        if status.remembered.turns.contains_key(node) {
            *waits = Waits::Detachment;
        }
    }
    Plan { steps, status, budget, due }
}

/// Returns whether the rollout is complete. The rollout is complete if all nodes that can be updated are updated, or if
/// no pod has another revision. The caller checks that no node is being updated.
fn is_settled(fleet: &[NodeNow<'_>], update: &Revision, wanted: usize) -> bool {
    let can_turn = || fleet.iter().filter(|node| node.can_turn()).map(|node| node.progress(update, wanted));
    let is_over = can_turn().all(|progress| matches!(progress, Progress::Updated | Progress::Empty));
    let is_proven = can_turn().any(|progress| progress == Progress::Updated);
    let is_other = |pod: &PodNow| pod.state.stays() && pod.revision != *update;
    is_over && (is_proven || !fleet.iter().flat_map(|node| &node.pods).any(is_other))
}

fn status(set: &SetFacts, fleet: &[NodeNow<'_>], turns: &Turns, remembered: Remembered) -> Status {
    let (update, wanted) = (&set.spec.revision, set.spec.pods_per_node);
    let takes: Vec<&NodeNow<'_>> = fleet.iter().filter(|node| node.standing == Standing::Takes).collect();
    let live = || fleet.iter().flat_map(|node| &node.pods).filter(|pod| pod.state.stays());
    let is_available = |pod: &&PodNow| pod.state == State::Available;
    let is_degraded = |node: &&&NodeNow<'_>| node.pods.iter().filter(is_available).count() < wanted;
    let waits = |node: &&NodeNow<'_>| Some((node.name.clone(), waits(node, update)));
    Status {
        generation: set.generation,
        roll: roll(set, &takes, turns),
        late: turns.late.clone(),
        waits: takes.iter().filter(|node| turns.have.contains_key(node.name)).filter_map(waits).collect(),
        nodes: takes.len(),
        updated_nodes: takes.iter().filter(|node| node.progress(update, wanted) == Progress::Updated).count(),
        degraded: takes.iter().filter(is_degraded).map(|node| node.name.clone()).collect(),
        wanted: takes.len() * wanted,
        pods: live().count(),
        updated: live().filter(|pod| pod.revision == *update).count(),
        ready: live().filter(|pod| pod.state >= State::Ready).count(),
        available: live().filter(is_available).count(),
        refused: None,
        beyond: Vec::new(),
        remembered,
    }
}

/// Returns the status of a set whose template exceeds a limit. The stored revisions and node updates remain.
pub fn too_large(set: &SetFacts, excess: Excess) -> Status {
    let as_it_was = status(set, &[], &Turns::default(), set.remembered.clone());
    Status { roll: Roll::TooLarge, beyond: vec![excess.to_string().into()], ..as_it_was }
}

fn waits(node: &NodeNow<'_>, update: &Revision) -> Waits {
    let is = |of_update: bool, states: &[State]| {
        node.pods.iter().any(|pod| (pod.revision == *update) == of_update && states.contains(&pod.state))
    };
    if is(true, &[State::Making, State::Starting]) {
        Waits::NotReady
    } else if is(true, &[State::Ready]) {
        Waits::NotAvailable
    } else if is(false, &[State::Ending, State::Leaving]) {
        Waits::OldPods
    } else {
        Waits::Begins
    }
}

fn roll(set: &SetFacts, takes: &[&NodeNow<'_>], turns: &Turns) -> Roll {
    let progress = |node: &&&NodeNow<'_>| node.progress(&set.spec.revision, set.spec.pods_per_node);
    let old = |node: &&&NodeNow<'_>| matches!(progress(node), Progress::Outdated | Progress::Mixed);
    let is_updated = takes.iter().all(|node| progress(&node) == Progress::Updated);
    if !turns.late.is_empty() {
        Roll::Stopped
    } else if is_updated {
        Roll::Done
    } else if set.spec.paused {
        Roll::Paused
    } else if !turns.have.is_empty() {
        Roll::GoesOn
    } else if takes.iter().any(|node| old(&node)) {
        match set.spec.strategy {
            Strategy::OnDelete => Roll::OnDelete,
            _ if takes.iter().filter(old).all(|node| !node.can_turn()) => Roll::NodesNotReady,
            _ => Roll::Degraded,
        }
    } else {
        Roll::Degraded
    }
}
