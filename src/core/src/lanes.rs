//! Which call may go now: removals never wait behind registrations, reads or another target group's trouble.
//!
//! Register and Deregister calls share one of AWS's token buckets per account and region; Describe calls have one of
//! their own. Whoever sends asks for removals first: while a removal waits for a token there is none for a
//! registration either.

use crate::{bucket::Bucket, time::Moment};

/// Targets in one call at most. AWS documents no limit, but refuses larger calls intermittently
/// (kubernetes/kubernetes#101592).
pub const MAX_TARGETS_PER_CALL: usize = 100;

/// The buckets of one account and region.
#[derive(Debug)]
pub struct Lanes {
    changes: Bucket,
    reads: Bucket,
}

impl Default for Lanes {
    /// AWS's own limits: registration 4/s with a burst of 20, Describe 50/s with a burst of 200.
    fn default() -> Self {
        Self { changes: Bucket::new(4.0, 20.0), reads: Bucket::new(50.0, 200.0) }
    }
}

impl Lanes {
    /// Whether a Register or Deregister that is due may go now.
    pub fn may_change(&mut self, now: Moment) -> bool {
        self.changes.take(now)
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
    use super::*;

    #[test]
    fn reads_take_no_token_of_changes() {
        let mut lanes = Lanes::default();
        assert_eq!((0..300).filter(|_| lanes.may_read(Moment::START)).count(), 200);
        assert_eq!((0..30).filter(|_| lanes.may_change(Moment::START)).count(), 20);
    }
}
