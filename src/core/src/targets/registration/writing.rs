//! When the ledger is read and written. The engine sends the requests.

use std::time::Duration;

use super::{
    Registrations,
    entries::{Action, Queue},
};
use crate::{
    backoff::Backoff,
    ledger::{LedgerError, LedgerRequest, LedgerVersion, PackedLedger, StoredLedger},
    model::{
        Failure, FailureClass, Moment, RequestId, TargetGroupArn,
        claims::{Content, Outcome, Request},
    },
};

/// Changes that nothing waits for are written after this delay.
const LAZY: Duration = Duration::from_secs(1);
/// An unreadable ledger is read again after this delay, because somebody may have repaired or deleted it. Headgate
/// registers nothing until then.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// When the ledger is read and written.
#[derive(Clone, Debug)]
pub struct Pace {
    backoff: Backoff,
    /// The request in flight, and whether it deletes the ledger.
    request: Option<(RequestId, bool)>,
    /// If the ledger is unreadable: when it is read again.
    unreadable: Option<Moment>,
    /// Whether something may have to be written, and the latest time for that.
    changed: bool,
    lazy: Option<Moment>,
    /// Whether writes are no longer delayed, because this term is about to end.
    hurried: bool,
}

impl Pace {
    pub fn new(seed: u64) -> Self {
        Self {
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5), seed),
            request: None,
            unreadable: None,
            changed: false,
            lazy: None,
            hurried: false,
        }
    }

    /// Records that the ledger may need a write.
    pub const fn touch(&mut self) {
        self.changed = true;
    }

    fn ends(&mut self, id: RequestId) -> Option<bool> {
        self.request.take_if(|(own, _)| *own == id).map(|(_, drops)| drops)
    }
}

impl Registrations {
    /// Records that the group has no ledger.
    pub fn no_ledger(&mut self) {
        self.take_in(None, self.now);
    }

    /// Takes in the ledger of the group, from a list or after [`LedgerRequest::Load`]. `None`: there is no ledger.
    /// Returns the term that has written it, if that term is later than this one.
    pub fn read_ledger(
        &mut self,
        stored: Option<&StoredLedger>,
        now: Moment,
    ) -> Result<Option<u64>, LedgerError> {
        let opened = stored.map(|stored| Ok((stored.version.clone(), stored.open()?.1))).transpose();
        match opened {
            Ok(found) => {
                let term = found.as_ref().map(|(_, content): &(_, Content)| content.term);
                let continues = self.take_in(found, now);
                Ok(term.filter(|_| !continues))
            }
            Err(error) => {
                if !self.term.has_begun {
                    self.take_in(None, now);
                }
                self.stored.unreadable = Some(now + LOOK_AGAIN);
                Err(error)
            }
        }
    }

    fn take_in(&mut self, found: Option<(LedgerVersion, Content)>, now: Moment) -> bool {
        self.now = self.now.max(now);
        self.stored.unreadable = None;
        if !std::mem::replace(&mut self.term.has_begun, true) {
            self.claims.begin(self.term.number);
        }
        let continues = self.claims.found(found, self.term.settled, now);
        // Once this term has written the ledger, the holders in memory take precedence.
        if !self.claims.ledger().is_ready() {
            self.holders.read(self.claims.ledger().holders());
        }
        self.stored.touch();
        self.note_inherited(now);
        continues
    }

    /// Handles the end of [`LedgerRequest::Load`]. Returns whether `id` is the request in flight.
    pub fn ledger_was_read(&mut self, id: RequestId, succeeded: bool, now: Moment) -> bool {
        let ended = self.stored.ends(id).is_some();
        if ended && succeeded {
            self.stored.backoff.succeeded();
        } else if ended {
            self.stored.backoff.failed(now);
        }
        if ended {
            self.claims.ledger_mut().load_ended(id);
        }
        ended
    }

    /// Handles the end of a write or of a deletion (`None`). Returns whether it was a deletion.
    pub fn wrote_ledger(
        &mut self,
        id: RequestId,
        result: &Result<Option<LedgerVersion>, Failure>,
        now: Moment,
    ) -> bool {
        let Some(drops) = self.stored.ends(id) else { return false };
        self.now = now;
        match result {
            Ok(_) => self.stored.backoff.succeeded(),
            Err(failure) if matches!(failure.class, FailureClass::Conflict | FailureClass::Gone) => {}
            Err(_) => self.stored.backoff.failed(now),
        }
        self.claims.ledger_mut().written(
            id,
            match result {
                Ok(Some(version)) => Ok(version.clone()),
                Ok(None) => Err(Outcome::Done),
                Err(failure) => Err(match failure.class {
                    FailureClass::Throttled
                    | FailureClass::Denied
                    | FailureClass::Refused
                    | FailureClass::Full => Outcome::Refused,
                    _ => Outcome::Unknown,
                }),
            },
        );
        self.stored.changed = true;
        self.change_all();
        drops
    }

    /// A watch has shown this version of the ledger. If Headgate does not know the version, it reads the ledger again.
    pub fn ledger_is_at(&mut self, version: &LedgerVersion) {
        self.claims.ledger_mut().seen(Some(version));
        self.change_all();
    }

    /// Whether the ledger object of the group may exist.
    pub const fn has_ledger(&self) -> bool {
        self.claims.ledger().exists()
    }

    /// Whether the group has a binding may have changed, and the ledger depends on that.
    pub const fn look_at_ledger(&mut self) {
        self.stored.touch();
    }

    /// Stops delaying writes of the ledger.
    pub const fn hurry_ledger(&mut self) {
        self.stored.hurried = true;
    }

    /// Cause times of the oldest and the newest registration that wait for the ledger.
    pub fn unnoted(&self) -> Option<(Moment, Moment)> {
        let mut waiting = self.entries.waiting(Queue::Note);
        let (oldest, _) = *waiting.next()?;
        Some((oldest, waiting.next_back().map_or(oldest, |(newest, _)| *newest)))
    }

    /// When the ledger must be read or written. `urgent`: by when a registration needs it.
    pub fn next_ledger(&self, urgent: Option<Moment>, now: Moment) -> Option<Moment> {
        if self.stored.request.is_some() || !self.term.has_begun {
            return None;
        }
        let ledger = self.claims.ledger();
        let due = match self.stored.unreadable {
            Some(again) => Some(again),
            None if !ledger.is_known() || !(ledger.is_ready() || self.is_unused()) => Some(Moment::START),
            None => {
                let lazy = self.stored.changed.then(|| self.stored.lazy.unwrap_or(now + LAZY));
                urgent.into_iter().chain(lazy).min()
            }
        };
        due.map(|due| due.max(self.stored.backoff.until()))
    }

    /// Whether the ledger would be empty and does not exist.
    fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.holders.is_empty() && self.claims.ledger().version().is_none()
    }

    /// Advances the time: waits that have ended are resumed.
    pub fn pass(&mut self, now: Moment) {
        self.now = self.now.max(now);
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
        if self.stored.changed && self.stored.hurried {
            self.stored.lazy = Some(now);
        } else if self.stored.changed && self.stored.lazy.is_none() {
            self.stored.lazy = Some(now + LAZY);
        }
    }

    /// The request to the ledger that is due now, if any. `bound`: whether the group has a binding.
    pub fn ledger_request(
        &mut self,
        group: &TargetGroupArn,
        bound: impl FnOnce() -> bool,
        id: RequestId,
        now: Moment,
    ) -> Option<LedgerRequest> {
        self.next_ledger(Some(now), now).filter(|due| *due <= now)?;
        self.now = now;
        (self.stored.changed, self.stored.lazy) = (false, None);
        if self.stored.unreadable.is_some() {
            self.stored.request = Some((id, false));
            return Some(LedgerRequest::Load(group.clone()));
        }
        self.claims.ledger_mut().set_holders(self.holders.all().clone());
        let ledger = self.claims.ledger();
        if ledger.is_known() && self.entries.is_empty() && self.holders.is_empty() && !bound() {
            let version = ledger.version().cloned()?;
            self.stored.request = Some((id, true));
            self.claims.ledger_mut().drops(id);
            return Some(LedgerRequest::Delete(group.clone(), version));
        }
        let request = self.claims.ledger_request(now)?;
        self.stored.request = Some((id, false));
        self.claims.ledger_mut().sent(id, request.clone());
        self.change_all();
        Some(match request {
            Request::Load => LedgerRequest::Load(group.clone()),
            Request::Write(base, content) => {
                LedgerRequest::Write(base, PackedLedger::of(group, self.family, &content))
            }
        })
    }
}
