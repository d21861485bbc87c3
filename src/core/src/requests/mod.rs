//! All requests to AWS and Kubernetes, and their answers.
//!
//! A request leaves the engine as [`Effect::Send`](crate::Effect::Send) and returns as
//! [`Input::Answered`](crate::Input::Answered), for every receiver and purpose. It gets at most one answer: from its
//! receiver, or by the timeout of its sender ([`Request::patience`]). A leader that is stopping sends only deregistrations
//! and ledger writes, and ignores all other answers.
//!
//! ```text
//!  a part of the engine has a request ──► id, Asker ──► Effect::Send ──► AWS, Kubernetes
//!                                        │                                 │
//!  that part of the engine ◄──── which Asker? ◄────── Input::Answered ◄────┘
//! ```
//!
//! * **Owned by others**: the outbox of the engine stores the ids, and the sender of each request in flight. The sender
//!   knows what the answer means, and which request it waits for.
//! * **Guarantees**: no id is used twice. An answer reaches its sender or is dropped: after this replica has lost the
//!   Lease, answers have no effect.

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
    /// A call to AWS.
    Call(Call),
    /// A request to the store of the ledgers.
    Ledger(LedgerRequest),
    /// Write Headgate's condition into the status of a pod.
    Gate(GateWrite),
    /// Write the state of an eviction on a pod.
    Mark(MarkWrite),
    /// Write on a node that no load balancer sends to a pod there.
    Detached(DetachedWrite),
    /// Ask the API server whether it would allow the eviction of a pod.
    Check(Check),
}

impl Request {
    /// Whether only the leader may send this request. A standby also looks up target groups and reads the ledgers, so
    /// that it can take over at once.
    pub const fn is_of_the_leader(&self) -> bool {
        match self {
            Self::Call(call) => !call.is_look_up(),
            Self::Ledger(request) => !matches!(request, LedgerRequest::LoadAll),
            Self::Gate(_) | Self::Mark(_) | Self::Detached(_) | Self::Check(_) => true,
        }
    }

    /// The timeout of this request. A request without an answer by then may have been executed, or may be executed
    /// later.
    pub const fn patience(&self) -> Duration {
        match self {
            Self::Call(_) => CALL_PATIENCE,
            // This reads all ledgers, page by page.
            Self::Ledger(LedgerRequest::LoadAll) => Duration::from_secs(15),
            // This is a dry run, which calls webhooks, and a list of budgets.
            Self::Check(_) => Duration::from_secs(10),
            Self::Ledger(_) | Self::Gate(_) | Self::Mark(_) | Self::Detached(_) => Duration::from_secs(5),
        }
    }

    /// Whether a leader that is stopping still sends this request. It deregisters what must end, and stores its state.
    /// The next leader repeats all other requests.
    pub const fn is_of_a_farewell(&self) -> bool {
        matches!(self, Self::Call(Call::Deregister { .. }) | Self::Ledger(_))
    }
}

/// The result of a successful request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request succeeded and has no other result: `RegisterTargets`, `DeregisterTargets`, a deleted ledger, a gate,
    /// or an annotation on a pod or a node.
    Done,
    /// The answer of `DescribeTargetHealth`.
    Health(Vec<(Target, Health)>),
    /// The answer of `DescribeTargetGroups`.
    Groups(Vec<TargetGroupFacts>),
    /// The answer of `DescribeTargetGroupAttributes`.
    Attributes(LeastHealthy),
    /// All existing ledgers.
    Ledgers(Vec<StoredLedger>),
    /// One ledger. `None`: it does not exist.
    Ledger(Option<StoredLedger>),
    /// A ledger was written, and has this version now.
    Written(LedgerVersion),
    /// The API server's answer about an eviction.
    Checked(Checked),
}

/// Extracts the expected answer from the result of a request. Returns a failure for any other answer.
macro_rules! fitting {
    ($result:expr, $answer:pat => $wanted:expr) => {
        $result.and_then(|answer| match answer {
            $answer => Ok($wanted),
            _ => Err(crate::requests::unfit()),
        })
    };
}
pub(crate) use fitting;

/// The failure for an answer of the wrong type: the result of the request is unknown.
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
