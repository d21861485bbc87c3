//! Reading a target group: when, and what was seen last.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Health, HealthState, Moment, Target, health::tell_zones_apart};

/// The reads of one target group.
///
/// A group is read soon while something in it is under way (a target that is not healthy yet, a call that has
/// just ended), and rarely otherwise. One read is one `DescribeTargetHealth` of the whole group.
#[derive(Clone, Debug)]
pub struct Observation {
    states: BTreeMap<Target, Health>,
    /// When the last answered read began.
    read: Option<Moment>,
    in_flight: Option<Moment>,
    /// When the last read began, if it has failed.
    failed: Option<Moment>,
    due: Moment,
    /// When one is due that somebody waits for.
    awaited: Option<Moment>,
}

impl Default for Observation {
    /// Nothing was seen: the first read is waited for.
    fn default() -> Self {
        let (states, due) = (BTreeMap::new(), Moment::START);
        Self { states, read: None, in_flight: None, failed: None, due, awaited: Some(due) }
    }
}

impl Observation {
    /// When the next read is due; `None` while one is in flight.
    pub fn due(&self) -> Option<Moment> {
        self.in_flight.is_none().then(|| self.awaited.map_or(self.due, |awaited| awaited.min(self.due)))
    }

    /// The same of one that somebody waits for.
    pub fn awaited(&self) -> Option<Moment> {
        self.awaited.filter(|_| self.in_flight.is_none())
    }

    pub fn start(&mut self, now: Moment) {
        self.in_flight = Some(now);
    }

    /// A read has shown these; gives what was seen before.
    pub fn read(&mut self, mut states: BTreeMap<Target, Health>) -> BTreeMap<Target, Health> {
        tell_zones_apart(states.values_mut());
        let began = self.in_flight.take();
        self.awaited.take_if(|awaited| began.is_some_and(|began| *awaited <= began));
        (self.read, self.failed) = (began.or(self.read), None);
        std::mem::replace(&mut self.states, states)
    }

    /// A read has failed: what was seen before stays, unknown is not unhealthy.
    pub fn failed(&mut self) {
        self.failed = self.in_flight.take();
    }

    /// The next read is due after `wait`.
    pub fn again_in(&mut self, now: Moment, wait: Duration) {
        self.due = now + wait;
    }

    /// The next read is due after `wait` at the latest; one that is due already stays so.
    pub fn within(&mut self, now: Moment, wait: Duration) {
        self.due = self.due.min(now + wait);
    }

    /// Somebody waits for the next read: it is due after `wait` at the latest.
    pub fn await_within(&mut self, now: Moment, wait: Duration) {
        let due = now + wait;
        self.awaited = Some(self.awaited.map_or(due, |awaited| awaited.min(due)));
    }

    pub fn state(&self, target: &Target) -> Option<HealthState> {
        self.health(target).map(|health| health.state)
    }

    /// All that was said of `target` when it was last seen.
    pub fn health(&self, target: &Target) -> Option<Health> {
        self.states.get(target).copied()
    }

    /// All that was seen last.
    pub fn states(&self) -> &BTreeMap<Target, Health> {
        &self.states
    }

    /// Whether a read that began then, or later, has failed, and none was answered after it.
    pub fn has_failed_since(&self, since: Moment) -> bool {
        self.failed.is_some_and(|began| began >= since)
    }

    /// When the last answered read began.
    pub fn last_read(&self) -> Option<Moment> {
        self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_read_that_failed_what_was_seen_stays_and_the_next_read_is_due() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let mut observation = Observation::default();
        observation.start(at(1));
        observation.read(BTreeMap::from([(
            crate::testing::target(1, 80),
            Health { state: HealthState::Healthy, reason: "", zone: None },
        )]));
        observation.start(at(5));
        assert_eq!((observation.due(), observation.awaited()), (None, None), "one is under way");
        observation.failed();
        observation.again_in(at(5), Duration::from_secs(2));
        assert_eq!((observation.due(), observation.awaited()), (Some(at(7)), None));
        assert_eq!((observation.states().len(), observation.last_read()), (1, Some(at(1))));
    }

    #[test]
    fn a_read_that_is_waited_for_is_waited_for_until_one_has_ended_that_began_late_enough() {
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        let mut observation = Observation::default();
        assert_eq!(observation.awaited(), Some(Moment::START), "the first one is");
        observation.start(at(1));
        observation.read(BTreeMap::new());
        observation.again_in(at(1), Duration::from_secs(60));
        assert_eq!((observation.awaited(), observation.due()), (None, Some(at(61))));
        observation.await_within(at(2), Duration::from_secs(1));
        observation.await_within(at(2), Duration::from_secs(9));
        observation.start(at(3));
        assert_eq!(observation.awaited(), None, "one is under way");
        observation.failed();
        assert_eq!((observation.awaited(), observation.due()), (Some(at(3)), Some(at(3))));
        observation.start(at(4));
        observation.await_within(at(4), Duration::from_secs(1));
        observation.read(BTreeMap::new());
        assert_eq!(observation.awaited(), None);
        observation.start(at(5));
        observation.read(BTreeMap::new());
        observation.start(at(6));
        observation.await_within(at(6), Duration::from_secs(2));
        observation.read(BTreeMap::new());
        assert_eq!(observation.awaited(), Some(at(8)), "asked for while this one was under way");
    }
}
