//! All requests to AWS and Kubernetes, and their answers.
//!
//! The engine sends a request as [`Effect::Send`](crate::Effect::Send) and receives the answer as
//! [`Input::Answered`](crate::Input::Answered). A request gets at most one answer: from AWS or Kubernetes, or a failure
//! when its timeout ([`Request::patience`]) has passed. A stopping leader sends only deregistrations and ledger
//! requests, and ignores all other answers.
//!
//! ```text
//!  a part of the engine has a request ──► id, Asker ──► Effect::Send ──► AWS, Kubernetes
//!                                        │                                 │
//!  that part of the engine ◄──── which Asker? ◄────── Input::Answered ◄────┘
//! ```
//!
//! * **Owned by others**: the engine's outbox stores the id and the `Asker` of each request in flight. The `Asker`
//!   interprets the answer.
//! * **Guarantees**: no id is used twice. The outbox passes each answer to its `Asker`, or drops the answer if this
//!   replica has lost the Lease.

use std::time::Duration;

use crate::{
    ledger::{LedgerRequest, LedgerVersion, StoredLedger},
    model::{
        Call, Failure, FailureClass, Health, LeastHealthy, Target, TargetGroupFacts,
        eviction::{Check, Checked, MarkWrite},
        gate::GateWrite,
        node::DetachedWrite,
    },
};

/// The timeout of a call to AWS.
pub const CALL_PATIENCE: Duration = Duration::from_secs(8);

/// A request to AWS or Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A call to the AWS API.
    Call(Call),
    /// A request to the storage of the ledgers.
    Ledger(LedgerRequest),
    /// Writes Headgate's condition to the status of a pod.
    Gate(GateWrite),
    /// Writes the state of an eviction to a pod.
    Mark(MarkWrite),
    /// Records on a node that no load balancer sends requests to its pods.
    Detached(DetachedWrite),
    /// Asks the API server whether it would allow the eviction of a pod.
    Check(Check),
}

impl Request {
    /// Whether only the leader may send this request. Standbys also look up target groups and read the ledgers, so that
    /// a standby can take over immediately.
    pub const fn is_of_the_leader(&self) -> bool {
        match self {
            Self::Call(call) => !call.is_look_up(),
            Self::Ledger(request) => !matches!(request, LedgerRequest::LoadAll),
            Self::Gate(_) | Self::Mark(_) | Self::Detached(_) | Self::Check(_) => true,
        }
    }

    /// The timeout of this request. AWS or Kubernetes may execute a request even after the request has timed out.
    pub const fn patience(&self) -> Duration {
        match self {
            Self::Call(_) => CALL_PATIENCE,
            // Headgate reads all ledgers, page by page.
            Self::Ledger(LedgerRequest::LoadAll) => Duration::from_secs(15),
            // The check consists of a dry run, which calls webhooks, and a list of PodDisruptionBudgets.
            Self::Check(_) => Duration::from_secs(10),
            Self::Ledger(_) | Self::Gate(_) | Self::Mark(_) | Self::Detached(_) => Duration::from_secs(5),
        }
    }

    /// Whether a stopping leader still sends this request. A stopping leader deregisters targets and stores the
    /// ledgers. The next leader repeats all other requests.
    pub const fn is_of_a_farewell(&self) -> bool {
        matches!(self, Self::Call(Call::Deregister { .. }) | Self::Ledger(_))
    }
}

/// The result of a successful request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request succeeded without a result. Requests that register or deregister targets, delete a ledger, or write
    /// a gate or an annotation have no result.
    Done,
    /// The targets and their health from `DescribeTargetHealth`.
    Health(Vec<(Target, Health)>),
    /// The target groups from `DescribeTargetGroups`.
    Groups(Vec<TargetGroupFacts>),
    /// The attributes from `DescribeTargetGroupAttributes`.
    Attributes(LeastHealthy),
    /// All stored ledgers.
    Ledgers(Vec<StoredLedger>),
    /// One ledger. `None`: the ledger does not exist.
    Ledger(Option<StoredLedger>),
    /// The version of the ledger after a successful write.
    Written(LedgerVersion),
    /// The API server's answer about an eviction.
    Checked(Checked),
}

/// Extracts the expected answer from the result of a request. An answer of another type becomes a failure.
macro_rules! fitting {
    ($result:expr, $answer:pat => $wanted:expr) => {
        $result.and_then(|answer| match answer {
            $answer => Ok($wanted),
            _ => Err(crate::requests::unfit()),
        })
    };
}
pub(crate) use fitting;

/// The failure for an answer of the wrong type. The result of the request is unknown.
pub fn unfit() -> Failure {
    Failure::new(FailureClass::Unavailable, "UnfitAnswer", "the answer is one to another question")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::GroupRef, testing::arn};

    #[test]
    fn a_standby_only_looks_up_and_a_leader_that_stops_begins_nothing_new() {
        let group = arn("blue");
        let find = Call::FindGroups { references: vec![GroupRef::Name("blue".into())] };
        let of = |request: Request| (request.is_of_the_leader(), request.is_of_a_farewell());
        assert_eq!(of(Request::Call(find)), (false, false));
        assert_eq!(of(Request::Ledger(LedgerRequest::LoadAll)), (false, true));
        assert_eq!(of(Request::Call(Call::ReadHealth { group: group.clone() })), (true, false));
        let call = Call::Register { group: group.clone(), items: Vec::new() };
        assert_eq!(of(Request::Call(call)), (true, false));
        let call = Call::Deregister { group: group.clone(), items: Vec::new() };
        assert_eq!(of(Request::Call(call)), (true, true));
        assert_eq!(of(Request::Ledger(LedgerRequest::Load(group))), (true, true));
    }

    #[test]
    fn each_answer_is_waited_for_as_long_as_it_may_take() {
        let group = arn("blue");
        let check = Check {
            pod: crate::model::ObjectKey::new("shop", "web"),
            uid: crate::model::Uid::new("u"),
            labels: crate::model::Labels::default(),
            departing: Vec::new(),
            passed_over: false,
        };
        for (request, seconds) in [
            (Request::Call(Call::ReadHealth { group: group.clone() }), CALL_PATIENCE.as_secs()),
            (Request::Ledger(LedgerRequest::LoadAll), 15),
            (Request::Ledger(LedgerRequest::Load(group)), 5),
            (Request::Check(check), 10),
        ] {
            assert_eq!(request.patience(), Duration::from_secs(seconds), "{request:?}");
        }
    }
}
