//! The state of one target.

use std::time::Duration;

use super::nobody;
use crate::{
    ledger::PodMark,
    model::{HealthState, Moment, RequestId, claims::Outcome},
};

/// The direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// RegisterTargets.
    In,
    /// DeregisterTargets.
    Out,
}

/// What AWS had at a target before Headgate registered it. A read may still show that instead of the new registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Past {
    /// Nothing, for longer than a read may be stale. The health in a read counts immediately.
    Nothing,
    /// Nothing, but only for a moment. Health counts when a read can no longer show the time before.
    Left,
    /// Perhaps a registration that AWS has kept. A healthy state may belong to that registration.
    Kept,
}

/// A deregistered target. A load balancer may keep sending to it for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// The pod that had the target.
    pub(super) pod: PodMark,
    /// When AWS accepted the deregistration. `None`: the target was never registered for this pod.
    pub(super) accepted: Option<Moment>,
    /// Whether there was a read that began after the load balancer had stopped sending.
    pub(super) looked: bool,
    /// Whether AWS reported only that the group does not exist. A target that a read shows nevertheless still belongs
    /// to Headgate.
    pub(super) by_absence: bool,
}

impl Draining {
    /// The pod that had the target.
    pub const fn pod(&self) -> PodMark {
        self.pod
    }

    /// When AWS accepted the deregistration. `None`: the target was never registered for this pod.
    pub const fn accepted(&self) -> Option<Moment> {
        self.accepted
    }

    /// Whether there was a read that began after the load balancer had stopped sending.
    pub const fn looked(&self) -> bool {
        self.looked
    }

    /// Whether AWS reported only that the group does not exist.
    pub const fn by_absence(&self) -> bool {
        self.by_absence
    }

    /// A target that was deregistered at `accepted`.
    pub const fn since(pod: PodMark, accepted: Moment) -> Self {
        Self { pod, accepted: Some(accepted), looked: false, by_absence: false }
    }

    /// A target whose group did not exist at `accepted`.
    pub const fn without_group(pod: PodMark, accepted: Moment) -> Self {
        Self { by_absence: true, ..Self::since(pod, accepted) }
    }

    /// A target for which Headgate sent nothing for this pod.
    pub const fn nothing(pod: PodMark) -> Self {
        Self { pod, accepted: None, looked: true, by_absence: false }
    }
}

/// The state of a target. A target without a state is absent, and a read has confirmed that.
///
/// `pod` is the pod that the ledger should name. `call` is the call in flight about the target.
#[expect(
    missing_docs,
    reason = "what a field means in all states is said once, above; the others beside their state"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The claim is erased. The state remains until a later read of the group. If that read shows the target, it is
    /// foreign.
    Absent { since: Moment },
    /// The claim is being written, and nothing was sent. `before`: the previous state, if AWS may still send because of
    /// it.
    Claiming { pod: PodMark, before: Option<Draining>, past: Past },
    /// RegisterTargets is in flight.
    Registering { pod: PodMark, call: RequestId, before: Option<Draining>, past: Past },
    /// AWS has the target. Its health counts in reads that began after `since`, late enough that they cannot show the
    /// state before. `late`: until then, another registration for the pod may take effect.
    Registered { pod: PodMark, since: Moment, health: Option<HealthState>, past: Past, late: Option<Moment> },
    /// DeregisterTargets is in flight, and its answer will count.
    Deregistering { pod: PodMark, call: RequestId },
    /// AWS has accepted the deregistration.
    Draining(Draining),
    /// A call that was given up, or a call of another term, may take effect until `until`. Calls that are sent earlier
    /// only save time; their answers do not count. `from`: since when no call of Headgate changes the target.
    /// `gave_up`: a registration that a deregistration did not wait for, and until when the target would be unsettled
    /// without it. If AWS answers that registration, it cannot take effect late. `adds`: a late call can only register
    /// the target for this pod. The value tells what AWS had there before.
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

    /// The state in AWS is unknown until `until`.
    pub const fn unsettled(pod: PodMark, until: Moment) -> Self {
        Self::Unsettled { pod, until, from: until, call: None, early: None, gave_up: None, adds: None }
    }

    /// A registration for this pod was given up and may take effect until `until`.
    pub(super) const fn registering(pod: PodMark, until: Moment, past: Past) -> Self {
        Self::Unsettled { pod, until, from: until, call: None, early: None, gave_up: None, adds: Some(past) }
    }

    /// Gives up a registration in flight, because a deregistration does not wait for its answer.
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

    /// Headgate sends a call about the target.
    pub(super) fn sent(self, id: RequestId, way: Way, now: Moment) -> Self {
        match (self, way) {
            (Self::Claiming { pod, before, past }, Way::In) => {
                Self::Registering { pod, call: id, before, past }
            }
            (Self::Unsettled { pod, until, from, gave_up, adds, .. }, way)
                if now < until || (adds.is_some() && way == Way::In) =>
            {
                let (call, early) = (Some((id, way)), Some((way, now)));
                let adds = adds.filter(|_| way == Way::In);
                Self::Unsettled { pod, until, from, call, early, gave_up, adds }
            }
            (
                Self::Claiming { pod, .. } | Self::Registered { pod, .. } | Self::Unsettled { pod, .. },
                Way::Out,
            ) => Self::Deregistering { pod, call: id },
            (other, _) => other,
        }
    }

    /// A call has ended. A call without an answer may take effect until `late`.
    pub(super) fn answered(self, id: RequestId, outcome: Outcome, now: Moment, late: Moment) -> Self {
        match self {
            Self::Registering { pod, call, before, past } if call == id => match outcome {
                Outcome::Done => Self::Registered { pod, since: now, health: None, past, late: None },
                Outcome::Refused | Outcome::Gone => Self::Claiming { pod, before, past },
                Outcome::Unknown => Self::registering(pod, late, past),
            },
            Self::Deregistering { pod, call } if call == id => match outcome {
                Outcome::Done | Outcome::Gone if pod == nobody() => Self::Draining(Draining::nothing(pod)),
                Outcome::Gone => Self::Draining(Draining::without_group(pod, now)),
                Outcome::Done => Self::Draining(Draining::since(pod, now)),
                Outcome::Refused => Self::unsettled(pod, now),
                Outcome::Unknown => Self::unsettled(pod, late),
            },
            Self::Unsettled { pod, until, call: Some((call, Way::In)), adds: Some(past), .. }
                if call == id =>
            {
                match outcome {
                    Outcome::Done => {
                        let late = Some(until).filter(|until| *until > now);
                        Self::Registered { pod, since: now, health: None, past, late }
                    }
                    Outcome::Refused | Outcome::Gone => Self::registering(pod, until, past),
                    Outcome::Unknown => Self::registering(pod, late, past),
                }
            }
            Self::Unsettled { pod, until, from, call: Some((call, _)), early, gave_up, .. } if call == id => {
                let (until, from, early, gave_up) = match outcome {
                    Outcome::Done | Outcome::Gone => (until, from.max(now), early, gave_up),
                    Outcome::Refused => (until, from, None, gave_up),
                    Outcome::Unknown => (late.max(until), late.max(from), None, None),
                };
                Self::Unsettled { pod, until, from, call: None, early, gave_up, adds: None }
            }
            // The call has ended and cannot take effect late. A deregistration that was sent before does not count.
            Self::Unsettled { pod, until, from, call, gave_up: Some((gave_up, before)), .. }
                if gave_up == id =>
            {
                let is_known = outcome != Outcome::Unknown;
                let (until, from) = if is_known { (before.max(now), before.max(now)) } else { (until, from) };
                Self::Unsettled { pod, until, from, call, early: None, gave_up: None, adds: None }
            }
            other => other,
        }
    }

    /// Whether no call is in flight or may take effect late.
    pub const fn is_settled(&self) -> bool {
        !matches!(
            self,
            Self::Registering { .. }
                | Self::Deregistering { .. }
                | Self::Unsettled { .. }
                | Self::Registered { late: Some(_), .. }
        )
    }

    /// When the state changes because time passes.
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
