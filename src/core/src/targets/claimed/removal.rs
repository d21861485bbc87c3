//! The one rule for removing, beside `verdict.rs` for adding: a target that its pod should not have any more is removed now, or
//! not yet, and why.

use super::entry::{Entry, Goes, TakeOut, Wish};
use crate::model::Moment;

/// Whether a target goes that its pod should not have any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// At once.
    Now,
    /// Everything that binds it is paused.
    Paused,
    /// Headgate has to find out first whose it is: nobody here knows the pod.
    Unjudged,
    /// The whole set is replaced, and the new targets do not serve yet.
    Held,
    /// The readiness gate of its pod, which lives on, is closed first.
    AfterGate,
    /// The pod lives on, and a leader before may open its gate until then.
    AfterTerm(Moment),
}

impl Entry {
    /// Whether it goes, if its pod should not have it. The calls of the term before may take effect until `settled`.
    pub fn removal(&self, settled: Moment, now: Moment) -> Removal {
        match &self.wish {
            _ if self.paused => Removal::Paused,
            Wish::Gone(Goes::Orphan(_)) => Removal::Unjudged,
            Wish::Gone(Goes::Replaced(_)) if self.may_be_held() => Removal::Held,
            Wish::Gone(Goes::Foreign) | Wish::There(_) => Removal::Now,
            Wish::Gone(_) if self.lives_on && now < settled => Removal::AfterTerm(settled),
            Wish::Gone(_) if matches!(self.take_out, TakeOut::Due | TakeOut::Closing) => Removal::AfterGate,
            Wish::Gone(_) => Removal::Now,
        }
    }
}
