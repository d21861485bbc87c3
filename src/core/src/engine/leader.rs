//! What only a leader knows. The value is made when this replica acquires the Lease and dropped when it loses the
//! Lease.
//!
//! It starts as a copy of what the watches show about readiness gates and pods that are deregistered early. During the
//! term it also records what this leader has written, requested and decided. None of that outlives the term.

use crate::{
    engine::knowledge::Knowledge,
    eviction::{Evictions, Touched},
    gate::Gates,
    hold::Holds,
    model::{Bounds, Moment},
};

/// See the module.
#[derive(Clone, Debug)]
pub struct Leader {
    pub(super) gates: Gates,
    pub(super) evictions: Evictions,
    pub(super) holds: Holds,
}

impl Leader {
    /// Starts a term. Every gate, and every pod that should be deregistered early, is checked once.
    pub fn begin(known: &Knowledge, bounds: Bounds) -> Self {
        let (gates, mut evictions) = (known.gates.begin(), known.evictions.clone());
        evictions.touch(Touched::All, Moment::START);
        Self { gates, evictions, holds: Holds::new(bounds) }
    }
}
