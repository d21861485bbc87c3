//! Whether a pod is ready to be a target, and since when it is unready.

use std::time::Duration;

use crate::model::time::Moment;

/// The condition type of Headgate's own readiness gate. [`Readiness`] ignores this gate, because the gate opens only
/// after the pod was registered.
pub const OWN_GATE: &str = "headgate.dev/target-health";

/// The readiness in a pod's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether the condition `ContainersReady` is true.
    pub containers: bool,
    /// Whether the condition of every readiness gate except Headgate's ([`OWN_GATE`]) is true.
    pub gates: bool,
}

impl Readiness {
    /// Whether containers and gates are ready.
    pub const fn is_ready(self) -> bool {
        self.containers && self.gates
    }
}

/// The history of a pod's readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Headgate has not seen the pod ready yet.
    #[default]
    NotYet,
    /// The pod is ready.
    Ready,
    /// The pod was ready before and has been unready since this time. A kubelet reports its pods as unready for a
    /// moment when it restarts.
    Wavers(Moment),
    /// The pod was ready before and has been unready for too long.
    Lost,
}

impl Standing {
    /// Returns the next state for the current status.
    #[must_use]
    pub const fn then(self, readiness: Readiness, seen: Moment) -> Self {
        match self {
            _ if readiness.is_ready() => Self::Ready,
            Self::Ready => Self::Wavers(seen),
            other => other,
        }
    }

    /// The time at which the state becomes [`Self::Lost`] if nothing changes.
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
