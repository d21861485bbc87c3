//! Which calls leave now: removals first, then ledgers and registrations, then reads.

use std::time::Duration;

use crate::{
    engine::{Effect, Engine, groups::Groups},
    model::{
        request::{Call, RequestId},
        time::Moment,
    },
    planted::{Bug, planted},
    rate_limit::{MAX_TARGETS_PER_CALL, Ticket},
    requests::{Asker, Request},
};

impl Engine {
    /// Sends what is due: removals first, then ledgers and registrations, then reads.
    pub(super) fn send(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        if self.term.acts() {
            for arn in self.groups.pass(now) {
                self.lanes.removal_caused(&arn, now);
            }
            if planted(Bug::RegistrationsGoFirst) {
                self.send_additions(now, effects);
            }
            self.send_removals(now, effects);
            self.close_gates(now);
            self.send_ledger_requests(now, effects);
            self.send_additions(now, effects);
        }
        self.send_look_ups(now, effects);
        if self.term.acts() {
            self.send_reads(now, effects);
        }
    }

    fn send_removals(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        while let Some((arn, ticket)) = self.lanes.removal(self.groups.removals(now), now) {
            let arn = arn.clone();
            let id = self.requests.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { break };
            let items = group.registrations.start_removal(id, MAX_TARGETS_PER_CALL);
            for item in &items {
                // Also of those that the leader before has left.
                let alive = self.index.pod(&item.pod).filter(|pod| pod.uid == item.uid && !pod.has_ended());
                if alive.is_some() {
                    self.ending.leaves(&arn, &item.target, item.reason, group);
                }
                self.departures.removal_sent(&item.target.ip, now);
            }
            let waited = self.removals_wait.goes(&arn, now);
            self.call(id, Call::Deregister { group: arn, items }, ticket, Some(waited), effects);
        }
        self.removals_wait.stay(self.groups.removals(now).map(|due| due.group.clone()), now);
    }

    fn send_additions(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let due = |groups: &Groups| groups.removals(now).next().is_some();
        while (!due(&self.groups) || planted(Bug::RegistrationsGoFirst))
            && let Some(arn) = self.groups.next_addition(now)
        {
            let Some(ticket) = self.lanes.addition(now) else { break };
            let id = self.requests.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { break };
            group.adding(now);
            let items = group.registrations.start_addition(id, MAX_TARGETS_PER_CALL);
            group.added(&items);
            let waited = self.additions_wait.goes(&arn, now);
            self.call(id, Call::Register { group: arn, items }, ticket, Some(waited), effects);
        }
        self.additions_wait.stay(self.groups.additions(now).map(|(_, arn)| arn.clone()), now);
    }

    fn send_look_ups(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        while let Some(reference) = self.directory.due(now) {
            let Some(ticket) = self.lanes.look_up(now) else { break };
            self.directory.start(&reference);
            let id = self.requests.next_id();
            self.call(id, Call::FindGroup { reference }, ticket, None, effects);
        }
    }

    fn send_reads(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let mut due = self.groups.reads(now).into_iter();
        while !due.as_slice().is_empty()
            && let Some(ticket) = self.lanes.read(now)
        {
            let Some(arn) = due.next() else { break };
            let id = self.requests.next_id();
            if let Some(group) = self.groups.get_mut(&arn) {
                group.observation.start(now);
            }
            let waited = self.reads_wait.goes(&arn, now);
            self.call(id, Call::ReadHealth { group: arn }, ticket, Some(waited), effects);
        }
        self.reads_wait.stay(due, now);
    }

    /// Makes a call; `waited` is for how long it had to wait for a token, if calls of its kind ever do.
    fn call(
        &mut self,
        id: RequestId,
        call: Call,
        ticket: Ticket,
        waited: Option<Duration>,
        effects: &mut Vec<Effect>,
    ) {
        self.requests.sent(id, Asker::Call(call.clone(), ticket));
        effects.push(Effect::Send { id, request: Request::Call(call), waited });
    }

    /// Sends a request that waits for no token.
    pub(super) fn ask(&mut self, id: RequestId, asker: Asker, request: Request, effects: &mut Vec<Effect>) {
        self.requests.sent(id, asker);
        effects.push(Effect::Send { id, request, waited: None });
    }
}
