//! What comes out of a step, and who waits for an answer to it.

use crate::{
    account::Turn,
    engine::Effect,
    model::{Call, Notice, RequestId},
    rate_limit::Ticket,
    requests::{Asker, Request, Requests},
};

/// See the module.
#[derive(Debug, Default)]
pub struct Outbox {
    requests: Requests,
    effects: Vec<Effect>,
}

impl Outbox {
    /// An id for a request that is about to be sent.
    pub fn next_id(&mut self) -> RequestId {
        self.requests.next_id()
    }

    /// Sends a request that waits for no turn.
    pub fn ask(&mut self, id: RequestId, asker: Asker, request: Request) {
        self.requests.sent(id, asker);
        self.put(Effect::Send { id, request, waited: None });
    }

    /// Makes a call whose turn it is.
    pub fn call(&mut self, id: RequestId, call: Call, (ticket, waited): Turn) {
        self.requests.sent(id, Asker::Call(call.clone(), ticket));
        self.put(Effect::Send { id, request: Request::Call(call), waited });
    }

    /// A request is answered: who asked? `None`: nobody waits for it any more.
    pub fn answered(&mut self, id: RequestId) -> Option<Asker> {
        self.requests.answered(id)
    }

    /// This replica leads no more: see [`Requests::stand_by`].
    pub fn stand_by(&mut self) -> Vec<(Call, Ticket)> {
        self.requests.stand_by()
    }

    /// This is to be done.
    pub fn put(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// A user is to be told this.
    pub fn tell(&mut self, notice: Notice) {
        self.put(Effect::Notice(notice));
    }

    /// All that came out of the step.
    pub fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}

impl Extend<Effect> for Outbox {
    fn extend<T: IntoIterator<Item = Effect>>(&mut self, effects: T) {
        self.effects.extend(effects);
    }
}
