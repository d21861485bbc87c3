//! The annotation of the Lease that records replicas in backoff, as a JSON list.
//!
//! An invalid annotation counts as an empty list.

use std::time::Duration;

use headgate_core::leadership::lease::Rest;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

/// The name of the annotation.
const RESTS: &str = "headgate.dev/rests";

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    identity: Box<str>,
    since: Box<str>,
    pause_seconds: u32,
    reason: Box<str>,
}

pub(super) fn read(object: &Object) -> Vec<Rest> {
    let text = object.annotations().get(RESTS);
    let notes = text.and_then(|text| serde_json::from_str::<Vec<Note>>(text).ok()).unwrap_or_default();
    let rest = |Note { identity, since, pause_seconds, reason }| Rest {
        identity,
        since,
        pause: Duration::from_secs(u64::from(pause_seconds)),
        reason,
    };
    notes.into_iter().map(rest).collect()
}

/// Writes the records to the Lease. The time `now` is the start of a new backoff.
pub(super) fn write(object: &mut Object, rests: &[Rest], now: &str) {
    let note = |rest: &Rest| Note {
        identity: rest.identity.clone(),
        since: if rest.since.is_empty() { now.into() } else { rest.since.clone() },
        pause_seconds: u32::try_from(rest.pause.as_secs()).unwrap_or(u32::MAX),
        reason: rest.reason.clone(),
    };
    let notes: Vec<Note> = rests.iter().map(note).collect();
    match serde_json::to_string(&notes) {
        Ok(text) if !notes.is_empty() => {
            object.annotations_mut().insert(RESTS.to_owned(), text);
        }
        _ => {
            object.annotations_mut().remove(RESTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_none_leaves_nothing_behind() {
        let rest = |since: &str| Rest {
            identity: "headgate-a_1".into(),
            since: since.into(),
            pause: Duration::from_secs(60),
            reason: "WatchesFail".into(),
        };
        let mut object = Object::default();
        write(&mut object, &[rest("")], "noon");
        assert_eq!(read(&object), [rest("noon")]);
        write(&mut object, &[rest("noon")], "one");
        assert_eq!(read(&object), [rest("noon")], "it goes on");
        write(&mut object, &[], "two");
        assert!(object.annotations().is_empty() && read(&object).is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_no_note() {
        for text in ["", "x", "{}", "[1]", "[{\"identity\": \"a_1\"}]", "null"] {
            let mut object = Object::default();
            object.annotations_mut().insert(RESTS.to_owned(), text.to_owned());
            assert_eq!(read(&object), [], "{text}");
        }
    }
}
