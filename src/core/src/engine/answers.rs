//! How a request ended, and what follows from it.

use crate::{
    engine::{
        Effect, Engine, Span,
        gating::{living_owner, may_be_put_back},
    },
    eviction,
    gate::Touched,
    index::Owner,
    model::{
        notice::{About, Notice},
        pod::PodFacts,
        reason::Reason,
        request::{Call, CallItem, Failure, FailureClass, RequestId},
        target::Target,
        target_group::TargetGroupArn,
        time::Moment,
    },
    rate_limit::Ticket,
    registration::{Ended, Tombstone},
    reports::sayings::{never_healthy, refusal},
    requests::{Answer, Asker},
    view::GateView,
};

impl Engine {
    pub(super) fn on_answer(
        &mut self,
        id: RequestId,
        result: Result<Answer, Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let done = |result: Result<Answer, Failure>| result.and_then(Answer::done);
        match self.requests.answered(id) {
            None => {}
            Some(Asker::Call(call, ticket)) => self.on_call_answered(id, call, ticket, result, now, effects),
            Some(Asker::Ledgers) => self.on_ledgers(id, result.and_then(Answer::ledgers), now),
            Some(Asker::ReadLedger(group)) => {
                self.on_ledger(&group, id, &result.and_then(Answer::ledger), now, effects);
            }
            Some(Asker::WriteLedger(group)) => {
                self.on_ledger_written(&group, id, &result.and_then(Answer::written), now, effects);
            }
            Some(Asker::DeleteLedger(group)) => {
                self.on_ledger_dropped(&group, id, &done(result), now, effects);
            }
            Some(Asker::Gate(pod)) => self.on_gate_written(&pod, id, done(result), now, effects),
            Some(Asker::Early(pod)) => self.early_marked(&pod, id, done(result), now, effects),
            Some(Asker::Mark) => self.on_mark_written(id, done(result), now, effects),
            Some(Asker::Check) => {
                self.on_eviction_checked(id, result.and_then(Answer::checked), now, effects);
            }
        }
    }

    fn on_call_answered(
        &mut self,
        id: RequestId,
        call: Call,
        ticket: Ticket,
        result: Result<Answer, Failure>,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let action = call.action();
        let throttled = matches!(&result, Err(failure) if failure.class == FailureClass::Throttled);
        self.account.answered(ticket, throttled, now);
        match call {
            Call::FindGroup { reference } => {
                let facts = match result {
                    Ok(Answer::Group(facts)) => Ok(facts),
                    Ok(_) => return,
                    Err(failure) => Err(failure),
                };
                if self.account.looked_up(&reference, facts, now) {
                    self.orphans.touch();
                    for origin in self.services.naming(&reference) {
                        self.settle(&origin, now, now, effects);
                    }
                }
            }
            Call::ReadHealth { group: arn } => {
                let groups = self.groups.len();
                let Some(group) = self.groups.get_mut(&arn) else { return };
                match result {
                    Ok(Answer::Health(states)) => {
                        let rarely = self.settings.read_interval.max(self.account.read_period(groups));
                        let contested = group.registrations.contested() > 0;
                        let zone = group.troubled_zone();
                        let index = &self.index;
                        let (asked, wall) = (group.governed.asked, self.settings.started + now.elapsed());
                        let bounds = self.settings.bounds;
                        let keeps = |target: &Target, tombstone: &Tombstone<'_>| {
                            let lingers = |pod: &PodFacts| {
                                let bound = asked.bound(pod.hold, &bounds).unwrap_or_default();
                                tombstone.out_since.is_some_and(|since| wall < since + bound)
                            };
                            may_be_put_back(index, &arn, target, tombstone)
                                || living_owner(index, target, tombstone).is_some_and(lingers)
                        };
                        let grown = group.observed(states, rarely, now, keeps);
                        let was_healthy = |owner: &Owner| {
                            let pod = index.pod(&owner.pod).filter(|pod| pod.uid == owner.uid);
                            pod.is_some_and(|pod| GateView::of(pod) == GateView::Open)
                        };
                        let long = self.settings.never_healthy_after;
                        for never in group.find_never_healthy(long, was_healthy, now) {
                            let about = About::Pod(never.owner.pod.clone(), never.owner.uid.clone());
                            let note = never_healthy(&arn, &never);
                            effects.push(Effect::Notice(Notice {
                                about,
                                reason: Reason::NeverHealthy,
                                note,
                            }));
                        }
                        if contested != (group.registrations.contested() > 0) || zone != group.troubled_zone()
                        {
                            self.say_about(&arn, effects);
                        }
                        effects.extend(
                            grown.into_iter().map(|took| Effect::Took(Span::RegisterToHealthy, took)),
                        );
                        self.gates.touch(Touched::Group(&arn), now);
                        self.evictions.touch(eviction::Touched::Group(&arn), now);
                        self.refused(&arn, action, &[], None, effects);
                        self.judge(std::slice::from_ref(&arn), now, effects);
                        self.expel_strangers(&arn, now);
                    }
                    Ok(_) => {}
                    Err(failure) => {
                        group.observation.failed();
                        group.reads.failed(now);
                        if failure.class == FailureClass::Gone {
                            group.registrations.group_is_gone();
                            group.gone = true;
                        }
                        self.refused(&arn, action, &[], Some(&failure), effects);
                    }
                }
                self.touch(&arn);
            }
            Call::Register { group: arn, items } => {
                let Some(group) = self.groups.get_mut(&arn) else { return };
                let ended = match &result {
                    Ok(_) => Ended::Well,
                    Err(failure) if failure.class == FailureClass::Refused => Ended::Refused,
                    Err(failure) if failure.class == FailureClass::Full => Ended::Full,
                    Err(_) => Ended::Badly,
                };
                group.registrations.registered(id, &items, ended, now);
                if ended == Ended::Full {
                    group.quota = result.as_ref().err().cloned();
                }
                self.gates.touch(Touched::Group(&arn), now);
                // What is wrong with a target is not the group's fault: the others do not wait. Neither does what fits.
                match ended {
                    Ended::Well | Ended::Refused | Ended::Full => group.additions.succeeded(),
                    Ended::Badly => group.additions.failed(now),
                }
                group.changed(now);
                self.refused(&arn, action, &items, result.as_ref().err(), effects);
                self.touch(&arn);
            }
            Call::Deregister { group: arn, items } => {
                let Some(group) = self.groups.get_mut(&arn) else { return };
                // A group that does not exist has no targets.
                let gone = matches!(&result, Err(failure) if failure.class == FailureClass::Gone);
                group.registrations.deregistered(id, &items, gone || result.is_ok(), now);
                if gone || result.is_ok() {
                    self.holds.accepted(&arn, &items, now);
                }
                if gone {
                    group.registrations.group_is_gone();
                    group.gone = true;
                }
                match &result {
                    Err(_) if !gone => group.removals.failed(now),
                    _ => group.removals.succeeded(),
                }
                group.changed(now);
                self.evictions.touch(eviction::Touched::Group(&arn), now);
                self.refused(&arn, action, &items, result.as_ref().err(), effects);
                self.touch(&arn);
            }
        }
    }

    pub(super) fn touch(&mut self, arn: &TargetGroupArn) {
        let here = self.index.bindings_of(arn);
        for binding in here {
            self.reports.touch_binding(binding.key.clone());
        }
        self.reports.touch_group(arn);
    }

    /// Keeps what AWS refuses of a group, so that it is said on the Services bound to it until it has passed.
    pub(super) fn refused(
        &mut self,
        arn: &TargetGroupArn,
        action: &'static str,
        items: &[CallItem],
        failure: Option<&Failure>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(group) = self.groups.get_mut(arn) else { return };
        if failure.is_some_and(|failure| failure.class == FailureClass::Gone) {
            self.account.gone(arn);
        }
        match failure {
            Some(failure) => _ = group.failing.insert(action, failure.clone()),
            None => _ = group.failing.remove(action),
        }
        let before = group.refusals.clone();
        let registrations = &group.registrations;
        group.refusals.retain(|(_, target), _| target.is_none_or(|target| registrations.wants(&target)));
        match (failure, items) {
            (None, items) => {
                group.refusals.remove(&(action, None));
                for item in items {
                    group.refusals.remove(&(action, Some(item.target)));
                }
            }
            // Of several, one is meant: it is found by halving.
            (Some(Failure { class: FailureClass::Refused, .. }), [_, _, ..]) => {}
            (Some(failure), items) => {
                let target = items.first().filter(|_| failure.class == FailureClass::Refused);
                if let Some(said) = refusal(arn, action, failure, target) {
                    group.refusals.insert((action, target.map(|item| item.target)), said);
                }
            }
        }
        if group.refusals != before {
            self.say_about(arn, effects);
        }
    }
}
