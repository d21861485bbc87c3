//! Compares the desired targets of the target groups with the targets that AWS last reported.

use crate::{
    engine::{
        Engine,
        explaining::{due::Due, words},
    },
    explanation::{Comparison, Difference, Side},
    model::rates::Lane,
    model::{Cause, HealthState, Moment, Reason, Target, TargetGroupArn},
    targets::groups::Group,
};

impl Engine {
    /// Compares every target group, sorted by name.
    pub fn compare_groups(&mut self, now: Moment) -> Vec<Comparison> {
        let mut arns: Vec<TargetGroupArn> = self.groups.keys().cloned().collect();
        arns.sort_by(|one, other| (one.name(), one).cmp(&(other.name(), other)));
        arns.iter().filter_map(|arn| self.compare_group(arn, now)).collect()
    }

    fn compare_group(&mut self, arn: &TargetGroupArn, now: Moment) -> Option<Comparison> {
        let turn = |this: &mut Self, lane| this.accounts.lanes(arn).when(lane, now);
        let next_addition = turn(self, Lane::Addition);
        let next_reads = (turn(self, Lane::AwaitedRead), turn(self, Lane::Read));
        let (listed, throttled) = (self.not_listed_yet(), self.accounts.throttled(now).of(arn));
        let group = self.groups.get(arn)?;
        let due = Due { group, arn, listed, throttled, now };
        let (registrations, observation) = (group.registrations(), group.observation());
        let is_there =
            |target: &Target| observation.state(target).is_some_and(|state| state != HealthState::Draining);
        let mut differences = Vec::new();
        let read = observation.last_read();
        for (target, owner) in
            registrations.wanted_by().filter(|(target, _)| read.is_some() && !is_there(target))
        {
            let Some(account) = registrations.account(target) else { continue };
            let next = if registrations.is_registered(target) {
                due.reads(next_reads)
            } else {
                due.registers(&account, next_addition)
            };
            differences.push(Difference {
                target: *target,
                side: Side::Missing,
                pod: Some(owner.pod.clone()),
                health: observation.health(target),
                word: (account.cause.reason(), words::standing(&account)),
                since: Some(account.since),
                next: Some(next),
            });
        }
        let there: Vec<&Target> = observation.states().keys().filter(|target| is_there(target)).collect();
        for target in there.iter().filter(|target| !registrations.wants(target)) {
            differences.push(unwanted(group, target, &due));
        }
        Some(Comparison {
            group: arn.clone(),
            wanted: registrations.wanted().count(),
            there: there.len(),
            read,
            differences,
        })
    }
}

/// The difference for a registered target that should not be registered.
fn unwanted(group: &Group, target: &Target, due: &Due<'_>) -> Difference {
    let registrations = group.registrations();
    let (health, account) = (group.observation().health(target), registrations.account(target));
    let (target, health) = (*target, health);
    let Some(account) = account else {
        let said = if group.is_exclusive() { words::FOREIGN_GOES } else { words::FOREIGN_STAYS };
        let word = (Reason::ForeignTarget, said.to_owned());
        return Difference { target, side: Side::Foreign, pod: None, health, word, since: None, next: None };
    };
    Difference {
        target,
        side: if account.cause == Cause::ForeignTarget { Side::Foreign } else { Side::LeftOver },
        pod: registrations.whose(&target).map(|owner| owner.pod.clone()),
        health,
        word: (account.cause.reason(), words::standing(&account)),
        since: Some(account.since),
        next: due.deregisters(&account),
    }
}
