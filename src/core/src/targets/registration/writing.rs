//! When the ledger is read and written. The engine sends the requests.

use super::{
    Registrations,
    entries::{Action, Queue},
    stored::Request,
};
use crate::{
    ledger::{Ledger, LedgerError, LedgerRequest, LedgerVersion, Noted, StoredLedger},
    model::{Failure, Moment, RequestId, TargetGroupArn, WallTime},
};

impl Registrations {
    /// Records that the group has no ledger.
    pub fn no_ledger(&mut self) {
        self.stored.found_none();
        self.holders.read(self.stored.content().holders());
        self.requeue();
    }

    /// Takes in the ledger of the group, from a list or after [`LedgerRequest::Load`]. `None`: there is no ledger.
    pub fn read_ledger(&mut self, stored: Option<&StoredLedger>, now: Moment) -> Result<(), LedgerError> {
        let Some(stored) = stored else {
            self.no_ledger();
            return Ok(());
        };
        let opened = stored.open().map(|(_, ledger)| {
            if let Some((target, ..)) = ledger.iter().next() {
                self.note_family(target.ip);
            }
            self.stored.found(stored.version.clone(), ledger.clone());
            self.holders.read(ledger.holders());
            self.stored.touch();
            self.inherit(&ledger, now);
        });
        if opened.is_err() {
            self.stored.found_unreadable(now);
        }
        self.requeue();
        opened
    }

    /// Handles the end of [`LedgerRequest::Load`]. Returns whether `id` is the request in flight.
    pub fn ledger_was_read(&mut self, id: RequestId, succeeded: bool, now: Moment) -> bool {
        self.stored.loaded(id, succeeded, now)
    }

    /// Handles the end of a write or of a deletion (`None`). Returns whether it was a deletion.
    pub fn wrote_ledger(
        &mut self,
        id: RequestId,
        result: &Result<Option<LedgerVersion>, Failure>,
        now: Moment,
    ) -> bool {
        let drops = self.stored.written(id, result, now);
        self.requeue();
        drops
    }

    /// A watch has shown this version of the ledger. If Headgate does not know the version, it reads the ledger again.
    pub fn ledger_is_at(&mut self, version: &LedgerVersion) {
        self.stored.seen_at(version);
        self.requeue();
    }

    /// Whether the ledger object of the group may exist.
    pub fn has_ledger(&self) -> bool {
        self.stored.exists()
    }

    /// Whether the group has a binding may have changed, and the ledger depends on that.
    pub fn look_at_ledger(&mut self) {
        self.stored.touch();
    }

    /// Stops delaying writes of the ledger.
    pub fn hurry_ledger(&mut self) {
        self.stored.hurry();
    }

    /// Cause times of the oldest and the newest registration that wait for the ledger.
    pub fn unnoted(&self) -> Option<(Moment, Moment)> {
        let mut waiting = self.entries.waiting(Queue::Note);
        let (oldest, _) = *waiting.next()?;
        Some((oldest, waiting.next_back().map_or(oldest, |(newest, _)| *newest)))
    }

    /// When the ledger must be read or written. `urgent`: by when a registration needs it.
    pub fn next_ledger(&self, urgent: Option<Moment>, now: Moment) -> Option<Moment> {
        self.stored.next_due(urgent, now)
    }

    /// Advances the time: waits that have ended are resumed.
    pub fn pass(&mut self, now: Moment) {
        while let Some((until, target)) = self.entries.next_until()
            && until <= now
        {
            self.change(target, |entry| entry.pass(now));
        }
        self.room.pass(now);
        if self.holders.pass(now) {
            self.stored.touch();
        }
        for action in [Action::Register, Action::Deregister] {
            let again = self.entries.tried(action).again;
            self.refusals(action).pass(again, now);
        }
        self.stored.pass(now);
    }

    /// The request to the ledger that is due now, if any. `bound`: whether the group has a binding. `started`: the wall
    /// clock at the start of the process.
    pub fn ledger_request(
        &mut self,
        group: &TargetGroupArn,
        bound: impl FnOnce() -> bool,
        id: RequestId,
        (now, started): (Moment, WallTime),
    ) -> Option<LedgerRequest> {
        self.stored.next_due(Some(now), now).filter(|due| *due <= now)?;
        if !self.stored.is_known() {
            self.stored.start(id, Request::Load);
            return Some(LedgerRequest::Load(group.clone()));
        }
        let base = self.stored.base();
        if let Some(version) = base.clone()
            && self.entries.is_empty()
            && self.holders.is_empty()
            && !bound()
        {
            self.stored.start(id, Request::Drop);
            return Some(LedgerRequest::Delete(group.clone(), version));
        }
        let content = self.should_be_noted(started);
        if content == *self.stored.content() && self.entries.count(Queue::Note) == 0 {
            self.stored.settled();
            return None;
        }
        let packed = content.pack(group, self.family);
        self.stored.start(id, Request::Write(content));
        self.requeue();
        Some(LedgerRequest::Write(base, packed))
    }

    fn should_be_noted(&self, started: WallTime) -> Ledger {
        let mut ledger = Ledger::default();
        for (target, entry) in self.entries.iter() {
            if let Some((noted, mark)) = entry.note(self.stored.content().get(target)) {
                match noted {
                    Noted::Removed => {
                        let since = entry.out().since.map(|since| since.noted(started));
                        ledger.note_removed(*target, mark, since);
                    }
                    _ => ledger.note(*target, noted, mark),
                }
            }
        }
        ledger.note_holders(self.holders.all().clone());
        ledger
    }
}
