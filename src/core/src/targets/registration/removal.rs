//! The one rule for deregistration: whether an unwanted target is deregistered now, and why not. `verdict.rs` has the
//! rule for registration.

use super::entry::{Entry, Goes, Removal, TakeOut, Wish};
use crate::model::Moment;

impl Entry {
    /// Whether an unwanted target may be deregistered. Calls of the term before may take effect until `settled`.
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
