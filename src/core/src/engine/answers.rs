//! Handles the answers to requests, and the consequences of each answer.

use std::collections::BTreeSet;

use crate::{
    engine::asker::Asker,
    engine::{Effect, Engine, Span, knowledge::Knowledge},
    eviction,
    gate::Touched,
    lanes::Ticket,
    model::{
        Call, CallItem, Failure, Health, Moment, Notice, Origin, Owner, Reason, RequestId, Target,
        TargetGroupArn, Transition, notice::About, transition::TargetStep,
    },
    report::sayings::{never_healthy, refusal},
    requests::{Answer, fitting},
    view::GateView,
};

impl Engine {
    pub(super) fn on_answer(&mut self, id: RequestId, result: Result<Answer, Failure>, now: Moment) {
        match self.out.answered(id) {
            None => {}
            Some(Asker::Call(call, ticket)) => self.on_call_answered(id, call, ticket, result, now),
            Some(Asker::Ledgers) => self.on_ledgers(id, fitting!(result, Answer::Ledgers(all) => all), now),
            Some(Asker::ReadLedger(group)) => {
                self.on_ledger(&group, id, &fitting!(result, Answer::Ledger(one) => one), now);
            }
            Some(Asker::WriteLedger(group)) => {
                let written = fitting!(result, Answer::Written(version) => Some(version));
                self.on_ledger_written(&group, id, &written, now);
            }
            Some(Asker::DeleteLedger(group)) => {
                self.on_ledger_written(&group, id, &fitting!(result, Answer::Done => None), now);
            }
            Some(Asker::Gate(pod)) => {
                self.on_gate_written(&pod, id, fitting!(result, Answer::Done => ()), now);
            }
            Some(Asker::Eviction) => self.on_eviction_answered(id, result, now),
        }
    }

    fn on_call_answered(
        &mut self,
        id: RequestId,
        call: Call,
        ticket: Ticket,
        result: Result<Answer, Failure>,
        now: Moment,
    ) {
        let action = call.action();
        let news = self.accounts.answered(&call, ticket, &result, &self.groups, now);
        match call {
            Call::FindGroups { .. } | Call::ReadAttributes { .. } => {
                if !news.is_empty() {
                    self.groups.orphans().touch();
                }
                let naming =
                    news.iter().flat_map(|reference| self.known.services.origins().naming(reference));
                for origin in naming.collect::<BTreeSet<Origin>>() {
                    self.settle(&origin, now, now);
                }
            }
            Call::ReadHealth { group } => match fitting!(result, Answer::Health(states) => states) {
                Ok(states) => self.on_read(&group, states, now),
                Err(failure) => {
                    let Some(unread) = self.groups.get_mut(&group) else { return };
                    unread.unread(&failure, now);
                    self.refused(&group, action, &[], Some(&failure));
                    self.touch(&group);
                }
            },
            Call::Register { group: arn, items } => {
                let Some(group) = self.groups.get_mut(&arn) else { return };
                let failure = fitting!(result, Answer::Done => ()).err();
                group.registered(id, &items, failure.as_ref(), now);
                self.answered_for(
                    &arn,
                    &items,
                    failure.as_ref(),
                    (TargetStep::Registered, TargetStep::NotRegistered),
                );
                self.touch_gates(Touched::Group(&arn), now);
                self.refused(&arn, action, &items, failure.as_ref());
                self.touch(&arn);
            }
            Call::Deregister { group: arn, items } => {
                let Some(group) = self.groups.get_mut(&arn) else { return };
                let failure = fitting!(result, Answer::Done => ()).err();
                let is_out = group.deregistered(id, &items, failure.as_ref(), now);
                if let Some(leader) = self.leader.as_mut().filter(|_| is_out) {
                    leader.holds.accepted(&arn, &items, now);
                }
                let failed = failure.as_ref().filter(|_| !is_out);
                self.answered_for(
                    &arn,
                    &items,
                    failed,
                    (TargetStep::Deregistered, TargetStep::NotDeregistered),
                );
                self.touch_evictions(eviction::Touched::Group(&arn), now);
                // The group may have become shared.
                self.spare_foreign_targets(std::slice::from_ref(&arn));
                self.refused(&arn, action, &items, failure.as_ref());
                self.touch(&arn);
            }
        }
    }

    /// Records in the journal whether AWS has accepted the call about these targets. Repeated failures are recorded at
    /// growing intervals.
    fn answered_for(
        &mut self,
        arn: &TargetGroupArn,
        items: &[CallItem],
        failure: Option<&Failure>,
        (taken, refused): (TargetStep, fn(Reason) -> TargetStep),
    ) {
        let step = failure.map_or(taken, |failure| refused(failure.class.reason()));
        for item in items.iter().filter(|item| failure.is_none() || item.attempt.is_power_of_two()) {
            let owner = Owner { pod: item.pod.clone(), uid: item.uid.clone() };
            self.out.put(Effect::Happened(Transition::Target(arn.clone(), item.target, owner, step)));
        }
    }

    /// Handles the answer of `DescribeTargetHealth` for this group.
    fn on_read(&mut self, arn: &TargetGroupArn, states: Vec<(Target, Health)>, now: Moment) {
        let groups = self.groups.len();
        let Some(group) = self.groups.get_mut(arn) else { return };
        let Self { known: Knowledge { index, .. }, settings, .. } = self;
        let rarely = settings.read_interval.max(self.accounts.lanes(arn).read_period(groups));
        let (grown, others, steps) = group.observed(states, rarely, now);
        let was_healthy = |owner: &Owner| {
            let pod = index.pods().get(&owner.pod).filter(|pod| pod.uid == owner.uid);
            pod.is_some_and(|pod| GateView::of(pod) == GateView::Open)
        };
        for never in group.find_never_healthy(settings.never_healthy_after, was_healthy, now) {
            let about = About::Pod(never.owner.pod.clone(), never.owner.uid.clone());
            let note = never_healthy(arn, &never);
            self.out.tell(Notice { about, reason: Reason::NeverHealthy, note });
        }
        if others {
            self.say_about(arn);
        }
        for (target, owner, step) in steps {
            self.out.put(Effect::Happened(Transition::Target(arn.clone(), target, owner, step)));
        }
        self.out.extend(grown.into_iter().map(|took| Effect::Took(Span::RegisterToHealthy, took)));
        self.touch_gates(Touched::Group(arn), now);
        self.touch_evictions(eviction::Touched::Group(arn), now);
        self.refused(arn, Call::READ_HEALTH, &[], None);
        self.judge(std::slice::from_ref(arn), now);
        self.expel_foreign_targets(arn, now);
        self.touch(arn);
    }

    pub(super) fn touch(&mut self, arn: &TargetGroupArn) {
        let here = self.known.index.bindings().of_group(arn);
        for binding in here {
            self.reports.touch_binding(binding.key.clone());
        }
        self.reports.touch_group(arn);
    }

    /// Records calls that AWS rejects in a group, and reports the rejections on the bound Services until the calls
    /// succeed.
    pub(super) fn refused(
        &mut self,
        arn: &TargetGroupArn,
        action: &'static str,
        items: &[CallItem],
        failure: Option<&Failure>,
    ) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        let said = |failure: &Failure, item: Option<&CallItem>| refusal(arn, action, failure, item);
        if group.call_ended(action, items, failure, said) {
            self.say_about(arn);
        }
    }
}
