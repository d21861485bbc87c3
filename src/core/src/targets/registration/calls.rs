//! The calls of a target group: which targets each call contains, and what its result means for each target.

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
    /// Puts up to `most` deregistrations into the call `id`, the longest waiting first.
    pub fn start_removal(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let targets = self.choose(Action::Deregister, id, most);
        self.start(&targets, |entry| {
            (entry.deregistering, entry.removal_sent) = (Some(id), true);
            entry.evidence.unread_since = None;
            entry.let_go();
        })
    }

    /// Puts up to `most` registrations into the call `id`, but no more than may fit, the longest waiting first.
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

    /// Handles the end of a `RegisterTargets` with these items. AWS may have applied a failed call. It has not if it
    /// rejected the call because of a target or because not all targets fit.
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
                // Also if a deregistration has succeeded in the meantime: AWS may have applied this call after it. The
                // deregistration of such a target is not held, because the group has worked without it.
                if matches!(entry.told, Told::Out(_)) {
                    entry.let_go();
                }
                let mark = PodMark::of(&item.uid);
                entry.told = Told::Perhaps(mark);
                // The call was sent before the target was deregistered. Another one will be sent when the gate is
                // closed.
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
            self.unplaced = first + searched;
        } else if self.room.fits() == usize::MAX {
            self.unplaced = 0;
        }
    }

    /// Handles the end of a `DeregisterTargets` with these items. A group that does not exist has no targets. `after`:
    /// the time of an earlier deregistration in the annotations of the pods.
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
                // AWS may have applied the call just now, and a read may show the state before.
                if failure == Some(FailureClass::Unavailable) {
                    let from = &mut entry.evidence.own_health_from;
                    *from = (*from).max(now + STALE);
                }
                let refused = failure == Some(FailureClass::Refused);
                // A foreign target is deregistered when a read shows it again, because the group may be shared by then.
                if failure.is_none() || (entry.is_foreign() && !refused) {
                    let of = entry.told.mark().or(entry.out().of);
                    entry.told = Told::Out(Out { of, ..Out::since(Some(Since::Here { at: now, after })) });
                    entry.forget_refusals();
                    spared |= entry.spares_its_pod();
                } else if let Told::Out(out) = &mut entry.told {
                    out.missing = 0;
                }
                // If the target is wanted again, the rejection does not count for its registration.
                if refused && !entry.is_wanted() {
                    entry.note_refusal(parts.map(|parts| half(parts, at, items.len())));
                }
            });
        }
        // If the pod becomes wanted again, a new leader must know that Headgate deregistered its target.
        if spared {
            self.stored.touch_now(now);
        }
    }
}
