//! Which call may be sent now: removals never wait behind registrations, reads or another target group's trouble.
//!
//! Register and Deregister calls share one of AWS's token buckets per account and region; Describe calls have one of
//! their own. One token is one call, whether it carries one target or a hundred.
//!
//! * **Owns** the buckets of one account and region for each kind of call, and the calls in flight.
//! * **Guarantees.** No call is sent without a token; no registration or read takes the last one from a removal.
//! * **Assumes** that each sent call is answered, or given up, and its ticket is returned.
//!
//! **Removals** are sent at once while there are many tokens. In a burst that needs more calls than tokens, a token
//! for the first pod of a group is missing for its last one. The tokens must then last. The pauses between the calls
//! of a group grow to its share of the rate, and tokens are kept for every group with terminating pods.
//!
//! When no further removal of this group, or of any, has come for a moment, the remaining ones use the kept tokens.
//! The last removal of a burst is therefore about as early as if its end had been known in advance.
//!
//! **Registrations** take a token under two conditions, and then as fast as tokens come:
//!
//! 1. No removal is due.
//! 2. The kept tokens for later removals remain after it. While pods are terminating ([`GOING`]), that is two thirds
//!    of the bucket. Else it is half of the bucket, less one for each recent removal ([`FILLINGS`]), but at least one.
//!
//! An unexpected removal is therefore sent at once, and a burst of removals finds tokens. Its spent tokens are not
//! saved up again before the replacement pods are registered.
//!
//! When AWS throttles them, only they slow down; when it throttles removals, both do.
//!
//! **Retries** of those that AWS refused, or will probably refuse, take tokens only while no other registration is
//! due. They leave half of what others may take.
//!
//! AWS takes a token when a call arrives, so each sent call has a [`Ticket`], which is returned with its answer: see
//! [`Bucket`].
//!
//! **Reads** of target groups get half of the bucket of Describe calls, for any state of the groups. Look-ups get the
//! other half. Two fifths of the reads' half are for reads that somebody waits for: a gate, a finished call, a new
//! leader. The other three fifths are for all reads, in order, one after the other and not in bursts.
//!
//! A read that somebody waits for is therefore sent at once, with any number of groups that are read repeatedly. With
//! any number of such reads, the others continue.

pub mod account;
mod bucket;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use self::bucket::{Bucket, Token};
use crate::model::{
    Moment, TargetGroupArn,
    rates::{Due, Lane, Limit, Limits, MAX_TARGETS_PER_CALL},
};

/// A group counts as one with terminating pods for this long after the last one.
const ACTIVE: Duration = Duration::from_secs(2);
/// When no removal was caused for this long, a burst of them is over. A shorter pause may be the API server's. If it
/// counted as the end, the kept tokens would be spent before the real end.
const QUIET: Duration = Duration::from_millis(250);

/// Pods are terminating, and more removals are expected, for this long after one was caused. Longer than [`QUIET`]:
/// an early registration costs a removal its token, and a waiting one costs nothing. When a burst has spent
/// everything, two tokens must come first: the registration's, and one for a removal.
const GOING: Duration = Duration::from_millis(750);
/// A sent removal is not expected again in the time that fills the bucket this many times: with AWS's, 10 s.
const FILLINGS: f64 = 2.0;

/// The removals of a group are over when none has come for this many times their distance. The distance counts in
/// time and in removals of other groups, because a pause of the whole burst ends none of it.
const PATIENCE: u32 = 4;
/// But not before this time.
const LEAST_PATIENCE: Duration = Duration::from_millis(150);

/// In a burst a group is called again after this long, then after twice as long, up to its share of the rate. A call
/// takes longer to be answered, so the first pauses cost nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The share of the reads of target groups that is for those which somebody waits for.
const AWAITED: f64 = 0.4;
/// The share of all reads that look-ups may take: a tenant may name any number of target groups that do not exist. With AWS's
/// limits: five calls a second, each for up to twenty target groups.
const LOOK_UPS: f64 = 0.1;

/// The token of a call, which is returned with its answer.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    lane: Lane,
    /// From the bucket that AWS has too.
    token: Token,
    /// From the reads' own part of that.
    own: Option<Token>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    /// When its last removal was caused.
    caused: Moment,
    /// When its last call was sent; `None`: not in this burst.
    called: Option<Moment>,
    /// How many calls were sent in this burst.
    calls: u32,
    /// Which of all removals that was.
    number: u32,
    /// How far apart its removals were lately; `None`: there was one.
    apart: Option<Apart>,
}

/// How far apart the removals of a group are.
#[derive(Clone, Copy, Debug)]
struct Apart {
    time: Duration,
    /// One more than there were removals of other groups between two of them.
    removals: u32,
}

impl Activity {
    fn caused(&mut self, number: u32, now: Moment) {
        let (time, removals) = (now.since(self.caused), number.wrapping_sub(self.number));
        self.apart = Some(match self.apart {
            None => Apart { time, removals },
            Some(before) => Apart {
                time: (before.time * 3 + time) / 4,
                removals: (before.removals.saturating_mul(3).saturating_add(removals)) / 4,
            },
        });
        (self.caused, self.number) = (now, number);
    }

    /// When no more removals of this group are expected: its last call costs its token now or later. `None`: they are
    /// too far apart to tell, or those of other groups do not come either. `number` is that of the last of all.
    fn over(&self, number: u32) -> Option<Moment> {
        let apart = self.apart?;
        let patience = (apart.time * PATIENCE).max(LEAST_PATIENCE);
        let others_go = number.wrapping_sub(self.number) >= apart.removals.saturating_mul(PATIENCE);
        (patience < ACTIVE && others_go).then(|| self.caused + patience)
    }
}

/// The buckets of one account and region.
#[derive(Clone, Debug)]
pub struct Lanes {
    changes: Bucket,
    /// The rate of registrations, within `changes`.
    additions: Bucket,
    reads: Bucket,
    /// Reads of target groups that somebody waits for, within `reads`.
    awaited_reads: Bucket,
    /// Those and all others, within `reads`.
    group_reads: Bucket,
    /// Look-ups, within `reads`.
    look_ups: Bucket,
    /// The groups with terminating pods.
    active: BTreeMap<TargetGroupArn, Activity>,
    /// When the last removal was caused, and how many there have been.
    caused: Option<Moment>,
    number: u32,
    /// When removals were sent lately.
    removed: VecDeque<Moment>,
}

impl Lanes {
    /// The state with full buckets.
    pub fn new(limits: Limits) -> Self {
        let half = Limit { per_second: limits.reads.per_second / 2.0, burst: limits.reads.burst / 2.0 };
        let all = half.per_second * (1.0 - AWAITED);
        let all = Limit { per_second: all, burst: 1.0 };
        let awaited = Limit { per_second: half.per_second * AWAITED, burst: half.burst };
        let look_ups = Limit {
            per_second: limits.reads.per_second * LOOK_UPS,
            burst: (limits.reads.burst * LOOK_UPS).max(1.0),
        };
        Self {
            changes: Bucket::new(limits.changes),
            additions: Bucket::new(limits.changes),
            reads: Bucket::new(limits.reads),
            awaited_reads: Bucket::new(awaited),
            group_reads: Bucket::new(all),
            look_ups: Bucket::new(look_ups),
            active: BTreeMap::new(),
            caused: None,
            number: 0,
            removed: VecDeque::new(),
        }
    }

    /// A target of this group must be removed from now on.
    pub fn removal_caused(&mut self, group: &TargetGroupArn, now: Moment) {
        self.number = self.number.wrapping_add(1);
        let number = self.number;
        match self.active.get_mut(group) {
            Some(activity) => activity.caused(number, now),
            None => {
                self.active.insert(group.clone(), Activity { caused: now, number, ..Activity::default() });
            }
        }
        self.caused = Some(now);
    }

    /// Chooses the group whose call is sent now, of those with removals that are `due`, and takes its token.
    pub fn removal<'a>(&mut self, due: &[Due<'a>], now: Moment) -> Option<(&'a TargetGroupArn, Ticket)> {
        if self.changes.tokens(now) < 1.0 {
            return None;
        }
        self.forget(now);
        let (needed, period) = self.thrift(due);
        let called = |due: &Due<'_>| self.active.get(due.group).and_then(|activity| activity.called);
        // In turn: a group that was not called in this burst first, then the one whose call is longest ago.
        let group = due
            .iter()
            .filter(|due| self.turn(due, needed, period, now) <= now)
            .min_by_key(|due| (called(due), due.since))?
            .group;
        let token = self.changes.take(now)?;
        let activity = self.active.entry(group.clone()).or_default();
        activity.called = Some(now);
        activity.calls += 1;
        let lately = self.lately();
        self.removed.retain(|sent| now.since(*sent) < lately);
        self.removed.push_back(now);
        Some((group, Ticket { lane: Lane::Removal, token, own: None }))
    }

    /// When [`Self::removal`] may have an answer for these groups, if nothing else happens.
    pub fn next_removal(&mut self, due: &[Due<'_>], now: Moment) -> Option<Moment> {
        self.forget(now);
        let (needed, period) = self.thrift(due);
        let token = self.when(Lane::Removal, now);
        due.iter().map(|due| self.turn(due, needed, period, now).max(token)).min()
    }

    /// The tokens that must be there before one is spent in a burst, and the number of calls for each of its groups.
    fn thrift(&self, due: &[Due<'_>]) -> (f64, Duration) {
        let waiting = due.iter().filter(|due| !self.active.contains_key(due.group)).count();
        let groups = u32::try_from(self.active.len() + waiting).map_or(f64::MAX, f64::from);
        // Four times as many as groups: others will join a burst that has just begun. But not the last one: while a call
        // is in flight, AWS's bucket gains nothing if it is full.
        let needed = (4.0 * groups).min((self.changes.most() - 1.0).max(1.0));
        (needed, Duration::try_from_secs_f64(groups / self.changes.rate()).unwrap_or(Duration::MAX))
    }

    /// When the removals of this group may be sent, if there is a token.
    fn turn(&self, due: &Due<'_>, needed: f64, period: Duration, now: Moment) -> Moment {
        // A call that is full costs its token now or later.
        if due.targets >= MAX_TARGETS_PER_CALL {
            return now;
        }
        let quiet = self.caused.map_or(now, |caused| caused + QUIET);
        let saved = self.changes.when(needed, now);
        let activity = self.active.get(due.group).copied().unwrap_or_default();
        let pause = FIRST_PAUSE.saturating_mul(1 << activity.calls.saturating_sub(1).min(16)).min(period);
        let again = activity.called.map_or(now, |called| called + pause);
        activity.over(self.number).map_or(quiet, |over| over.min(quiet)).min(saved.max(again))
    }

    /// Forgets the groups without terminating pods.
    fn forget(&mut self, now: Moment) {
        self.active.retain(|_, activity| now.since(activity.caused) < ACTIVE);
    }

    /// The bucket that AWS has too for such calls, and the part of it that some of them have for themselves.
    const fn buckets(&mut self, lane: Lane) -> (&mut Bucket, &mut Bucket) {
        match lane {
            Lane::Removal | Lane::Addition | Lane::Retry => (&mut self.changes, &mut self.additions),
            Lane::AwaitedRead => (&mut self.reads, &mut self.awaited_reads),
            Lane::Read => (&mut self.reads, &mut self.group_reads),
            Lane::LookUp => (&mut self.reads, &mut self.look_ups),
        }
    }

    /// Takes the token of a call other than a removal, if it may be sent now. The caller for a registration has
    /// checked that no removal is due, and for a retry no other registration.
    pub fn take(&mut self, lane: Lane, now: Moment) -> Option<Ticket> {
        let has_part = lane != Lane::Removal;
        if has_part && self.when(lane, now) > now {
            return None;
        }
        let (shared, part) = self.buckets(lane);
        let mut own = if has_part { Some(part.take(now)?) } else { None };
        // The parts of reads are no buckets of AWS's: when a call arrives is nothing to them.
        if matches!(lane, Lane::AwaitedRead | Lane::Read | Lane::LookUp)
            && let Some(own) = own.take()
        {
            part.answered(own, now);
        }
        let token = shared.take(now)?;
        // A refusal near an empty bucket is one of the bucket that AWS has too.
        Some(Ticket { lane, token, own: own.map(|own| own.of_no_more_than(token)) })
    }

    /// When there is a token for such a call. A registration may then be sent if no removal is due, and a removal if
    /// its group need not wait in a burst.
    pub fn when(&self, lane: Lane, now: Moment) -> Moment {
        match lane {
            Lane::Removal => self.changes.when(1.0, now),
            Lane::Addition | Lane::Retry => {
                let still = self.caused.map_or(now, |caused| caused + GOING).max(now);
                let most = self.changes.most();
                let left = |kept: f64| {
                    if lane == Lane::Retry { kept.midpoint(most).min(most - 1.0).floor() } else { kept }
                };
                let with_the_kept = |at| self.changes.when(1.0 + left(self.kept(at)), now).max(at);
                self.additions.when(1.0, now).max(with_the_kept(now).min(with_the_kept(still)))
            }
            Lane::LookUp => self.look_ups.when(1.0, now).max(self.reads.when(1.0, now)),
            Lane::AwaitedRead => self.awaited_reads.when(1.0, now).max(self.reads.when(1.0, now)),
            Lane::Read => self.group_reads.when(1.0, now).max(self.reads.when(1.0, now)),
        }
    }

    /// How many tokens registrations leave for removals to come; see the module.
    fn kept(&self, now: Moment) -> f64 {
        let part = |of_all: f64| (self.changes.most() * of_all).min(self.changes.most() - 1.0).floor();
        if self.caused.is_some_and(|caused| now.since(caused) < GOING) {
            return part(2.0 / 3.0);
        }
        let half = part(1.0 / 2.0);
        let sent = self.removed.iter().filter(|sent| now.since(**sent) < self.lately()).count();
        (half - u32::try_from(sent).map_or(half, f64::from)).max(1.0).min(half)
    }

    /// For how long a removal that was sent is not expected once more.
    fn lately(&self) -> Duration {
        let seconds = FILLINGS * self.changes.most() / self.changes.rate();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The rate at which each of this many target groups can be read, if all are read equally, with half of what
    /// reads may take.
    pub fn read_period(&self, groups: usize) -> Duration {
        let groups = u32::try_from(groups).map_or(f64::MAX, f64::from);
        let rate = self.awaited_reads.rate() + self.group_reads.rate();
        Duration::try_from_secs_f64(2.0 * groups / rate).unwrap_or(Duration::MAX)
    }

    /// The calls that AWS throttles, until they are as fast as before.
    pub fn throttled(&mut self, now: Moment) -> Option<&'static str> {
        // Each is asked: the others would continue to report a recovery at a time in the past.
        let buckets = [&mut self.additions, &mut self.changes, &mut self.reads];
        match buckets.map(|bucket| bucket.throttled_since(now).is_some()) {
            [false, false, false] => None,
            [false, false, true] => Some("Describe calls"),
            _ => Some("RegisterTargets and DeregisterTargets"),
        }
    }

    /// When [`Self::throttled`] will return something else, if AWS throttles nothing more.
    pub fn next_recovery(&self) -> Option<Moment> {
        [&self.additions, &self.changes, &self.reads].into_iter().filter_map(Bucket::regained).min()
    }

    /// The call with this ticket has ended: AWS has refused it for its limits, or not.
    pub fn answered(&mut self, ticket: Ticket, refused: bool, now: Moment) {
        let Ticket { lane, token, own } = ticket;
        // Registrations slow down alone. Removals continue: their own use is known, and they notice the use of others
        // themselves.
        let alone = matches!(lane, Lane::Addition | Lane::Retry);
        let (shared, part) = self.buckets(lane);
        match own {
            Some(own) if refused && alone => _ = part.refused(own, now),
            Some(own) => part.answered(own, now),
            None => {}
        }
        if !refused || alone {
            shared.answered(token, now);
        } else if shared.refused(token, now) {
            match lane {
                Lane::Removal | Lane::Addition | Lane::Retry => self.additions.lower(now),
                Lane::LookUp | Lane::AwaitedRead | Lane::Read => {
                    self.awaited_reads.lower(now);
                    self.group_reads.lower(now);
                    self.look_ups.lower(now);
                }
            }
        }
    }
}
