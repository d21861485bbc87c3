//! Which call may go now: removals never wait behind registrations, reads or another target group's trouble.
//!
//! Register and Deregister calls share one of AWS's token buckets per account and region. While a removal waits
//! for a token, no registration takes one. Describe calls have a bucket of their own.

use crate::{bucket::Bucket, time::Moment};

/// Targets in one call at most. AWS documents no limit, but refuses larger calls intermittently
/// (kubernetes/kubernetes#101592).
pub const MAX_TARGETS_PER_CALL: usize = 100;

/// The buckets of one account and region.
#[derive(Debug)]
pub struct Lanes {
    changes: Bucket,
    reads: Bucket,
    removal_waits: bool,
}

impl Default for Lanes {
    /// AWS's own limits: registration 4/s with a burst of 20, Describe 50/s with a burst of 200.
    fn default() -> Self {
        Self { changes: Bucket::new(4.0, 20.0), reads: Bucket::new(50.0, 200.0), removal_waits: false }
    }
}

impl Lanes {
    /// Whether a `DeregisterTargets` that is due may go now; if not, registrations wait with it.
    pub fn may_remove(&mut self, now: Moment) -> bool {
        self.removal_waits = !self.changes.take(now);
        !self.removal_waits
    }

    /// No removal is due.
    pub fn no_removal_is_due(&mut self) {
        self.removal_waits = false;
    }

    /// Whether a `RegisterTargets` that is due may go now.
    pub fn may_add(&mut self, now: Moment) -> bool {
        !self.removal_waits && self.changes.take(now)
    }

    /// Whether a Describe call that is due may go now.
    pub fn may_read(&mut self, now: Moment) -> bool {
        self.reads.take(now)
    }

    /// When the next Register or Deregister may go.
    pub fn next_change(&mut self, now: Moment) -> Moment {
        self.changes.next(now)
    }

    /// When the next Describe call may go.
    pub fn next_read(&mut self, now: Moment) -> Moment {
        self.reads.next(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn while_a_removal_waits_no_registration_takes_a_token() {
        let mut lanes = Lanes::default();
        let start = Moment::START;
        assert_eq!((0..30).filter(|_| lanes.may_remove(start)).count(), 20);
        let later = start + Duration::from_millis(300);
        assert!(!lanes.may_add(later), "the token that has come belongs to the removal that waits");
        assert!(lanes.may_remove(later));
        lanes.no_removal_is_due();
        assert!(lanes.may_add(start + Duration::from_millis(600)));
    }

    #[test]
    fn reads_take_no_token_of_changes() {
        let mut lanes = Lanes::default();
        assert_eq!((0..300).filter(|_| lanes.may_read(Moment::START)).count(), 200);
        assert!(lanes.may_remove(Moment::START));
    }
}
