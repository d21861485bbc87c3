//! The AWS of a world: target groups, the calls in flight, and what becomes of them.

mod hands;
mod health;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use crate::{
    cluster::Cluster,
    coverage::Coverage,
    words::ip,
    words::{APPLICATION, GROUPS, MANY_HEALTHY, Sender},
};
use headgate_core::{
    model::{
        Call, CallItem, Failure, FailureClass, GroupRef, Health, HealthState, IpFamily, LeastHealthy, Moment,
        RequestId, Target, TargetGroupArn, TargetGroupFacts, TargetType, Uid,
    },
    requests::Answer,
};

/// A call may be applied this long after it was sent, whatever became of its sender: less than the engine allows for.
const LATEST: Duration = Duration::from_secs(25);
/// Time passes in steps of at most this.
const STRIDE: Duration = Duration::from_secs(10);
/// Calls are given up after this time.
const GIVEN_UP: Duration = Duration::from_secs(8);
/// For so long nobody can read health, where that happens.
const AWAY: Duration = Duration::from_secs(12);
/// A read shows what was up to so long ago.
pub const STALE: Duration = Duration::from_secs(5);
/// The past that is kept, for the checks.
const KEPT: Duration = Duration::from_secs(30);
/// The last byte of the IP that cannot be registered, and of the one that cannot be removed.
const BAD: u8 = 9;
const KEPT_IN: u8 = 7;

/// One target of a group.
#[derive(Clone, Copy, Debug)]
struct There {
    state: HealthState,
    /// Since when it has this state.
    since: Moment,
    /// Since when nobody answers there.
    sick: Option<Moment>,
}

impl There {
    fn new(now: Moment) -> Self {
        Self { state: HealthState::Initial, since: now, sick: None }
    }
}

type Targets = BTreeMap<Target, There>;

#[derive(Debug)]
struct Group {
    arn: TargetGroupArn,
    targets: Targets,
    /// What was before each change.
    past: VecDeque<(Moment, Targets)>,
    /// No listener uses it.
    unused: bool,
    /// A zonal shift keeps new traffic away from it.
    shifted: bool,
    /// The load balancer does not serve one of the zones.
    narrow: bool,
}

impl Group {
    fn remember(&mut self, now: Moment) {
        self.past.push_back((now, self.targets.clone()));
        while self.past.front().is_some_and(|(at, _)| now.since(*at) > KEPT) {
            self.past.pop_front();
        }
    }
}

/// A call in flight.
#[derive(Debug)]
pub struct Open {
    pub id: RequestId,
    pub sender: Sender,
    pub sent: Moment,
    pub call: Call,
}

/// AWS.
#[derive(Debug, Default)]
pub struct Aws {
    groups: BTreeMap<&'static str, Group>,
    pub open: Vec<Open>,
    late: Vec<(Moment, Call)>,
    /// Targets that somebody else put there.
    foreign_targets: BTreeSet<(TargetGroupArn, Target)>,
    /// Those that may be removed, and when that was said last.
    expelled: BTreeMap<(TargetGroupArn, Target), Moment>,
    /// When each target was healthy last because of this pod, and no other.
    proven: BTreeMap<(TargetGroupArn, Target, Uid), Moment>,
    /// When each target was registered last, and whether by a call of which the one who leads could not know; and when it was
    /// taken out last.
    put: BTreeMap<(TargetGroupArn, Target), (Moment, bool)>,
    left: BTreeMap<(TargetGroupArn, Target), Moment>,
    /// When a call of Headgate's took each target out last.
    taken_out: BTreeMap<(TargetGroupArn, Target), Moment>,
    /// When no listener used a group last.
    unused: BTreeMap<TargetGroupArn, Moment>,
    generations: u64,
    /// Until when nobody can look up target groups.
    look_ups_fail: Moment,
    /// Whether nobody can read health, every other while.
    reads_fail_by_turns: bool,
    /// How many targets a group may have.
    quota: Option<usize>,
}

impl Aws {
    pub fn new(reads_fail_by_turns: bool) -> Self {
        let mut aws = Self { reads_fail_by_turns, ..Self::default() };
        for name in GROUPS {
            aws.make(name);
        }
        aws
    }

    fn make(&mut self, name: &'static str) {
        self.generations += 1;
        let text = format!(
            "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/{name}/{:016x}",
            self.generations
        );
        let arn = TargetGroupArn::parse(&text).unwrap();
        let (targets, past) = (BTreeMap::new(), VecDeque::new());
        self.groups.insert(name, Group { arn, targets, past, unused: false, shifted: false, narrow: false });
    }

    /// The ARN that `name` has now.
    pub fn arn(&self, name: &str) -> Option<&TargetGroupArn> {
        self.groups.get(name).map(|group| &group.arn)
    }

    fn group(&self, arn: &TargetGroupArn) -> Option<&Group> {
        self.groups.values().find(|group| group.arn == *arn)
    }

    /// The targets that are not draining, and not foreign.
    pub fn ours(&self, name: &str) -> BTreeSet<Target> {
        let Some(group) = self.groups.get(name) else { return BTreeSet::new() };
        let registered = group.targets.iter().filter(|(_, there)| there.state != HealthState::Draining);
        registered
            .map(|(target, _)| *target)
            .filter(|target| !self.foreign_targets.contains(&(group.arn.clone(), *target)))
            .collect()
    }

    fn there(&self, arn: &TargetGroupArn, target: &Target) -> Option<&There> {
        let there = self.group(arn)?.targets.get(target)?;
        (there.state != HealthState::Draining).then_some(there)
    }

    /// Whether a target is there and not draining.
    pub fn has(&self, arn: &TargetGroupArn, target: &Target) -> bool {
        self.there(arn, target).is_some()
    }

    /// Since when a target is healthy without a break.
    pub fn healthy_since(&self, arn: &TargetGroupArn, target: &Target) -> Option<Moment> {
        let there = self.there(arn, target)?;
        (there.state == HealthState::Healthy).then_some(there.since)
    }

    /// Why the load balancer may send to a target, if it goes on for `bound` after a removal. A call that was given up, or
    /// sent by whoever led before, and has brought it back does not count: nobody could know.
    pub fn sends_to(
        &self,
        arn: &TargetGroupArn,
        target: &Target,
        bound: Duration,
        now: Moment,
    ) -> Option<String> {
        self.group(arn)?;
        let key = (arn.clone(), *target);
        let left = self.left.get(&key).copied();
        if self.has(arn, target) {
            let (put, late) = *self.put.get(&key)?;
            return (!late && left.is_none_or(|left| left <= put)).then(|| "it is there".to_owned());
        }
        let since = now.since(left?);
        (since < bound).then(|| format!("it was taken out {since:?} ago, and the bound is {bound:?}"))
    }

    /// The foreign targets in a group.
    pub fn foreign_targets(&self, arn: &TargetGroupArn) -> impl Iterator<Item = &Target> {
        self.foreign_targets
            .iter()
            .filter(move |(group, target)| group == arn && self.has(group, target))
            .map(|it| &it.1)
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Moment, cluster: &Cluster, coverage: &mut Coverage) {
        let (due, rest) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = rest;
        let mut due: Vec<(Moment, Call)> = due;
        due.sort_by_key(|(at, _)| *at);
        for (at, call) in due {
            coverage.saw("aws: applied late, after it was given up");
            let left = self.left.clone();
            let _ = self.apply(&call, at, Duration::ZERO);
            match &call {
                Call::Register { group, items } => {
                    for item in items {
                        self.put.insert((group.clone(), item.target), (at, true));
                    }
                }
                // What one late call has brought back, and another one takes out, nobody could know of.
                Call::Deregister { group, items } => {
                    for key in items.iter().map(|item| (group.clone(), item.target)) {
                        if self.put.get(&key).is_some_and(|(_, late)| *late) {
                            match left.get(&key) {
                                Some(left) => _ = self.left.insert(key, *left),
                                None => _ = self.left.remove(&key),
                            }
                        }
                    }
                }
                Call::ReadHealth { .. } | Call::FindGroups { .. } | Call::ReadAttributes { .. } => {}
            }
        }
        self.check_health(now, cluster, coverage);
    }

    /// These were registered just now, if at all, by a call of which the one who leads could not know.
    pub fn nobody_knew(&mut self, arn: &TargetGroupArn, items: &[CallItem], now: Moment) {
        for item in items {
            if let Some((put, late)) = self.put.get_mut(&(arn.clone(), item.target))
                && *put == now
            {
                *late = true;
            }
        }
    }

    /// The process that sent these is gone: they may still arrive.
    pub fn sender_died(&mut self, sender: Sender, rng: &mut fastrand::Rng, now: Moment) {
        for open in std::mem::take(&mut self.open) {
            if open.sender != sender {
                self.open.push(open);
            } else if rng.bool() {
                self.is_late(&open, rng, now);
            }
        }
    }

    fn is_late(&mut self, open: &Open, rng: &mut fastrand::Rng, now: Moment) {
        let left = LATEST.saturating_sub(now.since(open.sent)).as_millis();
        let after = rng.u64(0..u64::try_from(left).unwrap().max(1));
        self.late.push((now + Duration::from_millis(after), open.call.clone()));
    }

    /// Whether a call has waited so long for its answer that its sender gives it up.
    pub fn overdue(&self, now: Moment) -> bool {
        self.open.iter().any(|open| now.since(open.sent) > GIVEN_UP)
    }

    /// Ends one of the calls in flight in a way that chance decides; without faults it succeeds.
    pub fn end_one(
        &mut self,
        rng: &mut fastrand::Rng,
        faults: bool,
        now: Moment,
        coverage: &mut Coverage,
    ) -> Option<(Open, Result<Answer, Failure>)> {
        if self.open.is_empty() {
            return None;
        }
        let at = self.open.iter().position(|open| now.since(open.sent) > GIVEN_UP);
        let (at, given_up) = at.map_or_else(|| (rng.usize(0..self.open.len()), false), |at| (at, true));
        let open = self.open.swap_remove(at);
        let fate = match faults {
            true if given_up => rng.u8(76..94),
            true => rng.u8(0..100),
            false => 0,
        };
        let call = &open.call;
        let age = if faults && rng.bool() { rng.u64(0..5_000) } else { 0 };
        let age = Duration::from_millis(age);
        let is_change = matches!(call, Call::Register { .. } | Call::Deregister { .. });
        let mut fail = |what: &str, class| {
            coverage.saw(what);
            Err(Failure { class, code: "Code".into(), message: "text".into() })
        };
        let result = match fate {
            _ if faults && self.reads_fail(call, now) => {
                fail("aws: health unavailable for a while", FailureClass::Unavailable)
            }
            70..=75 => fail("aws: throttled", FailureClass::Throttled),
            76..=81 if matches!(call, Call::ReadHealth { .. }) => {
                fail("aws: health unavailable", FailureClass::Unavailable)
            }
            76..=81 => fail("aws: never arrived", FailureClass::Unavailable),
            82..=87 => {
                let _ = self.apply(call, now, age);
                fail("aws: answer lost", FailureClass::Unavailable)
            }
            88..=93 => {
                self.is_late(&open, rng, now);
                fail("aws: never arrived", FailureClass::Unavailable)
            }
            94..=95 => fail("aws: denied", FailureClass::Denied),
            _ if faults && call.is_look_up() && now < self.look_ups_fail => {
                fail("aws: a look-up failed", FailureClass::Unavailable)
            }
            _ if faults && names_the_bad_one(call) => {
                fail("aws: refused for one bad target", FailureClass::Refused)
            }
            96..=97 if is_change => fail("aws: refused", FailureClass::Refused),
            98 if is_change => {
                let _ = self.apply(&part_of(call, rng), now, age);
                fail("aws: applied in part, and failed", FailureClass::Unavailable)
            }
            _ if self.does_not_fit(call) => fail("aws: quota", FailureClass::Full),
            _ => {
                coverage.saw("aws: applied");
                if !age.is_zero() && matches!(call, Call::ReadHealth { .. }) {
                    coverage.saw("aws: a read shows the past");
                }
                self.apply(call, now, age)
            }
        };
        Some((open, result))
    }

    fn reads_fail(&self, call: &Call, now: Moment) -> bool {
        let is_away = now.elapsed().as_secs() / AWAY.as_secs() % 2 == 1;
        self.reads_fail_by_turns && is_away && matches!(call, Call::ReadHealth { .. })
    }

    /// Whether it takes no more.
    pub fn is_full(&self, name: &str) -> bool {
        self.quota.is_some_and(|quota| self.count(name) >= quota)
    }

    /// Whether a call would bring more targets than the quota allows.
    fn does_not_fit(&self, call: &Call) -> bool {
        let (Call::Register { group, items }, Some(quota)) = (call, self.quota) else { return false };
        let Some(group) = self.group(group) else { return false };
        let there = |item: &&CallItem| {
            group.targets.get(&item.target).is_some_and(|there| there.state != HealthState::Draining)
        };
        let new = items.iter().filter(|item| !there(item)).count();
        new > 0 && self.count(group.arn.name()) + new > quota
    }

    /// Applies a call, all of it or nothing; a read shows what was `age` ago.
    fn apply(&mut self, call: &Call, now: Moment, age: Duration) -> Result<Answer, Failure> {
        let gone = || Failure {
            class: FailureClass::Gone,
            code: "TargetGroupNotFound".into(),
            message: "gone".into(),
        };
        let arn = match call {
            Call::FindGroups { references } => {
                let find = |reference: &GroupRef| {
                    let GroupRef::Name(name) = reference else { return Err(gone()) };
                    let group = self.groups.get(&**name).ok_or_else(gone)?;
                    Ok(TargetGroupFacts {
                        arn: group.arn.clone(),
                        target_type: TargetType::Ip,
                        protocol: if **name == *APPLICATION { "HTTP" } else { "TCP" }.into(),
                        ip_family: IpFamily::V4,
                        least_healthy: match &**name {
                            // Its attributes are to be read.
                            APPLICATION => None,
                            MANY_HEALTHY => Some(LeastHealthy { count: 1, percent: 60 }),
                            _ => Some(LeastHealthy::DEFAULT),
                        },
                    })
                };
                return references.iter().map(find).collect::<Result<_, _>>().map(Answer::Groups);
            }
            Call::ReadAttributes { .. } => return Ok(Answer::Attributes(LeastHealthy::DEFAULT)),
            Call::Register { group, .. } | Call::Deregister { group, .. } | Call::ReadHealth { group } => {
                group
            }
        };
        let group = self.groups.values_mut().find(|group| group.arn == *arn).ok_or_else(gone)?;
        match call {
            Call::Register { items, .. } => {
                group.remember(now);
                for item in items {
                    self.put.insert((arn.clone(), item.target), (now, false));
                    let there = group.targets.entry(item.target).or_insert_with(|| There::new(now));
                    if there.state == HealthState::Draining {
                        *there = There::new(now);
                    }
                }
                Ok(Answer::Done)
            }
            Call::Deregister { items, .. } => {
                group.remember(now);
                for item in items {
                    let key = (arn.clone(), item.target);
                    self.taken_out.insert(key.clone(), now);
                    if drain(&mut group.targets, &item.target, now) {
                        self.left.insert(key.clone(), now);
                    }
                    if self.expelled.get(&key).is_some_and(|said| now.since(*said) <= LATEST + STRIDE) {
                        self.foreign_targets.remove(&key);
                    }
                }
                Ok(Answer::Done)
            }
            _ => {
                let past = group.past.iter().find(|(at, _)| now.since(*at) < age);
                let targets = past.map_or(&group.targets, |(_, targets)| targets);
                let states = targets.iter().map(|(target, there)| (*target, group.health(there)));
                let states: Vec<(Target, Health)> = states.collect();
                // Where all targets are in a zone that is not served, nothing says that any other is.
                if !states.iter().any(|(_, health)| health.state.is_in_use()) {
                    self.unused.insert(arn.clone(), now);
                }
                Ok(Answer::Health(states))
            }
        }
    }

    /// Nobody can look up target groups until then.
    pub fn look_ups_fail(&mut self, until: Moment) {
        self.look_ups_fail = until;
    }

    /// How many targets of a group are not draining.
    pub fn count(&self, name: &str) -> usize {
        let there = |there: &&There| there.state != HealthState::Draining;
        self.groups.get(name).map_or(0, |group| group.targets.values().filter(there).count())
    }
}

fn drain(targets: &mut Targets, target: &Target, now: Moment) -> bool {
    match targets.get_mut(target) {
        Some(there) if there.state != HealthState::Draining => {
            (there.state, there.since) = (HealthState::Draining, now);
            true
        }
        _ => false,
    }
}

/// Two of the pods' IPs are bad while there are faults: AWS refuses calls that register the one, as for an address outside of
/// the VPC, and calls that remove the other.
fn names_the_bad_one(call: &Call) -> bool {
    let names = |items: &[CallItem], last| items.iter().any(|item| item.target.ip == ip(last));
    match call {
        Call::Register { items, .. } => names(items, BAD),
        Call::Deregister { items, .. } => names(items, KEPT_IN),
        Call::ReadHealth { .. } | Call::FindGroups { .. } | Call::ReadAttributes { .. } => false,
    }
}

/// The same call for some of its targets.
fn part_of(call: &Call, rng: &mut fastrand::Rng) -> Call {
    let mut part = call.clone();
    if let Call::Register { items, .. } | Call::Deregister { items, .. } = &mut part {
        items.retain(|_| rng.bool());
    }
    part
}
