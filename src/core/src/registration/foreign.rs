//! What others have registered, where the group is ours alone; and what would be done, where nothing may be.
//!
//! A foreign target is never noted in the ledger and leaves no tombstone: should the group be shared again, nothing
//! that was learnt here counts against it.

use std::collections::BTreeSet;

use super::{
    Entry, Registrations,
    entries::{Action, Queue},
    entry::{Goes, Wish},
};
use crate::{
    ledger::{Noted, PodMark},
    model::{Call, Moment, ObjectKey, Owner, Reason, Target, TargetGroupArn, Uid},
};

/// A change that is due: its target, since when, and whether it is a removal.
pub type Planned = (Target, Moment, bool);

impl Registrations {
    /// Somebody else has registered this target, and it is to go.
    pub fn expel(&mut self, target: Target, now: Moment) {
        if self.knows(&target) {
            return;
        }
        let nobody = Uid::new("");
        let mut foreign_target = Entry::inherited(Noted::Intended, PodMark::of(&nobody), None, now);
        foreign_target.last = Owner { pod: ObjectKey::new("?", "?"), uid: nobody };
        (foreign_target.wish, foreign_target.cause) = (Wish::Gone(Goes::Foreign), Reason::ForeignTarget);
        self.insert(target, foreign_target);
    }

    /// The group is shared (again): foreign targets that have not been removed stay.
    pub fn spare_foreign_targets(&mut self) {
        self.drop_those(|entry| entry.is_foreign() && entry.deregistering.is_none());
    }

    /// All changes that are due.
    pub fn planned(&self) -> BTreeSet<Planned> {
        let (all, waiting) = (|action| self.entries.all_waiting(action), |queue| self.entries.waiting(queue));
        let add = all(Action::Register).chain(waiting(Queue::Note));
        let add = add.map(|(since, target)| (*target, *since, false));
        let remove = all(Action::Deregister).chain(waiting(Queue::Held));
        add.chain(remove.map(|(since, target)| (*target, *since, true))).collect()
    }

    /// How many registrations are due.
    pub fn additions(&self) -> usize {
        self.entries.tried(Action::Register).all() + self.entries.count(Queue::Note)
    }

    /// The call that this change would be.
    pub fn call_for(&self, group: &TargetGroupArn, (target, _, removal): &Planned) -> Call {
        let items = self.entries.get(target).map(|entry| entry.item(*target)).into_iter().collect();
        let group = group.clone();
        if *removal { Call::Deregister { group, items } } else { Call::Register { group, items } }
    }
}
