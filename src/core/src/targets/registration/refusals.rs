//! The rejections of AWS in one target group: how Headgate finds the rejected targets, and when it retries them.
//! Registrations and deregistrations work the same way.
//!
//! AWS rejects a call as a whole, and often does not name the target. Headgate distinguishes two cases with few calls:
//! one bad target among good ones, and targets that are all rejected, for example because they belong to another VPC.
//!
//! ```text
//!  first try ─ rejected ──► searched ─ rejected alone, or with all ──► waits
//!                              ▲                                         │
//!                              └──────── AWS accepts one of them ◄───────┘
//! ```
//!
//! * **First tries** never wait for rejected targets. They are sent in separate calls.
//! * **Searched**: a rejected call is halved, and its halves are tried, the largest first. Each halving takes about two
//!   calls, until one bad target among good ones is found.
//! * **All rejected**: after [`DOUBTED`] rejected calls in a row without an accepted one, Headgate tries single targets
//!   from different places. If AWS rejects [`ALONE`] of those too, all searched targets wait. If AWS has accepted some
//!   of them before, the search is more patient.
//! * **Waits**: after 10 s, and then after twice as long each time, Headgate tries one waiting target alone, a
//!   different one each time. If at most [`FEW`] wait, it tries each of them. If AWS accepts one, all others are
//!   searched.
//!
//! If AWS rejects all targets, Headgate therefore sends a few calls at first, and then one each time, for any number of
//! targets.

use std::time::Duration;

use crate::model::{Moment, RequestId};

/// After this many rejected calls in a row, Headgate doubts that any searched target is good.
const DOUBTED: u32 = 3;
/// The same limit after AWS has accepted a searched target. AWS then does not reject all of them.
const DOUBTED_AMONG_GOOD: u32 = 32;
/// This many targets are then tried alone.
const ALONE: u32 = 3;
/// If at most this many targets wait, each is retried. If more wait, only one is.
const FEW: usize = 3;
/// Waiting targets are retried after this long, and then after twice as long each time.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(10);
const LAST_WAIT: Duration = Duration::from_secs(160);

/// What the rejections by AWS mean for a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// AWS has rejected no call with the target since the wish for it changed or a call with it was accepted.
    #[default]
    No,
    /// AWS has rejected a call with the target. The target is in this part of the call.
    Among(u32),
    /// AWS has rejected the target alone, or Headgate assumes so because others were rejected.
    Waits,
}

/// Why Headgate sends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Try {
    /// None of its targets was rejected before.
    First,
    /// Its targets are a part of a rejected call.
    Part,
    /// Headgate doubts that any searched target is good, and tries one alone.
    Alone,
    /// Retries one waiting target alone.
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

/// The consequences of a rejected call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halved {
    /// The parts of the call if it had several targets. `None`: its only target waits.
    pub(super) parts: Option<[u32; 2]>,
    /// Whether all searched targets count as rejected, and wait.
    pub(super) alike: bool,
}

/// See the module docs.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// The call in flight, if it is not a first try.
    trying: Option<(RequestId, Try)>,
    /// How many calls in a row were rejected in this search, and how many of them contained one target that was tried
    /// alone.
    refused: u32,
    alone: u32,
    /// AWS has accepted some of the searched targets.
    mixed: bool,
    /// All searched targets counted as rejected, and AWS has accepted no call since.
    alike: bool,
    parts: u32,
    /// How often waiting targets were retried since the last target began to wait.
    rounds: u32,
    /// When waiting targets are retried, and how many of them may be retried now.
    until: Option<Moment>,
    tries: usize,
}

impl Refusals {
    /// Why the next call would be sent, if there is one.
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

    /// Whether AWS will probably reject first tries too.
    pub fn doubts_first_tries(&self, waiting: Waiting) -> bool {
        (self.is_doubted() && waiting.searched > 0) || (self.alike && waiting.again > 0)
    }

    const fn is_doubted(&self) -> bool {
        self.refused >= if self.mixed { DOUBTED_AMONG_GOOD } else { DOUBTED }
    }

    /// When a waiting target is retried. `None`: one may be retried now, or is in flight.
    pub const fn until(&self) -> Option<Moment> {
        self.until
    }

    /// The place of the target that is tried alone next. The places are far apart, because neighbors often have the
    /// same problem.
    pub const fn place(&self, of: usize, next: Try) -> usize {
        let nth = if matches!(next, Try::Again) { self.rounds } else { self.alone };
        // Multiples of the golden ratio are spread evenly.
        (nth as usize % 1000 * 618 % 1000) * of / 1000
    }

    /// The number of a new part of the search.
    fn part(&mut self) -> u32 {
        self.parts = self.parts.wrapping_add(1);
        self.parts
    }

    /// Headgate sends this call.
    pub fn start(&mut self, id: RequestId, why: Try) {
        if why != Try::First {
            self.trying = Some((id, why));
        }
    }

    /// This call has ended. Returns why it was sent.
    pub fn end(&mut self, id: RequestId) -> Try {
        self.trying.take_if(|(own, _)| *own == id).map_or(Try::First, |(_, why)| why)
    }

    /// AWS has accepted a call. If it contained a waiting target, returns the part in which the other waiting targets
    /// are searched.
    pub fn taken(&mut self, why: Try, now: Moment) -> Option<u32> {
        (self.refused, self.alone) = (0, 0);
        self.mixed |= why != Try::First;
        // The problem of all targets may be solved.
        if std::mem::take(&mut self.alike) && self.until.is_some() {
            self.until = Some(now);
        }
        (why == Try::Again).then(|| {
            (self.rounds, self.tries, self.until) = (0, 0, None);
            self.part()
        })
    }

    /// AWS has rejected a call with this many targets. `searching`: whether other targets are being searched.
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

    /// Advances the time. `again`: the number of waiting targets.
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

    /// A group whose targets were all rejected at the start.
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

    /// Retries one waiting target, which is rejected. Returns when the next one is retried.
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
