//! The queue of records that must still be written. The module has no I/O and no clock.
//!
//! ```text
//!  ask ──► Waits ──► next ──► UnderWay ──► ended ──┬──► removed: written, or the pod was deleted
//!            ▲                                     ├──► Waits: retried after a pause
//!            └─────────────────────────────────────┤
//!                                                  └──► Refused: the reason is returned at the next request
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use headgate_core::{
    Failure, FailureClass, Moment,
    model::{
        eviction::Limits,
        object::{ObjectKey, Uid},
    },
};

/// The maximum number of queued records. Each record concerns a bound pod on which no request was recorded yet.
pub const CAPACITY: usize = 10_000;
/// The pause before a failed write is retried. The pause doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between retries.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// A record of a client's request to evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the pod.
    pub pod: ObjectKey,
    /// The UID of the pod.
    pub uid: Uid,
    /// The time of the first eviction request since the record was queued.
    pub first: Moment,
    /// The time of the last eviction request.
    pub last: Moment,
    ticket: u64,
}

/// The state of a record after a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The record is queued.
    Waits,
    /// The queue is full, so the request is not recorded. The client retries.
    Full,
    /// The record cannot be written, for the given reason.
    Refused(Box<str>),
}

/// The state of a record whose write has failed.
#[derive(Debug)]
struct Failing {
    since: Moment,
    /// The time that the record has waited behind records of other pods.
    queued: Duration,
    pause: Duration,
    why: Box<str>,
}

#[derive(Debug)]
enum State {
    /// The record waits at least until this time.
    Waits(Moment),
    UnderWay,
    /// The record cannot be written. The error is dropped at the given time.
    Refused(Moment, Box<str>),
}

#[derive(Debug)]
struct Entry {
    uid: Uid,
    /// Earlier records have smaller numbers.
    ticket: u64,
    first: Moment,
    last: Moment,
    state: State,
    failing: Option<Failing>,
}

impl Entry {
    /// The time at which the record must be processed.
    const fn due(&self) -> Option<Moment> {
        match self.state {
            State::Waits(due) | State::Refused(due, _) => Some(due),
            State::UnderWay => None,
        }
    }

    /// How long the record is overdue.
    fn overdue(&self, now: Moment) -> Duration {
        if let State::Waits(due) = self.state { now.since(due) } else { Duration::ZERO }
    }

    /// The reason why the eviction no longer waits for this record. `None`: the eviction still waits. Time in which the
    /// record waited behind other records does not count as failing.
    fn refusal(&self, limits: &Limits, now: Moment) -> Option<Box<str>> {
        if let State::Refused(_, why) = &self.state {
            return Some(why.clone());
        }
        let fails_for = |failing: &Failing| {
            now.since(failing.since).saturating_sub(failing.queued).saturating_sub(self.overdue(now))
        };
        let failing = self.failing.as_ref();
        if let Some(failing) = failing.filter(|failing| fails_for(failing) >= limits.patience) {
            return Some(failing.why.clone());
        }
        let waited = now.since(self.first);
        (waited >= limits.silence()).then(|| format!("not within {waited:.0?}").into())
    }
}

/// The records in the order of their first request, with at most one record per pod.
#[derive(Debug)]
pub struct Queue {
    limits: Limits,
    entries: HashMap<ObjectKey, Entry>,
    order: BTreeMap<(Moment, u64), ObjectKey>,
    tickets: u64,
}

impl Queue {
    /// Creates an empty queue. The limits determine when a record is given up: `limits.patience` if its writes fail,
    /// `limits.given_up_after` without further requests, and `limits.silence()` if it was never tried.
    pub fn new(limits: Limits) -> Self {
        Self { limits, entries: HashMap::new(), order: BTreeMap::new(), tickets: 0 }
    }

    /// Queues a record of a client's request to evict a pod.
    pub fn ask(&mut self, pod: &ObjectKey, uid: &Uid, now: Moment) -> Asked {
        let forgotten = self.limits.given_up_after;
        let is_the_same = |entry: &&mut Entry| entry.uid == *uid && now.since(entry.last) <= forgotten;
        if let Some(entry) = self.entries.get_mut(pod).filter(is_the_same) {
            entry.last = now;
            let Some(why) = entry.refusal(&self.limits, now) else { return Asked::Waits };
            self.remove(pod);
            return Asked::Refused(why);
        }
        self.remove(pod);
        if self.entries.len() >= CAPACITY {
            return Asked::Full;
        }
        let ticket = self.tickets;
        self.tickets += 1;
        let state = State::Waits(now);
        let entry = Entry { uid: uid.clone(), ticket, first: now, last: now, state, failing: None };
        self.order.insert((now, ticket), pod.clone());
        self.entries.insert(pod.clone(), entry);
        Asked::Waits
    }

    /// Takes the next record to write.
    pub fn next(&mut self, now: Moment) -> Option<Note> {
        while self.next_due()? <= now {
            let (_, pod) = self.order.pop_first()?;
            let Some(entry) = self.entries.get_mut(&pod) else { continue };
            let is_forgotten = now.since(entry.last) > self.limits.given_up_after;
            if is_forgotten || matches!(entry.state, State::Refused(..)) {
                self.entries.remove(&pod);
                continue;
            }
            let overdue = entry.overdue(now);
            if let Some(failing) = &mut entry.failing {
                failing.queued += overdue;
            }
            entry.state = State::UnderWay;
            let Entry { uid, ticket, first, last, .. } = entry;
            let (uid, ticket, first, last) = (uid.clone(), *ticket, *first, *last);
            return Some(Note { pod, uid, first, last, ticket });
        }
        None
    }

    /// The time at which the next record is due.
    pub fn next_due(&self) -> Option<Moment> {
        self.order.first_key_value().map(|((due, _), _)| *due)
    }

    /// Records the result of a write.
    pub fn ended(&mut self, note: &Note, result: Result<(), Failure>, now: Moment) {
        let is_meant = |entry: &&mut Entry| entry.ticket == note.ticket;
        let Some(entry) = self.entries.get_mut(&note.pod).filter(is_meant) else { return };
        let failure = match result {
            Ok(()) | Err(Failure { class: FailureClass::Gone, .. }) => return self.remove(&note.pod),
            Err(failure) => failure,
        };
        entry.state = if failure.is_lasting() {
            State::Refused(now + self.limits.given_up_after, failure.message)
        } else {
            let before = entry.failing.take();
            let pause = before.as_ref().map_or(FIRST_PAUSE, |before| (before.pause * 2).min(LONGEST_PAUSE));
            let (since, queued) =
                before.map_or((now, Duration::ZERO), |before| (before.since, before.queued));
            entry.failing = Some(Failing { since, queued, pause, why: failure.message });
            State::Waits(now + pause)
        };
        self.order.extend(entry.due().map(|due| ((due, entry.ticket), note.pod.clone())));
    }

    /// The number of records.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    fn remove(&mut self, pod: &ObjectKey) {
        let Some(entry) = self.entries.remove(pod) else { return };
        if let Some(due) = entry.due() {
            self.order.remove(&(due, entry.ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn pod(name: &str) -> ObjectKey {
        ObjectKey::new("shop", name)
    }

    fn queue() -> Queue {
        Queue::new(Limits::default())
    }

    fn ask(queue: &mut Queue, name: &str, seconds: u64) -> Asked {
        queue.ask(&pod(name), &Uid::new("u-1"), at(seconds))
    }

    fn failure(class: FailureClass) -> Result<(), Failure> {
        Err(Failure::new(class, "503", "later"))
    }

    /// The names of the pods whose records are written next.
    fn turns(queue: &mut Queue, seconds: u64) -> Vec<String> {
        std::iter::from_fn(|| queue.next(at(seconds))).map(|note| note.pod.name.to_string()).collect()
    }

    #[test]
    fn who_was_asked_for_first_is_first_however_often_others_are_asked_for() {
        let mut queue = queue();
        for (name, seconds) in [("c", 1), ("a", 2), ("b", 2), ("c", 3), ("a", 9), ("a", 10)] {
            assert_eq!(ask(&mut queue, name, seconds), Asked::Waits);
        }
        assert_eq!((queue.count(), turns(&mut queue, 10)), (3, vec!["c".into(), "a".into(), "b".into()]));
    }

    #[test]
    fn a_note_says_since_when_somebody_asks_and_when_last() {
        let mut queue = queue();
        ask(&mut queue, "a", 1);
        ask(&mut queue, "a", 7);
        let note = queue.next(at(8)).unwrap();
        assert_eq!((note.first, note.last), (at(1), at(7)));
        assert_eq!(ask(&mut queue, "a", 8), Asked::Waits, "it is being written");
        queue.ended(&note, Ok(()), at(9));
        assert_eq!((queue.count(), queue.next_due()), (0, None));
    }

    #[test]
    fn without_room_nothing_is_noted_until_there_is_room_again() {
        let mut queue = queue();
        for at in 0..CAPACITY {
            assert_eq!(ask(&mut queue, &at.to_string(), 1), Asked::Waits);
        }
        assert_eq!(ask(&mut queue, "late", 1), Asked::Full);
        assert_eq!(ask(&mut queue, "0", 1), Asked::Waits, "it has its place");
        let first = queue.next(at(1)).unwrap();
        assert_eq!(
            (&*first.pod.name, ask(&mut queue, "late", 1)),
            ("0", Asked::Full),
            "it is not written yet"
        );
        queue.ended(&first, Ok(()), at(2));
        assert_eq!(ask(&mut queue, "late", 2), Asked::Waits);
    }

    #[test]
    fn what_fails_is_tried_again_and_holds_up_nobody_else() {
        let mut queue = queue();
        ask(&mut queue, "a", 0);
        let mut tried = Vec::new();
        for seconds in 0..30 {
            ask(&mut queue, "a", seconds);
            ask(&mut queue, "b", seconds);
            while let Some(note) = queue.next(at(seconds)) {
                let is_bad = &*note.pod.name == "a";
                tried.extend(is_bad.then_some(seconds));
                let result = if is_bad { failure(FailureClass::Unavailable) } else { Ok(()) };
                queue.ended(&note, result, at(seconds));
            }
            assert_eq!(queue.count(), 1, "the other one is written each time");
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 23]);
    }

    #[test]
    fn what_fails_for_too_long_is_given_up_and_what_is_refused_at_once() {
        let mut queue = queue();
        ask(&mut queue, "a", 0);
        for seconds in 0..60 {
            while let Some(note) = queue.next(at(seconds)) {
                queue.ended(&note, failure(FailureClass::Unavailable), at(seconds));
            }
            assert_eq!(ask(&mut queue, "a", seconds), Asked::Waits, "{seconds}");
        }
        assert_eq!(ask(&mut queue, "a", 60), Asked::Refused("later".into()));
        assert_eq!(ask(&mut queue, "a", 61), Asked::Waits, "from the beginning");
        let note = queue.next(at(61)).unwrap();
        queue.ended(&note, failure(FailureClass::Denied), at(61));
        assert_eq!(turns(&mut queue, 62), [""; 0], "it is not tried again");
        assert_eq!(ask(&mut queue, "a", 62), Asked::Refused("later".into()));
    }

    #[test]
    fn what_has_failed_and_waits_behind_others_is_not_given_up_for_that() {
        let mut queue = queue();
        ask(&mut queue, "a", 0);
        let fails = |queue: &mut Queue, seconds| {
            let note = queue.next(at(seconds)).unwrap();
            queue.ended(&note, failure(FailureClass::Unavailable), at(seconds));
        };
        fails(&mut queue, 0);
        for seconds in (5..=100).step_by(5) {
            assert_eq!(ask(&mut queue, "a", seconds), Asked::Waits, "it has no turn, {seconds}");
        }
        fails(&mut queue, 100);
        for seconds in 101..159 {
            assert_eq!(ask(&mut queue, "a", seconds), Asked::Waits, "{seconds}");
            if queue.next_due().is_some_and(|due| due <= at(seconds)) {
                fails(&mut queue, seconds);
            }
        }
        assert_eq!(ask(&mut queue, "a", 159), Asked::Refused("later".into()), "it was tried for a minute");
    }

    #[test]
    fn nobody_waits_for_a_turn_without_end() {
        let mut queue = queue();
        for seconds in (0..180).step_by(5) {
            assert_eq!(ask(&mut queue, "a", seconds), Asked::Waits);
        }
        assert_eq!(ask(&mut queue, "a", 180), Asked::Refused("not within 180s".into()));
        assert_eq!((queue.count(), queue.next_due()), (0, None));
    }

    #[test]
    fn what_nobody_asks_for_any_more_is_forgotten() {
        let mut queue = queue();
        for name in ["waits", "refused"] {
            ask(&mut queue, name, 0);
        }
        let waits = queue.next(at(0)).unwrap();
        let refused = queue.next(at(0)).unwrap();
        queue.ended(&refused, failure(FailureClass::Denied), at(0));
        queue.ended(&waits, failure(FailureClass::Throttled), at(58));
        assert_eq!((turns(&mut queue, 61), queue.count()), (vec![], 0));
        let mut queue = Queue::new(Limits::default());
        ask(&mut queue, "a", 0);
        assert_eq!(ask(&mut queue, "a", 61), Asked::Waits);
        assert_eq!(queue.next(at(61)).unwrap().first, at(61), "somebody else asks");
    }

    #[test]
    fn a_pod_that_has_got_the_name_since_has_a_note_of_its_own() {
        let mut queue = queue();
        ask(&mut queue, "a", 0);
        let before = queue.next(at(0)).unwrap();
        assert_eq!(queue.ask(&pod("a"), &Uid::new("u-2"), at(1)), Asked::Waits);
        queue.ended(&before, failure(FailureClass::Denied), at(1));
        let note = queue.next(at(1)).unwrap();
        assert_eq!((note.uid.clone(), note.first), (Uid::new("u-2"), at(1)));
        queue.ended(&before, Ok(()), at(2));
        assert_eq!(queue.count(), 1);
        queue.ended(&note, failure(FailureClass::Gone), at(2));
        assert_eq!(queue.count(), 0);
    }
}
