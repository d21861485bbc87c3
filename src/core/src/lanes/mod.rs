//! Decides which call may be sent now. Removals never wait behind registrations, reads or the problems of another
//! target group.
//!
//! Register and Deregister calls share one of AWS's token buckets per account and region. Describe calls have their own
//! bucket. A call takes one token for any number of targets from 1 to 100.
//!
//! * **Owns** the buckets of one account and region for each kind of call, and the calls in flight.
//! * **Guarantees.** No call is sent without a token. No registration or read takes the last token from a removal.
//! * **Assumes** that each sent call is answered or given up, and its ticket is returned.
//!
//! **Removals** are sent at once while there are many tokens. A burst may need more calls than there are tokens: a
//! token that is spent for the first pod of a group is then missing for its last pod. In a burst, the pauses between
//! the calls of a group therefore grow to its share of the rate, and tokens are kept for every group with terminating
//! pods.
//!
//! The remaining removals of a group use the kept tokens when no further removal of this group, or of any group, was
//! caused for a moment. The last removal of a burst is then about as early as if its end had been known in advance.
//!
//! **Registrations** take tokens as fast as they come, if two conditions hold:
//!
//! 1. No removal is due.
//! 2. The tokens that are kept for later removals remain. While pods are terminating ([`GOING`]), two thirds of the
//!    bucket are kept. If no pods are terminating, half of the bucket is kept, less one for each recent removal
//!    ([`FILLINGS`]), but at least one.
//!
//! An unexpected removal is therefore sent at once, and a burst of removals finds tokens. Tokens that it spent are not
//! saved up again before the replacement pods are registered.
//!
//! If AWS throttles registrations, only registrations slow down. If AWS throttles removals, both slow down.
//!
//! **Retries** of registrations that AWS rejected, or will probably reject, take tokens only while no other
//! registration is due. They leave half of the tokens that other registrations may take.
//!
//! AWS takes a token when a call arrives, so each sent call has a [`Ticket`], which is returned with its answer: see
//! [`Bucket`].
//!
//! **Reads** of target groups get half of the bucket of Describe calls. Look-ups get the other half. Two fifths of the
//! reads' half are for urgent reads: a gate, a finished call or a new leader waits for them. The other three fifths are
//! for all reads, in order, one after the other and not in bursts.
//!
//! An urgent read is therefore sent at once even if many groups are read periodically, and periodic reads continue even
//! if many reads are urgent.

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

/// A group counts as one with terminating pods for this long after its last removal was caused.
const ACTIVE: Duration = Duration::from_secs(2);
/// A burst of removals is over if no removal was caused for this long. The API server may cause shorter pauses. If they
/// counted as the end, the kept tokens would be spent too early.
const QUIET: Duration = Duration::from_millis(250);

/// For this long after a removal was caused, more removals are expected. It is longer than [`QUIET`], because a
/// registration that is sent too early takes a token from a removal, and one that waits costs nothing. After a burst
/// has spent all tokens, two tokens must be refilled first: one for the registration, and one for a removal.
const GOING: Duration = Duration::from_millis(750);
/// A sent removal is not expected again within this many times the refill time of the bucket. With AWS's limits, that
/// is 10 s.
const FILLINGS: f64 = 2.0;

/// The removals of a group are over if none was caused for this many times the distance between two of them. The
/// distance counts in time and in removals of other groups: a pause of the whole burst does not end it.
const PATIENCE: u32 = 4;
/// The minimum of that time.
const LEAST_PATIENCE: Duration = Duration::from_millis(150);

/// In a burst, a group is called again after this pause, then after twice that pause, up to its share of the rate. An
/// answer takes longer than the first pauses, so they cost nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The share of the reads of target groups that is for urgent reads.
const AWAITED: f64 = 0.4;
/// The share of all reads that look-ups may take, because a tenant may name any number of target groups that do not
/// exist. With AWS's limits, that is 5 calls per second, each for up to 20 target groups.
const LOOK_UPS: f64 = 0.1;

/// The token of a sent call, which is returned with the answer.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    lane: Lane,
    /// The token from the bucket that AWS has too.
    token: Token,
    /// The token from the part of that bucket which is only for this kind of call.
    own: Option<Token>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    /// When the last removal of the group was caused.
    caused: Moment,
    /// When the last call of the group was sent. `None`: not in this burst.
    called: Option<Moment>,
    /// The number of calls sent in this burst.
    calls: u32,
    /// The sequence number of that removal among all removals.
    number: u32,
    /// The recent distance between removals of the group. `None`: there was only one.
    apart: Option<Apart>,
}

/// The distance between two removals of a group.
#[derive(Clone, Copy, Debug)]
struct Apart {
    time: Duration,
    /// The number of removals of other groups between two of them, plus one.
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

    /// When no more removals of this group are expected, so that its last call can be sent. `None`: the removals are
    /// too far apart to tell, or there are no removals of other groups either. `number`: the sequence number of the
    /// last removal of all groups.
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
    /// The rate of urgent reads of target groups, within `reads`.
    awaited_reads: Bucket,
    /// The rate of all reads of target groups, within `reads`.
    group_reads: Bucket,
    /// The rate of look-ups, within `reads`.
    look_ups: Bucket,
    /// The groups with terminating pods.
    active: BTreeMap<TargetGroupArn, Activity>,
    /// When the last removal was caused, and the number of removals so far.
    caused: Option<Moment>,
    number: u32,
    /// When recent removals were sent.
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

    /// Records that a target of this group must be removed.
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

    /// Chooses the group whose removal is sent now from those that are `due`, and takes its token.
    pub fn removal<'a>(&mut self, due: &[Due<'a>], now: Moment) -> Option<(&'a TargetGroupArn, Ticket)> {
        if self.changes.tokens(now) < 1.0 {
            return None;
        }
        self.forget(now);
        let (needed, period) = self.thrift(due);
        let called = |due: &Due<'_>| self.active.get(due.group).and_then(|activity| activity.called);
        // Round robin: first a group that was not called in this burst, then the group with the oldest call.
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

    /// When [`Self::removal`] may return a group of these, if nothing changes.
    pub fn next_removal(&mut self, due: &[Due<'_>], now: Moment) -> Option<Moment> {
        self.forget(now);
        let (needed, period) = self.thrift(due);
        let token = self.when(Lane::Removal, now);
        due.iter().map(|due| self.turn(due, needed, period, now).max(token)).min()
    }

    /// In a burst, the number of tokens that must be left, and the pause between two calls of a group.
    fn thrift(&self, due: &[Due<'_>]) -> (f64, Duration) {
        let waiting = due.iter().filter(|due| !self.active.contains_key(due.group)).count();
        let groups = u32::try_from(self.active.len() + waiting).map_or(f64::MAX, f64::from);
        // Four tokens for each group, because other groups may join a burst that has just begun. At least one token may
        // be spent: while a call is in flight, a full bucket at AWS gains nothing.
        let needed = (4.0 * groups).min((self.changes.most() - 1.0).max(1.0));
        (needed, Duration::try_from_secs_f64(groups / self.changes.rate()).unwrap_or(Duration::MAX))
    }

    /// When the removals of this group may be sent, if there is a token.
    fn turn(&self, due: &Due<'_>, needed: f64, period: Duration, now: Moment) -> Moment {
        // Waiting does not save the token of a full call.
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

    /// The bucket that AWS has too for such calls, and the part of it that is reserved for this kind.
    const fn buckets(&mut self, lane: Lane) -> (&mut Bucket, &mut Bucket) {
        match lane {
            Lane::Removal | Lane::Addition | Lane::Retry => (&mut self.changes, &mut self.additions),
            Lane::AwaitedRead => (&mut self.reads, &mut self.awaited_reads),
            Lane::Read => (&mut self.reads, &mut self.group_reads),
            Lane::LookUp => (&mut self.reads, &mut self.look_ups),
        }
    }

    /// Takes the token of a call other than a removal, if it may be sent now. For a registration, the caller has
    /// checked that no removal is due. For a retry, it has checked that no other registration is due.
    pub fn take(&mut self, lane: Lane, now: Moment) -> Option<Ticket> {
        let has_part = lane != Lane::Removal;
        if has_part && self.when(lane, now) > now {
            return None;
        }
        let (shared, part) = self.buckets(lane);
        let mut own = if has_part { Some(part.take(now)?) } else { None };
        // AWS does not have separate buckets for kinds of reads, so the arrival time of a call does not matter here.
        if matches!(lane, Lane::AwaitedRead | Lane::Read | Lane::LookUp)
            && let Some(own) = own.take()
        {
            part.answered(own, now);
        }
        let token = shared.take(now)?;
        // A rejection near an empty bucket is a rejection by the bucket that AWS has too.
        Some(Ticket { lane, token, own: own.map(|own| own.of_no_more_than(token)) })
    }

    /// When there will be a token for such a call. A registration may then be sent if no removal is due. A removal may
    /// be sent if its group need not wait in a burst.
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

    /// The number of tokens that registrations leave for later removals; see the module docs.
    fn kept(&self, now: Moment) -> f64 {
        let part = |of_all: f64| (self.changes.most() * of_all).min(self.changes.most() - 1.0).floor();
        if self.caused.is_some_and(|caused| now.since(caused) < GOING) {
            return part(2.0 / 3.0);
        }
        let half = part(1.0 / 2.0);
        let sent = self.removed.iter().filter(|sent| now.since(**sent) < self.lately()).count();
        (half - u32::try_from(sent).map_or(half, f64::from)).max(1.0).min(half)
    }

    /// For how long a removal that was sent is not expected again.
    fn lately(&self) -> Duration {
        let seconds = FILLINGS * self.changes.most() / self.changes.rate();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The time between two reads of a group, if this many groups are read equally often with half of the tokens for
    /// reads.
    pub fn read_period(&self, groups: usize) -> Duration {
        let groups = u32::try_from(groups).map_or(f64::MAX, f64::from);
        let rate = self.awaited_reads.rate() + self.group_reads.rate();
        Duration::try_from_secs_f64(2.0 * groups / rate).unwrap_or(Duration::MAX)
    }

    /// The kinds of calls that AWS throttles, until their rate has recovered.
    pub fn throttled(&mut self, now: Moment) -> Option<&'static str> {
        // Update each bucket. If one were skipped, it would continue to return a recovery time in the past.
        let buckets = [&mut self.additions, &mut self.changes, &mut self.reads];
        match buckets.map(|bucket| bucket.throttled_since(now).is_some()) {
            [false, false, false] => None,
            [false, false, true] => Some("Describe calls"),
            _ => Some("RegisterTargets and DeregisterTargets"),
        }
    }

    /// When the result of [`Self::throttled`] will change, if AWS throttles no further call.
    pub fn next_recovery(&self) -> Option<Moment> {
        [&self.additions, &self.changes, &self.reads].into_iter().filter_map(Bucket::regained).min()
    }

    /// Records that the call with this ticket has ended. `refused`: whether AWS throttled it.
    pub fn answered(&mut self, ticket: Ticket, refused: bool, now: Moment) {
        let Ticket { lane, token, own } = ticket;
        // Only registrations slow down. Removals continue: their own use is known, and they detect other users
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
