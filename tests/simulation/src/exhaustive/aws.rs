//! The AWS of the small world: one target group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use headgate_core::{
    model::{
        Call, Failure, FailureClass, Health, HealthState, IpFamily, LeastHealthy, Moment, Target,
        TargetGroupFacts, TargetType, Uid,
    },
    requests::Answer,
};

use super::{
    fingerprint::{Scribe, print},
    words::{BOUND, group, stranger},
};

/// From a registration, or from a change of who answers, to the health check that notices.
const NOTICED_AFTER: Duration = Duration::from_secs(2);
/// A read may show what was up to so long ago: what the engine allows for.
const STALE: Duration = Duration::from_secs(5);

/// One target.
#[derive(Clone, Debug)]
pub struct There {
    pub state: HealthState,
    /// When its health is checked next, if anything can have changed by then.
    check: Option<Moment>,
    /// Put there by a call of which the one who leads could not know.
    pub unknown: bool,
}

/// AWS.
#[derive(Clone, Debug, Default)]
pub struct Aws {
    pub targets: BTreeMap<Target, There>,
    /// What was there before the last change, and when that was.
    before: Option<(Moment, BTreeMap<Target, HealthState>)>,
    /// The pods for which each target was registered, and those for which it was seen healthy while they answered.
    pub registered: BTreeSet<(Target, Uid)>,
    pub proven: BTreeSet<(Target, Uid)>,
    /// When each target was taken out last.
    pub out: BTreeMap<Target, Moment>,
}

/// Who answers at a target, and who will from when on.
pub type Voice<'a> = dyn Fn(&Target) -> Option<(&'a Uid, Moment)> + 'a;

impl Aws {
    pub fn new() -> Self {
        let there = There { state: HealthState::Healthy, check: None, unknown: false };
        Self { targets: [(stranger(), there)].into(), ..Self::default() }
    }

    fn states(&self) -> BTreeMap<Target, HealthState> {
        self.targets.iter().map(|(target, there)| (*target, there.state)).collect()
    }

    fn remember(&mut self, now: Moment) {
        // Of what happens at one instant, the first is the change.
        if self.before.as_ref().is_none_or(|(at, _)| *at < now) {
            self.before = Some((now, self.states()));
        }
    }

    /// Whether a read may show something else than what is.
    pub fn is_in_doubt(&self, now: Moment) -> bool {
        self.before.as_ref().is_some_and(|(at, before)| now.since(*at) < STALE && *before != self.states())
    }

    /// What a read shows; `stale`: before the last change.
    fn read(&self, stale: bool) -> Answer {
        let then = self.before.as_ref().filter(|_| stale).map(|(_, before)| before.clone());
        let states = then.unwrap_or_else(|| self.states());
        Answer::Health(states.into_iter().map(|(target, state)| (target, Health::from(state))).collect())
    }

    /// Applies a call; `unknown`: the one who leads cannot know that it is.
    pub fn apply(&mut self, call: &Call, unknown: bool, stale: bool, now: Moment) -> Answer {
        match call {
            Call::FindGroups { .. } => Answer::Groups(vec![TargetGroupFacts {
                arn: group(),
                target_type: TargetType::Ip,
                protocol: "TCP".into(),
                ip_family: IpFamily::V4,
                least_healthy: Some(LeastHealthy::DEFAULT),
            }]),
            Call::ReadAttributes { .. } => Answer::Attributes(LeastHealthy::DEFAULT),
            Call::ReadHealth { .. } => self.read(stale),
            Call::Register { items, .. } => {
                self.remember(now);
                for item in items {
                    self.registered.insert((item.target, item.uid.clone()));
                    let check = Some(now + NOTICED_AFTER);
                    let new = There { state: HealthState::Initial, check, unknown };
                    let there = self.targets.entry(item.target).or_insert(new);
                    there.unknown &= unknown;
                }
                Answer::Done
            }
            Call::Deregister { items, .. } => {
                self.remember(now);
                for item in items {
                    // What nobody could know of was out before, for all that anybody knows.
                    if self.targets.remove(&item.target).is_some_and(|there| !there.unknown) {
                        self.out.insert(item.target, now);
                    }
                }
                Answer::Done
            }
        }
    }

    /// Another pod answers at this address, or nobody does any more.
    pub fn voice_changed(&mut self, target: &Target, now: Moment) {
        if let Some(there) = self.targets.get_mut(target) {
            let check = now + NOTICED_AFTER;
            there.check = Some(there.check.map_or(check, |before| before.min(check)));
        }
    }

    /// Time has passed: health is checked.
    pub fn pass(&mut self, now: Moment, voice: &Voice<'_>) {
        let due = |there: &There| there.check.is_some_and(|check| check <= now);
        if !self.targets.values().any(due) {
            return;
        }
        self.remember(now);
        for (target, there) in self.targets.iter_mut().filter(|(_, there)| due(there)) {
            let answers = voice(target);
            there.check = answers.map(|(_, from)| from).filter(|from| *from > now);
            there.state = match answers {
                Some((uid, from)) if from <= now => {
                    self.proven.insert((*target, uid.clone()));
                    HealthState::Healthy
                }
                _ => HealthState::Unhealthy,
            };
        }
    }

    /// When time has to stop for it.
    pub fn deadlines(&self) -> impl Iterator<Item = Moment> {
        self.targets.values().filter_map(|there| there.check)
    }

    /// What matters of it.
    pub fn print(&self, to: &mut Scribe, now: Moment) -> fmt::Result {
        let Self { targets, registered, proven, out, .. } = self;
        print(to, &(targets, registered, proven))?;
        print(to, &out.values().filter(|out| now.since(**out) <= BOUND).collect::<Vec<_>>())?;
        if self.is_in_doubt(now) { print(to, &self.before) } else { Ok(()) }
    }
}

/// How a call fails.
pub fn failure(class: FailureClass) -> Failure {
    Failure::new(class, class.as_str(), "text")
}
