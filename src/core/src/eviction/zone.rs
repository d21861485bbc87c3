//! The zone guard: a healthy pod does not leave its zone of a target group with fewer healthy targets than is asked for,
//! while a replacement there may yet become healthy.
//!
//! A load balancer that does not send across zones has nothing to send to in a zone without a healthy target, and clients
//! that are pinned to the zone are lost. Pods are let go one after the other: those that were let go before count as gone
//! already. It ends after [`Limits::patience`](crate::model::eviction::Limits::patience) from the first request: a zone in which nothing
//! can start must not hold up a drain for ever.

use std::time::Duration;

use crate::model::Cause;

/// How a pod stands in its zone of one target group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Whether its target serves. Under a zonal shift none does there, so the zone is not guarded then.
    pub(super) serves: bool,
    /// How many healthy targets should remain in the zone.
    pub(super) least: usize,
    /// How many other targets serve there, those left out that were let go before.
    pub(super) healthy: usize,
    /// How many other pods there are that are targets there, are about to be, or were until now.
    pub(super) others: usize,
    /// Whether a node of the zone takes new pods.
    pub(super) has_room: bool,
}

impl Zone {
    /// Whether there is anything to wait for: a pod that is alone in its zone has no replacement there before it goes.
    pub const fn is_guarded(&self) -> bool {
        self.least > 0 && self.others > 0
    }

    const fn would_be_thin(&self) -> bool {
        self.is_guarded() && self.serves && self.healthy < self.least
    }
}

/// Whether a pod may leave these zones, `waited` after it was asked to for the first time, or why it has to wait.
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
