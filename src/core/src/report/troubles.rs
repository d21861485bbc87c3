//! The problems of a binding or a target group, for the objects that define bindings.

use super::sayings::{
    binding_trouble, full, kept_for_zone, paused, read_only, removal_held, removals_paused, suspect,
    unknown_writer, zone_not_served,
};
use crate::{
    index::Index,
    model::{BindingKey, Reason},
    targets::groups::{Group, Groups},
};

/// The report that a binding is paused.
pub fn pause(key: &BindingKey, index: &Index, groups: &Groups) -> Option<(Reason, String)> {
    if groups.get(&key.group).is_some_and(Group::is_read_only) {
        return Some((Reason::ReadOnly, read_only(&key.group)));
    }
    let is_paused = index.bindings().get(key).is_some_and(|binding| binding.policy.paused);
    is_paused.then(|| (Reason::Paused, paused(&key.group, &key.origin)))
}

/// All problems of a target group, for the Services that bind the group.
fn group_troubles(key: &BindingKey, group: &Group) -> Vec<(Reason, String)> {
    let (arn, known) = (&key.group, group.troubles());
    let mut troubles: Vec<_> = known.refused().cloned().collect();
    troubles.extend(
        group.registrations().removals_wait(key).then(|| (Reason::RemovalsPaused, removals_paused(arn))),
    );
    if let Some(failure) = known.quota.as_ref().filter(|_| known.unplaced > 0) {
        troubles.push((Reason::QuotaExceeded, full(arn, known.unplaced, failure)));
    }
    troubles.extend(known.holds.map(|(_, times)| (Reason::RemovalHeld, removal_held(arn, 10 * times))));
    if group.registrations().contested() > 0 {
        troubles.push((Reason::UnknownWriter, unknown_writer(arn)));
    }
    if let Some((targets, first)) = known.zone() {
        troubles.push((Reason::ZoneNotServed, zone_not_served(arn, targets, &first)));
    }
    if let Some(first) = known.suspects.first() {
        troubles.push((Reason::ForeignTarget, suspect(arn, first)));
    }
    troubles
}

/// All problems of a binding, of its pods and of its target group.
pub fn troubles(key: &BindingKey, index: &Index, groups: &Groups) -> Vec<(Reason, String)> {
    let mut all = groups.get(&key.group).map(|group| group_troubles(key, group)).unwrap_or_default();
    let Some(binding) = index.bindings().get(key) else { return all };
    if index.pods().kept_by(key) > 0 {
        all.push((Reason::RemovalHeld, kept_for_zone(&key.group)));
    }
    for (trouble, example) in index.bindings().troubles_of(key) {
        let reason = trouble.reason();
        // One pair of host-network pods is reported in place of all pairs.
        if reason != Reason::AddressContested || all.iter().all(|(said, _)| *said != reason) {
            all.push((reason, binding_trouble(binding, &trouble.kind, example)));
        }
    }
    all
}
