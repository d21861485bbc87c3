//! The AWS of a world: target groups, the calls in flight, and what becomes of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    health::HealthState,
    input::{Answer, Call, CallId, ErrorClass, Failure},
    simulation::coverage::Coverage,
    target::Target,
    target_group::{GroupRef, IpFamily, TargetGroupArn, TargetGroupFacts, TargetType},
    testing::ip,
    time::Moment,
};

/// The names of the groups.
pub const GROUPS: [&str; 3] = ["blue", "green", "red"];
const DRAINING: Duration = Duration::from_secs(20);
/// A call that was given up may be applied this much later: less than the engine allows for.
const LATEST: u64 = 25_000;
/// The last byte of the bad IP.
const BAD: u8 = 9;

#[derive(Debug)]
struct Group {
    arn: TargetGroupArn,
    targets: BTreeMap<Target, (HealthState, Moment)>,
}

/// A call in flight.
#[derive(Debug)]
pub struct Open {
    pub id: CallId,
    pub call: Call,
}

/// AWS.
#[derive(Debug, Default)]
pub struct Aws {
    groups: BTreeMap<&'static str, Group>,
    pub open: Vec<Open>,
    late: Vec<(Moment, Call)>,
    /// Targets that somebody else put there.
    strangers: BTreeSet<(TargetGroupArn, Target)>,
    generations: u64,
}

impl Aws {
    pub fn new() -> Self {
        let mut aws = Self::default();
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
        self.groups.insert(name, Group { arn, targets: BTreeMap::new() });
    }

    /// The ARN that `name` has now.
    pub fn arn(&self, name: &str) -> Option<&TargetGroupArn> {
        self.groups.get(name).map(|group| &group.arn)
    }

    /// The targets that are not draining, and not a stranger's.
    pub fn ours(&self, name: &str) -> BTreeSet<Target> {
        let Some(group) = self.groups.get(name) else { return BTreeSet::new() };
        let registered = group.targets.iter().filter(|(_, (state, _))| *state != HealthState::Draining);
        registered
            .map(|(target, _)| *target)
            .filter(|target| !self.strangers.contains(&(group.arn.clone(), *target)))
            .collect()
    }

    /// Whether a target is there and not draining.
    pub fn has(&self, arn: &TargetGroupArn, target: &Target) -> bool {
        let group = self.groups.values().find(|group| group.arn == *arn);
        let state = group.and_then(|group| group.targets.get(target));
        state.is_some_and(|(state, _)| *state != HealthState::Draining)
    }

    /// Whether all that strangers put there is still there.
    pub fn strangers_are_untouched(&self) -> bool {
        self.strangers.iter().all(|(arn, target)| {
            let Some(group) = self.groups.values().find(|group| group.arn == *arn) else { return true };
            group.targets.get(target).is_some_and(|(state, _)| *state != HealthState::Draining)
        })
    }

    /// Time has passed.
    pub fn pass(&mut self, now: Moment, coverage: &mut Coverage) {
        let (due, rest) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = rest;
        let due: Vec<(Moment, Call)> = due;
        for (_, call) in due {
            coverage.saw("aws: applied late, after it was given up");
            let _ = self.apply(&call, now);
        }
        for group in self.groups.values_mut() {
            group
                .targets
                .retain(|_, (state, since)| *state != HealthState::Draining || now.since(*since) < DRAINING);
            for (state, since) in group.targets.values_mut() {
                if *state == HealthState::Initial && now.since(*since) > Duration::from_secs(3) {
                    *state = HealthState::Healthy;
                }
            }
        }
    }

    /// Ends one of the calls in flight in a way that chance decides; without faults it succeeds.
    pub fn end_one(
        &mut self,
        rng: &mut fastrand::Rng,
        faults: bool,
        now: Moment,
        coverage: &mut Coverage,
    ) -> Option<(CallId, Result<Answer, Failure>)> {
        if self.open.is_empty() {
            return None;
        }
        let Open { id, call } = self.open.swap_remove(rng.usize(0..self.open.len()));
        let fate = if faults { rng.u8(0..100) } else { 0 };
        let mut fail = |what: &str, class| {
            coverage.saw(what);
            Err(Failure { class, code: "Code".into(), message: "text".into() })
        };
        let result = match fate {
            70..=75 => fail("aws: throttled", ErrorClass::Throttled),
            76..=81 => fail("aws: never arrived", ErrorClass::Unavailable),
            82..=87 => {
                let _ = self.apply(&call, now);
                fail("aws: answer lost", ErrorClass::Unavailable)
            }
            88..=93 => {
                let at = now + Duration::from_millis(rng.u64(1..LATEST));
                let failed = fail("aws: never arrived", ErrorClass::Unavailable);
                self.late.push((at, call));
                failed
            }
            94..=95 => fail("aws: denied", ErrorClass::Denied),
            98 if matches!(call, Call::Register { .. }) => fail("aws: quota", ErrorClass::Quota),
            _ if faults && names_the_bad_one(&call) => {
                fail("aws: refused for one bad target", ErrorClass::TargetRefused)
            }
            96..=97 if matches!(call, Call::Register { .. } | Call::Deregister { .. }) => {
                fail("aws: refused", ErrorClass::TargetRefused)
            }
            _ => {
                coverage.saw("aws: applied");
                self.apply(&call, now)
            }
        };
        Some((id, result))
    }

    /// Applies a call, all of it or nothing.
    fn apply(&mut self, call: &Call, now: Moment) -> Result<Answer, Failure> {
        let gone = || Failure {
            class: ErrorClass::GroupGone,
            code: "TargetGroupNotFound".into(),
            message: "gone".into(),
        };
        let arn = match call {
            Call::FindGroup { reference: GroupRef::Name(name) } => {
                let group = self.groups.get(&**name).ok_or_else(gone)?;
                return Ok(Answer::Group(TargetGroupFacts {
                    arn: group.arn.clone(),
                    target_type: TargetType::Ip,
                    protocol: "TCP".into(),
                    ip_family: IpFamily::V4,
                }));
            }
            Call::FindGroup { .. } => return Err(gone()),
            Call::Register { group, .. } | Call::Deregister { group, .. } | Call::ReadHealth { group } => {
                group
            }
        };
        let group = self.groups.values_mut().find(|group| group.arn == *arn).ok_or_else(gone)?;
        match call {
            Call::Register { items, .. } => {
                for item in items {
                    let state = group.targets.entry(item.target).or_insert((HealthState::Initial, now));
                    if state.0 == HealthState::Draining {
                        *state = (HealthState::Initial, now);
                    }
                }
                Ok(Answer::Done)
            }
            Call::Deregister { items, .. } => {
                for item in items {
                    if let Some(state) = group.targets.get_mut(&item.target)
                        && state.0 != HealthState::Draining
                    {
                        *state = (HealthState::Draining, now);
                    }
                }
                Ok(Answer::Done)
            }
            _ => Ok(Answer::Health(
                group.targets.iter().map(|(target, (state, _))| (*target, *state)).collect(),
            )),
        }
    }

    /// Somebody else does something.
    pub fn other_hands(&mut self, rng: &mut fastrand::Rng, now: Moment) -> Option<&'static str> {
        let name = GROUPS[rng.usize(0..GROUPS.len())];
        let group = self.groups.get_mut(name)?;
        if rng.bool() {
            let target = Target::new(ip(rng.u8(100..110)), 8080);
            group.targets.insert(target, (HealthState::Initial, now));
            self.strangers.insert((group.arn.clone(), target));
            return Some("aws: other hands register");
        }
        let at = rng.usize(0..group.targets.len().max(1));
        let (target, state) = group.targets.iter_mut().nth(at)?;
        *state = (HealthState::Draining, now);
        self.strangers.remove(&(group.arn.clone(), *target));
        Some("aws: other hands deregister")
    }

    /// A target group is removed, or made again under its old name with another ARN.
    pub fn remake(&mut self, rng: &mut fastrand::Rng) -> &'static str {
        let name = GROUPS[rng.usize(0..GROUPS.len())];
        if self.groups.remove(name).is_some() {
            return "aws: group removed";
        }
        self.make(name);
        "aws: group made again"
    }

    /// All groups are there again.
    pub fn mend(&mut self) {
        for name in GROUPS {
            if !self.groups.contains_key(name) {
                self.make(name);
            }
        }
    }
}

/// One of the pods' IPs is bad while there are faults: outside of the VPC, say. AWS refuses calls that name it.
fn names_the_bad_one(call: &Call) -> bool {
    matches!(call, Call::Register { items, .. } if items.iter().any(|item| item.target.ip == ip(BAD)))
}
