//! Reads and writes the annotations that contain the state of a pod's eviction.
//!
//! Each annotation begins with the UID of its pod, so that a copy on another pod is ignored. An invalid annotation
//! counts as absent. The core reports and removes implausible values
//! ([`LeavingFacts::credible`](headgate_core::model::LeavingFacts::credible)).
//!
//! ```text
//!  headgate.dev/leaving          UID since TIME asked TIME [held|early] [begun TIME]
//!  headgate.dev/leaving-waits    UID REASON at TIME
//!  headgate.dev/deregistered-at  UID TIME bound 120s
//!  headgate.dev/may-go           UID REASON at TIME
//! ```

use std::time::Duration;

use headgate_core::{
    Cause, WallTime,
    model::{
        hold::seconds,
        leaving::{ALL, Annotations, Asked, DEREGISTERED_AT, LEAVING, MAY_GO, Mark, WAITS},
        object::Uid,
    },
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

fn time(text: &str) -> Option<WallTime> {
    let millis = text.parse::<Timestamp>().ok()?.as_millisecond();
    Some(WallTime::since_1970(Duration::from_millis(u64::try_from(millis).ok()?)))
}

/// Formats a time for an annotation.
pub(super) fn shown(time: WallTime) -> String {
    let millis = i64::try_from(time.elapsed().as_millis()).unwrap_or(i64::MAX);
    format!("{:.3}", Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX))
}

fn cause(text: &str) -> Option<Cause> {
    Cause::of_word(text)
}

/// Reads the annotations of the pod with this UID.
pub fn read<'a>(uid: &Uid, annotation: impl Fn(&str) -> Option<&'a str>) -> Annotations {
    let words = |name: &str| -> Option<Vec<&'a str>> {
        let mut words = annotation(name)?.split_whitespace();
        (words.next()? == uid.as_str()).then(|| words.collect())
    };
    let explained = |name: &str| match words(name)?[..] {
        [why, "at", at] => Some((time(at)?, cause(why)?)),
        _ => None,
    };
    let asked = words(LEAVING).and_then(|words| {
        let ["since", since, "asked", asked, more @ ..] = &words[..] else { return None };
        let said = Asked { asked: time(asked)?, ..Asked::first(time(since)?) };
        let (said, more) = match more {
            ["held", more @ ..] => (Asked { held: true, ..said }, more),
            ["early", more @ ..] => (Asked { early: true, ..said }, more),
            more => (said, more),
        };
        match more {
            [] => Some(said),
            ["begun", begun] => Some(Asked { begun: time(begun)?, ..said }),
            _ => None,
        }
    });
    let deregistered = words(DEREGISTERED_AT).and_then(|words| match words[..] {
        [at, "bound", bound] => Some((time(at)?, Duration::from_secs(seconds(bound)?.into()))),
        _ => None,
    });
    Annotations { asked, waits: explained(WAITS), deregistered, may_go: explained(MAY_GO) }
}

/// The annotations to set or to remove for `mark`.
pub fn annotations(uid: &Uid, mark: Mark) -> Map<String, Value> {
    let one = |name: &str, text: String| Map::from_iter([(name.to_owned(), json!(format!("{uid} {text}")))]);
    match mark {
        Mark::Asked(Asked { held, early, begun, since, asked }) => {
            let kind = if early { " early" } else { "" };
            let kind = if held { " held" } else { kind };
            let begun = if begun == since { String::new() } else { format!(" begun {}", shown(begun)) };
            one(LEAVING, format!("since {} asked {}{kind}{begun}", shown(since), shown(asked)))
        }
        Mark::Waits { at, reason } => one(WAITS, format!("{} at {}", reason.as_str(), shown(at))),
        Mark::Deregistered { at, bound } => {
            one(DEREGISTERED_AT, format!("{} bound {}s", shown(at), bound.as_secs()))
        }
        Mark::MayGo { at, reason } => one(MAY_GO, format!("{} at {}", reason.as_str(), shown(at))),
        Mark::Undone | Mark::Stays | Mark::Disbelieved => {
            ALL.iter().map(|name| ((*name).to_owned(), Value::Null)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use headgate_core::model::LeavingFacts;

    use super::*;

    fn at(seconds: u64) -> WallTime {
        WallTime::since_1970(Duration::from_millis(1_800_000_000_250 + seconds * 1000))
    }

    /// Writes `marks` with the UID `uid`, and reads the result for a pod with the UID `u-1`.
    fn written(uid: &str, marks: &[Mark]) -> Option<LeavingFacts> {
        let mut all = Map::new();
        for mark in marks {
            all.extend(annotations(&Uid::new(uid), *mark));
        }
        read(&Uid::new("u-1"), |name| all.get(name)?.as_str()).facts()
    }

    #[test]
    fn what_is_written_is_read_back_and_only_for_its_own_uid() {
        let marks = [
            Mark::Asked(Asked { asked: at(60), ..Asked::first(at(0)) }),
            Mark::Waits { at: at(1), reason: Cause::EvictionWaitsForBudget },
            Mark::Deregistered { at: at(2), bound: Duration::from_secs(120) },
            Mark::MayGo { at: at(122), reason: Cause::EvictionAllowed },
        ];
        let all = LeavingFacts {
            ask: Asked { asked: at(60), ..Asked::first(at(0)) },
            waits: Some((at(1), Cause::EvictionWaitsForBudget)),
            deregistered: Some((at(2), Duration::from_secs(120))),
            may_go: Some(Cause::EvictionAllowed),
        };
        assert_eq!(written("u-1", &marks), Some(all));
        assert_eq!(written("u-0", &marks), None);
        assert_eq!(written("u-1", &marks[1..]), None, "nobody has asked");
        assert_eq!(written("u-1", &marks[..1]), Some(LeavingFacts::asked(at(0), at(60))));
        let held = Mark::Asked(Asked { held: true, ..Asked::first(at(0)) });
        assert!(written("u-1", &[held]).is_some_and(|leaving| leaving.ask.held));
        let early = written("u-1", &[Mark::Asked(Asked::early(at(0)))]);
        assert_eq!(
            early,
            Some(LeavingFacts { ask: Asked::early(at(0)), ..LeavingFacts::asked(at(0), at(0)) })
        );
        let asked_for = Mark::Asked(Asked { begun: at(0), ..Asked::first(at(5)) });
        let asked_for = written("u-1", &[Mark::Asked(Asked::early(at(0))), marks[2], asked_for]).unwrap();
        assert_eq!((asked_for.ask.early, asked_for.ask.begun, asked_for.ask.since), (false, at(0), at(5)));
        assert!(asked_for.deregistered.is_some(), "what was done early counts");
        let left = annotations(&Uid::new("u-1"), marks[3]);
        let left = read(&Uid::new("u-1"), |name| left.get(name)?.as_str());
        assert_eq!((left.facts(), left.left_over()), (None, Some(at(122))), "nobody asks");
        let anew = written("u-1", &[marks[2], marks[3], Mark::Asked(Asked::first(at(123)))]).unwrap();
        assert_eq!(anew, LeavingFacts::asked(at(123), at(123)), "what was done before does not");
        for end in [Mark::Undone, Mark::Stays, Mark::Disbelieved] {
            assert_eq!(written("u-1", &[&marks[..], &[end]].concat()), None);
        }
        assert_eq!(
            annotations(&Uid::new("u-1"), marks[0])["headgate.dev/leaving"],
            "u-1 since 2027-01-15T08:00:00.250Z asked 2027-01-15T08:01:00.250Z"
        );
    }

    #[test]
    fn what_cannot_be_read_counts_as_not_written() {
        let leaving = "u-1 since 2027-01-15T08:00:00Z asked 2027-01-15T08:01:00Z";
        for (name, text) in [
            (LEAVING, ""),
            (LEAVING, "u-1"),
            (LEAVING, "u-1 since yesterday asked now"),
            (LEAVING, "u-1 since 1900-01-15T08:00:00Z asked 2027-01-15T08:01:00Z"),
        ] {
            assert_eq!(read(&Uid::new("u-1"), |is| (is == name).then_some(text)).facts(), None, "{text}");
        }
        for (name, text) in [
            (MAY_GO, "u-1 BecauseISaySo at 2027-01-15T08:01:00Z"),
            (MAY_GO, "EvictionAllowed at 2027-01-15T08:01:00Z"),
            (WAITS, "u-1 EvictionWaitsForBudget"),
            (DEREGISTERED_AT, "u-1 2027-01-15T08:01:00Z bound -7s"),
            (DEREGISTERED_AT, "u-1 2027-01-15T08:01:00Z"),
        ] {
            let of = |is: &str| if is == LEAVING { Some(leaving) } else { (is == name).then_some(text) };
            let read = read(&Uid::new("u-1"), of).facts().unwrap();
            assert_eq!(read, LeavingFacts::asked(read.ask.since, read.ask.asked), "{text}");
        }
    }
}
