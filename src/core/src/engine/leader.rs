//! The data that only a leader has. The engine creates a `Leader` when this replica acquires the Lease, and drops the
//! `Leader` when this replica loses the Lease.
//!
//! A `Leader` starts as a copy of the gates and evictions from the watches. During the term, the `Leader` also records
//! the leader's writes, requests and decisions. The records do not outlive the term.

use crate::{
    engine::knowledge::Knowledge,
    eviction::{Evictions, Touched},
    gate::Gates,
    hold::Holds,
    model::{Bounds, Moment},
};

/// The data of the leader. See the module docs.
#[derive(Clone, Debug)]
pub struct Leader {
    pub(super) gates: Gates,
    pub(super) evictions: Evictions,
    pub(super) holds: Holds,
}

impl Leader {
    /// Starts a term. The leader checks every gate and every eviction once.
    pub fn begin(known: &Knowledge, bounds: Bounds) -> Self {
        let (gates, mut evictions) = (known.gates.begin(), known.evictions.clone());
        evictions.touch(Touched::All, Moment::START);
        Self { gates, evictions, holds: Holds::new(bounds) }
    }
}
