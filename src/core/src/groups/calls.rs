//! What is due in the target groups, now or later. Only those are looked at that are awake.

use super::{Group, Groups};
use crate::{
    model::{Moment, Target, TargetGroupArn},
    rate_limit::Due,
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    pub(super) groups: &'a Groups,
    pub(super) now: Moment,
}

impl<'a> Calls<'a> {
    fn awake(self) -> impl Iterator<Item = (&'a TargetGroupArn, &'a Group)> {
        self.groups.awake.iter().filter_map(move |arn| Some((arn, self.groups.get(arn)?)))
    }

    fn first(self, of: impl Fn(&Group) -> Option<Moment>) -> Option<Moment> {
        self.awake().filter_map(|(_, group)| of(group)).min()
    }

    /// The groups with removals that are due.
    pub fn removals(self) -> impl Iterator<Item = Due<'a>> {
        self.awake().filter_map(move |(arn, group)| {
            let targets = group.registrations.removals();
            group.removal(self.now).map(|since| Due { group: arn, since, targets })
        })
    }

    /// The targets that are put back, and whose pods' gates are to be closed before.
    pub fn put_backs(self) -> impl Iterator<Item = (&'a TargetGroupArn, &'a Target)> {
        let writable = self.awake().filter(|(_, group)| !group.is_paused());
        writable.flat_map(|(arn, group)| group.registrations.put_backs().map(move |target| (arn, target)))
    }

    /// The groups with registrations that are due, each with when the longest waiting one was caused.
    fn caused_additions(self) -> impl Iterator<Item = (Moment, &'a TargetGroupArn)> {
        self.awake().filter_map(move |(arn, group)| group.addition(self.now).map(|since| (since, arn)))
    }

    /// The groups with registrations that are due.
    pub fn additions(self) -> impl Iterator<Item = TargetGroupArn> {
        self.caused_additions().map(|(_, arn)| arn.clone())
    }

    /// The group whose due registration has waited longest.
    pub fn next_addition(self) -> Option<TargetGroupArn> {
        self.caused_additions().min_by_key(|(since, _)| *since).map(|(_, arn)| arn.clone())
    }

    /// The groups whose read is due, the one that has waited longest first.
    pub fn reads(self) -> Vec<TargetGroupArn> {
        let due = self.awake().filter_map(|(arn, group)| group.next_read().map(|due| (due, arn)));
        let mut due: Vec<_> = due.filter(|(due, _)| *due <= self.now).collect();
        due.sort();
        due.into_iter().map(|(_, arn)| arn.clone()).collect()
    }

    /// The groups whose ledger needs something now.
    pub fn ledgers(self) -> Vec<TargetGroupArn> {
        let is_due = |group: &Group| group.next_ledger(self.now).is_some_and(|due| due <= self.now);
        let due = self.awake().filter(|(_, group)| !group.is_paused() && is_due(group));
        due.map(|(arn, _)| arn.clone()).collect()
    }

    /// When a registration may go, or is looked at again, if there is a token then.
    pub fn when_addition(self) -> Option<Moment> {
        self.first(Group::next_addition)
    }

    /// When a group may be read, if there is a token then.
    pub fn when_read(self) -> Option<Moment> {
        self.first(Group::next_read)
    }

    /// When something is to be done that needs no token, or a removal may be tried again.
    pub fn when(self) -> Option<Moment> {
        let alarm = self.groups.alarms.first().map(|(due, _)| *due);
        let of = |group: &Group| {
            let written = [group.next_ledger(self.now), group.registrations.held_until()];
            let written = written.into_iter().flatten().filter(|_| !group.is_paused());
            written.chain(group.next_removal().filter(|due| *due > self.now)).min()
        };
        alarm.into_iter().chain(self.first(of)).min()
    }
}
