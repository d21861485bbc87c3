//! What AWS refuses in one target group: how the targets are found that a call was refused for, and when they are tried
//! again. The same for registrations and for removals.
//!
//! AWS refuses a call as a whole, and often does not say for which target. Two cases are told apart with few calls: one
//! bad target among good ones, and targets that are refused alike, as those of another VPC are.
//!
//! ```text
//!  first try ── refused ──► searched ── refused alone, or all alike ──► waits
//!                              ▲                                          │
//!                              └───────── one of them is taken ◄──────────┘
//! ```
//!
//! * **First tries wait for nothing here**: they go in calls of their own.
//! * **Searched**: a refused call is halved, and its halves are tried, the largest first. One bad target among good ones is
//!   found so, with about two calls for each time that their number can be halved.
//! * **Refused alike**: when [`DOUBTED`] calls in a row were refused, and none was taken, targets are tried alone, from
//!   different places. If [`ALONE`] of those are refused too, all that are searched wait. Where some were taken already, the
//!   search is more patient.
//! * **Waits**: after 10 s, and then after twice as long each time, one of those that wait is tried alone, each time another
//!   one; if there are no more than [`FEW`], each of them is. If it is taken, all others are searched.
//!
//! So of targets that are refused alike, however many there are, AWS is asked a few times at first, and then once each time.

use std::time::Duration;

use crate::model::{Moment, RequestId};

/// After so many refused calls in a row it is doubtful whether any target that is searched is good.
const DOUBTED: u32 = 3;
/// The same once one of them was taken: they are not all alike.
const DOUBTED_AMONG_GOOD: u32 = 32;
/// Then so many of them are tried alone.
const ALONE: u32 = 3;
/// So many that wait are tried again one by one, of more only one.
const FEW: usize = 3;
/// Those that wait are tried again after this long, then after twice as long each time.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(10);
const LAST_WAIT: Duration = Duration::from_secs(160);

/// What AWS's refusals say of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// No call with it was refused since it came to be wanted, or not to be, or one was taken.
    #[default]
    No,
    /// A call with it was refused, and it is in this part of that.
    Among(u32),
    /// It was refused alone, or is taken to be like others that were.
    Waits,
}

/// Why a call is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Try {
    /// None of its targets was refused before.
    First,
    /// They are a part of a refused call.
    Part,
    /// It is doubtful whether any target that is searched is good: one of them alone.
    Alone,
    /// One that waits, alone.
    Again,
}

/// How many targets wait for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub(super) first: usize,
    pub(super) searched: usize,
    pub(super) again: usize,
}

impl Waiting {
    /// All of them.
    pub const fn all(self) -> usize {
        self.first + self.searched + self.again
    }
}

/// What follows from a refused call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halved {
    /// The parts of the call, if it had several targets; otherwise its only one waits.
    pub(super) parts: Option<[u32; 2]>,
    /// Whether all that are searched are refused alike, and wait.
    pub(super) alike: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// The call in flight, if there is one that is no first try.
    trying: Option<(RequestId, Try)>,
    /// How many calls in a row were refused in this search; how many of those with a target that was tried alone.
    refused: u32,
    alone: u32,
    /// Some that were searched were taken.
    mixed: bool,
    /// Those that were searched were refused alike, and nothing was taken since.
    alike: bool,
    parts: u32,
    /// How often those that wait were tried since one of them began to.
    rounds: u32,
    /// When those that wait are tried again, and how many of them may be now.
    until: Option<Moment>,
    tries: usize,
}

impl Refusals {
    /// Why the next call would be sent, if there is any.
    pub fn next(&self, waiting: Waiting) -> Option<Try> {
        match waiting {
            Waiting { first: 1.., .. } => Some(Try::First),
            _ if self.trying.is_some() => None,
            Waiting { searched: 1.., .. } if self.is_doubted() => Some(Try::Alone),
            Waiting { searched: 1.., .. } => Some(Try::Part),
            Waiting { again: 1.., .. } if self.tries > 0 => Some(Try::Again),
            _ => None,
        }
    }

    /// Whether first tries will probably be refused, too.
    pub fn doubts_first_tries(&self, waiting: Waiting) -> bool {
        (self.is_doubted() && waiting.searched > 0) || (self.alike && waiting.again > 0)
    }

    const fn is_doubted(&self) -> bool {
        self.refused >= if self.mixed { DOUBTED_AMONG_GOOD } else { DOUBTED }
    }

    /// When one that waits is tried again; `None`: one is being tried, or may be.
    pub const fn until(&self) -> Option<Moment> {
        self.until
    }

    /// Which one of so many is tried alone next: from another place each time, as neighbours are often alike.
    pub const fn place(&self, of: usize, next: Try) -> usize {
        let nth = if matches!(next, Try::Again) { self.rounds } else { self.alone };
        // Multiples of the golden ratio are spread evenly.
        (nth as usize % 1000 * 618 % 1000) * of / 1000
    }

    /// A new part, of those that are searched.
    fn part(&mut self) -> u32 {
        self.parts = self.parts.wrapping_add(1);
        self.parts
    }

    /// This call is sent.
    pub fn start(&mut self, id: RequestId, why: Try) {
        if why != Try::First {
            self.trying = Some((id, why));
        }
    }

    /// This call has ended; why it was sent.
    pub fn end(&mut self, id: RequestId) -> Try {
        self.trying.take_if(|(own, _)| *own == id).map_or(Try::First, |(_, why)| why)
    }

    /// AWS has taken a call. Gives the part in which those that wait are searched now, if it had one of them.
    pub fn taken(&mut self, why: Try, now: Moment) -> Option<u32> {
        (self.refused, self.alone) = (0, 0);
        self.mixed |= why != Try::First;
        // What was in the way of all may be over.
        if std::mem::take(&mut self.alike) && self.until.is_some() {
            self.until = Some(now);
        }
        (why == Try::Again).then(|| {
            (self.rounds, self.tries, self.until) = (0, 0, None);
            self.part()
        })
    }

    /// AWS has refused a call with so many targets; `searching`: whether others are searched.
    pub fn refused(&mut self, why: Try, targets: usize, searching: bool, now: Moment) -> Halved {
        if why == Try::Again {
            self.tries = self.tries.saturating_sub(1);
            if self.tries == 0 && self.until.is_none() {
                self.rounds += 1;
                let wait = FIRST_WAIT.saturating_mul(1 << self.rounds.min(8)).min(LAST_WAIT);
                self.until = Some(now + wait);
            }
            return Halved { parts: None, alike: false };
        }
        if why == Try::First && !searching {
            (self.refused, self.alone, self.mixed) = (0, 0, false);
        }
        self.refused += 1;
        self.alone += u32::from(why == Try::Alone);
        let alike = self.alone >= ALONE;
        if alike {
            (self.refused, self.alone, self.mixed, self.alike) = (0, 0, false, true);
        }
        if alike || targets == 1 {
            self.begins_to_wait(now);
        }
        Halved { parts: (targets > 1).then(|| [self.part(), self.part()]), alike }
    }

    fn begins_to_wait(&mut self, now: Moment) {
        let soon = now + FIRST_WAIT;
        let until = self.until.filter(|until| *until > now).map_or(soon, |until| until.min(soon));
        (self.until, self.rounds, self.tries) = (Some(until), 0, 0);
    }

    /// Time has passed, and so many wait.
    pub fn pass(&mut self, again: usize, now: Moment) {
        if again > 0 && self.until.is_some_and(|until| until <= now) {
            self.until = None;
            self.tries = if again <= FEW { again } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    const fn waiting(first: usize, searched: usize, again: usize) -> Waiting {
        Waiting { first, searched, again }
    }

    /// So many targets were refused alike at the start.
    fn alike() -> Refusals {
        let mut refusals = Refusals::default();
        for (why, targets) in [(Try::First, 100), (Try::Part, 50), (Try::Part, 50)] {
            assert!(!refusals.refused(why, targets, why != Try::First, at(0)).alike);
        }
        for nth in 1..=ALONE {
            assert_eq!(refusals.refused(Try::Alone, 1, true, at(0)).alike, nth == ALONE);
        }
        refusals
    }

    /// Tries one that waits, which is refused; gives when the next one is tried.
    fn refuse_again(refusals: &mut Refusals, again: usize, now: Moment) -> Option<Moment> {
        refusals.pass(again, now);
        assert_eq!(refusals.next(waiting(0, 0, again)), Some(Try::Again));
        refusals.refused(Try::Again, 1, false, now);
        refusals.until()
    }

    #[test]
    fn first_tries_go_before_what_was_refused_and_one_of_that_at_a_time() {
        let mut refusals = Refusals::default();
        assert_eq!(refusals.next(waiting(0, 0, 0)), None);
        assert_eq!(refusals.next(waiting(3, 2, 1)), Some(Try::First));
        assert_eq!(refusals.next(waiting(0, 2, 1)), Some(Try::Part));
        assert_eq!(refusals.next(waiting(0, 0, 1)), None, "it is not its time");
        refusals.start(RequestId(1), Try::Part);
        assert_eq!(refusals.next(waiting(0, 2, 1)), None);
        assert_eq!(refusals.next(waiting(1, 2, 1)), Some(Try::First));
        refusals.start(RequestId(2), Try::First);
        assert_eq!((refusals.end(RequestId(2)), refusals.end(RequestId(1))), (Try::First, Try::Part));
        assert_eq!(refusals.next(waiting(0, 2, 1)), Some(Try::Part));
    }

    #[test]
    fn refused_three_times_in_a_row_targets_are_tried_alone_and_refused_three_times_they_all_wait() {
        let mut refusals = Refusals::default();
        for (why, next) in [
            (Try::First, Try::Part),
            (Try::Part, Try::Part),
            (Try::Part, Try::Alone),
            (Try::Alone, Try::Alone),
        ] {
            assert_eq!(refusals.doubts_first_tries(waiting(0, 99, 0)), why == Try::Alone);
            let halved = refusals.refused(why, 2, why != Try::First, at(0));
            assert_eq!((halved.alike, refusals.next(waiting(0, 99, 0))), (false, Some(next)));
        }
        assert!(refusals.doubts_first_tries(waiting(0, 99, 0)));
        assert!(!refusals.doubts_first_tries(waiting(0, 0, 0)), "nothing is searched any more");
        let refusals = alike();
        assert_eq!(refusals.until(), Some(at(10)));
        assert!(refusals.doubts_first_tries(waiting(0, 0, 99)));
        assert!(!refusals.doubts_first_tries(waiting(0, 0, 0)), "they are gone");
    }

    #[test]
    fn a_call_that_is_taken_ends_the_doubt() {
        let mut refusals = Refusals::default();
        for why in [Try::First, Try::Part, Try::Part] {
            refusals.refused(why, 50, why != Try::First, at(0));
        }
        assert_eq!(refusals.taken(Try::Alone, at(0)), None);
        assert_eq!(refusals.next(waiting(0, 99, 0)), Some(Try::Part));
        let mut refusals = alike();
        refusals.taken(Try::First, at(3));
        assert!(!refusals.doubts_first_tries(waiting(0, 0, 99)));
        refusals.pass(99, at(3));
        assert_eq!(refusals.next(waiting(0, 0, 99)), Some(Try::Again), "what was in the way may be over");
    }

    #[test]
    fn a_new_search_does_not_count_what_was_refused_before_it() {
        let mut refusals = Refusals::default();
        for _ in 0..5 {
            refusals.refused(Try::First, 1, false, at(0));
        }
        refusals.refused(Try::First, 100, false, at(0));
        assert_eq!(refusals.next(waiting(0, 100, 5)), Some(Try::Part));
    }

    #[test]
    fn of_many_that_wait_one_is_tried_again_ever_more_rarely_and_of_a_few_each() {
        let mut refusals = alike();
        let mut due = refusals.until().unwrap();
        for wait in [20, 40, 80, 160, 160] {
            let next = refuse_again(&mut refusals, 500, due).unwrap();
            assert_eq!(next.since(due), Duration::from_secs(wait));
            due = next;
        }
        let mut few = Refusals::default();
        few.refused(Try::First, 1, false, at(0));
        assert_eq!(refuse_again(&mut few, 2, at(10)), None, "the other one, too");
        assert_eq!(refuse_again(&mut few, 2, at(10)), Some(at(30)));
    }

    #[test]
    fn who_begins_to_wait_is_tried_after_ten_seconds_however_long_others_wait() {
        let mut refusals = alike();
        let mut due = at(10);
        for _ in 0..4 {
            due = refuse_again(&mut refusals, 500, due).unwrap();
        }
        refusals.refused(Try::First, 1, false, at(200));
        assert_eq!(refusals.until(), Some(at(210)));
        refusals.refused(Try::First, 1, false, at(205));
        assert_eq!(refusals.until(), Some(at(210)), "no later than before");
    }

    #[test]
    fn nobody_is_forgotten_for_being_away_when_its_time_comes() {
        let mut refusals = alike();
        refusals.pass(0, at(60));
        assert_eq!(refusals.until(), Some(at(10)));
        refusals.pass(500, at(61));
        assert_eq!(refusals.next(waiting(0, 0, 500)), Some(Try::Again));
        let mut refusals = alike();
        refusals.refused(Try::First, 1, false, at(60));
        assert_eq!(refusals.until(), Some(at(70)), "those that waited before are gone");
    }

    #[test]
    fn when_one_that_waits_is_taken_all_others_are_searched() {
        let mut refusals = alike();
        refusals.pass(500, at(10));
        let part = refusals.taken(Try::Again, at(10)).unwrap();
        let halved = refusals.refused(Try::Part, 100, true, at(11));
        assert!(halved.parts.unwrap()[0] > part, "the rest goes before the halves");
        assert_eq!((refusals.until(), refusals.doubts_first_tries(waiting(0, 0, 1))), (None, false));
    }

    #[test]
    fn those_that_are_tried_alone_come_from_all_places() {
        let mut refusals = Refusals::default();
        let places: Vec<usize> = (0..5)
            .map(|alone| {
                refusals.alone = alone;
                refusals.place(100, Try::Alone)
            })
            .collect();
        assert_eq!(places, [0, 61, 23, 85, 47]);
        refusals.rounds = 3;
        assert_eq!((refusals.place(100, Try::Again), refusals.place(1, Try::Again)), (85, 0));
    }
}
