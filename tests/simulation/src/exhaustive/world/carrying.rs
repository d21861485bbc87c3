//! A replica takes a step; what it wants done is carried out, and ends in one way or another.

use std::sync::Arc;

use headgate_core::{
    Call, Effect, Failure, FailureClass, Input, RequestId,
    ledger::{LedgerRequest, LedgerVersion, StoredLedger, object_name},
    model::{eviction::Checked, gate::Shown},
    requests::{Answer, Request},
};

use crate::exhaustive::{
    aws::failure,
    oracle,
    parts::{Fate, Flight, Late},
    say,
    words::{LATEST, group},
};

use super::World;

impl World {
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(heard) = &mut self.heard {
            *heard += &what();
        }
    }

    /// An engine takes something in.
    pub(super) fn step(&mut self, replica: usize, input: Input) -> Result<(), String> {
        let it = &mut self.replicas[replica];
        if let Input::Pod { change, .. } = &input {
            it.hears(change);
        }
        let effects = Arc::make_mut(&mut it.engine).step(input, self.now);
        for effect in effects {
            if let Effect::Send { id, request, .. } = effect {
                self.send(replica, id, request)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, replica: usize, id: RequestId, request: Request) -> Result<(), String> {
        self.note(|| format!("\n              [{replica}] sends {}", say::request(&request)));
        // A standby that has listed reads the ledger at once: what it learns matters to evictions alone.
        if let Request::Ledger(load @ LedgerRequest::LoadAll) = &request
            && !self.replicas[replica].leads
        {
            let result = self.keep(load);
            return self.step(replica, Input::Answered { id, result });
        }
        let it = &self.replicas[replica];
        if request.is_of_the_leader() && !it.leads {
            return Err(format!("a replica that does not lead sends {}", say::request(&request)));
        }
        oracle::may_send(&self.truth(), it, &request)?;
        let sent = self.now;
        self.replicas[replica].flights.push(Flight { id, request, sent });
        Ok(())
    }

    /// What a replica has sent is answered by nobody any more: it may be done all the same.
    pub(super) fn sender_is_lost(&mut self, replica: usize) {
        for Flight { request, sent, .. } in std::mem::take(&mut self.replicas[replica].flights) {
            // What is written on a pod late is of no consequence.
            let is_late = matches!(
                &request,
                Request::Call(Call::Register { .. } | Call::Deregister { .. })
                    | Request::Ledger(LedgerRequest::Write(..) | LedgerRequest::Delete(..))
            );
            if is_late {
                self.late.push(Late { request, until: sent + LATEST, lost: Some(self.now) });
            }
        }
    }

    /// A request ends.
    pub(super) fn ends(&mut self, replica: usize, nth: usize, fate: Fate) -> Result<(), String> {
        let Flight { id, request, sent } = self.replicas[replica].flights.remove(nth);
        let done = match (fate, &request) {
            (Fate::Done | Fate::Unanswered, _) => self.do_it(&request, false, false),
            (Fate::Stale, _) => self.do_it(&request, false, true),
            (Fate::Late, _) => {
                self.late.push(Late { request: request.clone(), until: sent + LATEST, lost: None });
                Err(failure(FailureClass::Unavailable))
            }
            (Fate::Refused, _) => Err(failure(FailureClass::Refused)),
            (Fate::Throttled, _) => Err(failure(FailureClass::Throttled)),
            (Fate::Lost, _) => Err(failure(FailureClass::Unavailable)),
        };
        let result = if fate == Fate::Unanswered { Err(failure(FailureClass::Unavailable)) } else { done };
        self.note(|| format!(" [{replica}] {}: {}", say::request(&request), say::answer(&result)));
        self.step(replica, Input::Answered { id, result })
    }

    /// Does what is asked for; `unknown`: the one who leads cannot know that it is; `stale`: as of before the last change.
    pub(super) fn do_it(&mut self, request: &Request, unknown: bool, stale: bool) -> Result<Answer, Failure> {
        let is_there = |is_there| if is_there { Ok(Answer::Done) } else { Err(failure(FailureClass::Gone)) };
        match request {
            Request::Call(call) => Ok(self.aws.apply(call, unknown, stale, self.now)),
            Request::Ledger(request) => self.keep(request),
            Request::Gate(write) => {
                let status = if write.condition.open { "True" } else { "False" };
                let shown = Shown::read(Some(status), Some(&write.condition.message));
                is_there(self.change_pod(&write.pod, &write.uid, |pod| {
                    if let Some(gate) = &mut pod.gate {
                        gate.shown = shown;
                    }
                }))
            }
            Request::Mark(write) => is_there(self.write_mark(&write.pod, &write.uid, write.mark)),
            // Its one node never goes.
            Request::Detached(_) => Err(failure(FailureClass::Gone)),
            Request::Check(check) => {
                let is_there = self.pods.get(&check.pod).is_some_and(|pod| pod.facts.uid == check.uid);
                let checked = Answer::Checked(Checked { refused: None, budgets: Vec::new() });
                if is_there { Ok(checked) } else { Err(failure(FailureClass::Gone)) }
            }
        }
    }

    /// The ledger is read or written.
    fn keep(&mut self, request: &LedgerRequest) -> Result<Answer, Failure> {
        let stored = self.ledger.as_ref().map(|(version, packed)| StoredLedger {
            name: object_name(&group()).into(),
            version: version_of(*version),
            content: Ok(packed.clone()),
        });
        let there = stored.as_ref().map(|stored| &stored.version);
        match request {
            LedgerRequest::LoadAll => Ok(Answer::Ledgers(stored.into_iter().collect())),
            LedgerRequest::Load(_) => Ok(Answer::Ledger(stored)),
            LedgerRequest::Write(base, packed) if base.as_ref() == there => {
                self.versions += 1;
                self.ledger = Some((self.versions, packed.clone()));
                Ok(Answer::Written(version_of(self.versions)))
            }
            LedgerRequest::Delete(_, base) if Some(base) == there => {
                self.ledger = None;
                Ok(Answer::Done)
            }
            LedgerRequest::Write(..) | LedgerRequest::Delete(..) => Err(failure(FailureClass::Conflict)),
        }
    }
}

fn version_of(number: u64) -> LedgerVersion {
    LedgerVersion::new(number.to_string())
}
