//! What only a leader knows: one value, which is made when this replica comes to lead and dropped when it does not lead any more.
//!
//! It begins as a copy of what the watches have shown of gates and of pods that are to leave, so whoever comes to lead goes on
//! from there. What is added in the term, which is what was written, asked and decided, ends with it.

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
    /// A term begins; all that the watches have shown is looked at.
    pub fn begin(known: &Knowledge, bounds: Bounds) -> Self {
        let (gates, mut evictions) = (known.gates.begin(), known.evictions.clone());
        evictions.touch(Touched::All, Moment::START);
        Self { gates, evictions, holds: Holds::new(bounds) }
    }
}
