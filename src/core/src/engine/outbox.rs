//! The effects of a step, and the part of the engine that waits for the answer to each request.

use std::collections::BTreeMap;

use crate::{
    engine::Effect,
    engine::asker::Asker,
    lanes::Ticket,
    lanes::account::Turn,
    model::{Call, Notice, RequestId},
    requests::Request,
};

/// The collected effects and the requests in flight. See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    last: u64,
    open: BTreeMap<RequestId, Asker>,
    effects: Vec<Effect>,
}

impl Outbox {
    /// Creates the id of a new request.
    pub fn next_id(&mut self) -> RequestId {
        self.last += 1;
        RequestId(self.last)
    }

    /// Sends a request that needs no rate-limit token.
    pub fn ask(&mut self, id: RequestId, asker: Asker, request: Request) {
        self.open.insert(id, asker);
        self.put(Effect::Send { id, request, waited: None });
    }

    /// Sends a call with its rate-limit token.
    pub fn call(&mut self, id: RequestId, call: Call, (ticket, waited): Turn) {
        self.open.insert(id, Asker::Call(call.clone(), ticket));
        self.put(Effect::Send { id, request: Request::Call(call), waited });
    }

    /// Removes an answered request. Returns the part that sent the request. `None`: no part waits for the answer any
    /// more.
    pub fn answered(&mut self, id: RequestId) -> Option<Asker> {
        self.open.remove(&id)
    }

    /// Ends the leader's term: removes all requests except look-ups, and returns the removed calls.
    pub fn end_term(&mut self) -> Vec<(Call, Ticket)> {
        let over =
            self.open.extract_if(.., |_, asker| !matches!(asker, Asker::Call(call, _) if call.is_look_up()));
        let call =
            |(_, asker)| if let Asker::Call(call, ticket) = asker { Some((call, ticket)) } else { None };
        over.filter_map(call).collect()
    }

    /// Adds an effect.
    pub fn put(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Adds a report to a user.
    pub fn tell(&mut self, notice: Notice) {
        self.put(Effect::Notice(notice));
    }

    /// Returns all effects of the step and clears the list.
    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}

impl Extend<Effect> for Outbox {
    fn extend<T: IntoIterator<Item = Effect>>(&mut self, effects: T) {
        self.effects.extend(effects);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lanes::Lanes,
        model::rates::Lane,
        model::{GroupRef, rates::Limits},
        testing::arn,
    };

    #[test]
    fn an_answer_reaches_the_one_who_asked_once_and_nobody_after_the_term() {
        let ticket = Lanes::new(Limits::default()).take(Lane::LookUp, crate::Moment::START).unwrap();
        let mut out = Outbox::default();
        let (look_up, read, ledger) = (out.next_id(), out.next_id(), out.next_id());
        assert!(look_up < read && read < ledger);
        let find = Call::FindGroups { references: vec![GroupRef::Name("blue".into())] };
        out.open.insert(look_up, Asker::Call(find, ticket));
        out.open.insert(read, Asker::Call(Call::ReadHealth { group: arn("blue") }, ticket));
        out.open.insert(ledger, Asker::ReadLedger(arn("blue")));
        assert!(matches!(out.answered(ledger), Some(Asker::ReadLedger(group)) if group == arn("blue")));
        assert!(out.answered(ledger).is_none(), "it was answered already");
        assert_eq!(out.end_term().len(), 1, "the look-up goes on");
        assert!(out.answered(read).is_none());
        assert!(matches!(out.answered(look_up), Some(Asker::Call(Call::FindGroups { .. }, _))));
    }
}
