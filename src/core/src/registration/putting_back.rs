//! Targets that are registered again for the pod from which they were taken out from here: because it was not ready, or
//! its labels had changed, or a list did not have it.
//!
//! Such a pod has to be healthy anew, so its readiness gate is closed first, and only then is the registration noted in
//! the ledger and sent: whoever leads next finds the target noted as removed, and closes the gate, or the gate closed. A
//! gate that cannot be closed holds a registration up for a moment only: a pod that serves counts for more.
//!
//! Not for a change of a Service, which could close the gates of all of its pods at once; but soon after a take-over, when
//! target groups are still being looked up, nobody can tell, and what the ledger has as removed counts.
//!
//! The tombstone of a target that went for its pod is kept as long as that lives with an open gate: without it nobody would
//! know that the target was taken out from here.

use std::time::Duration;

use super::{Entry, PutBack, Registrations, Told};
use crate::{index::Owner, ledger::PodMark, reason::Reason, target::Target, time::Moment};

/// A registration waits for so long at most until the gate is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// After a take-over target groups are known by then, if all is well.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(30);

impl PutBack {
    /// Until when the target is set aside for it.
    pub fn until(self) -> Option<Moment> {
        match self {
            Self::Closing(until) => Some(until),
            Self::No | Self::Due => None,
        }
    }
}

impl Entry {
    /// What becomes of that when it has this owner now, `of_the_pod` or for what is written, as was seen then.
    pub(super) fn put_back_for(&self, owner: Option<&Owner>, of_the_pod: bool, seen: Moment) -> PutBack {
        let Some(owner) = owner else { return PutBack::No };
        let is_out = match &self.want {
            Some(before) if before.uid == owner.uid => return self.put_back,
            Some(_) => self.told == Told::Nothing,
            None => self.told == Told::Nothing || self.deregistering.is_some() || self.attempts > 0,
        };
        // Of what came with the ledger only the mark of its pod is known.
        let came_with_it = owner.uid != self.last.uid;
        let just_came = self.ended.is_some_and(|ended| seen.since(ended) < LOOKED_UP_WITHIN);
        let is_meant = of_the_pod || (came_with_it && just_came);
        let is_its_own = self.taken_from == Some(PodMark::of(&owner.uid));
        if is_out && is_meant && is_its_own { PutBack::Due } else { PutBack::No }
    }

    /// Nobody wants it any more, for what became of its pod or for what is written.
    pub(super) fn is_taken_out(&mut self, of_the_pod: bool) {
        // If it was not registered since it was taken out, it still is out for that.
        let is_in = self.told != Told::Nothing || self.taken_from.is_none();
        if is_in && self.want.is_some() {
            self.taken_from = of_the_pod.then(|| PodMark::of(&self.last.uid));
        }
    }

    /// Whether its pod lives on and may come back, though nothing wants the target now.
    pub(super) fn spares_its_pod(&self) -> bool {
        let lives_on = matches!(self.cause, Reason::NotReady | Reason::NotSelected | Reason::PodEvicting);
        self.want.is_none() && self.taken_from.is_some() && lives_on
    }
}

impl Registrations {
    /// The targets that are put back, or wait for that.
    pub fn put_backs(&self) -> impl Iterator<Item = &Target> {
        self.entries.iter().filter(|(_, entry)| entry.put_back != PutBack::No).map(|(target, _)| target)
    }

    /// For which pod `target` is put back, and whether its gate is being closed already.
    pub fn put_back(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        let owner = entry.want.as_ref()?;
        (entry.put_back != PutBack::No).then_some((owner, entry.put_back != PutBack::Due))
    }

    /// The gate of the pod is being closed: its registration waits for that, but not for long. Says whether it (still)
    /// does.
    pub fn wait_for_gate(&mut self, target: &Target, now: Moment) -> bool {
        let mut waits = false;
        self.change(*target, |entry| {
            let entry = entry?;
            if entry.put_back == PutBack::Due {
                entry.put_back = PutBack::Closing(now + CLOSED_WITHIN);
                entry.set_aside = entry.put_back.until();
            }
            waits = entry.set_aside.is_some();
            None
        });
        waits
    }

    /// The gate of the pod is not open, or has not been closed in time: the registration goes on.
    pub fn gate_is_closed(&mut self, target: &Target) {
        self.change(*target, |entry| {
            let entry = entry?;
            if matches!(entry.put_back, PutBack::Closing(_)) {
                entry.set_aside = None;
            }
            entry.put_back = PutBack::No;
            None
        });
    }
}
