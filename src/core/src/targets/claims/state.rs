//! The state of one target.

use std::time::Duration;

use crate::{
    ledger::PodMark,
    model::{HealthState, Moment, RequestId},
};

/// Which way a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// RegisterTargets.
    In,
    /// DeregisterTargets.
    Out,
}

/// What AWS had at a target when it was registered: what a read shows may be about that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Past {
    /// Nothing, for longer than a read may be late: health counts at once.
    Nothing,
    /// Nothing, since a moment ago: health counts when no read shows that moment any more.
    Left,
    /// Perhaps a registration that AWS has kept: that it is healthy may be about that one.
    Kept,
}

/// A target that AWS has removed: a load balancer may go on sending there for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// For which pod it was a target.
    pub(super) pod: PodMark,
    /// When AWS had accepted the removal; `None`: it never was a target for this pod.
    pub(super) accepted: Option<Moment>,
    /// Whether a read has been seen that began when the load balancer had stopped.
    pub(super) looked: bool,
    /// Whether AWS said only that there is no such group: if a read shows the target all the same, it is still ours.
    pub(super) by_absence: bool,
}

impl Draining {
    /// For which pod it was a target.
    pub const fn pod(&self) -> PodMark {
        self.pod
    }

    /// When AWS had accepted the removal; `None`: it never was a target for this pod.
    pub const fn accepted(&self) -> Option<Moment> {
        self.accepted
    }

    /// Whether a read has been seen that began when the load balancer had stopped.
    pub const fn looked(&self) -> bool {
        self.looked
    }

    /// Whether AWS said only that there is no such group.
    pub const fn by_absence(&self) -> bool {
        self.by_absence
    }

    /// Removed at `accepted`.
    pub const fn since(pod: PodMark, accepted: Moment) -> Self {
        Self { pod, accepted: Some(accepted), looked: false, by_absence: false }
    }

    /// There was no such group at `accepted`.
    pub const fn without_group(pod: PodMark, accepted: Moment) -> Self {
        Self { by_absence: true, ..Self::since(pod, accepted) }
    }

    /// Nothing was sent for this pod.
    pub const fn nothing(pod: PodMark) -> Self {
        Self { pod, accepted: None, looked: true, by_absence: false }
    }
}

/// The state of a target. One without any is absent, and was seen so.
///
/// `pod` is the one that the ledger should name. `call` is the call in flight about it.
#[expect(
    missing_docs,
    reason = "what a field means in all states is said once, above; the others beside their state"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its claim is erased. Kept until a read shows the group after that: what is there then is somebody else's.
    Absent { since: Moment },
    /// Its claim is being written; nothing was sent. `before`: what it was until then, if AWS may still send for that.
    Claiming { pod: PodMark, before: Option<Draining>, past: Past },
    /// RegisterTargets is in flight.
    Registering { pod: PodMark, call: RequestId, before: Option<Draining>, past: Past },
    /// AWS has it. Health counts from reads that began after `since`, and so late that they cannot show what was before.
    /// `late`: until then another registration for the pod may come late.
    Registered { pod: PodMark, since: Moment, health: Option<HealthState>, past: Past, late: Option<Moment> },
    /// DeregisterTargets is in flight, and its answer counts.
    Deregistering { pod: PodMark, call: RequestId },
    /// AWS has removed it.
    Draining(Draining),
    /// A call that was given up, or one of another term, may take effect until `until`. What is sent earlier is for speed and does
    /// not count. `from`: since when nothing of ours changes it. `gave_up`: a registration that a removal did not wait for, and
    /// until when it would be unsettled without that: if it is answered after all, it cannot come late. `adds`: what may come late
    /// only registers it for this pod, and what was there before.
    Unsettled {
        pod: PodMark,
        until: Moment,
        from: Moment,
        call: Option<(RequestId, Way)>,
        early: Option<(Way, Moment)>,
        gave_up: Option<(RequestId, Moment)>,
        adds: Option<Past>,
    },
}

impl State {
    /// The pod that the ledger should name.
    pub const fn pod(&self) -> Option<PodMark> {
        match self {
            Self::Absent { .. } => None,
            Self::Draining(draining) => Some(draining.pod),
            Self::Claiming { pod, .. }
            | Self::Registering { pod, .. }
            | Self::Registered { pod, .. }
            | Self::Deregistering { pod, .. }
            | Self::Unsettled { pod, .. } => Some(*pod),
        }
    }

    /// Nobody knows what AWS has until then.
    pub const fn unsettled(pod: PodMark, until: Moment) -> Self {
        Self::Unsettled { pod, until, from: until, call: None, early: None, gave_up: None, adds: None }
    }

    /// Until then a registration for this pod may come late that was given up.
    pub(super) const fn registering(pod: PodMark, until: Moment, past: Past) -> Self {
        Self::Unsettled { pod, until, from: until, call: None, early: None, gave_up: None, adds: Some(past) }
    }

    /// A removal does not wait for the answer to a registration.
    pub(super) fn give_up(self, now: Moment, late: Duration) -> Self {
        match self {
            Self::Registering { pod, call, .. } => {
                let (until, gave_up) = (now + late, Some((call, now)));
                Self::Unsettled { pod, until, from: until, call: None, early: None, gave_up, adds: None }
            }
            Self::Unsettled { pod, until, from, call: Some((call, Way::In)), .. } => Self::Unsettled {
                pod,
                until: until.max(now + late),
                from: from.max(now + late),
                call: None,
                early: None,
                gave_up: Some((call, until)),
                adds: None,
            },
            other => other,
        }
    }

    /// Whether no call is in flight or may come late.
    pub const fn is_settled(&self) -> bool {
        !matches!(
            self,
            Self::Registering { .. }
                | Self::Deregistering { .. }
                | Self::Unsettled { .. }
                | Self::Registered { late: Some(_), .. }
        )
    }

    /// When time alone changes it.
    pub fn waits_until(&self, bound: Duration) -> Option<Moment> {
        match self {
            Self::Draining(Draining { accepted: Some(accepted), .. }) => Some(*accepted + bound),
            Self::Unsettled { until, call: None, .. } | Self::Registered { late: Some(until), .. } => {
                Some(*until)
            }
            _ => None,
        }
    }
}
