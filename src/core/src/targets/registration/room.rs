//! How many more targets a group accepts after AWS has reported that it is full (`TooManyTargets`).
//!
//! AWS does not report how many targets would fit, and rejects a call as a whole. Headgate halves a rejected call until
//! a part fits, and narrows the number down until not one more target fits. When targets are deregistered, Headgate
//! tries as many of the waiting ones. In the meantime it tries one, less and less often, because somebody may have
//! raised the quota or removed targets from another group of the load balancer.

use std::time::Duration;

use crate::model::Moment;

/// A full group is tried again after this long, and then after twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LAST_WAIT: Duration = Duration::from_secs(160);
/// The limit of a group that is not full is valid for this long.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// See the module docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Fewer targets than this fit.
    below: usize,
    /// How many targets the next call may contain.
    next: usize,
    /// How often the group was full since AWS last accepted a call.
    refusals: u32,
    /// When the known limit expires.
    until: Option<Moment>,
}

impl Default for Room {
    /// No limit is known.
    fn default() -> Self {
        Self { below: usize::MAX, next: usize::MAX, refusals: 0, until: None }
    }
}

impl Room {
    /// How many targets one call may contain.
    pub fn fits(&self) -> usize {
        self.next
    }

    /// Whether not one more target fits.
    pub fn is_full(&self) -> bool {
        self.next == 0
    }

    /// AWS has rejected a call with this many targets.
    pub fn refused(&mut self, targets: usize, now: Moment) {
        self.below = targets.max(1);
        self.narrow(now);
    }

    /// AWS has accepted a call with this many targets.
    pub fn taken(&mut self, targets: usize, now: Moment) {
        self.refusals = 0;
        if self.below == usize::MAX {
            *self = Self::default();
        } else {
            self.below = self.below.saturating_sub(targets).max(1);
            self.narrow(now);
        }
    }

    fn narrow(&mut self, now: Moment) {
        self.next = self.below / 2;
        let wait = if self.next > 0 {
            KNOWN_FOR
        } else {
            let wait = FIRST_WAIT.saturating_mul(1 << self.refusals.min(8)).min(LAST_WAIT);
            self.refusals += 1;
            wait
        };
        self.until = Some(now + wait);
    }

    /// This many targets were deregistered.
    pub fn left(&mut self, targets: usize) {
        if self.below < usize::MAX {
            self.below = self.below.saturating_add(targets);
            self.next = self.next.max(targets);
        }
    }

    /// Advances the time.
    pub fn pass(&mut self, now: Moment) {
        if self.until.is_some_and(|until| until <= now) {
            let next = if self.is_full() { 1 } else { usize::MAX };
            *self = Self { next, refusals: self.refusals, ..Self::default() };
        }
    }

    /// When the known limit expires.
    pub fn next_due(&self) -> Option<Moment> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    #[test]
    fn a_group_that_takes_some_is_known_for_a_minute_and_a_full_one_is_tried_again_sooner() {
        for (refused, next, until) in [(10, 5, 60), (2, 1, 60), (1, 0, 10), (0, 0, 10)] {
            let mut room = Room::default();
            room.refused(refused, at(0));
            assert_eq!((room.fits(), room.next_due()), (next, Some(at(until))), "{refused}");
        }
    }

    /// Registers as many of `waiting` as fit. Returns how many fit, and how many calls that took.
    fn fill(room: &mut Room, mut waiting: usize, mut fits: usize) -> (usize, usize) {
        let (mut taken, mut calls) = (0, 0);
        while waiting > 0 && !room.is_full() {
            let call = room.fits().min(waiting).min(100);
            calls += 1;
            if call <= fits {
                (taken, waiting, fits) = (taken + call, waiting - call, fits - call);
                room.taken(call, at(0));
            } else {
                room.refused(call, at(0));
            }
        }
        (taken, calls)
    }

    #[test]
    fn what_fits_is_registered_to_the_last_target_in_few_calls() {
        for waiting in [1, 2, 3, 99, 100, 250, 1_000] {
            for fits in (0..=120).chain([249, 250, 999, 1_000]) {
                let (taken, calls) = fill(&mut Room::default(), waiting, fits);
                assert_eq!(taken, waiting.min(fits), "{waiting} wait, {fits} fit");
                assert!(calls <= 10 + waiting.div_ceil(100), "{waiting} wait, {fits} fit: {calls} calls");
            }
        }
    }

    #[test]
    fn a_full_group_is_tried_again_with_as_many_as_have_left() {
        let mut room = Room::default();
        assert_eq!(fill(&mut room, 100, 60).0, 60);
        assert!(room.is_full());
        room.left(7);
        assert_eq!(room.fits(), 7);
        assert_eq!(fill(&mut room, 40, 7), (7, 1), "and not with more");
    }

    #[test]
    fn a_full_group_is_tried_again_with_one_less_and_less_often() {
        let mut room = Room::default();
        room.refused(1, at(0));
        for (wait, due) in [(10, 10), (20, 30), (40, 70), (80, 150), (160, 310), (160, 470)] {
            assert_eq!((room.fits(), room.next_due()), (0, Some(at(due))));
            room.pass(at(due - wait));
            assert!(room.is_full(), "too early");
            room.pass(at(due));
            assert_eq!(room.fits(), 1);
            room.refused(1, at(due));
        }
        room.pass(at(700));
        room.taken(1, at(700));
        assert_eq!(room, Room::default(), "the quota was raised: nothing is known any more");
    }

    #[test]
    fn what_is_known_of_a_group_that_is_not_full_is_forgotten_after_a_while() {
        let mut room = Room::default();
        room.refused(100, at(0));
        room.taken(50, at(0));
        assert_eq!(room.fits(), 25);
        room.pass(at(60));
        assert_eq!(room.fits(), usize::MAX);
    }

    #[test]
    fn targets_that_leave_a_group_of_which_nothing_is_known_change_nothing() {
        let mut room = Room::default();
        room.left(5);
        room.pass(at(1_000));
        assert_eq!((room, room.next_due()), (Room::default(), None));
    }
}
