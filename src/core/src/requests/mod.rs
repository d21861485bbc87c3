//! Everything that is asked of AWS and of Kubernetes: one way out, one way back.
//!
//! A request leaves the engine as [`Effect::Send`](crate::Effect::Send) and comes back as
//! [`Input::Answered`](crate::Input::Answered), whoever was asked and whatever for. Each is answered once at most: by whoever
//! was asked, or by the time-out of the one who carries it out ([`Request::patience`]). What is not of a farewell is not sent
//! by a leader that is about to stop, and never answered.
//!
//! ```text
//!  a machine has something to ask ──► id, Asker ──► Effect::Send ──► AWS, Kubernetes
//!                                        │                                 │
//!  the machine that asked  ◄── who was it? ◄────── Input::Answered ◄───────┘
//! ```
//!
//! * **Owns**: the ids, and of each request in flight who has asked. What the answer means, and which request a machine
//!   waits for, is the machine's own.
//! * **Guarantees**: no id is given twice; an answer reaches the machine that asked, or nobody: what comes when this
//!   replica leads no more is no answer to anything.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    ledger::{LedgerRequest, LedgerVersion, StoredLedger},
    model::{
        Call, Failure, FailureClass, Health, ObjectKey, RequestId, Target, TargetGroupArn, TargetGroupFacts,
        eviction::{Check, Checked, MarkWrite},
        gate::GateWrite,
    },
    rate_limit::Ticket,
};

/// For how long AWS is waited for.
pub const CALL_PATIENCE: Duration = Duration::from_secs(8);

/// What is asked of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Of AWS.
    Call(Call),
    /// Of the place where the ledgers are kept.
    Ledger(LedgerRequest),
    /// Write our condition into the status of a pod.
    Gate(GateWrite),
    /// Write on a pod how far its leaving is.
    Mark(MarkWrite),
    /// Does the API server allow that a pod is evicted?
    Check(Check),
}

impl Request {
    /// Whether only the leader may send it. A standby looks up target groups, too, so that it is ready.
    pub const fn is_of_the_leader(&self) -> bool {
        !matches!(self, Self::Call(Call::FindGroup { .. }))
    }

    /// For how long its answer is waited for: what was not answered by then may have been done, or be done yet.
    pub const fn patience(&self) -> Duration {
        match self {
            Self::Call(_) => CALL_PATIENCE,
            // All of them, in pages.
            Self::Ledger(LedgerRequest::LoadAll) => Duration::from_secs(15),
            // A dry run, which calls webhooks, and a list of budgets.
            Self::Check(_) => Duration::from_secs(10),
            Self::Ledger(_) | Self::Gate(_) | Self::Mark(_) => Duration::from_secs(5),
        }
    }

    /// Whether a leader that is about to stop still sends it: what must go is removed, and what is known is written
    /// down. Whoever leads next begins all else anew.
    pub const fn is_of_a_farewell(&self) -> bool {
        matches!(self, Self::Call(Call::Deregister { .. }) | Self::Ledger(_))
    }
}

/// What comes back if a request succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done: all that is to be said of `RegisterTargets`, `DeregisterTargets`, a deleted ledger, a gate and a mark.
    Done,
    /// Of `DescribeTargetHealth`.
    Health(Vec<(Target, Health)>),
    /// Of `DescribeTargetGroups`.
    Group(TargetGroupFacts),
    /// All ledgers there are.
    Ledgers(Vec<StoredLedger>),
    /// One ledger; `None`: there is none.
    Ledger(Option<StoredLedger>),
    /// A ledger is written, and this is its version now.
    Written(LedgerVersion),
    /// What the API server says about an eviction.
    Checked(Checked),
}

impl Answer {
    /// If a target group was read.
    pub fn health(self) -> Result<Vec<(Target, Health)>, Failure> {
        if let Self::Health(states) = self { Ok(states) } else { Err(unfit()) }
    }

    /// If a target group was looked up.
    pub fn group(self) -> Result<TargetGroupFacts, Failure> {
        if let Self::Group(facts) = self { Ok(facts) } else { Err(unfit()) }
    }

    /// If all ledgers were asked for.
    pub fn ledgers(self) -> Result<Vec<StoredLedger>, Failure> {
        if let Self::Ledgers(all) = self { Ok(all) } else { Err(unfit()) }
    }

    /// If one ledger was asked for.
    pub fn ledger(self) -> Result<Option<StoredLedger>, Failure> {
        if let Self::Ledger(one) = self { Ok(one) } else { Err(unfit()) }
    }

    /// If a ledger was written.
    pub fn written(self) -> Result<LedgerVersion, Failure> {
        if let Self::Written(version) = self { Ok(version) } else { Err(unfit()) }
    }

    /// If it was asked whether a pod may be evicted.
    pub fn checked(self) -> Result<Checked, Failure> {
        if let Self::Checked(checked) = self { Ok(checked) } else { Err(unfit()) }
    }

    /// If something was to be done, and no more.
    pub fn done(self) -> Result<(), Failure> {
        if self == Self::Done { Ok(()) } else { Err(unfit()) }
    }
}

/// Whoever carries out requests has mixed them up: nobody knows what was done.
fn unfit() -> Failure {
    Failure::new(FailureClass::Unavailable, "UnfitAnswer", "the answer is one to another question")
}

/// Who has asked, and is to have the answer.
#[derive(Clone, Debug)]
pub enum Asker {
    /// A target group, or the directory: it was this call, and is to be accounted for with this ticket.
    Call(Call, Ticket),
    /// Whoever takes over, about all ledgers.
    Ledgers,
    /// The ledger of this target group: it is read,
    ReadLedger(TargetGroupArn),
    /// written,
    WriteLedger(TargetGroupArn),
    /// or deleted.
    DeleteLedger(TargetGroupArn),
    /// The gate of this pod.
    Gate(ObjectKey),
    /// The evictions, about a pod that leaves, or is to.
    Eviction,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Requests {
    last: u64,
    open: BTreeMap<RequestId, Asker>,
}

impl Requests {
    /// An id for a request that is about to be sent.
    pub fn next_id(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last)
    }

    /// A request is sent.
    pub fn sent(&mut self, id: RequestId, asker: Asker) {
        self.open.insert(id, asker);
    }

    /// A request is answered: who asked? `None`: nobody waits for it any more.
    pub fn answered(&mut self, id: RequestId) -> Option<Asker> {
        self.open.remove(&id)
    }

    /// This replica leads no more: nobody waits for what only a leader may ask. Gives the calls among it.
    pub fn stand_by(&mut self) -> Vec<(Call, Ticket)> {
        let mut calls = Vec::new();
        self.open.retain(|_, asker| match asker {
            Asker::Call(Call::FindGroup { .. }, _) => true,
            Asker::Call(call, ticket) => {
                calls.push((call.clone(), *ticket));
                false
            }
            _ => false,
        });
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{GroupRef, limits::Limits},
        rate_limit::{Lane, Lanes},
        testing::arn,
    };

    fn find() -> Call {
        Call::FindGroup { reference: GroupRef::Name("blue".into()) }
    }

    #[test]
    fn an_answer_reaches_the_one_who_asked_once_and_nobody_after_the_term() {
        let ticket = Lanes::new(Limits::default()).take(Lane::LookUp, crate::Moment::START).unwrap();
        let mut requests = Requests::default();
        let (look_up, read, ledger) = (requests.next_id(), requests.next_id(), requests.next_id());
        assert!(look_up < read && read < ledger);
        requests.sent(look_up, Asker::Call(find(), ticket));
        requests.sent(read, Asker::Call(Call::ReadHealth { group: arn("blue") }, ticket));
        requests.sent(ledger, Asker::ReadLedger(arn("blue")));
        assert!(matches!(requests.answered(ledger), Some(Asker::ReadLedger(group)) if group == arn("blue")));
        assert!(requests.answered(ledger).is_none(), "it was answered already");
        assert_eq!(requests.stand_by().len(), 1, "the look-up goes on");
        assert!(requests.answered(read).is_none());
        assert!(matches!(requests.answered(look_up), Some(Asker::Call(Call::FindGroup { .. }, _))));
    }

    #[test]
    fn a_standby_only_looks_up_and_a_leader_that_stops_begins_nothing_new() {
        let group = arn("blue");
        let of = |request: Request| (request.is_of_the_leader(), request.is_of_a_farewell());
        assert_eq!(of(Request::Call(find())), (false, false));
        assert_eq!(of(Request::Call(Call::ReadHealth { group: group.clone() })), (true, false));
        let call = Call::Register { group: group.clone(), items: Vec::new() };
        assert_eq!(of(Request::Call(call)), (true, false));
        let call = Call::Deregister { group: group.clone(), items: Vec::new() };
        assert_eq!(of(Request::Call(call)), (true, true));
        assert_eq!(of(Request::Ledger(LedgerRequest::Load(group))), (true, true));
    }
}
