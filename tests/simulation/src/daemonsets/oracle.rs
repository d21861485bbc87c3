//! What must hold of a set and its pods, by the truth, worked out the slow and simple way.

use std::{collections::BTreeSet, sync::Arc};

use headgate_daemonset::model::{
    Amount, SetNode, SetSpec, Strategy,
    ask::{Ask, Asked},
    plan::Why,
};

use super::api::{Api, Pod, SET, wall};

/// What a world does not do, so that more can be asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Calm {
    /// Nobody but the controller ends pods, and ready ones stay ready.
    pub pods: bool,
    /// Nodes stay as they are.
    pub nodes: bool,
}

fn surge(spec: &SetSpec) -> usize {
    match spec.strategy {
        Strategy::RollingUpdate { surge, .. } => surge,
        _ => 0,
    }
}

/// How many live pods a node may have.
pub fn most(spec: &SetSpec) -> usize {
    spec.pods_per_node + surge(spec)
}

fn unavailable(spec: &SetSpec) -> usize {
    match spec.strategy {
        Strategy::RollingUpdate { unavailable, .. } => unavailable,
        _ => 0,
    }
}

/// How many available pods a node keeps at least, as far as the controller goes.
pub fn least(spec: &SetSpec) -> usize {
    match spec.strategy {
        Strategy::RollingUpdate { .. } => spec.pods_per_node.saturating_sub(unavailable(spec)),
        Strategy::NodeReplace | Strategy::OnDelete => 0,
    }
}

pub fn takes(node: &SetNode) -> bool {
    !node.cordoned
}

pub fn cap(spec: &SetSpec, nodes: usize) -> usize {
    match spec.nodes_at_once {
        Amount::Number(number) => number.max(1),
        Amount::Percent(percent) => (nodes * percent / 100).max(1),
    }
}

fn on<'a>(api: &'a Api, node: &'a str) -> impl Iterator<Item = &'a Pod> {
    api.pods.values().filter(move |pod| {
        let is_own = pod.facts.controller.as_ref().is_some_and(|owner| owner.uid == api.set.uid);
        *pod.facts.node == *node && is_own && pod.facts.set.as_deref() == Some(SET)
    })
}

/// What was known when something was asked for.
pub struct Known {
    /// The set.
    pub spec: SetSpec,
    /// The nodes that took pods.
    pub took: BTreeSet<Arc<str>>,
    /// The nodes on which no pod was ready.
    pub down: BTreeSet<Arc<str>>,
    /// If others are to detach nodes first: those that said that they are detached.
    pub detached: Option<BTreeSet<Arc<str>>>,
    /// Of the set as it was seen since then: how many live pods a node might have, and how many available ones it was to keep.
    pub most: usize,
    pub least: usize,
}

/// The nodes that say that they are detached, if others are to do that first.
pub fn detached<'a>(
    spec: &SetSpec,
    nodes: impl Iterator<Item = &'a SetNode>,
    now: f64,
) -> Option<BTreeSet<Arc<str>>> {
    let handshake = spec.handshake.as_ref()?;
    let is_detached = |node: &&SetNode| {
        let Some(wait) = &handshake.wait else { return true };
        let said = node.says(&wait.key).and_then(|said| said.time);
        said.is_some_and(|at| at + wait.grace <= wall(now))
    };
    let is_asked = |node: &&SetNode| node.says(&handshake.key).is_some();
    Some(nodes.filter(is_asked).filter(is_detached).map(|node| node.name.clone()).collect())
}

/// Whether something may be done now that was asked for when this was known.
pub fn check(api: &Api, asked: &Asked, known: &Known, calm: Calm, now: f64) -> Result<(), String> {
    let Known { spec, took, down, detached, most, least } = known;
    if let (
        Some(detached),
        Ask::Delete { name, why: Why::Outdated, .. } | Ask::Evict { name, why: Why::Outdated, .. },
    ) = (detached, &asked.ask)
        && let Some(pod) = api.pods.get(name)
        && !detached.contains(&pod.facts.node)
    {
        return Err(format!("{name} leaves in the turn of {}, which is not detached", pod.facts.node));
    }
    match &asked.ask {
        Ask::Make { name, node, revision } => {
            if api.pods.contains_key(name) {
                return Ok(());
            }
            if !took.contains(node) {
                return Err(format!("{name} is made on {node}, which takes none"));
            }
            let is_kept = api.revisions.values().any(|kept| kept.revision == *revision);
            if !is_kept && *revision != spec.revision {
                return Err(format!("{name} is made of {revision}, which is not kept"));
            }
            let live = on(api, node).filter(|pod| pod.is_live()).count();
            if live >= *most {
                return Err(format!("{name} would be one too many on {node}: {live} live of {most}"));
            }
        }
        Ask::Delete { name, why: Why::Outdated, .. } if spec.paused => {
            return Err(format!("{name} is deleted in a pause"));
        }
        Ask::Delete { name, uid, version, why: Why::Outdated | Why::Surplus } => {
            let is_it = |pod: &&Pod| {
                pod.facts.uid == *uid && version.as_ref().is_none_or(|seen| *seen == pod.facts.version)
            };
            let Some(pod) = api.pods.get(name).filter(is_it) else { return Ok(()) };
            let is_gone = !api.nodes.contains_key(&pod.facts.node);
            if !calm.pods || is_gone || pod.facts.ready.is_none() || !pod.is_live() {
                return Ok(());
            }
            let others = on(api, &pod.facts.node).filter(|other| other.facts.uid != *uid);
            let left = others.filter(|other| other.is_available(now, spec.min_ready)).count();
            if left < *least {
                return Err(format!(
                    "{name} is deleted, and {} has {left} left, not {least}",
                    pod.facts.node
                ));
            }
        }
        Ask::Evict { name, why: Why::Outdated, .. } if spec.paused => {
            return Err(format!("{name} is evicted in a pause"));
        }
        Ask::Write { version, status } if *version == api.set.version => {
            let before = &api.set.remembered;
            let turns = &status.remembered.turns;
            let is_new = before.update != status.remembered.update;
            let had = |node: &Arc<str>| !is_new && before.turns.contains_key(node);
            let serve = turns.keys().filter(|node| !down.contains(*node));
            let more = serve.clone().any(|node| !had(node));
            let most = cap(spec, took.len());
            if more && serve.count() > most {
                return Err(format!("{} nodes have their turn, not {most}", turns.len()));
            }
        }
        _ => {}
    }
    Ok(())
}

/// What must hold at each moment of a roll in which pods and nodes are well.
pub fn always(api: &Api, now: f64) -> Result<(), String> {
    let spec = &api.set.spec;
    for name in api.nodes.keys() {
        let live: Vec<&Pod> = on(api, name).filter(|pod| pod.is_live()).collect();
        let available = live.iter().filter(|pod| pod.is_available(now, spec.min_ready)).count();
        if live.len() > most(spec) || available < least(spec) {
            return Err(format!("{name} has {} live pods, {available} of them available", live.len()));
        }
    }
    Ok(())
}

/// What must hold when all is quiet, whatever was before. `first`: a revision that came when there was nothing to lose;
/// `always`: how many available pods every node always had to keep; `widespread`: on how many nodes a bad revision may be.
pub fn quiet(
    api: &Api,
    calm: Calm,
    first: &str,
    (always, widespread): (usize, usize),
    now: f64,
) -> Result<(), String> {
    let spec = &api.set.spec;
    let is_bad = api.bad.contains(&spec.revision);
    let mut bad_nodes = 0;
    let mut wanted = 0;
    for (name, node) in &api.nodes {
        let live: Vec<&Pod> = on(api, name).filter(|pod| pod.is_live()).collect();
        let available = live.iter().filter(|pod| pod.is_available(now, spec.min_ready)).count();
        let old = live.iter().filter(|pod| pod.facts.revision != spec.revision).count();
        if !takes(node) {
            wanted += live.len();
            continue;
        }
        wanted += spec.pods_per_node;
        if live.len() > spec.pods_per_node + surge(spec) {
            return Err(format!("{name} has {} live pods", live.len()));
        }
        if is_bad {
            bad_nodes += usize::from(live.len() > old);
            if calm.pods && calm.nodes && first != &*spec.revision && available < always {
                return Err(format!("{name} has {available} available pods, while a bad revision is tried"));
            }
            continue;
        }
        if least(spec) < spec.pods_per_node && is_short(api) {
            continue;
        }
        let broken = |pod: &&Pod| api.bad.contains(&pod.facts.revision);
        if spec.strategy == Strategy::OnDelete && live.iter().any(broken) {
            continue;
        }
        if live.len() != spec.pods_per_node || available != spec.pods_per_node {
            return Err(format!("{name} has {} live pods, {available} of them available", live.len()));
        }
        if old > 0 && spec.strategy != Strategy::OnDelete && !spec.paused {
            return Err(format!("{name} has {old} old pods"));
        }
    }
    let is_judged = spec.strategy != Strategy::OnDelete && first != &*spec.revision;
    if is_bad && calm.pods && calm.nodes && is_judged && bad_nodes > widespread {
        return Err(format!("a bad revision is on {bad_nodes} nodes, not {widespread}"));
    }
    if let Some(handshake) = &spec.handshake {
        let is_annotated = |(name, node): &(&Arc<str>, &SetNode)| {
            node.says(&handshake.key).is_some() && !api.set.remembered.turns.contains_key(*name)
        };
        if let Some((name, _)) = api.nodes.iter().find(is_annotated) {
            return Err(format!("{name} is annotated, and has no turn"));
        }
    }
    for pod in api.pods.values() {
        if !api.nodes.contains_key(&pod.facts.node) && pod.is_live() {
            return Err(format!("{} is left of a node that is gone", pod.facts.key.name));
        }
    }
    budget(api, wanted)
}

/// Whether pods are missing somewhere, or two budgets let none go: then nothing goes that is not replaced first.
pub fn is_short(api: &Api) -> bool {
    let wanted = api.set.spec.pods_per_node;
    let ready = |node: &str| on(api, node).filter(|pod| pod.is_live() && pod.facts.ready.is_some()).count();
    let any = api.nodes.keys().any(|node| ready(node) < wanted);
    any || api.budgets.len() > 1 || api.pods.values().any(|pod| pod.is_live() && pod.facts.ready.is_none())
}

fn budget(api: &Api, wanted: usize) -> Result<(), String> {
    let others = api.budgets.keys().any(|name| **name != *SET);
    let share = match api.set.spec.may_miss {
        None => None,
        Some(Amount::Number(number)) => Some(number),
        Some(Amount::Percent(percent)) => Some((wanted * percent).div_ceil(100)),
    };
    let should = share.filter(|_| !others).map(|share| wanted.saturating_sub(share));
    let is = api.budgets.get(SET).and_then(|budget| budget.min_available);
    if should == is { Ok(()) } else { Err(format!("the budget is {is:?}, not {should:?}")) }
}
