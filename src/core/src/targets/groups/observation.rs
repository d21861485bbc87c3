//! The reads of a target group: when the next is due, and what the last has shown.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Health, HealthState, Moment, Target, health::tell_zones_apart};

/// The reads of one target group.
///
/// A group is read soon while something in it is under way (a target that is not healthy yet, a call that has just
/// ended), and rarely in other times. One read is one `DescribeTargetHealth` of the whole group.
#[derive(Clone, Debug)]
pub struct Observation {
    states: BTreeMap<Target, Health>,
    /// When the last successful read began.
    read: Option<Moment>,
    in_flight: Option<Moment>,
    /// When the last read began, if it failed.
    failed: Option<Moment>,
    due: Moment,
    /// When the next read is due that somebody waits for.
    awaited: Option<Moment>,
}

impl Default for Observation {
    /// Nothing was read yet. Somebody waits for the first read.
    fn default() -> Self {
        let (states, due) = (BTreeMap::new(), Moment::START);
        Self { states, read: None, in_flight: None, failed: None, due, awaited: Some(due) }
    }
}

impl Observation {
    /// When the next read is due. `None`: a read is in flight.
    pub fn due(&self) -> Option<Moment> {
        self.in_flight.is_none().then(|| self.awaited.map_or(self.due, |awaited| awaited.min(self.due)))
    }

    /// When the next read is due that somebody waits for. `None`: there is none, or a read is in flight.
    pub fn awaited(&self) -> Option<Moment> {
        self.awaited.filter(|_| self.in_flight.is_none())
    }

    pub fn start(&mut self, now: Moment) {
        self.in_flight = Some(now);
    }

    /// Stores the result of a read and returns the result of the read before.
    pub fn read(&mut self, mut states: BTreeMap<Target, Health>) -> BTreeMap<Target, Health> {
        tell_zones_apart(states.values_mut());
        let began = self.in_flight.take();
        self.awaited.take_if(|awaited| began.is_some_and(|began| *awaited <= began));
        (self.read, self.failed) = (began.or(self.read), None);
        std::mem::replace(&mut self.states, states)
    }

    /// Handles a failed read. The last result remains, because unknown does not mean unhealthy.
    pub fn failed(&mut self) {
        self.failed = self.in_flight.take();
    }

    /// Schedules the next read after `wait`.
    pub fn again_in(&mut self, now: Moment, wait: Duration) {
        self.due = now + wait;
    }

    /// Moves the next read forward, so that it is due after `wait` at the latest.
    pub fn within(&mut self, now: Moment, wait: Duration) {
        self.due = self.due.min(now + wait);
    }

    /// Somebody waits for the next read. It is due after `wait` at the latest.
    pub fn await_within(&mut self, now: Moment, wait: Duration) {
        let due = now + wait;
        self.awaited = Some(self.awaited.map_or(due, |awaited| awaited.min(due)));
    }

    pub fn state(&self, target: &Target) -> Option<HealthState> {
        self.health(target).map(|health| health.state)
    }

    /// The last known health of `target`.
    pub fn health(&self, target: &Target) -> Option<Health> {
        self.states.get(target).copied()
    }

    /// The result of the last successful read.
    pub fn states(&self) -> &BTreeMap<Target, Health> {
        &self.states
    }

    /// Whether a read that began at `since` or later has failed, and no read has succeeded after it.
    pub fn has_failed_since(&self, since: Moment) -> bool {
        self.failed.is_some_and(|began| began >= since)
    }

    /// When the last successful read began.
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
