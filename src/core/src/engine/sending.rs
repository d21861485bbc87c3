//! Sends the calls that are due: first deregistrations, then ledgers and registrations, then `DescribeTargetHealth`
//! calls, then look-ups.

use crate::{
    engine::Engine,
    eviction::Touched,
    model::rates::{Lane, MAX_TARGETS_PER_CALL},
    model::{Call, CallItem, Moment, RequestId, TargetGroupArn},
};

impl Engine {
    /// Sends all calls that are due, in the order of the module docs.
    pub(super) fn send(&mut self, now: Moment) {
        if self.acts() {
            for arn in self.groups.pass(now) {
                self.accounts.removal_caused(&arn, now);
            }
            self.close_gates(now);
            self.send_calls(Lane::Removal, now);
            self.send_ledger_requests(now);
            self.send_calls(Lane::Addition, now);
            self.send_calls(Lane::Retry, now);
        }
        if self.acts() {
            self.send_calls(Lane::AwaitedRead, now);
            self.send_calls(Lane::Read, now);
        }
        self.send_calls(Lane::LookUp, now);
    }

    fn send_calls(&mut self, lane: Lane, now: Moment) {
        while let Some((mut call, turn)) =
            self.accounts.goes(lane, self.groups.calls(now), self.is_standby(), now)
        {
            let id = self.out.next_id();
            match &mut call {
                Call::Deregister { group, items } => *items = self.remove(id, group, now),
                Call::Register { group, items } => *items = self.register(id, group, now),
                Call::ReadHealth { group } => {
                    if let Some(group) = self.groups.get_mut(group) {
                        group.start_read(now);
                    }
                }
                Call::FindGroups { .. } | Call::ReadAttributes { .. } => {}
            }
            self.out.call(id, call, turn);
        }
    }

    fn remove(&mut self, id: RequestId, arn: &TargetGroupArn, now: Moment) -> Vec<CallItem> {
        let (Some(group), Some(leader)) = (self.groups.get_mut(arn), &mut self.leader) else {
            return Vec::new();
        };
        let items = group.registrations_mut().start_removal(id, MAX_TARGETS_PER_CALL);
        for item in &items {
            // The targets include targets of an earlier leader.
            let mut alive = self.known.index.pods().get(&item.pod).into_iter();
            if alive.any(|pod| pod.uid == item.uid && !pod.has_ended()) {
                let registrations = group.registrations();
                let was = registrations.may_be_sent_to(&item.target);
                let asked = registrations.asked_hold(&item.target);
                leader.holds.leaves(arn, &item.target, item.reason, was, asked);
            }
            for pod in self.known.index.pods().at(&item.target.ip) {
                leader.evictions.touch(Touched::Removal(&pod.key), now);
            }
        }
        items
    }

    fn register(&mut self, id: RequestId, arn: &TargetGroupArn, now: Moment) -> Vec<CallItem> {
        self.groups.get_mut(arn).map(|group| group.start_addition(id, now)).unwrap_or_default()
    }
}
