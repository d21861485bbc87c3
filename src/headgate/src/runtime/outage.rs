//! Decides when a repeated failure deserves a log line.
//!
//! ```text
//! fails ─► Begins      another cause ─► Changed      still fails after 1, 3, 7, 15, … minutes ─► GoesOn
//! works ─► Over        fails again within a minute ─► Begins, and from then on Over only after a minute without failure
//! ```
//!
//! The module counts every failure, including failures that it does not report. The module has no clock and does not
//! log.
//!
//! Guarantees: the module reports an outage of one hour at most 20 times, for any number of failures. An intermittent
//! outage counts as a continuous outage.

use std::{collections::BTreeSet, fmt, time::Duration};

use headgate_core::Moment;

/// The first pause between two lines about the same outage. The pause doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause between two lines.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// If an outage returns soon after its end, it ends again only after this time without failures.
const SETTLED: Duration = Duration::from_secs(60);
/// The number of causes of one outage that are reported when they occur. Further causes are only counted.
const CAUSES: usize = 8;

/// The kind of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The operation fails for the first time.
    Begins,
    /// The operation fails for a cause that was not reported yet.
    Changed,
    /// The operation still fails.
    GoesOn,
    /// The operation succeeds again.
    Over,
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kind of the report.
    pub what: What,
    /// The time from the first failure until now, or until the first success.
    pub lasted: Duration,
    /// The number of failures so far.
    pub failures: u64,
}

/// The state of one operation that may fail repeatedly.
#[derive(Debug, Default)]
pub struct Outage(Option<State>);

#[derive(Debug)]
struct State {
    since: Moment,
    failures: u64,
    causes: BTreeSet<Box<str>>,
    pause: Duration,
    due: Moment,
    /// The time of the first success since the last failure.
    works: Option<Moment>,
    /// Whether the end of the outage was reported.
    over: bool,
    /// Whether the operation failed again soon after the end of the outage was reported.
    relapsed: bool,
}

impl Outage {
    /// Records a failure. `cause` identifies the cause, and must not contain text that changes with each failure.
    pub fn failed(&mut self, cause: &str, now: Moment) -> Option<Told> {
        let settled =
            |state: &State| state.over && state.works.is_some_and(|works| now.since(works) >= SETTLED);
        if self.0.as_ref().is_none_or(settled) {
            self.0 = Some(State {
                since: now,
                failures: 1,
                causes: BTreeSet::from([cause.into()]),
                pause: FIRST_PAUSE,
                due: now + FIRST_PAUSE,
                works: None,
                over: false,
                relapsed: false,
            });
            return Some(Told { what: What::Begins, lasted: Duration::ZERO, failures: 1 });
        }
        let state = self.0.as_mut()?;
        state.failures += 1;
        state.works = None;
        let is_new = state.causes.len() < CAUSES && state.causes.insert(cause.into());
        let what = if std::mem::take(&mut state.over) {
            state.relapsed = true;
            What::Begins
        } else if is_new {
            What::Changed
        } else if now >= state.due {
            What::GoesOn
        } else {
            return None;
        };
        if now >= state.due {
            state.pause = (state.pause * 2).min(LONGEST_PAUSE);
            state.due = now + state.pause;
        }
        Some(Told { what, lasted: now.since(state.since), failures: state.failures })
    }

    /// Records a success.
    pub fn worked(&mut self, now: Moment) -> Option<Told> {
        self.has_worked_since(now, now)
    }

    /// Records that no failure has occurred since `works`. Returns a report if the outage is over.
    pub fn has_worked_since(&mut self, works: Moment, now: Moment) -> Option<Told> {
        let state = self.0.as_mut().filter(|state| !state.over)?;
        let works = *state.works.get_or_insert(works);
        if state.relapsed && now.since(works) < SETTLED {
            return None;
        }
        state.over = true;
        Some(Told { what: What::Over, lasted: works.since(state.since), failures: state.failures })
    }

    /// The time since which the operation fails, if it fails.
    pub fn since(&self) -> Option<Moment> {
        self.0.as_ref().filter(|state| state.works.is_none()).map(|state| state.since)
    }
}

/// Formats a duration for people: `45 s`, `12 min`, `5 h 10 min`.
pub struct Spelled(pub Duration);

impl fmt::Display for Spelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0..120 => write!(f, "{seconds} s"),
            120..7200 => write!(f, "{} min", seconds / 60),
            _ => write!(f, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    fn told(what: What, lasted: u64, failures: u64) -> Told {
        Told { what, lasted: Duration::from_secs(lasted), failures }
    }

    #[test]
    fn an_outage_is_told_when_it_begins_at_growing_intervals_and_when_it_is_over() {
        let mut outage = Outage::default();
        assert_eq!(outage.worked(at(0)), None);
        assert_eq!(outage.failed("a", at(1)), Some(told(What::Begins, 0, 1)));
        let lines: Vec<_> = (2..3600).filter(|second| outage.failed("a", at(*second)).is_some()).collect();
        assert_eq!(lines, [61, 181, 421, 901, 1861]);
        assert_eq!(outage.since(), Some(at(1)));
        assert_eq!(outage.worked(at(3600)), Some(told(What::Over, 3599, 3599)));
        assert_eq!(outage.worked(at(3601)), None);
        assert_eq!(outage.since(), None);
        assert_eq!(outage.failed("a", at(3660)), Some(told(What::Begins, 0, 1)), "another one");
    }

    #[test]
    fn each_cause_is_told_once_and_those_beyond_eight_never() {
        let mut outage = Outage::default();
        outage.failed("0", at(1));
        let causes = |outage: &mut Outage| {
            (0..20).filter(|cause: &u32| outage.failed(&cause.to_string(), at(2)).is_some()).count()
        };
        assert_eq!(causes(&mut outage), 7);
        assert_eq!(causes(&mut outage), 0);
    }

    #[test]
    fn an_outage_that_comes_and_goes_is_told_like_one_that_lasts() {
        let mut outage = Outage::default();
        let mut lines = Vec::new();
        for second in 0..300 {
            lines.extend(outage.failed("a", at(2 * second)).map(|told| (2 * second, told.what)));
            lines.extend(outage.worked(at(2 * second + 1)).map(|told| (2 * second + 1, told.what)));
        }
        let expected = [
            (0, What::Begins),
            (1, What::Over),
            (2, What::Begins),
            (60, What::GoesOn),
            (180, What::GoesOn),
            (420, What::GoesOn),
        ];
        assert_eq!(lines, expected);
        assert_eq!(outage.worked(at(658)), None);
        assert_eq!(
            outage.worked(at(659)).map(|told| told.what),
            Some(What::Over),
            "a minute after it has worked"
        );
    }

    #[test]
    fn a_time_is_spelled_as_people_say_it() {
        let spelled = |seconds| Spelled(Duration::from_secs(seconds)).to_string();
        assert_eq!([45, 750, 18_600].map(spelled), ["45 s", "12 min", "5 h 10 min"]);
    }
}
