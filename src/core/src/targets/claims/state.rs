//! The state of one target.

use std::time::Duration;

use super::ledger::Claim;
use crate::model::{HealthState, Moment, RequestId};

/// Which way a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// RegisterTargets.
    In,
    /// DeregisterTargets.
    Out,
}

/// A target that AWS has removed: a load balancer may go on sending there for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// What the ledger says of it.
    pub claim: Claim,
    /// When AWS had accepted the removal; `None`: it never was a target for this claim.
    pub accepted: Option<Moment>,
    /// Whether a read has been seen that began when the load balancer had stopped.
    pub looked: bool,
}

impl Draining {
    /// Removed at `accepted`.
    pub const fn since(claim: Claim, accepted: Moment) -> Self {
        Self { claim, accepted: Some(accepted), looked: false }
    }

    /// Nothing was sent for this claim.
    pub const fn nothing(claim: Claim) -> Self {
        Self { claim, accepted: None, looked: true }
    }
}

/// The state of a target. One without any is absent, and was seen so.
///
/// `claim` is what the ledger should say of it. `call` is the call in flight about it.
#[expect(
    missing_docs,
    reason = "what a field means in all states is said once, above; the others beside their state"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its claim is erased. Kept until a read shows the group after that: what is there then is somebody else's.
    Absent { since: Moment },
    /// Its claim is being written; nothing was sent. `before`: what it was until then, if AWS may still send for that.
    Claiming { claim: Claim, before: Option<Draining>, doubt: bool },
    /// RegisterTargets is in flight.
    Registering { claim: Claim, call: RequestId, before: Option<Draining>, doubt: bool },
    /// AWS has it. Health counts from reads that began after `since`, and so late that they cannot show what was before.
    /// `doubt`: `healthy` may be about what was there before.
    Registered { claim: Claim, since: Moment, health: Option<HealthState>, doubt: bool },
    /// DeregisterTargets is in flight, and its answer counts.
    Deregistering { claim: Claim, call: RequestId },
    /// AWS has removed it.
    Draining(Draining),
    /// A call that was given up, or one of another term, may take effect until `until`. What is sent earlier is for speed and does
    /// not count. `from`: since when nothing of ours changes it.
    Unsettled {
        claim: Claim,
        until: Moment,
        from: Moment,
        call: Option<(RequestId, Way)>,
        early: Option<Way>,
    },
}

impl State {
    /// Nobody knows what AWS has until then.
    pub const fn unsettled(claim: Claim, until: Moment) -> Self {
        Self::Unsettled { claim, until, from: until, call: None, early: None }
    }

    /// Whether no call is in flight or may come late.
    pub const fn is_settled(&self) -> bool {
        !matches!(self, Self::Registering { .. } | Self::Deregistering { .. } | Self::Unsettled { .. })
    }

    /// When time alone changes it.
    pub fn waits_until(&self, bound: Duration) -> Option<Moment> {
        match self {
            Self::Draining(Draining { accepted: Some(accepted), .. }) => Some(*accepted + bound),
            Self::Unsettled { until, call: None, .. } => Some(*until),
            _ => None,
        }
    }
}
