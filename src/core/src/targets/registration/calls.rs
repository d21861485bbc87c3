//! The calls of a target group: which targets each call contains, and what its result means for each target.

use super::{
    Registrations,
    entries::Action,
    entry::{Entry, Goes, Unproven, Wish},
    refusals::Waiting,
    waiting::half,
};
use crate::{
    model::{CallItem, Cause, FailureClass, Moment, RequestId, Target, claims::Outcome},
    targets::claims::Way,
};

/// The outcome of a call with this failure.
const fn outcome(failure: Option<FailureClass>) -> Outcome {
    match failure {
        None => Outcome::Done,
        Some(FailureClass::Unavailable) => Outcome::Unknown,
        Some(FailureClass::Gone) => Outcome::Gone,
        Some(_) => Outcome::Refused,
    }
}

impl Registrations {
    /// Puts up to `most` deregistrations into the call `id`, the longest waiting first.
    pub fn start_removal(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let targets = self.choose(Action::Deregister, id, most);
        self.start(id, Way::Out, &targets)
    }

    /// Puts up to `most` registrations into the call `id`, but no more than may fit, the longest waiting first.
    pub fn start_addition(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let targets = self.choose(Action::Register, id, most.min(self.room.fits()));
        self.adding.call = Some(id);
        self.start(id, Way::In, &targets)
    }

    fn start(&mut self, id: RequestId, way: Way, targets: &[Target]) -> Vec<CallItem> {
        let mut items = Vec::with_capacity(targets.len());
        self.claims.sent(id, way, targets, self.now);
        for target in targets {
            self.change(*target, |entry| {
                items.push(entry.item(*target));
                entry.attempts += 1;
                entry.let_go();
            });
        }
        items
    }

    /// Handles the end of a `RegisterTargets` with these items.
    pub fn registered(
        &mut self,
        id: RequestId,
        items: &[CallItem],
        failure: Option<FailureClass>,
        now: Moment,
    ) {
        self.now = now;
        self.adding.call.take_if(|own| *own == id);
        let targets: Vec<Target> = items.iter().map(|item| item.target).collect();
        self.claims.answered(id, &targets, outcome(failure), now);
        match failure {
            None => self.room.taken(items.len(), now),
            Some(FailureClass::Full) => {
                self.room.refused(items.len(), now);
                if self.room.is_full() {
                    self.make_room(now);
                }
            }
            Some(_) => {}
        }
        let parts = self.tried(Action::Register, id, items.len(), failure, now);
        for (at, item) in items.iter().enumerate() {
            self.change(item.target, |entry| {
                entry.set_aside = None;
                match failure {
                    None => {
                        entry.unproven = Some(Unproven { since: now, inherited: false, told: false });
                        entry.forget_refusals();
                        entry.vanishing.registered(now);
                    }
                    // If the target is no longer wanted, the rejection does not count for its deregistration.
                    Some(FailureClass::Refused) if entry.is_wanted() => {
                        entry.note_refusal(parts.map(|parts| half(parts, at, items.len())));
                    }
                    Some(_) => {}
                }
            });
        }
        if self.room.is_full() {
            let Waiting { first, searched, .. } = self.entries.tried(Action::Register);
            self.adding.unplaced = first + searched;
        } else if self.room.fits() == usize::MAX {
            self.adding.unplaced = 0;
        }
    }

    /// Handles the end of a `DeregisterTargets` with these items. A group that does not exist has no targets.
    pub fn deregistered(
        &mut self,
        id: RequestId,
        items: &[CallItem],
        failure: Option<FailureClass>,
        now: Moment,
    ) {
        self.now = now;
        let targets: Vec<Target> = items.iter().map(|item| item.target).collect();
        self.claims.answered(id, &targets, outcome(failure), now);
        let failure = failure.filter(|class| *class != FailureClass::Gone);
        if failure.is_none() {
            self.room.left(items.len());
        }
        let parts = self.tried(Action::Deregister, id, items.len(), failure, now);
        for (at, item) in items.iter().enumerate() {
            self.change(item.target, |entry| {
                if failure.is_none() {
                    entry.forget_refusals();
                }
                // If the target is wanted again, the rejection does not count for its registration.
                if failure == Some(FailureClass::Refused) && !entry.is_wanted() {
                    entry.note_refusal(parts.map(|parts| half(parts, at, items.len())));
                }
            });
        }
    }

    /// Marks a foreign target for deregistration.
    pub fn expel(&mut self, target: Target, now: Moment) {
        if self.knows(&target) {
            return;
        }
        let mut entry = Entry::inherited(crate::targets::claims::nobody(), now);
        (entry.wish, entry.cause, entry.unproven) = (Wish::Gone(Goes::Foreign), Cause::ForeignTarget, None);
        self.claims.expel(target);
        self.insert(target, entry);
    }

    /// The group is shared: keeps the foreign targets whose deregistration was not sent.
    pub fn spare_foreign_targets(&mut self) {
        let foreign: Vec<Target> =
            self.entries.which(|entry| entry.is_foreign() && entry.is_idle()).copied().collect();
        for target in foreign {
            self.claims.spare(&target);
            self.change(target, |_| {});
        }
    }
}
