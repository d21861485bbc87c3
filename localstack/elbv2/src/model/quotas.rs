//! Enforces the limits of the number of targets, if the behavior has quotas.
//!
//! The messages about load balancers are the messages of AWS. The message of AWS about target groups is unknown, so the
//! stand-in uses the same form. A target counts once per group.

use std::collections::BTreeMap;

use super::target::{TargetKey, Zone};
use super::{Kind, Model, Refusal, TargetGroup};

impl Model {
    /// Rejects a target that exceeds a quota. Targets that the same call has already accepted also count.
    pub(super) fn check_quotas(
        &self,
        group: &TargetGroup,
        taken: &BTreeMap<TargetKey, Zone>,
        key: TargetKey,
        zone: &Zone,
    ) -> Result<(), Refusal> {
        let Some(quotas) = &self.behaviour.quotas else { return Ok(()) };
        if taken.contains_key(&key) || group.targets.contains_key(&key) {
            return Ok(());
        }
        let exceeds = |count: usize, most: u32| count >= usize::try_from(most).unwrap_or(usize::MAX);
        if exceeds(group.targets.len() + taken.len(), quotas.targets_per_group) {
            return Err(Refusal::TooManyTargets(format!(
                "The maximum number of targets per target group '{}' has been reached on target group '{}'",
                quotas.targets_per_group, group.arn
            )));
        }
        let Some(balancer) = group.balancer().and_then(|id| self.balancers.get(&id)) else { return Ok(()) };
        let siblings = || self.groups.values().filter(|other| other.balancer() == Some(balancer.id));
        let all = siblings().map(|other| other.targets.len()).sum::<usize>() + taken.len();
        let reached = |most: u32| {
            Err(Refusal::TooManyTargets(format!(
                "The maximum number of targets per load balancer '{most}' has been reached on load balancer '{}'",
                balancer.arn
            )))
        };
        if balancer.spec.kind == Kind::Application {
            let most = quotas.targets_per_application;
            return if exceeds(all, most) { reached(most) } else { Ok(()) };
        }
        if self.cross_zone(group) && exceeds(all, quotas.targets_cross_zone) {
            return Err(Refusal::TooManyTargets(format!(
                "You cannot have more than {} targets per network load balancer with cross-zone load balancing \
                 enabled.",
                quotas.targets_cross_zone
            )));
        }
        let there = siblings().flat_map(|other| other.targets.values()).filter(|other| other.zone == *zone);
        let in_zone = there.count() + taken.values().filter(|other| *other == zone).count();
        if exceeds(in_zone, quotas.targets_per_zone) {
            return Err(Refusal::TooManyTargets(format!(
                "You cannot have more than {} targets per Availability Zone per network load balancer.",
                quotas.targets_per_zone
            )));
        }
        if exceeds(all, quotas.targets_per_network) { reached(quotas.targets_per_network) } else { Ok(()) }
    }
}
