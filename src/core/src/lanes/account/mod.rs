//! The AWS accounts: the known target groups of each account, and the calls that Headgate may send to each account.
//!
//! * **Owns**, for each account, region and role: the directory of target groups (`directory.rs`), the token buckets,
//!   and the wait of each call.
//! * **Flow.** The engine sends due calls and look-ups when their account has tokens. [`Accounts::answered`] receives
//!   the answers.
//! * **Guarantees**: equal names refer to the same target group only within one account and region. Throttling and
//!   bursts in one account do not delay calls to other accounts.
//! * **Assumes** that each sent call is answered or times out, and that the caller then returns its ticket.
//! * **Caveats**: Headgate looks up a name in the first account, which is the account of its own credentials. An ARN
//!   belongs to the account that [`Settings`](crate::Settings) list for the ARN, or else to the first account. The
//!   first account rejects an ARN of another region with an explanation. The total number of groups in all accounts
//!   determines how often Headgate reads the health of each group.

mod directory;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::directory::{Directory, Namers};
use crate::{
    lanes::{Lanes, Ticket},
    model::rates::Lane,
    model::{
        Call, Failure, FailureClass, GroupRef, Moment, Resolution, TargetGroupArn,
        rates::{AccountKey, Due, Limits},
    },
    requests::{Answer, fitting},
    targets::groups::{Calls, Groups},
};

/// The ticket of a call that is sent now, and how long the call has waited. The wait of look-ups is not measured.
pub type Turn = (Ticket, Option<Duration>);

/// The index of a target group's account. The first account is used for groups without a matching key, and for groups
/// that are referenced by name.
fn place(keys: &[AccountKey], group: Option<&TargetGroupArn>) -> usize {
    let is_of = |key: &AccountKey| {
        group.is_some_and(|group| group.account() == &*key.id && group.region() == &*key.region)
    };
    keys.iter().position(is_of).map_or(0, |at| at + 1)
}

/// The kinds of calls that AWS throttles in each account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    keys: Arc<[AccountKey]>,
    calls: Vec<Option<&'static str>>,
}

impl Throttled {
    /// The kinds of calls that AWS throttles in the account of this group.
    pub fn of(&self, group: &TargetGroupArn) -> Option<&'static str> {
        self.calls.get(place(&self.keys, Some(group))).copied().flatten()
    }

    /// The state for a single account.
    #[cfg(test)]
    pub fn everywhere(calls: &'static str) -> Self {
        Self { keys: Arc::default(), calls: vec![Some(calls)] }
    }
}

/// For each target group, the time at which its due calls of one kind began to wait for a token.
#[derive(Clone, Debug, Default)]
struct Waiting(BTreeMap<TargetGroupArn, Moment>);

impl Waiting {
    /// Records that a call about this group is sent now. Returns how long the call has waited.
    fn goes(&mut self, group: &TargetGroupArn, now: Moment) -> Duration {
        self.0.remove(group).map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Records the groups whose due calls must wait, and removes all other groups.
    fn stay<'a>(&mut self, groups: impl Iterator<Item = &'a TargetGroupArn>, now: Moment) {
        let before = std::mem::take(&mut self.0);
        let since = |group: &TargetGroupArn| before.get(group).copied().unwrap_or(now);
        self.0.extend(groups.map(|group| (group.clone(), since(group))));
    }
}

#[derive(Clone, Debug)]
struct Account {
    directory: Directory,
    lanes: Lanes,
    waiting: BTreeMap<Lane, Waiting>,
}

/// All accounts. See the module docs.
#[derive(Clone, Debug)]
pub struct Accounts {
    keys: Arc<[AccountKey]>,
    /// The first account, followed by one account for each key.
    all: Vec<Account>,
}

impl Accounts {
    /// Creates the first account in this region, and one account for each key in `further`. The directories are empty
    /// and all buckets are full. `seed`: the seed of the jitter.
    pub fn new(region: &str, further: &[AccountKey], limits: Limits, seed: u64) -> Self {
        let regions = [region].into_iter().chain(further.iter().map(|key| &*key.region));
        let account = |region| Account {
            directory: Directory::new(region, seed),
            lanes: Lanes::new(limits),
            waiting: BTreeMap::new(),
        };
        Self { keys: further.into(), all: regions.map(account).collect() }
    }

    /// The index of the account for calls about this group.
    fn sent_to(&self, group: Option<&TargetGroupArn>) -> usize {
        place(&self.keys, group)
    }

    /// Returns the result of the look-up of `reference`.
    pub fn resolve(&self, reference: &GroupRef) -> Resolution {
        self.all[place(&self.keys, reference.arn())].directory.resolve(reference)
    }

    /// Updates the namespaces that refer to these target groups.
    pub fn refer(&mut self, renamed: &BTreeMap<GroupRef, Namers>) {
        for (at, account) in self.all.iter_mut().enumerate() {
            let here = |named: &GroupRef| place(&self.keys, named.arn()) == at;
            account.directory.refer(renamed.iter().filter(|(named, _)| here(named)));
        }
    }

    /// Records that a target of this group must be deregistered.
    pub fn removal_caused(&mut self, group: &TargetGroupArn, now: Moment) {
        let at = self.sent_to(Some(group));
        self.all[at].lanes.removal_caused(group, now);
    }

    /// Chooses the next call of this kind, if a call may be sent now. If no call may be sent, records that the due
    /// calls wait.
    pub fn goes(
        &mut self,
        lane: Lane,
        calls: Calls<'_>,
        is_standby: bool,
        now: Moment,
    ) -> Option<(Call, Turn)> {
        (0..self.all.len()).find_map(|at| {
            let before: &[Lane] = match lane {
                Lane::Removal | Lane::LookUp | Lane::AwaitedRead | Lane::Read => &[],
                Lane::Addition => &[Lane::Removal],
                Lane::Retry => &[Lane::Removal, Lane::Addition],
            };
            let may_go = before.iter().all(|lane| self.due(at, *lane, calls).is_empty());
            // Look-ups belong to no group. A standby need not wake up any group, because all groups of a standby are
            // active.
            if lane == Lane::LookUp {
                return self.all[at].looks_up(is_standby, now);
            }
            let due = self.due(at, lane, calls);
            self.all[at].goes(lane, &due, may_go, now)
        })
    }

    fn due<'a>(&self, at: usize, lane: Lane, calls: Calls<'a>) -> Vec<Due<'a>> {
        calls.due(lane).filter(|due| self.sent_to(Some(due.group)) == at).collect()
    }

    /// Records the answer or timeout of a call. Returns the references whose look-up returned a new result.
    pub fn answered(
        &mut self,
        call: &Call,
        ticket: Ticket,
        result: &Result<Answer, Failure>,
        groups: &Groups,
        now: Moment,
    ) -> Vec<GroupRef> {
        let class = result.as_ref().err().map(|failure| failure.class);
        let sent_to = self.sent_to(call.group());
        self.all[sent_to].lanes.answered(ticket, class == Some(FailureClass::Throttled), now);
        let directory = &mut self.all[place(&self.keys, call.group())].directory;
        match call {
            Call::FindGroups { references } => {
                let found = fitting!(result.clone(), Answer::Groups(found) => found);
                directory.answered(references, &found, now)
            }
            Call::ReadAttributes { group } => {
                let read = fitting!(result.clone(), Answer::Attributes(least) => least);
                directory.attributes_read(group, &read, now)
            }
            Call::Register { group, .. } | Call::Deregister { group, .. } | Call::ReadHealth { group } => {
                if class == Some(FailureClass::Gone) && groups.get(group).is_some() {
                    directory.gone(group);
                }
                Vec::new()
            }
        }
    }

    /// The earliest time at which a look-up or one of the due `calls` may be sent, or at which throttling ends.
    pub fn next(&mut self, calls: Option<Calls<'_>>, is_standby: bool, now: Moment) -> Option<Moment> {
        let next = (0..self.all.len()).filter_map(|at| {
            let removals = calls.map(|calls| self.due(at, Lane::Removal, calls)).unwrap_or_default();
            let later = |lane| {
                let all = calls.into_iter().flat_map(move |calls| calls.later(lane));
                let here = all.filter(|(group, _)| self.sent_to(Some(group)) == at).map(|(_, when)| when);
                here.min().map(|when| when.max(self.all[at].lanes.when(lane, now)))
            };
            let additions = calls.map(|calls| self.due(at, Lane::Addition, calls)).unwrap_or_default();
            let addition = later(Lane::Addition).filter(|_| removals.is_empty());
            let reads = [later(Lane::AwaitedRead), later(Lane::Read)].into_iter().flatten().min();
            let retry = later(Lane::Retry).filter(|_| removals.is_empty() && additions.is_empty());
            let Account { directory, lanes, .. } = &mut self.all[at];
            let look_up = directory.next_due(is_standby).map(|due| due.max(lanes.when(Lane::LookUp, now)));
            let removal = if removals.is_empty() { None } else { lanes.next_removal(&removals, now) };
            [removal, addition, retry, look_up, reads, lanes.next_recovery()].into_iter().flatten().min()
        });
        next.min()
    }

    /// The token buckets for calls about this group.
    pub fn lanes(&self, group: &TargetGroupArn) -> &Lanes {
        &self.all[self.sent_to(Some(group))].lanes
    }

    /// The kinds of calls that AWS throttles. A kind remains in the result until its rate has recovered.
    pub fn throttled(&mut self, now: Moment) -> Throttled {
        let calls = self.all.iter_mut().map(|account| account.lanes.throttled(now)).collect();
        Throttled { keys: self.keys.clone(), calls }
    }
}

impl Account {
    fn looks_up(&mut self, is_standby: bool, now: Moment) -> Option<(Call, Turn)> {
        self.directory.lead(!is_standby);
        self.directory.next_due(is_standby).filter(|due| *due <= now)?;
        let ticket = self.lanes.take(Lane::LookUp, now)?;
        Some((self.directory.start(is_standby, now)?, (ticket, None)))
    }

    fn goes(&mut self, lane: Lane, due: &[Due<'_>], may_go: bool, now: Moment) -> Option<(Call, Turn)> {
        let goes = match lane {
            Lane::Removal => self.lanes.removal(due, now),
            Lane::LookUp | Lane::Addition | Lane::Retry | Lane::AwaitedRead | Lane::Read => {
                let longest = due.iter().filter(|_| may_go).min_by_key(|due| due.since);
                longest.and_then(|due| Some((due.group, self.lanes.take(lane, now)?)))
            }
        };
        let waiting = self.waiting.entry(lane).or_default();
        let Some((group, ticket)) = goes else {
            waiting.stay(due.iter().map(|due| due.group), now);
            return None;
        };
        let waited = waiting.goes(group, now);
        let (group, items) = (group.clone(), Vec::new());
        let call = match lane {
            Lane::Removal => Call::Deregister { group, items },
            Lane::Addition | Lane::Retry => Call::Register { group, items },
            Lane::AwaitedRead | Lane::Read | Lane::LookUp => Call::ReadHealth { group },
        };
        Some((call, (ticket, Some(waited))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::arn;

    fn at(ms: u64) -> Moment {
        Moment::after_start(Duration::from_millis(ms))
    }

    #[test]
    fn a_call_has_waited_since_it_first_had_to() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.goes(&arn("blue"), at(5)), Duration::ZERO);
        waiting.stay([&arn("blue")].into_iter(), at(10));
        waiting.stay([&arn("blue"), &arn("green")].into_iter(), at(20));
        assert_eq!(waiting.goes(&arn("blue"), at(40)), Duration::from_millis(30));
        assert_eq!(waiting.goes(&arn("blue"), at(50)), Duration::ZERO);
    }

    #[test]
    fn what_is_no_longer_due_has_not_waited() {
        let mut waiting = Waiting::default();
        waiting.stay([&arn("blue")].into_iter(), at(10));
        waiting.stay([].into_iter(), at(20));
        waiting.stay([&arn("blue")].into_iter(), at(30));
        assert_eq!(waiting.goes(&arn("blue"), at(40)), Duration::from_millis(10));
    }

    #[test]
    fn a_target_group_is_in_the_account_whose_id_and_region_its_arn_names_or_in_the_first() {
        let key =
            |id: &str, region: &str| AccountKey { id: id.into(), region: region.into(), role: "r".into() };
        let of = |text: &str| {
            let arn = format!("arn:aws:elasticloadbalancing:{text}:targetgroup/blue/0123456789abcdef");
            TargetGroupArn::parse(&arn).unwrap()
        };
        let keys = [key("222222222222", "eu-west-1"), key("333333333333", "us-east-1")];
        for (text, expected) in [
            ("eu-west-1:222222222222", 1),
            ("us-east-1:333333333333", 2),
            ("us-east-1:222222222222", 0),
            ("eu-west-1:333333333333", 0),
            ("us-east-1:123456789012", 0),
        ] {
            assert_eq!(place(&keys, Some(&of(text))), expected, "{text}");
        }
        assert_eq!(place(&keys, None), 0, "a name means a group of the first account");
    }
}
