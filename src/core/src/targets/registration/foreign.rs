//! What others have registered, where the group is ours alone.
//!
//! A foreign target is never noted in the ledger and leaves no tombstone: should the group be shared again, nothing
//! that was learnt here counts against it.

use super::{
    Entry, Registrations,
    entry::{Goes, NOBODY, Wish},
};
use crate::{
    ledger::{Noted, PodMark},
    model::{Cause, Moment, ObjectKey, Owner, Target, Uid},
};

impl Registrations {
    /// Somebody else has registered this target, and it is to go.
    pub fn expel(&mut self, target: Target, now: Moment) {
        if self.knows(&target) {
            return;
        }
        let nobody = Uid::new("");
        let mut foreign_target = Entry::inherited(Noted::Intended, PodMark::of(&nobody), None, now);
        foreign_target.last = Owner { pod: ObjectKey::new(NOBODY, NOBODY), uid: nobody };
        (foreign_target.wish, foreign_target.cause) = (Wish::Gone(Goes::Foreign), Cause::ForeignTarget);
        self.insert(target, foreign_target);
    }

    /// The group is shared (again): foreign targets that have not been removed stay.
    pub fn spare_foreign_targets(&mut self) {
        self.drop_those(|entry| entry.is_foreign() && entry.deregistering.is_none());
    }
}
