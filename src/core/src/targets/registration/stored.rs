//! The stored ledger of one target group as this replica knows it, and the request to it in flight.
//!
//! Only one request is in flight at a time; later changes share the next one. A write carries the version that it
//! replaces, so only one of two replicas can succeed. After a conflict or a lost answer, Headgate reads the ledger
//! again before anything else. It registers nothing because of a ledger that this term has not written itself. A write
//! of an earlier leader may still be under way, and a write of this term makes it fail.

use std::time::Duration;

use crate::{
    backoff::Backoff,
    ledger::{Ledger, LedgerVersion, Noted, PodMark},
    model::{Failure, FailureClass, Moment, RequestId, Target},
};

/// Changes that nothing waits for are written after this delay.
const LAZY: Duration = Duration::from_secs(5);
/// An unreadable ledger is read again after this delay, because somebody may have repaired or deleted it. Headgate
/// registers nothing until then.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// It must be read.
    Unknown,
    Absent,
    At(LedgerVersion),
    /// The ledger exists and cannot be read.
    Unreadable,
}

/// A request to the ledger.
#[derive(Clone, Debug)]
pub enum Request {
    Load,
    Write(Ledger),
    Drop,
}

/// See the module docs.
#[derive(Clone, Debug)]
pub struct Stored {
    state: State,
    content: Ledger,
    /// Whether this term has written the ledger.
    own: bool,
    request: Option<(RequestId, Request)>,
    backoff: Backoff,
    look_again: Moment,
    /// Whether a change must be written that nothing waits for, and the latest time for that.
    changed: bool,
    lazy: Option<Moment>,
    /// Whether writes are no longer delayed, because this term is about to end.
    hurried: bool,
}

impl Stored {
    pub fn new(seed: u64) -> Self {
        Self {
            state: State::Unknown,
            content: Ledger::default(),
            own: false,
            request: None,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5), seed),
            look_again: Moment::START,
            changed: false,
            lazy: None,
            hurried: false,
        }
    }

    /// Records that there is no ledger.
    pub fn found_none(&mut self) {
        self.state = State::Absent;
        self.content = Ledger::default();
    }

    /// Takes in a ledger that was read.
    pub fn found(&mut self, version: LedgerVersion, content: Ledger) {
        (self.state, self.content) = (State::At(version), content);
        self.own = false;
    }

    /// Records that the ledger was read and is invalid.
    pub fn found_unreadable(&mut self, now: Moment) {
        self.state = State::Unreadable;
        self.content = Ledger::default();
        self.look_again = now + LOOK_AGAIN;
    }

    /// A watch has shown this version. Ignored while a request is in flight, because its answer is newer.
    pub fn seen_at(&mut self, version: &LedgerVersion) {
        if self.request.is_none() && self.state != State::Unreadable && self.base().as_ref() != Some(version)
        {
            self.state = State::Unknown;
        }
    }

    /// The last known content.
    pub fn content(&self) -> &Ledger {
        &self.content
    }

    /// The version to replace. `None`: there is no ledger.
    pub fn base(&self) -> Option<LedgerVersion> {
        match &self.state {
            State::At(version) => Some(version.clone()),
            _ => None,
        }
    }

    /// Whether the ledger object exists, or may exist: a write in flight may create it.
    pub fn exists(&self) -> bool {
        !matches!(self.state, State::Absent) || matches!(self.request, Some((_, Request::Write(_))))
    }

    /// Whether `target` may be registered for this pod. It may if the ledger names the target for the pod, both now and
    /// after the write in flight. Every reader then knows that Headgate registered it.
    pub fn allows(&self, target: &Target, mark: PodMark) -> bool {
        let says = |ledger: &Ledger| {
            ledger.get(target).is_some_and(|(noted, pod)| noted != Noted::Removed && pod == mark)
        };
        self.own
            && matches!(self.state, State::At(_))
            && says(&self.content)
            && match &self.request {
                None | Some((_, Request::Load)) => true,
                Some((_, Request::Write(ledger))) => says(ledger),
                Some((_, Request::Drop)) => false,
            }
    }

    /// Records a change that may be written later.
    pub fn touch(&mut self) {
        self.changed = true;
    }

    /// Records a change that must be written soon.
    pub fn touch_now(&mut self, now: Moment) {
        (self.changed, self.lazy) = (true, Some(now));
    }

    /// Stops delaying writes.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Whether the content is known. If it is not, Headgate reads the ledger before anything else.
    pub fn is_known(&self) -> bool {
        matches!(self.state, State::Absent | State::At(_))
    }

    /// When the ledger must be read or written. `urgent`: by when a registration needs it.
    pub fn next_due(&self, urgent: Option<Moment>, now: Moment) -> Option<Moment> {
        if self.request.is_some() {
            return None;
        }
        let due = match self.state {
            State::Unknown => Some(Moment::START),
            State::Unreadable => Some(self.look_again),
            State::Absent | State::At(_) => {
                let lazy = self.changed.then(|| self.lazy.unwrap_or(now + LAZY));
                urgent.into_iter().chain(lazy).min()
            }
        };
        due.map(|due| due.max(self.backoff.until()))
    }

    /// Advances the time.
    pub fn pass(&mut self, now: Moment) {
        if self.changed && self.hurried {
            self.lazy = Some(now);
        } else if self.changed && self.lazy.is_none() {
            self.lazy = Some(now + LAZY);
        }
    }

    pub fn start(&mut self, id: RequestId, request: Request) {
        if !matches!(request, Request::Load) {
            self.settled();
        }
        self.request = Some((id, request));
    }

    /// Records that there is nothing to write.
    pub fn settled(&mut self) {
        (self.changed, self.lazy) = (false, None);
    }

    /// Ends this request and returns it, if it is the one in flight.
    fn ends(&mut self, id: RequestId) -> Option<Request> {
        self.request.take_if(|(own, _)| *own == id).map(|(_, request)| request)
    }

    /// Handles the end of a read. Returns whether it was the request in flight.
    pub fn loaded(&mut self, id: RequestId, succeeded: bool, now: Moment) -> bool {
        let ended = self.ends(id).is_some();
        if ended && succeeded {
            self.backoff.succeeded();
        } else if ended {
            self.backoff.failed(now);
        }
        ended
    }

    /// Handles the end of a write or of a deletion (`None`). Returns whether it was a deletion.
    pub fn written(
        &mut self,
        id: RequestId,
        result: &Result<Option<LedgerVersion>, Failure>,
        now: Moment,
    ) -> bool {
        let Some(request) = self.ends(id) else { return false };
        let drops = matches!(request, Request::Drop);
        match (result, request) {
            (Err(failure), _) => self.failed(failure, now),
            (Ok(Some(version)), Request::Write(content)) => {
                self.found(version.clone(), content);
                // Something may have changed during the write.
                (self.own, self.changed) = (true, true);
                self.backoff.succeeded();
            }
            (Ok(_), _) => {
                self.found_none();
                self.own = false;
                self.backoff.succeeded();
            }
        }
        drops
    }

    fn failed(&mut self, failure: &Failure, now: Moment) {
        self.changed = true;
        // The next read shows whether the ledger has changed, or was written despite the error.
        match failure.class {
            FailureClass::Conflict | FailureClass::Gone => self.state = State::Unknown,
            FailureClass::Unavailable => {
                self.state = State::Unknown;
                self.backoff.failed(now);
            }
            FailureClass::Throttled | FailureClass::Denied | FailureClass::Refused | FailureClass::Full => {
                self.backoff.failed(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Uid, testing::target};

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn version(number: u64) -> LedgerVersion {
        LedgerVersion::new(number.to_string())
    }

    fn mark(uid: &str) -> PodMark {
        PodMark::of(&Uid::new(uid))
    }

    /// A ledger that names target 10.0.0.1:80 for pod `a`.
    fn noted(noted: Noted) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.note(target(1, 80), noted, mark("a"));
        ledger
    }

    /// A ledger that this term has written.
    fn own() -> Stored {
        let mut stored = Stored::new(1);
        stored.found_none();
        stored.start(RequestId(1), Request::Write(noted(Noted::Intended)));
        stored.written(RequestId(1), &Ok(Some(version(1))), at(0));
        stored.settled();
        stored
    }

    fn allows(stored: &Stored, uid: &str) -> bool {
        stored.allows(&target(1, 80), mark(uid))
    }

    #[test]
    fn nothing_is_registered_on_another_word_than_that_of_this_term() {
        assert!(allows(&own(), "a"));
        assert!(!allows(&own(), "b"));
        let mut read = own();
        read.found(version(2), noted(Noted::Intended));
        assert!(!allows(&read, "a"), "the leader before has written it");
        let mut unknown = own();
        unknown.seen_at(&version(2));
        assert!(!allows(&unknown, "a"), "somebody else has");
        let mut removed = Stored::new(1);
        removed.found_none();
        removed.start(RequestId(1), Request::Write(noted(Noted::Removed)));
        removed.written(RequestId(1), &Ok(Some(version(1))), at(0));
        assert!(!allows(&removed, "a"));
    }

    #[test]
    fn what_is_being_written_counts_already_if_it_says_less() {
        let mut writing = own();
        writing.start(RequestId(2), Request::Write(noted(Noted::Registered)));
        assert!(allows(&writing, "a"));
        let mut writing = own();
        writing.start(RequestId(2), Request::Write(Ledger::default()));
        assert!(!allows(&writing, "a"));
        let mut dropping = own();
        dropping.start(RequestId(2), Request::Drop);
        assert!(!allows(&dropping, "a"));
        let mut loading = own();
        loading.start(RequestId(2), Request::Load);
        assert!(allows(&loading, "a"));
    }

    #[test]
    fn a_ledger_that_somebody_else_has_written_is_read_again_unless_that_may_have_been_us() {
        let mut stored = own();
        stored.seen_at(&version(1));
        assert_eq!(stored.next_due(None, at(0)), None);
        let mut busy = own();
        busy.start(RequestId(2), Request::Write(noted(Noted::Registered)));
        busy.seen_at(&version(2));
        busy.written(RequestId(2), &Ok(Some(version(2))), at(0));
        busy.settled();
        assert_eq!(busy.next_due(None, at(0)), None);
        stored.seen_at(&version(2));
        assert!(stored.next_due(None, at(0)) == Some(at(0)) && !stored.is_known());
        stored.found_unreadable(at(0));
        stored.seen_at(&version(3));
        assert_eq!(stored.next_due(None, at(1)), Some(at(5)), "it is looked at again by itself");
    }

    #[test]
    fn what_nobody_waits_for_is_written_after_a_while_and_what_somebody_does_at_once() {
        let mut stored = own();
        stored.touch();
        assert_eq!(stored.next_due(None, at(10)), Some(at(15)));
        stored.pass(at(10));
        assert_eq!(stored.next_due(None, at(12)), Some(at(15)), "it is not put off again");
        assert_eq!(stored.next_due(Some(at(11)), at(11)), Some(at(11)));
        stored.touch_now(at(12));
        assert!(stored.next_due(None, at(12)) == Some(at(12)) && stored.is_known());
    }

    #[test]
    fn a_read_that_fails_is_tried_again_after_a_moment() {
        let mut stored = Stored::new(1);
        stored.start(RequestId(1), Request::Load);
        assert!(!stored.loaded(RequestId(2), true, at(1)), "not the one that is waited for");
        assert_eq!(stored.next_due(None, at(1)), None);
        assert!(stored.loaded(RequestId(1), false, at(1)));
        assert!(stored.next_due(None, at(1)).is_some_and(|due| due > at(1) && due < at(2)));
        stored.start(RequestId(3), Request::Load);
        assert!(stored.loaded(RequestId(3), true, at(2)));
        assert!(stored.exists(), "nobody knows");
        stored.found_none();
        assert!(!stored.exists());
    }

    #[test]
    fn one_that_is_being_written_for_the_first_time_may_be_there_until_the_write_is_known_to_have_failed() {
        for (class, exists) in [(FailureClass::Throttled, false), (FailureClass::Unavailable, true)] {
            let mut stored = Stored::new(1);
            stored.found_none();
            stored.start(RequestId(1), Request::Write(noted(Noted::Intended)));
            assert!(stored.exists());
            stored.written(RequestId(1), &Err(Failure::new(class, "Code", "why")), at(0));
            assert_eq!(stored.exists(), exists, "{class:?}");
        }
    }

    #[test]
    fn what_is_new_goes_with_a_write_and_waits_while_the_ledger_is_read() {
        let mut stored = Stored::new(1);
        stored.changed = true;
        stored.start(RequestId(1), Request::Load);
        assert!(stored.changed);
        stored.start(RequestId(2), Request::Write(Ledger::default()));
        assert!(!stored.changed);
    }
}
