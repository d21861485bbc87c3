//! The replicas that could not lead, have released the Lease, and are in backoff.
//!
//! The Lease has an annotation for each such replica, with the length of its backoff. Each reader measures the backoff
//! with its own clock, from the moment when the reader first saw the annotation. A late reader therefore measures a
//! later end, which only delays a handover to the replica in backoff. The holder of the Lease removes expired
//! annotations.

use std::time::Duration;

use super::proof::pod_of;
use crate::model::{Moment, lease::Rest};

/// The maximum number of annotations that a reader accepts.
const MOST: usize = 16;
/// The maximum length of a backoff, even if an annotation contains a longer time.
const LONGEST: Duration = Duration::from_secs(3600);

/// The backoff of this replica.
#[derive(Clone, Debug)]
struct Own {
    note: Rest,
    until: Moment,
    /// Whether the Lease was released, or another replica holds the Lease.
    gave_back: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rests {
    known: Vec<(Rest, Moment)>,
    own: Option<Own>,
}

impl Rests {
    /// Starts the backoff of this replica. The replica must first release the Lease.
    pub(super) fn begin(&mut self, note: Rest, until: Moment) {
        self.own = Some(Own { note, until, gave_back: false });
    }

    /// Whether this replica must still release the Lease.
    pub(super) fn gives_back(&self) -> bool {
        self.own.as_ref().is_some_and(|own| !own.gave_back)
    }

    /// Records that the Lease was released, or that another replica holds the Lease.
    pub(super) fn gave_back(&mut self) {
        if let Some(own) = &mut self.own {
            own.gave_back = true;
        }
    }

    /// The end of the last backoff of this replica. `None`: the replica never had a backoff.
    pub(super) fn until(&self) -> Option<Moment> {
        self.own.as_ref().map(|own| own.until)
    }

    /// Records the annotations of the Lease.
    pub(super) fn look(&mut self, notes: &[Rest], now: Moment) {
        let since =
            |note: &Rest| self.known.iter().find(|(known, _)| known == note).map_or(now, |known| known.1);
        self.known = notes.iter().take(MOST).map(|note| (note.clone(), since(note))).collect();
    }

    fn others(&self, now: Moment) -> impl Iterator<Item = &Rest> {
        let lasts = move |(note, since): &&(Rest, Moment)| now < *since + note.pause.min(LONGEST);
        self.known.iter().filter(lasts).map(|(note, _)| note)
    }

    /// Whether the replica in this pod is in backoff.
    pub(super) fn has(&self, pod: &str, now: Moment) -> bool {
        self.others(now).any(|note| pod_of(&note.identity) == Some(pod))
    }

    /// The annotations that this replica writes to the Lease.
    pub(super) fn written(&self, now: Moment) -> Vec<Rest> {
        let own = self.own.as_ref().filter(|own| !own.gave_back).map(|own| &own.note);
        let others = self.others(now).filter(|note| own.is_none_or(|own| own.identity != note.identity));
        own.into_iter().chain(others).take(MOST).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn note(identity: &str, since: &str, seconds: u64) -> Rest {
        let pause = Duration::from_secs(seconds);
        Rest { identity: identity.into(), since: since.into(), pause, reason: "WatchesFail".into() }
    }

    #[test]
    fn a_rest_lasts_from_when_its_note_was_first_seen() {
        let mut rests = Rests::default();
        rests.look(&[note("a_1", "noon", 30)], at(100));
        rests.look(&[note("a_1", "noon", 30), note("b_1", "one", 60)], at(120));
        assert!(rests.has("a", at(129)) && !rests.has("a", at(130)) && rests.has("b", at(179)));
        assert_eq!(rests.written(at(130)), [note("b_1", "one", 60)], "what is over is left out");
        rests.look(&[note("a_1", "two", 30)], at(140));
        assert!(
            rests.has("a", at(169)) && !rests.has("b", at(141)),
            "another one, and what was left out is gone"
        );
    }

    #[test]
    fn whatever_stands_there_is_bounded() {
        let mut rests = Rests::default();
        let many: Vec<Rest> = (0..1_000).map(|nth| note(&format!("a{nth}_1"), "noon", u64::MAX)).collect();
        rests.look(&many, at(0));
        assert_eq!(rests.written(at(1)).len(), MOST);
        assert!(rests.has("a1", at(3_599)) && !rests.has("a1", at(3_600)));
    }

    #[test]
    fn the_own_note_is_written_in_place_of_the_one_before_until_the_lease_is_given_back() {
        let mut rests = Rests::default();
        rests.look(&[note("a_1", "noon", 30), note("b_1", "one", 60)], at(0));
        rests.begin(note("a_1", "", 60), at(70));
        assert!(rests.gives_back() && rests.until() == Some(at(70)));
        assert_eq!(rests.written(at(10)), [note("a_1", "", 60), note("b_1", "one", 60)]);
        rests.gave_back();
        assert!(!rests.gives_back() && rests.written(at(10)).len() == 2);
    }
}
