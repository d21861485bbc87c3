//! The calls of a target group: which targets go into one, and what its end says about each.

use super::{
    Entry, Registrations, STALE,
    entries::Action,
    entry::{Out, PutBack, Since, Told},
    evidence::Unproven,
    refusals::Waiting,
    waiting::half,
};
use crate::{
    ledger::PodMark,
    model::{CallItem, FailureClass, Moment, RequestId, Target, WallTime},
};

impl Registrations {
    /// Takes up to `most` removals into the call `id`, the longest waiting first.
    pub fn start_removal(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let targets = self.choose(Action::Deregister, id, most);
        self.start(&targets, |entry| {
            (entry.deregistering, entry.removal_sent) = (Some(id), true);
            entry.evidence.unread_since = None;
            entry.let_go();
        })
    }

    /// Takes up to `most` registrations into the call `id`, as many as may fit: the longest waiting first.
    pub fn start_addition(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let targets = self.choose(Action::Register, id, most.min(self.room.fits()));
        self.adding = Some(id);
        self.start(&targets, |entry| {
            (entry.registering, entry.sight, entry.taken_from) = (Some(id), None, None);
            entry.removal_sent = false;
            entry.evidence.unread_since = None;
            if let Some(owner) = entry.owner() {
                let mark = PodMark::of(&owner.uid);
                entry.evidence.past = entry.past_before(mark);
                entry.tells(mark);
            }
        })
    }

    fn start(&mut self, targets: &[Target], mark: impl Fn(&mut Entry)) -> Vec<CallItem> {
        let mut items = Vec::with_capacity(targets.len());
        for target in targets {
            self.change(*target, |entry| {
                items.push(entry.item(*target));
                entry.attempts += 1;
                mark(entry);
            });
        }
        items
    }

    /// A `RegisterTargets` of these items has ended. What failed has perhaps been applied; but not if AWS has refused it,
    /// because something is wrong with a target in it or because not all of them fit.
    pub fn registered(
        &mut self,
        id: RequestId,
        items: &[CallItem],
        failure: Option<FailureClass>,
        now: Moment,
    ) {
        self.adding.take_if(|own| *own == id);
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
        let (late, dates) = (self.late, self.dates_answers);
        for (at, item) in items.iter().enumerate() {
            self.change(item.target, |entry| {
                if entry.registering.take_if(|own| *own == id).is_none() {
                    return;
                }
                (entry.ended, entry.added) = (Some(now), Some(now));
                // Also when a removal has succeeded meanwhile: this call may have been applied after it. What comes back so
                // is not held until others replace it: the group has gone on without it.
                if matches!(entry.told, Told::Out(_)) {
                    entry.let_go();
                }
                let mark = PodMark::of(&item.uid);
                entry.told = Told::Perhaps(mark);
                // It was sent before the target was taken out, and is to be sent again when the gate is closed.
                if entry.put_back != PutBack::No {
                    return;
                }
                entry.set_aside = None;
                match failure {
                    None => {
                        entry.told = Told::Registered(mark);
                        entry.counts_from(now);
                        entry.evidence.registered_at = Some(now);
                        if dates {
                            entry.dates_from(late, now);
                        }
                        entry.evidence.unproven = Some(Unproven::new(now, false));
                        entry.forget_refusals();
                        entry.vanishing.registered(now);
                    }
                    // If nobody wants it meanwhile, its removal was not refused.
                    Some(FailureClass::Refused) if entry.is_wanted() => {
                        entry.note_refusal(parts.map(|parts| half(parts, at, items.len())));
                    }
                    Some(_) => {}
                }
            });
        }
        if self.room.is_full() {
            let Waiting { first, searched, .. } = self.entries.tried(Action::Register);
            self.unplaced = first + searched;
        } else if self.room.fits() == usize::MAX {
            self.unplaced = 0;
        }
    }

    /// A `DeregisterTargets` of these items has ended; a group that does not exist has no targets. `after`: what is written
    /// on the pods about an earlier removal says that it was then.
    pub fn deregistered(
        &mut self,
        id: RequestId,
        items: &[CallItem],
        failure: Option<FailureClass>,
        after: Option<WallTime>,
        now: Moment,
    ) {
        let failure = failure.filter(|class| *class != FailureClass::Gone);
        if failure.is_none() {
            self.room.left(items.len());
        }
        let parts = self.tried(Action::Deregister, id, items.len(), failure, now);
        let is_given_up = self.dates_answers && failure == Some(FailureClass::Unavailable);
        let mut spared = false;
        for (at, item) in items.iter().enumerate() {
            self.change(item.target, |entry| {
                if entry.deregistering.take_if(|own| *own == id).is_none() {
                    return;
                }
                entry.ended = Some(now);
                if is_given_up {
                    entry.evidence.removal_given_up = Some(now);
                }
                // It may have been done just now, and a read may show what was before.
                if failure == Some(FailureClass::Unavailable) {
                    let from = &mut entry.evidence.own_health_from;
                    *from = (*from).max(now + STALE);
                }
                let refused = failure == Some(FailureClass::Refused);
                // A foreign target goes when a read shows it again: meanwhile the group may have come to be shared.
                if failure.is_none() || (entry.is_foreign() && !refused) {
                    let of = entry.told.mark().or(entry.out().of);
                    entry.told = Told::Out(Out { of, ..Out::since(Some(Since::Here { at: now, after })) });
                    entry.forget_refusals();
                    spared |= entry.spares_its_pod();
                } else if let Told::Out(out) = &mut entry.told {
                    out.missing = 0;
                }
                // If somebody wants it meanwhile, its registration was not refused.
                if refused && !entry.is_wanted() {
                    entry.note_refusal(parts.map(|parts| half(parts, at, items.len())));
                }
            });
        }
        // Should its pod come back, whoever leads then has to know that it was taken out from here.
        if spared {
            self.stored.touch_now(now);
        }
    }
}
