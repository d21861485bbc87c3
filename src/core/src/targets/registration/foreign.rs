//! Foreign targets in a group that belongs to Headgate alone.
//!
//! The ledger never names a foreign target, and Headgate keeps no record after its deregistration. If the group is
//! shared again, Headgate holds nothing against the target.

use super::{
    Entry, Registrations,
    entry::{Goes, NOBODY, Wish},
};
use crate::{
    ledger::{Noted, PodMark},
    model::{Cause, Moment, ObjectKey, Owner, Target, Uid},
};

impl Registrations {
    /// Marks a foreign target for deregistration.
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

    /// The group is shared: keeps the foreign targets whose deregistration was not sent.
    pub fn spare_foreign_targets(&mut self) {
        self.drop_those(|entry| entry.is_foreign() && entry.deregistering.is_none());
    }
}
