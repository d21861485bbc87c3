//! Zonal shifts: a zone of a load balancer gets no new traffic, but its targets remain healthy.
//!
//! In AWS, a separate service (ARC) starts zonal shifts. In the stand-in, the control API starts zonal shifts. As in
//! AWS, `zonal_shift.config.enabled` must be on for the load balancer.

use std::collections::BTreeSet;

use super::target::Zone;
use super::{BalancerId, GroupId, LoadBalancer, Model, Refusal, TargetGroup, attributes};

impl LoadBalancer {
    /// Returns whether the zone gets no new traffic because of a zonal shift.
    pub fn is_shifted(&self, zone: &str) -> bool {
        self.shifted.contains(zone)
    }
}

impl Model {
    /// Shifts traffic away from these zones, and ends the zonal shifts of all other zones.
    pub fn shift(&mut self, id: BalancerId, zones: BTreeSet<String>) -> Result<(), Refusal> {
        let balancer = self.balancer_mut(id)?;
        if balancer.attributes.get(attributes::ZONAL_SHIFT).is_none_or(|on| on != "true") {
            return Err(Refusal::OperationNotPermitted(format!(
                "Zonal shift is not enabled for load balancer '{}'; set its attribute '{}' to 'true'",
                balancer.arn,
                attributes::ZONAL_SHIFT
            )));
        }
        if let Some(unknown) =
            zones.iter().find(|zone| !balancer.nodes.iter().any(|node| node.zone == **zone))
        {
            return Err(Refusal::validation(format!(
                "The load balancer has no node in the Availability Zone '{unknown}'"
            )));
        }
        balancer.shifted = zones;
        let groups: Vec<GroupId> =
            self.groups().filter(|group| group.balancer() == Some(id)).map(|group| group.id).collect();
        for group in groups {
            self.reroute_all(group);
        }
        Ok(())
    }

    /// Returns whether a target of a group gets no new traffic because of a zonal shift.
    pub fn is_shifted(&self, group: &TargetGroup, zone: &Zone) -> bool {
        let Zone::Named(zone) = zone else { return false };
        group.balancer().and_then(|id| self.balancers.get(&id)).is_some_and(|b| b.is_shifted(zone))
    }
}
