//! What only a leader knows: one value, which is made when this replica comes to lead and dropped when it does not lead any more.
//!
//! It begins as a copy of what the watches have shown of gates and of pods that are to leave, so whoever comes to lead goes on
//! from there. What is added in the term, which is what was written, asked and decided, ends with it.

use crate::{
    eviction::{Evictions, Touched},
    gate::Gates,
    hold::Holds,
    model::{Bounds, Moment, ObjectKey},
};

/// See the module.
#[derive(Clone, Debug)]
pub struct Leader {
    pub gates: Gates,
    pub evictions: Evictions,
    pub holds: Holds,
}

impl Leader {
    /// A term begins; all that the watches have shown is looked at.
    pub fn begin(gates: &Gates, evictions: &Evictions, bounds: Bounds) -> Self {
        let (gates, mut evictions) = (gates.begin(), evictions.clone());
        evictions.touch(Touched::All, Moment::START);
        Self { gates, evictions, holds: Holds::new(bounds) }
    }

    /// The pods whose removal was decided in this term and is not written down; and those that are not registered because their
    /// nodes go. The index was told so, and is to hear that it is not so any more.
    pub fn undone(&self) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        (self.evictions.decided(), self.evictions.kept_out())
    }
}
