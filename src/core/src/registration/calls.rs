//! The calls of a target group: which targets go into one, and what its end says about each.

use std::time::Duration;

use super::{
    Entry, Registrations,
    entries::Queue,
    entry::{Out, PutBack, SetAside, Told},
    evidence::Unproven,
};
use crate::{
    ledger::PodMark,
    model::{CallItem, FailureClass, Moment, RequestId, Target},
};

/// A target that is refused alone is set aside this long, then twice as long each time.
pub(super) const FIRST_SET_ASIDE: Duration = Duration::from_secs(10);
const LAST_SET_ASIDE: Duration = Duration::from_secs(160);

impl Registrations {
    /// Takes up to `most` removals into the call `id`, the longest waiting first.
    pub fn start_removal(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let waiting = self.entries.waiting(Queue::Deregister);
        let targets: Vec<Target> = waiting.take(most).map(|(_, target)| *target).collect();
        self.start(&targets, |entry| {
            entry.deregistering = Some(id);
            entry.let_go();
        })
    }

    /// Takes up to `most` registrations into the call `id`, as many as may fit: the longest waiting first, and of a
    /// call that was refused only the half that this one belongs to.
    pub fn start_addition(&mut self, id: RequestId, most: usize) -> Vec<CallItem> {
        let half = |target: &Target| self.entries.get(target).map(|entry| entry.half);
        let first = self.entries.waiting(Queue::Register).next().and_then(|(_, target)| half(target));
        let waiting = self.entries.waiting(Queue::Register).map(|(_, target)| *target);
        let together = waiting.filter(|target| half(target) == first);
        let targets: Vec<Target> = together.take(most.min(self.room.fits())).collect();
        self.adding = Some(id);
        self.start(&targets, |entry| {
            (entry.registering, entry.sight, entry.taken_from) = (Some(id), None, None);
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
        self.halves += 2;
        let halves = self.halves;
        for (at, item) in items.iter().enumerate() {
            self.change(item.target, |entry| {
                if entry.registering.take_if(|own| *own == id).is_none() {
                    return;
                }
                entry.ended = Some(now);
                // Also when a removal has succeeded meanwhile: this call may have been applied after it.
                let mark = PodMark::of(&item.uid);
                entry.told = Told::Perhaps(mark);
                // It was sent before the target was taken out, and is to be sent again when the gate is closed.
                if entry.put_back != PutBack::No {
                    return;
                }
                (entry.half, entry.set_aside) = (0, None);
                match failure {
                    None => {
                        entry.told = Told::Registered(mark);
                        entry.counts_from(now);
                        entry.evidence.registered_at = Some(now);
                        entry.evidence.unproven = Some(Unproven::new(now, false));
                        entry.refusals = 0;
                        entry.vanishing.registered(now);
                    }
                    Some(FailureClass::Refused) if items.len() > 1 => {
                        let second = at >= items.len() / 2;
                        entry.half = halves + u32::from(second);
                    }
                    // If nobody wants it meanwhile, there is nothing to set aside.
                    Some(FailureClass::Refused) if entry.is_wanted() => {
                        let longer = FIRST_SET_ASIDE.saturating_mul(1 << entry.refusals.min(8));
                        entry.refusals += 1;
                        entry.set_aside = Some(SetAside::Refused(now + longer.min(LAST_SET_ASIDE)));
                    }
                    Some(_) => {}
                }
            });
        }
        if self.room.is_full() {
            self.unplaced = self.entries.count(Queue::Register);
        } else if self.room.fits() == usize::MAX {
            self.unplaced = 0;
        }
    }

    /// A `DeregisterTargets` of these items has ended.
    pub fn deregistered(&mut self, id: RequestId, items: &[CallItem], succeeded: bool, now: Moment) {
        if succeeded {
            self.room.left(items.len());
        }
        let (mut spared, wall) = (false, self.started + now.elapsed());
        for item in items {
            self.change(item.target, |entry| {
                if entry.deregistering.take_if(|own| *own == id).is_none() {
                    return;
                }
                entry.ended = Some(now);
                // A foreign target goes when a read shows it again: meanwhile the group may have come to be shared.
                if succeeded || entry.is_foreign() {
                    entry.told = Told::Out(Out::since(Some(wall)));
                    spared |= entry.spares_its_pod();
                } else if let Told::Out(out) = &mut entry.told {
                    out.missing = 0;
                }
            });
        }
        // Should its pod come back, whoever leads then has to know that it was taken out from here.
        if spared {
            self.stored.touch_now(now);
        }
    }
}
