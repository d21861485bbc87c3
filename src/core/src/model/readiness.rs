//! Whether a pod is ready, as far as targets are concerned, and since when it is not.

use std::time::Duration;

use crate::model::time::Moment;

/// The condition type of Headgate's own readiness gate. It never counts here: a pod that needed its own gate to be
/// registered would never be registered.
pub const OWN_GATE: &str = "headgate.dev/target-health";

/// The readiness in a pod's status, in two bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether the condition `ContainersReady` is true.
    pub containers: bool,
    /// Whether every readiness gate except Headgate's ([`OWN_GATE`]) has a condition that is true.
    pub gates: bool,
}

impl Readiness {
    /// Whether containers and gates are ready.
    pub const fn is_ready(self) -> bool {
        self.containers && self.gates
    }
}

/// What Headgate remembers about a pod's readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// The pod was not seen ready yet.
    #[default]
    NotYet,
    /// The pod is ready.
    Ready,
    /// The pod was ready, and has not been since this time. A kubelet that restarts reports that for a moment.
    Wavers(Moment),
    /// The pod was ready, and has not been for too long.
    Lost,
}

impl Standing {
    /// The next state, given the present status.
    #[must_use]
    pub const fn then(self, readiness: Readiness, seen: Moment) -> Self {
        match self {
            _ if readiness.is_ready() => Self::Ready,
            Self::Ready => Self::Wavers(seen),
            other => other,
        }
    }

    /// When the state becomes [`Self::Lost`] if nothing changes.
    pub fn lost_at(self, patience: Duration) -> Option<Moment> {
        match self {
            Self::Wavers(since) => Some(since + patience),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Readiness = Readiness { containers: true, gates: true };
    const NOT_READY: Readiness = Readiness { containers: true, gates: false };

    #[test]
    fn only_a_pod_that_was_ready_can_waver_and_it_counts_from_the_first_word() {
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let fresh = Standing::default().then(NOT_READY, at(1));
        assert_eq!(fresh, Standing::NotYet);
        let ready = fresh.then(READY, at(2));
        let wavers = ready.then(NOT_READY, at(3)).then(NOT_READY, at(9));
        assert_eq!(wavers, Standing::Wavers(at(3)));
        assert_eq!(wavers.lost_at(Duration::from_secs(10)), Some(at(13)));
        assert_eq!(wavers.then(READY, at(4)), Standing::Ready);
        assert_eq!(Standing::Lost.then(NOT_READY, at(20)), Standing::Lost);
        assert_eq!(Standing::Lost.then(READY, at(20)), Standing::Ready);
    }
}
