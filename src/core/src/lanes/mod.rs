//! Decides which call may be sent now. Deregistrations never wait for registrations, Describe calls or problems of
//! another target group.
//!
//! `RegisterTargets` and `DeregisterTargets` calls share one of AWS's token buckets per account and region. Describe
//! calls have a separate bucket. A call takes one token for 1 to 100 targets.
//!
//! * **Owns** the buckets of one account and region for each kind of call, and the calls in flight.
//! * **Guarantees.** No call is sent without a token. No registration or Describe call takes the last token that a
//!   deregistration needs.
//! * **Assumes** that each sent call is answered or times out, and that the caller then returns its ticket.
//!
//! **Deregistrations** are sent immediately while many tokens are available. A burst may need more calls than the
//! bucket has tokens. A token for the first pod of a group is then missing for the last pod of the group. In a burst,
//! the pauses between the calls of a group therefore grow up to the group's share of the rate. The bucket keeps tokens
//! for every group with terminating pods.
//!
//! The remaining deregistrations of a group use the kept tokens when the group, or all groups, had no new
//! deregistration for a moment. The last deregistration of a burst is then sent about as early as if the end of the
//! burst had been known.
//!
//! **Registrations** take every available token under two conditions:
//!
//! 1. No deregistration is due.
//! 2. Enough tokens remain for later deregistrations. While pods are terminating ([`GOING`]), the bucket keeps two
//!    thirds of its tokens. If no pods are terminating, the bucket keeps half of its tokens, minus one for each recent
//!    deregistration ([`FILLINGS`]), but at least one.
//!
//! An unexpected deregistration is therefore sent immediately, and a burst of deregistrations finds tokens.
//! Registrations of replacement pods do not wait until the bucket has regained the tokens of such a burst.
//!
//! If AWS throttles registrations, only registrations slow down. If AWS throttles deregistrations, registrations and
//! deregistrations slow down.
//!
//! **Retries** of registrations that AWS rejected or will probably reject take tokens only if no other registration is
//! due. Retries use at most half of the tokens that other registrations may use.
//!
//! AWS takes a token when a call arrives. Each sent call therefore has a [`Ticket`], which the caller returns with the
//! answer (see [`Bucket`]).
//!
//! **`DescribeTargetHealth` calls** get half of the bucket of Describe calls. The other half remains for look-ups. Two
//! fifths of the tokens for `DescribeTargetHealth` calls are reserved for urgent calls. A gate, a finished call or a
//! new leader waits for an urgent call. Three fifths are for periodic and urgent calls, which Headgate sends in order
//! and without bursts.
//!
//! An urgent `DescribeTargetHealth` call is therefore sent immediately even if many groups have periodic calls.
//! Periodic calls continue even if many calls are urgent.

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

/// How long a group counts as a group with terminating pods after its last deregistration was triggered.
const ACTIVE: Duration = Duration::from_secs(2);
/// A burst of deregistrations ends if no deregistration was triggered for this time. The API server may cause shorter
/// pauses. A shorter value would spend the kept tokens too early.
const QUIET: Duration = Duration::from_millis(250);

/// The time after a deregistration was triggered in which Headgate expects more deregistrations. The time is longer
/// than [`QUIET`], because a registration that is sent too early takes a token from a deregistration. A registration
/// that waits costs nothing. After a burst has spent all tokens, the bucket must regain two tokens: one for a
/// registration, and one for a deregistration.
const GOING: Duration = Duration::from_millis(750);
/// After Headgate has sent a deregistration, the bucket keeps one token less for this multiple of its refill time. With
/// the default limits of AWS, the time is 10 s.
const FILLINGS: f64 = 2.0;

/// The deregistrations of a group are over if no deregistration was triggered for this multiple of their usual
/// distance. The distance counts both time and deregistrations of other groups, so a pause of the whole burst does not
/// end the burst.
const PATIENCE: u32 = 4;
/// The minimum time without a new deregistration before the deregistrations of a group are over.
const LEAST_PATIENCE: Duration = Duration::from_millis(150);

/// The first pause between two calls of a group in a burst. Each further pause is twice as long, up to the group's
/// share of the rate. An answer takes longer than the first pauses, so the first pauses cost nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The share of `DescribeTargetHealth` calls that is reserved for urgent calls.
const AWAITED: f64 = 0.4;
/// The share of all Describe calls that look-ups may use, because a tenant may refer to any number of missing target
/// groups. With the default limits of AWS, look-ups may use 5 calls per second, each for up to 20 target groups.
const LOOK_UPS: f64 = 0.1;

/// The token of a sent call. The caller returns the ticket with the answer.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    lane: Lane,
    /// The token from the bucket that mirrors AWS's bucket.
    token: Token,
    /// The token from the partial bucket for this kind of call.
    own: Option<Token>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Activity {
    /// The time at which the last deregistration of the group was triggered.
    caused: Moment,
    /// The time at which the last call of the group was sent. `None`: the group sent no call in this burst.
    called: Option<Moment>,
    /// The number of calls that the group sent in this burst.
    calls: u32,
    /// The sequence number of the last deregistration of the group among the deregistrations of all groups.
    number: u32,
    /// The recent average distance between deregistrations of the group. `None`: the group had only one deregistration.
    apart: Option<Apart>,
}

/// The distance between two deregistrations of a group.
#[derive(Clone, Copy, Debug)]
struct Apart {
    time: Duration,
    /// The number of deregistrations of other groups in between, plus one.
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

    /// The time after which Headgate expects no more deregistrations of this group, so that its last call can be sent.
    /// `None`: the deregistrations are too rare for a prediction, or other groups have no deregistrations either.
    /// `number`: the sequence number of the last deregistration of all groups.
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
    /// The rate of urgent `DescribeTargetHealth` calls, within `reads`.
    awaited_reads: Bucket,
    /// The rate of all `DescribeTargetHealth` calls, within `reads`.
    group_reads: Bucket,
    /// The rate of look-ups, within `reads`.
    look_ups: Bucket,
    /// The groups with terminating pods.
    active: BTreeMap<TargetGroupArn, Activity>,
    /// The time at which the last deregistration was triggered.
    caused: Option<Moment>,
    number: u32,
    /// The times at which recent deregistrations were sent.
    removed: VecDeque<Moment>,
}

impl Lanes {
    /// Creates a state with full buckets.
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

    /// Records that a target of this group must be deregistered.
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

    /// Chooses the next group to deregister targets from among the `due` groups, and takes a token for the call.
    pub fn removal<'a>(&mut self, due: &[Due<'a>], now: Moment) -> Option<(&'a TargetGroupArn, Ticket)> {
        if self.changes.tokens(now) < 1.0 {
            return None;
        }
        self.forget(now);
        let (needed, period) = self.thrift(due);
        let called = |due: &Due<'_>| self.active.get(due.group).and_then(|activity| activity.called);
        // Round robin: first a group without a call in this burst, and then the group whose last call is oldest.
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

    /// The time at which [`Self::removal`] may return one of these groups if nothing changes.
    pub fn next_removal(&mut self, due: &[Due<'_>], now: Moment) -> Option<Moment> {
        self.forget(now);
        let (needed, period) = self.thrift(due);
        let token = self.when(Lane::Removal, now);
        due.iter().map(|due| self.turn(due, needed, period, now).max(token)).min()
    }

    /// For a burst, the number of tokens above which a group need not wait, and the maximum pause between two calls of
    /// a group.
    fn thrift(&self, due: &[Due<'_>]) -> (f64, Duration) {
        let waiting = due.iter().filter(|due| !self.active.contains_key(due.group)).count();
        let groups = u32::try_from(self.active.len() + waiting).map_or(f64::MAX, f64::from);
        // Keep four tokens for each group, because other groups may join a burst that has just begun. Allow at least
        // one call, because AWS's full bucket gains no tokens.
        let needed = (4.0 * groups).min((self.changes.most() - 1.0).max(1.0));
        (needed, Duration::try_from_secs_f64(groups / self.changes.rate()).unwrap_or(Duration::MAX))
    }

    /// The time at which the deregistrations of this group may be sent if a token is available.
    fn turn(&self, due: &Due<'_>, needed: f64, period: Duration, now: Moment) -> Moment {
        // A call with the maximum number of targets need not wait, because waiting saves no token.
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

    /// Removes groups without terminating pods.
    fn forget(&mut self, now: Moment) {
        self.active.retain(|_, activity| now.since(activity.caused) < ACTIVE);
    }

    /// The bucket that mirrors AWS's bucket for this kind of call, and the partial bucket for this kind of call.
    const fn buckets(&mut self, lane: Lane) -> (&mut Bucket, &mut Bucket) {
        match lane {
            Lane::Removal | Lane::Addition | Lane::Retry => (&mut self.changes, &mut self.additions),
            Lane::AwaitedRead => (&mut self.reads, &mut self.awaited_reads),
            Lane::Read => (&mut self.reads, &mut self.group_reads),
            Lane::LookUp => (&mut self.reads, &mut self.look_ups),
        }
    }

    /// Takes a token for a call other than a deregistration, if the call may be sent now. Before a registration, the
    /// caller must check that no deregistration is due. Before a retry, the caller must check that no other
    /// registration is due.
    pub fn take(&mut self, lane: Lane, now: Moment) -> Option<Ticket> {
        let has_part = lane != Lane::Removal;
        if has_part && self.when(lane, now) > now {
            return None;
        }
        let (shared, part) = self.buckets(lane);
        let mut own = if has_part { Some(part.take(now)?) } else { None };
        // AWS has no separate buckets for kinds of Describe calls, so the arrival time of a call does not matter for a
        // partial bucket.
        if matches!(lane, Lane::AwaitedRead | Lane::Read | Lane::LookUp)
            && let Some(own) = own.take()
        {
            part.answered(own, now);
        }
        let token = shared.take(now)?;
        // If the whole bucket is almost empty, a rejection concerns the whole bucket and not the partial bucket.
        Some(Ticket { lane, token, own: own.map(|own| own.of_no_more_than(token)) })
    }

    /// The time at which a token is available for this kind of call. The caller must also check that no deregistration
    /// is due before a registration. A deregistration may have to wait longer in a burst.
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

    /// The number of tokens that registrations leave for later deregistrations. See the module docs.
    fn kept(&self, now: Moment) -> f64 {
        let part = |of_all: f64| (self.changes.most() * of_all).min(self.changes.most() - 1.0).floor();
        if self.caused.is_some_and(|caused| now.since(caused) < GOING) {
            return part(2.0 / 3.0);
        }
        let half = part(1.0 / 2.0);
        let sent = self.removed.iter().filter(|sent| now.since(**sent) < self.lately()).count();
        (half - u32::try_from(sent).map_or(half, f64::from)).max(1.0).min(half)
    }

    /// The time after a sent deregistration in which the bucket keeps one token less.
    fn lately(&self) -> Duration {
        let seconds = FILLINGS * self.changes.most() / self.changes.rate();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The interval between two `DescribeTargetHealth` calls of a group, if all groups are read equally often with half
    /// of the available tokens.
    pub fn read_period(&self, groups: usize) -> Duration {
        let groups = u32::try_from(groups).map_or(f64::MAX, f64::from);
        let rate = self.awaited_reads.rate() + self.group_reads.rate();
        Duration::try_from_secs_f64(2.0 * groups / rate).unwrap_or(Duration::MAX)
    }

    /// The kinds of calls that AWS throttles. A kind remains in the result until its rate has recovered.
    pub fn throttled(&mut self, now: Moment) -> Option<&'static str> {
        // Update all buckets. A bucket that is not updated would still return a recovery time in the past.
        let buckets = [&mut self.additions, &mut self.changes, &mut self.reads];
        match buckets.map(|bucket| bucket.throttled_since(now).is_some()) {
            [false, false, false] => None,
            [false, false, true] => Some("Describe calls"),
            _ => Some("RegisterTargets and DeregisterTargets"),
        }
    }

    /// The time at which the result of [`Self::throttled`] will change if AWS throttles no further call.
    pub fn next_recovery(&self) -> Option<Moment> {
        [&self.additions, &self.changes, &self.reads].into_iter().filter_map(Bucket::regained).min()
    }

    /// Records that the call with this ticket ended. `refused`: whether AWS throttled the call.
    pub fn answered(&mut self, ticket: Ticket, refused: bool, now: Moment) {
        let Ticket { lane, token, own } = ticket;
        // Only registrations slow down. Deregistrations continue, because Headgate knows its own usage. Deregistrations
        // detect other users of the bucket themselves.
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
