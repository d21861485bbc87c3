//! Which calls leave now: removals first, then ledgers and registrations, then reads.

use crate::{
    engine::Engine,
    eviction::Touched,
    groups::Groups,
    model::{Call, Moment},
    rate_limit::MAX_TARGETS_PER_CALL,
    requests::{Asker, Request},
};

impl Engine {
    /// Sends what is due: removals first, then ledgers and registrations, then reads.
    pub(super) fn send(&mut self, now: Moment) {
        if self.acts() {
            for arn in self.groups.pass(now) {
                self.account.removal_caused(&arn, now);
            }
            self.send_removals(now);
            self.close_gates(now);
            self.send_ledger_requests(now);
            self.send_additions(now);
        }
        self.send_look_ups(now);
        if self.acts() {
            self.send_reads(now);
        }
    }

    fn send_removals(&mut self, now: Moment) {
        while let Some((arn, turn)) = self.account.removal(self.groups.calls(now).removals(), now) {
            let id = self.out.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { break };
            let items = group.registrations_mut().start_removal(id, MAX_TARGETS_PER_CALL);
            for item in &items {
                // Also of those that the leader before has left.
                let alive =
                    self.index.pods().get(&item.pod).filter(|pod| pod.uid == item.uid && !pod.has_ended());
                if alive.is_some() {
                    let (was, asked) =
                        (group.registrations().may_be_sent_to(&item.target), group.asked_hold());
                    self.holds.leaves(&arn, &item.target, item.reason, was, asked);
                }
                for pod in self.index.pods().at(&item.target.ip) {
                    self.evictions.touch(Touched::Removal(&pod.key), now);
                }
            }
            self.out.call(id, Call::Deregister { group: arn, items }, turn);
        }
        self.account.removals_wait(self.groups.calls(now).removals().map(|due| due.group.clone()), now);
    }

    fn send_additions(&mut self, now: Moment) {
        let due = |groups: &Groups| groups.calls(now).removals().next().is_some();
        while !due(&self.groups)
            && let Some(arn) = self.groups.calls(now).next_addition()
        {
            let Some(turn) = self.account.addition(&arn, now) else { break };
            let id = self.out.next_id();
            let Some(group) = self.groups.get_mut(&arn) else { break };
            let items = group.start_addition(id, now);
            self.out.call(id, Call::Register { group: arn, items }, turn);
        }
        self.account.additions_wait(self.groups.calls(now).additions(), now);
    }

    fn send_look_ups(&mut self, now: Moment) {
        while let Some((reference, ticket)) = self.account.look_up(now) {
            let id = self.out.next_id();
            let call = Call::FindGroup { reference };
            self.out.ask(id, Asker::Call(call.clone(), ticket), Request::Call(call));
        }
    }

    fn send_reads(&mut self, now: Moment) {
        let mut due = self.groups.calls(now).reads().into_iter().peekable();
        while let Some(arn) = due.peek()
            && let Some(turn) = self.account.read(arn, now)
        {
            let Some(arn) = due.next() else { break };
            let id = self.out.next_id();
            if let Some(group) = self.groups.get_mut(&arn) {
                group.start_read(now);
            }
            self.out.call(id, Call::ReadHealth { group: arn }, turn);
        }
        self.account.reads_wait(due, now);
    }
}
