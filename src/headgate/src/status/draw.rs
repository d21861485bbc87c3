//! Creates a status from the views.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use headgate_core::{
    Moment,
    model::{Fate, HealthState, ZoneName, object::ObjectKey, target_group::TargetGroupArn},
    view::GroupView,
};

use super::{
    problems::{Known, problems},
    report::{IngressDaemonSet, LeavingNode, Paused, Status, TargetGroup, Zone},
};
use crate::runtime::{sets::ShownSet, times::Times, views::Views};

/// The present status, as the leader `answered_by` sees it.
pub fn status(known: &Known<'_>, answered_by: Option<String>, now: Moment) -> Status {
    let times = Times::at(now);
    let views = known.views;
    let mut bound_by: BTreeMap<TargetGroupArn, BTreeSet<String>> = BTreeMap::new();
    for binding in views.all_bindings() {
        let key = &binding.key;
        let words = format!("{} port {}", key.origin, key.port);
        bound_by.entry(key.group.clone()).or_default().insert(words);
    }
    let mut groups: Vec<_> = views.groups.iter().map(|group| group.value().clone()).collect();
    groups.sort_by(|one, other| {
        let name = |view: &GroupView| (view.group.name().to_owned(), view.group.clone());
        name(one).cmp(&name(other))
    });
    Status {
        at: times.time(times.now),
        answered_by,
        problems: problems(known, &groups, times),
        leaving_nodes: leaving_nodes(views),
        ingress_daemon_sets: sets(views),
        target_groups: groups
            .iter()
            .map(|view| {
                let by = bound_by.remove(&view.group).unwrap_or_default();
                target_group(view, by.into_iter().collect(), times)
            })
            .collect(),
    }
}

/// The IngressDaemonSets for the status.
fn sets(views: &Views) -> Vec<IngressDaemonSet> {
    let set = |(key, set): (ObjectKey, Arc<ShownSet>)| {
        let status = set.status.clone().unwrap_or_default();
        let progress = set.condition("Progressing");
        IngressDaemonSet {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            progress: progress.map(|condition| condition.reason.clone()),
            message: progress.map(|condition| condition.message.clone()).unwrap_or_default(),
            nodes: status.nodes,
            updated_nodes: status.updated_nodes,
            degraded_nodes: status.degraded_nodes,
            wanted_pods: status.wanted_pods,
            available_pods: status.available_pods,
            turns: status.turns,
        }
    };
    views.all_sets().into_iter().map(set).collect()
}

/// The nodes that will be removed, each with the number of its pods that are targets.
fn leaving_nodes(views: &Views) -> Vec<LeavingNode> {
    let mut pods: BTreeMap<Arc<str>, (Fate, BTreeSet<ObjectKey>)> =
        views.nodes.iter().map(|entry| (entry.key().clone(), (*entry.value(), BTreeSet::new()))).collect();
    if pods.is_empty() {
        return Vec::new();
    }
    for binding in views.all_bindings() {
        for target in &binding.targets {
            if let Some((_, there)) = target.node.as_ref().and_then(|node| pods.get_mut(node)) {
                there.insert(target.pod.clone());
            }
        }
    }
    let node = |(node, (fate, pods)): (Arc<str>, (Fate, BTreeSet<ObjectKey>))| LeavingNode {
        node: node.to_string(),
        reason: fate.cause().reason().to_string(),
        pods: pods.len(),
    };
    pods.into_iter().map(node).collect()
}

fn target_group(view: &GroupView, bound_by: Vec<String>, times: Times) -> TargetGroup {
    let zones = view.zones.iter().map(|(zone, is)| Zone {
        zone: zone.as_ref().map_or("", ZoneName::as_str).to_owned(),
        wanted: is.wanted,
        serving: is.serving,
        states: is
            .states
            .iter()
            .map(|(state, count)| (HealthState::as_str(*state).to_owned(), *count))
            .collect(),
    });
    TargetGroup {
        name: view.group.name().to_owned(),
        arn: view.group.to_string(),
        bound_by,
        zones: zones.collect(),
        foreign: view.foreign,
        held: view.held,
        paused: view.paused.map(|(registrations, removals)| Paused { registrations, removals }),
        last_read: view.last_read.map(|read| times.time(read)),
        oldest_removal: view.oldest_removal.map(|since| times.time(since)),
    }
}
