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
}
