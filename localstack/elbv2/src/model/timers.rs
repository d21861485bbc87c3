//! The queue of due changes. Changes with the same time are in the order in which they were scheduled.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{BalancerId, GroupId, TargetKey};

/// One registration of a target at one node. Messages about other registrations are stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The target group.
    pub group: GroupId,
    /// The target.
    pub target: TargetKey,
    /// The number of the registration.
    pub registration: u64,
    /// The index of the node in its load balancer.
    pub node: usize,
}

/// The action of a timer.
#[derive(Debug, Clone, Copy)]
pub enum Due {
    /// A load balancer becomes active.
    Activate(BalancerId),
    /// A node learns of a registration.
    Learn(Seat),
    /// A node learns of a deregistration.
    Forget(Seat),
    /// The API shows a decision about a target's health.
    Show { group: GroupId, target: TargetKey, decision: u64, healthy: bool },
    /// A node acts on a decision about a target's health.
    Adopt { seat: Seat, decision: u64, healthy: bool },
    /// A node probes a target.
    Probe(Seat),
    /// An unhealthy target is no longer draining.
    EndUnhealthyDraining { group: GroupId, target: TargetKey, decision: u64 },
    /// A draining target is removed from the list.
    Expire { group: GroupId, target: TargetKey, registration: u64 },
}

/// A queue of timers.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Timer>>,
    scheduled: u64,
    now: Duration,
}

#[derive(Debug)]
struct Timer {
    at: Duration,
    order: u64,
    due: Due,
}

impl Timers {
    /// Schedules `due` for the time `at`.
    pub fn add(&mut self, at: Duration, due: Due) {
        self.scheduled += 1;
        self.heap.push(Reverse(Timer { at, order: self.scheduled, due }));
    }

    /// Returns the time of the first timer.
    pub fn next_due(&self) -> Option<Duration> {
        self.heap.peek().map(|Reverse(timer)| timer.at)
    }

    /// Removes and returns the first timer that is due at `now`.
    pub fn pop(&mut self, now: Duration) -> Option<Due> {
        self.now = self.now.max(now);
        if self.next_due()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer.due)
    }

    /// Returns the latest time that was passed to [`Self::pop`].
    pub fn now(&self) -> Duration {
        self.now
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
