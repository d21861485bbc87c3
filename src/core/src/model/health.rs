//! The health of a target, as `DescribeTargetHealth` returns it.

use std::time::Duration;

use super::{Owner, Target, ZoneName, words::words};

words! {
    /// `TargetHealth.State` (ELBv2 API reference), as AWS writes it.
    HealthState {
        /// The target is being registered, or waits for its first health checks.
        Initial = "initial",
        /// The target passes its health checks.
        Healthy = "healthy",
        /// AWS reports `healthy`, but a zonal shift keeps new traffic away from the target (`AdministrativeOverride`).
        /// AWS has no separate state for a zonal shift. Headgate needs a separate state, because the target receives no
        /// requests.
        ZonalShift = "zonal-shift",
        /// The target fails its health checks.
        Unhealthy = "unhealthy",
        /// The target fails its health checks but keeps its existing flows for a while (NLB).
        UnhealthyDraining = "unhealthy.draining",
        /// The target is deregistered. The state `draining` does not show whether traffic has stopped.
        Draining = "draining",
        /// No listener uses the target group, as far as Headgate knows.
        Unused = "unused",
        /// AWS reports `unused`, because the target's zone is not enabled for the load balancer. AWS also reports
        /// `unused` if no listener uses the target group.
        ZoneNotServed = "zone-not-served",
        /// Health checks are disabled, or the state is unknown.
        Unavailable = "unavailable",
    }
}

impl HealthState {
    /// Whether the target passes its health checks, even if it receives no requests.
    pub const fn is_healthy(self) -> bool {
        matches!(self, Self::Healthy | Self::ZonalShift)
    }

    /// Whether this state proves that a load balancer uses the target group. `Draining` proves nothing, because the
    /// deregistration may have begun before the last listener was removed.
    pub const fn is_in_use(self) -> bool {
        matches!(
            self,
            Self::Initial
                | Self::Healthy
                | Self::ZonalShift
                | Self::Unhealthy
                | Self::UnhealthyDraining
                | Self::ZoneNotServed
        )
    }

    /// Parses a state. An unrecognized state counts as [`Self::Unavailable`].
    pub fn parse(text: &str) -> Self {
        Self::of_word(text).unwrap_or(Self::Unavailable)
    }
}

/// The health of a target, with its reason and zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// `TargetHealth.State`.
    pub state: HealthState,
    /// `TargetHealth.Reason`, or an empty string if [`REASONS`] does not contain it.
    pub reason: &'static str,
    /// The target's zone, if AWS reported it.
    pub zone: Option<ZoneName>,
}

/// AWS returns this reason if no listener uses the target group, or if the target's zone is not enabled for the load
/// balancer.
pub const NOT_IN_USE: &str = "Target.NotInUse";

/// If the target's zone is not enabled, AWS's description of [`NOT_IN_USE`] contains this text (ELBv2 user guides,
/// "Target health status"). The description is free text, so Headgate does not rely on it alone: see
/// [`tell_zones_apart`].
const OF_THE_ZONE: &str = "Availability Zone";

/// The reasons that AWS returns (ELBv2 API reference, `TargetHealth`).
pub const REASONS: [&str; 13] = [
    "Elb.RegistrationInProgress",
    "Elb.InitialHealthChecking",
    "Target.ResponseCodeMismatch",
    "Target.Timeout",
    "Target.FailedHealthChecks",
    "Target.NotRegistered",
    NOT_IN_USE,
    "Target.DeregistrationInProgress",
    "Target.InvalidState",
    "Target.IpUnusable",
    "Target.HealthCheckDisabled",
    "Elb.InternalError",
    "Elb.RegistrationFailed",
];

impl Health {
    /// Reads the state, reason, description and administrative override of a target from a `DescribeTargetHealth`
    /// response.
    pub fn read(state: &str, reason: Option<&str>, description: Option<&str>, shift: Option<&str>) -> Self {
        let known = |reason| REASONS.into_iter().find(|known| Some(*known) == reason);
        let mut health =
            Self { state: HealthState::parse(state), reason: known(reason).unwrap_or_default(), zone: None };
        if health.state == HealthState::Healthy && shift.is_some_and(|shift| shift.starts_with("zonal_shift"))
        {
            health.state = HealthState::ZonalShift;
        }
        if health.is_not_in_use() && description.is_some_and(|text| text.contains(OF_THE_ZONE)) {
            health.state = HealthState::ZoneNotServed;
        }
        health
    }

    /// Returns the health with the zone of the target.
    #[must_use]
    pub fn within(self, zone: Option<&str>) -> Self {
        Self { zone: zone.and_then(ZoneName::parse), ..self }
    }

    fn is_not_in_use(&self) -> bool {
        self.state == HealthState::Unused && self.reason == NOT_IN_USE
    }
}

/// Sets [`HealthState::ZoneNotServed`] on unused targets if other targets of the group are in use.
pub fn tell_zones_apart<'a>(states: impl Iterator<Item = &'a mut Health>) {
    let states: Vec<&mut Health> = states.collect();
    let is_used = states.iter().any(|health| health.state.is_in_use());
    if is_used {
        for health in states.into_iter().filter(|health| health.is_not_in_use()) {
            health.state = HealthState::ZoneNotServed;
        }
    }
}

impl From<HealthState> for Health {
    fn from(state: HealthState) -> Self {
        Self { state, reason: "", zone: None }
    }
}

/// A target that was registered some time ago and has never been healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverHealthy {
    /// The target.
    pub target: Target,
    /// The pod of the target.
    pub owner: Owner,
    /// How long this leader has known the target as registered.
    pub waited: Duration,
    /// The health that the load balancer reports.
    pub health: Health,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_and_an_unknown_one_is_unavailable() {
        for state in HealthState::ALL {
            assert_eq!(HealthState::parse(state.as_str()), *state);
        }
        assert_eq!(HealthState::parse("unhealthy.resting"), HealthState::Unavailable);
    }

    #[test]
    fn a_reason_is_kept_if_it_is_known_and_a_zonal_shift_is_seen_beside_the_state() {
        let text = "Target group is not configured to receive traffic from the load balancer";
        let unused = Health::read("unused", Some("Target.NotInUse"), Some(text), Some("no_override"));
        assert_eq!(unused, Health { reason: NOT_IN_USE, ..HealthState::Unused.into() });
        let shifted = Health::read("healthy", None, None, Some("zonal_shift_active"));
        assert_eq!(shifted, HealthState::ZonalShift.into());
        assert!(shifted.state.is_healthy() && shifted.state.is_in_use());
        let ill = Health::read("unhealthy", None, None, Some("zonal_shift_active"));
        assert_eq!(ill, HealthState::Unhealthy.into());
        assert_eq!(shifted.within(Some("us-east-1a")).zone.unwrap().as_str(), "us-east-1a");
        assert_eq!(Health::read("initial", Some("Elb.Dreaming"), None, None), HealthState::Initial.into());
    }

    #[test]
    fn an_unused_target_is_in_a_zone_that_is_not_served_if_aws_says_so_or_others_of_its_group_are_used() {
        let text = "Target is in an Availability Zone that is not enabled for the load balancer";
        let said = Health::read("unused", Some("Target.NotInUse"), Some(text), None);
        assert_eq!((said.state, said.reason), (HealthState::ZoneNotServed, NOT_IN_USE));
        let unusable = Health::read("unused", Some("Target.IpUnusable"), Some(text), None);
        assert_eq!(unusable.state, HealthState::Unused);
        let unused = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
        for (other, is_zone) in [
            (HealthState::Healthy, true),
            (HealthState::ZonalShift, true),
            (HealthState::Initial, true),
            (HealthState::Unhealthy, true),
            (HealthState::UnhealthyDraining, true),
            (HealthState::ZoneNotServed, true),
            (HealthState::Draining, false),
            (HealthState::Unavailable, false),
        ] {
            let mut states = [other.into(), unused, unusable];
            tell_zones_apart(states.iter_mut());
            let expected = if is_zone { HealthState::ZoneNotServed } else { HealthState::Unused };
            assert_eq!(
                states.map(|health| health.state),
                [other, expected, HealthState::Unused],
                "{other:?}"
            );
        }
        let mut alone = [unused, unused];
        tell_zones_apart(alone.iter_mut());
        assert_eq!(alone, [unused, unused]);
    }
}
