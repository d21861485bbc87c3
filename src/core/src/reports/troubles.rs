//! What is wrong with a binding or a target group, for the objects that bind.

use super::sayings::{
    binding_trouble, full, kept_for_zone, paused, read_only, removal_held, removals_paused, suspect,
    unknown_writer, zone_not_served,
};
use crate::{
    groups::{Group, Groups},
    index::Index,
    model::{BindingKey, Reason, TargetGroupArn},
};

/// That a target group is paused, and who has said so.
pub fn pause(arn: &TargetGroupArn, group: &Group) -> Option<(Reason, String)> {
    group.is_paused().then(|| match group.paused_by() {
        Some(origin) => (Reason::Paused, paused(arn, origin)),
        None => (Reason::ReadOnly, read_only(arn)),
    })
}

/// All that is wrong with a target group, for the Services bound to it.
fn group_troubles(arn: &TargetGroupArn, group: &Group) -> Vec<(Reason, String)> {
    let known = group.troubles();
    let mut troubles: Vec<_> = known.refused().cloned().collect();
    troubles.extend(group.removals_wait().then(|| (Reason::RemovalsPaused, removals_paused(arn))));
    if let Some(failure) = known.quota.as_ref().filter(|_| known.unplaced > 0) {
        troubles.push((Reason::QuotaExceeded, full(arn, known.unplaced, failure)));
    }
    troubles.extend(known.holds.then(|| (Reason::RemovalHeld, removal_held(arn))));
    if group.registrations().contested() > 0 {
        troubles.push((Reason::UnknownWriter, unknown_writer(arn)));
    }
    if let Some((targets, first)) = known.zone() {
        troubles.push((Reason::ZoneNotServed, zone_not_served(arn, targets, &first)));
    }
    if let Some(first) = known.suspects.first() {
        troubles.push((Reason::SuspectTarget, suspect(arn, first)));
    }
    troubles
}

/// What is wrong with a binding, with its pods and with its target group.
pub fn troubles(key: &BindingKey, index: &Index, groups: &Groups) -> Vec<(Reason, String)> {
    let mut all = groups.get(&key.group).map(|group| group_troubles(&key.group, group)).unwrap_or_default();
    let Some(binding) = index.bindings().get(key) else { return all };
    if index.pods().kept_by(key) > 0 {
        all.push((Reason::RemovalHeld, kept_for_zone(&key.group)));
    }
    for (trouble, example) in index.bindings().troubles_of(key) {
        let reason = trouble.reason();
        // One pair of pods of the host network stands for all.
        if reason != Reason::WaitsForHostNetworkPod || all.iter().all(|(said, _)| *said != reason) {
            all.push((reason, binding_trouble(binding, &trouble.kind, example)));
        }
    }
    all
}
