//! A leader: the real targets, what it has in flight, and the few rules of the rest of a leader.

use headgate_core::{
    RequestId,
    ledger::{LedgerVersion, PodMark},
    model::{HealthState, Moment},
    targets::claims::{Content, Targets, Way},
};

use super::{
    aws::Shown,
    parts::{self, Pod},
    shapes::Shape,
};

/// A call in flight about one target.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub id: RequestId,
    pub way: Way,
    /// The pod for which it was sent.
    pub pod: usize,
    /// Whether AWS has applied it, and only the answer is still to come.
    pub is_applied: bool,
}

/// A write of a ledger in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub id: RequestId,
    pub version: Option<LedgerVersion>,
    pub content: Content,
}

/// A read that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    pub began: u32,
    pub shown: [Shown; 2],
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Leader {
    pub term: u64,
    /// Until when a call of the term before may take effect, as this leader believes.
    pub settled: Moment,
    /// Of each group.
    pub groups: Vec<Targets>,
    /// Of each target.
    pub calls: [Option<Call>; 2],
    /// Of each ledger.
    pub writes: [Option<Write>; 2],
    pub reading: Option<Reading>,
    /// The pods as it has seen them.
    pub seen: [Pod; 2],
    /// The pods that it takes out because somebody evicts them.
    pub granted: [bool; 2],
    /// The pods that have another address than before, and whose gates it has yet to close.
    pub moved: [bool; 2],
    requests: u64,
}

impl Leader {
    pub const fn new(term: u64, settled: Moment, groups: Vec<Targets>, seen: [Pod; 2]) -> Self {
        Self {
            term,
            settled,
            groups,
            calls: [None; 2],
            writes: [None, None],
            reading: None,
            seen,
            granted: [false; 2],
            moved: [false; 2],
            requests: 0,
        }
    }

    pub const fn next_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    /// A watch shows a pod as it is. Without the annotation, an earlier grant to take it out ends.
    pub const fn see(&mut self, nth: usize, pod: Pod) {
        self.granted[nth] &= pod.leaves;
        self.moved[nth] |= pod.address != self.seen[nth].address;
        self.seen[nth] = pod;
    }

    pub fn sees(&mut self, pods: &[Pod; 2]) {
        (0..2).for_each(|nth| self.see(nth, pods[nth]));
    }

    pub fn is_ready(&self, group: usize) -> bool {
        self.groups[group].ledger().is_ready()
    }

    pub fn is_healthy(&self, shape: &Shape, target: usize, pod: PodMark) -> bool {
        let group = &self.groups[shape.group(target)];
        group.ledger().is_ready()
            && group.health(&parts::target(shape, target), pod) == Some(HealthState::Healthy)
    }

    /// Whether nothing is in flight.
    pub fn is_idle(&self) -> bool {
        let no_call = self.calls.iter().all(Option::is_none);
        no_call && self.writes.iter().all(Option::is_none) && self.reading.is_none()
    }

    pub fn is_settled(&self) -> bool {
        self.groups.iter().all(Targets::is_settled)
    }
}
