//! The zone guard. A healthy pod remains registered if its zone would have fewer healthy targets without the pod than
//! the binding requires. The zone guard applies while a replacement in the zone may become healthy.
//!
//! If a zone has no healthy target, a load balancer without cross-zone load balancing cannot serve the zone. Clients
//! that are pinned to a zone without a healthy target fail. Evictions are allowed one after another: pods whose
//! eviction was already allowed no longer count as healthy. The wait of an eviction ends
//! [`Limits::patience`](crate::model::eviction::Limits::patience) after the first request. A zone in which no pod can
//! start therefore does not block a drain forever.

use std::time::Duration;

use crate::model::Cause;

/// The state of a pod's zone in one target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Whether the target of the pod serves. A target in a zonal shift does not serve, so the zone guard does not
    /// apply.
    pub(super) serves: bool,
    /// The minimum number of healthy targets in the zone.
    pub(super) least: usize,
    /// The number of other serving targets in the zone, without pods whose eviction was already allowed.
    pub(super) healthy: usize,
    /// The number of other pods that are, will be or recently were targets in the zone.
    pub(super) others: usize,
    /// Whether a node of the zone accepts new pods.
    pub(super) has_room: bool,
}

impl Zone {
    /// Whether the zone guard applies. If the pod is alone in its zone, no replacement starts in the zone before the
    /// pod terminates.
    pub const fn is_guarded(&self) -> bool {
        self.least > 0 && self.others > 0
    }

    const fn would_be_thin(&self) -> bool {
        self.is_guarded() && self.serves && self.healthy < self.least
    }
}

/// Whether these zones allow a pod's deregistration `waited` after its first request, with the reason.
pub fn may_leave(zones: &[Zone], waited: Duration, patience: Duration) -> Result<Cause, Cause> {
    let mut thin = zones.iter().filter(|zone| zone.would_be_thin()).peekable();
    if thin.peek().is_none() {
        return Ok(Cause::ZoneAllows);
    }
    if waited < patience {
        return Err(Cause::EvictionWaitsForZone);
    }
    Ok(if thin.any(|zone| zone.has_room) { Cause::ReplacementTooSlow } else { Cause::ZoneHasNoRoom })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const THIN: Zone = Zone { serves: true, least: 1, healthy: 0, others: 1, has_room: true };

    fn asked(zone: Zone) -> Result<Cause, Cause> {
        may_leave(&[zone], Duration::ZERO, LIMIT)
    }

    #[test]
    fn only_a_healthy_pod_that_leaves_a_zone_thin_which_has_another_one_waits() {
        assert_eq!(asked(THIN), Err(Cause::EvictionWaitsForZone));
        for free in [
            Zone { serves: false, ..THIN },
            Zone { healthy: 1, ..THIN },
            Zone { others: 0, ..THIN },
            Zone { least: 0, ..THIN },
        ] {
            assert_eq!(asked(free), Ok(Cause::ZoneAllows), "{free:?}");
        }
        for nothing in [Zone { others: 0, ..THIN }, Zone { least: 0, ..THIN }] {
            assert!(!nothing.is_guarded(), "{nothing:?}");
        }
        assert_eq!(asked(Zone { least: 2, healthy: 1, ..THIN }), Err(Cause::EvictionWaitsForZone));
        let other = Zone { healthy: 3, ..THIN };
        assert_eq!(may_leave(&[other, THIN], Duration::ZERO, LIMIT), Err(Cause::EvictionWaitsForZone));
        assert_eq!(may_leave(&[], Duration::ZERO, LIMIT), Ok(Cause::ZoneAllows));
    }

    #[test]
    fn it_waits_no_longer_than_the_limit_and_says_whether_anything_could_have_come() {
        let full = Zone { has_room: false, ..THIN };
        let almost = LIMIT.saturating_sub(Duration::from_millis(1));
        assert_eq!(may_leave(&[full], almost, LIMIT), Err(Cause::EvictionWaitsForZone));
        assert_eq!(may_leave(&[full], LIMIT, LIMIT), Ok(Cause::ZoneHasNoRoom));
        assert_eq!(may_leave(&[full, THIN], LIMIT, LIMIT), Ok(Cause::ReplacementTooSlow));
    }
}
