//! A status from what the views show.

use std::collections::{BTreeMap, BTreeSet};

use headgate_core::{
    Moment,
    model::{HealthState, ZoneName, target_group::TargetGroupArn},
    view::GroupView,
};

use super::{
    problems::{Known, problems},
    report::{Paused, Status, TargetGroup, Zone},
};
use crate::runtime::times::Times;

/// How everything stands, as the leader, which calls itself so, sees it now.
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
        target_groups: groups
            .iter()
            .map(|view| {
                let by = bound_by.remove(&view.group).unwrap_or_default();
                target_group(view, by.into_iter().collect(), times)
            })
            .collect(),
    }
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
