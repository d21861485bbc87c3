//! What is due in the target groups, now or later. Only groups that are awake are checked.

use super::{Group, Groups};
use crate::{
    model::rates::Lane,
    model::{Moment, Target, TargetGroupArn, rates::Due},
};

/// See the module docs.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    pub(super) groups: &'a Groups,
    pub(super) now: Moment,
}

impl<'a> Calls<'a> {
    fn awake(self) -> impl Iterator<Item = (&'a TargetGroupArn, &'a Group)> {
        self.groups.awake.iter().filter_map(move |arn| Some((arn, self.groups.get(arn)?)))
    }

    /// The targets whose next call waits until the readiness gates of their pods are closed.
    pub fn put_backs(self) -> impl Iterator<Item = (&'a TargetGroupArn, &'a Target)> {
        self.awake().flat_map(|(arn, group)| group.registrations.put_backs().map(move |target| (arn, target)))
    }

    /// The groups in which a call of this kind is due.
    pub fn due(self, lane: Lane) -> impl Iterator<Item = Due<'a>> {
        self.awake().filter_map(move |(arn, group)| {
            let since = match lane {
                Lane::Removal => group.removal(self.now),
                Lane::Addition => group.addition(self.now),
                Lane::Retry => group.retry(self.now),
                Lane::AwaitedRead => group.next_awaited_read().filter(|due| *due <= self.now),
                Lane::Read => group.next_read().filter(|due| *due <= self.now),
                Lane::LookUp => None,
            }?;
            Some(Due { group: arn, since, targets: group.registrations.next_removals() })
        })
    }

    /// When each group may next send a registration or a read, or is checked again, if a token is available then.
    pub fn later(self, lane: Lane) -> impl Iterator<Item = (&'a TargetGroupArn, Moment)> {
        self.awake().filter_map(move |(arn, group)| {
            let when = match lane {
                Lane::AwaitedRead => group.next_awaited_read(),
                Lane::Read => group.next_read(),
                Lane::Retry => group.next_retry(),
                Lane::Addition | Lane::Removal | Lane::LookUp => group.next_addition(),
            };
            Some((arn, when?))
        })
    }

    /// The groups whose ledger must be read or written now.
    pub fn ledgers(self) -> Vec<TargetGroupArn> {
        let is_due = |group: &Group| group.next_ledger(self.now).is_some_and(|due| due <= self.now);
        let due = self.awake().filter(|(_, group)| !group.is_read_only() && is_due(group));
        due.map(|(arn, _)| arn.clone()).collect()
    }

    /// The groups that sleep although something is due in them. There should be none.
    pub fn overslept(self) -> impl Iterator<Item = &'a TargetGroupArn> {
        let asleep = self.groups.iter().filter(|(arn, _)| !self.groups.awake.contains(*arn));
        let is_late = move |arn: &TargetGroupArn, due| self.groups.alarms.when(arn).is_none_or(|at| due < at);
        let due = asleep.filter_map(move |(arn, group)| Some((arn, group.next_due(self.now)?)));
        due.filter(move |(arn, due)| is_late(arn, *due)).map(|(arn, _)| arn)
    }

    /// When something is due that needs no token, or a deregistration may be retried.
    pub fn when(self) -> Option<Moment> {
        let of = |group: &Group| {
            let removal = group.next_removal().filter(|due| *due > self.now);
            group.next_without_token(self.now).into_iter().chain(removal).min()
        };
        self.groups.alarms.next_due().into_iter().chain(self.awake().filter_map(|(_, group)| of(group))).min()
    }
}
