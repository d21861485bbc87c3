//! Reading a target group: when, and what was seen last.

use std::{collections::BTreeMap, time::Duration};

use crate::model::{Health, HealthState, Moment, Target, health::tell_zones_apart};

/// The reads of one target group.
///
/// A group is read soon while something in it is under way (a target that is not healthy yet, a call that has
/// just ended), and rarely otherwise. One read is one `DescribeTargetHealth` of the whole group.
#[derive(Debug, Default)]
pub struct Observation {
    states: BTreeMap<Target, Health>,
    /// When the last answered read began.
    read: Option<Moment>,
    in_flight: Option<Moment>,
    due: Moment,
}

impl Observation {
    /// When the next read is due; `None` while one is in flight.
    pub fn due(&self) -> Option<Moment> {
        self.in_flight.is_none().then_some(self.due)
    }

    pub fn start(&mut self, now: Moment) {
        self.in_flight = Some(now);
    }

    pub fn read(&mut self, mut states: BTreeMap<Target, Health>) {
        tell_zones_apart(states.values_mut());
        self.read = self.in_flight.take().or(self.read);
        self.states = states;
    }

    /// A read has failed: what was seen before stays, unknown is not unhealthy.
    pub fn failed(&mut self) {
        self.in_flight = None;
    }

    /// The next read is due after `wait`, or earlier if it already was.
    pub fn again_in(&mut self, now: Moment, wait: Duration) {
        self.due = if self.due <= now { now + wait } else { self.due.min(now + wait) };
    }

    /// The next read is due after `wait` at the latest; one that is due already stays so.
    pub fn within(&mut self, now: Moment, wait: Duration) {
        self.due = self.due.min(now + wait);
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
            Health { state: HealthState::Healthy, reason: "", shifted: false },
        )]));
        observation.start(at(5));
        assert_eq!(observation.due(), None, "one is under way");
        observation.failed();
        observation.again_in(at(5), Duration::from_secs(2));
        assert_eq!(observation.due(), Some(at(7)));
        assert_eq!((observation.states().len(), observation.last_read()), (1, Some(at(1))));
    }
}
