//! What `DescribeTargetHealth` says of a target.

/// `TargetHealth.State` (ELBv2 API reference).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthState {
    /// Being registered, or waiting for its first health checks.
    Initial,
    /// Passes its health checks.
    Healthy,
    /// Fails its health checks.
    Unhealthy,
    /// `unhealthy.draining`: fails, and its old flows are kept for a while (NLB).
    UnhealthyDraining,
    /// Deregistered. Says nothing about whether traffic has stopped.
    Draining,
    /// No listener uses the target group, or the target's zone is not enabled.
    Unused,
    /// Health checks are off, or the state is not known.
    Unavailable,
}

impl HealthState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Initial,
        Self::Healthy,
        Self::Unhealthy,
        Self::UnhealthyDraining,
        Self::Draining,
        Self::Unused,
        Self::Unavailable,
    ];

    /// The state as AWS writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::UnhealthyDraining => "unhealthy.draining",
            Self::Draining => "draining",
            Self::Unused => "unused",
            Self::Unavailable => "unavailable",
        }
    }

    /// Reads a state; one that AWS may add later counts as not known.
    pub fn parse(text: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == text).unwrap_or(Self::Unavailable)
    }
}

/// All that is said of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// `TargetHealth.State`.
    pub state: HealthState,
    /// `TargetHealth.Reason`, if it is one of [`REASONS`]; empty otherwise.
    pub reason: &'static str,
    /// A zonal shift keeps new traffic away from it (`AdministrativeOverride`), whatever the state says.
    pub shifted: bool,
}

/// No listener uses the target group, or the target's zone is not enabled.
pub const NOT_IN_USE: &str = "Target.NotInUse";

/// The reasons that AWS gives (ELBv2 API reference, `TargetHealth`).
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
    /// Reads what `DescribeTargetHealth` says of a target: its state, the reason for it, and the state of the
    /// administrative override.
    pub fn read(state: &str, reason: Option<&str>, shift: Option<&str>) -> Self {
        let known = |reason| REASONS.into_iter().find(|known| Some(*known) == reason);
        Self {
            state: HealthState::parse(state),
            reason: known(reason).unwrap_or_default(),
            shifted: shift.is_some_and(|shift| shift.starts_with("zonal_shift")),
        }
    }
}

impl From<HealthState> for Health {
    fn from(state: HealthState) -> Self {
        Self { state, reason: "", shifted: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_and_an_unknown_one_is_unavailable() {
        for state in HealthState::ALL {
            assert_eq!(HealthState::parse(state.as_str()), state);
        }
        assert_eq!(HealthState::parse("unhealthy.resting"), HealthState::Unavailable);
    }

    #[test]
    fn a_reason_is_kept_if_it_is_known_and_a_zonal_shift_is_seen_beside_the_state() {
        let unused = Health::read("unused", Some("Target.NotInUse"), Some("no_override"));
        assert_eq!(unused, Health { state: HealthState::Unused, reason: NOT_IN_USE, shifted: false });
        let shifted = Health::read("healthy", None, Some("zonal_shift_active"));
        assert_eq!(shifted, Health { state: HealthState::Healthy, reason: "", shifted: true });
        assert_eq!(Health::read("initial", Some("Elb.Dreaming"), None), HealthState::Initial.into());
    }
}
