//! Targets that are registered again for the pod from which they were taken out from here: because it was not ready, or
//! its labels had changed, or a list did not have it.
//!
//! Such a pod has to be healthy anew, so its readiness gate is closed first, and only then is the registration noted in
//! the ledger and sent: whoever leads next finds the target noted as removed, and closes the gate, or the gate closed. A
//! gate that cannot be closed holds a registration up for a moment only: a pod that serves counts for more.
//!
//! Not for a change of a Service, which could close the gates of all of its pods at once; but soon after a take-over, when
//! target groups are still being looked up, nobody can tell, and what the ledger has as removed counts. Not for what
//! somebody else has taken out either, who could close the gates of all pods.
//!
//! The tombstone of a target that went for its pod is kept as long as that lives with an open gate: without it nobody would
//! know that the target was taken out from here.

use std::time::Duration;

use super::{Entry, PutBack, Queue, Registrations, Told};
use crate::{
    ledger::PodMark,
    model::{Moment, Owner, Target},
};

/// A registration waits for so long at most until the gate is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// After a take-over target groups are known by then, if all is well.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(30);

impl PutBack {
    /// Until when the target waits for it.
    pub fn until(self) -> Option<Moment> {
        match self {
            Self::Closing(until) => Some(until),
            Self::No | Self::Due | Self::Late => None,
        }
    }
}

impl Entry {
    /// What becomes of that when it has this owner now, `of_the_pod` or for what is written, as was seen then.
    pub(super) fn put_back_for(&self, owner: Option<&Owner>, of_the_pod: bool, seen: Moment) -> PutBack {
        let Some(owner) = owner else { return PutBack::No };
        let is_out = match self.owner() {
            Some(before) if before.uid == owner.uid => return self.put_back,
            _ => self.told.mark().is_none() || self.removal_sent,
        };
        // Of what came with the ledger only the mark of its pod is known.
        let came_with_it = owner.uid != self.last.uid;
        let just_came = self.ended.is_some_and(|ended| seen.since(ended) < LOOKED_UP_WITHIN);
        let is_meant = of_the_pod || (came_with_it && just_came);
        let is_its_own = self.taken_from == Some(PodMark::of(&owner.uid));
        if is_out && is_meant && is_its_own { PutBack::Due } else { PutBack::No }
    }

    /// Nobody wants it any more, for what became of its pod or for what is written.
    pub(super) fn note_taken_out(&mut self, of_the_pod: bool) {
        // If it was not registered since it was taken out, it still is out for that, or for nothing of its pod's.
        let may_still_be_out = self.removal_sent && !of_the_pod;
        // A registration that is under way may yet bring back what was taken out since.
        let may_be_in = self.told.mark().is_some() || self.registering.is_some();
        if may_be_in && self.is_wanted() && !may_still_be_out {
            // Who wanted it last may not have had it yet: that pod's gate does not say that it serves. Or it had it before another
            // one, and may have an open gate since.
            let last = PodMark::of(&self.last.uid);
            let told = self.told.mark().filter(|_| self.told_before != Some(last));
            self.taken_from = Some(told.unwrap_or(last)).filter(|_| of_the_pod);
        } else if let (true, Told::Out(out)) = (self.is_wanted(), &mut self.told) {
            out.for_the_pod = of_the_pod;
        }
    }

    /// Whether its pod lives on and may come back, though nothing wants the target now.
    pub(super) fn spares_its_pod(&self) -> bool {
        !self.is_wanted() && self.taken_from.is_some() && self.cause.may_come_back()
    }
}

impl Registrations {
    /// The targets that are put back, or wait for that.
    pub fn put_backs(&self) -> impl Iterator<Item = &Target> {
        self.entries.waiting(Queue::Gate).map(|(_, target)| target)
    }

    /// For which pod `target` is put back, and whether its gate is being closed already.
    pub fn put_back(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        let owner = entry.owner()?;
        (entry.put_back != PutBack::No).then_some((owner, entry.put_back != PutBack::Due))
    }

    /// The gate of the pod is (still) open, and is being closed: its registration waits for that, but not for long. If the
    /// gate is not open, or was not closed in time, the registration goes on.
    pub fn gate_is(&mut self, target: &Target, is_open: bool, now: Moment) {
        self.change(*target, |entry| {
            entry.put_back = match entry.put_back {
                PutBack::Due if is_open => PutBack::Closing(now + CLOSED_WITHIN),
                PutBack::Closing(until) if is_open => PutBack::Closing(until),
                _ => PutBack::No,
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cause, ObjectKey, RequestId, Uid};
    use crate::targets::registration::entry::{Goes, Out, Told, Wish};

    fn owner(uid: &str) -> Owner {
        Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) }
    }

    fn at(seconds: u64) -> Moment {
        Moment::after_start(Duration::from_secs(seconds))
    }

    fn mark(uid: &str) -> PodMark {
        PodMark::of(&Uid::new(uid))
    }

    /// AWS has taken its registration for pod `a`.
    fn registered() -> Entry {
        let entry = Entry::wanted(owner("a"), None, Cause::PodHasIp, at(0));
        Entry { told: Told::Registered(mark("a")), ..entry }
    }

    /// Taken out for what became of pod `a`, and AWS has taken that.
    fn out() -> Entry {
        Entry {
            wish: Wish::Gone(Goes::Now),
            told: Told::Out(Out::default()),
            taken_from: Some(mark("a")),
            ended: Some(at(0)),
            ..registered()
        }
    }

    fn is_put_back(entry: &Entry, uid: &str, of_the_pod: bool, seconds: u64) -> bool {
        entry.put_back_for(Some(&owner(uid)), of_the_pod, at(seconds)) == PutBack::Due
    }

    #[test]
    fn a_target_is_put_back_for_the_pod_it_was_taken_from_and_for_no_other() {
        assert!(is_put_back(&out(), "a", true, 300));
        assert!(!is_put_back(&out(), "b", true, 300));
        assert_eq!(out().put_back_for(None, true, at(300)), PutBack::No);
        assert!(!is_put_back(&Entry { taken_from: None, ..out() }, "a", true, 300));
    }

    #[test]
    fn it_is_put_back_only_if_aws_was_told_to_take_it_out() {
        let not_sent = Entry { wish: Wish::Gone(Goes::Now), taken_from: Some(mark("a")), ..registered() };
        assert!(!is_put_back(&not_sent, "a", true, 1), "it never left");
        let in_flight = Entry {
            deregistering: Some(RequestId(1)),
            wish: Wish::Gone(Goes::Now),
            taken_from: Some(mark("a")),
            removal_sent: true,
            ..registered()
        };
        assert!(is_put_back(&in_flight, "a", true, 1));
        let failed = Entry { deregistering: None, ..in_flight };
        assert!(is_put_back(&failed, "a", true, 1), "its answer may have been lost");
        let of_another = Entry { wish: Wish::There(owner("b")), ..out() };
        assert!(is_put_back(&of_another, "a", true, 1), "the other was not registered");
        let registered_for_it =
            Entry { wish: Wish::There(owner("b")), taken_from: Some(mark("a")), ..registered() };
        assert!(!is_put_back(&registered_for_it, "a", true, 1));
    }

    #[test]
    fn what_is_being_put_back_goes_on_for_the_same_pod() {
        let closing = PutBack::Closing(at(5));
        let entry = Entry { wish: Wish::There(owner("a")), put_back: closing, ..out() };
        assert_eq!(entry.put_back_for(Some(&owner("a")), false, at(1)), closing);
        assert_eq!(entry.put_back_for(Some(&owner("b")), true, at(1)), PutBack::No);
    }

    #[test]
    fn a_change_of_a_service_puts_back_only_what_came_with_the_ledger_a_moment_ago() {
        let from_the_ledger = || Entry { last: owner("unknown"), ..out() };
        for (seconds, is_meant) in [(0, true), (29, true), (30, false), (31, false)] {
            assert_eq!(is_put_back(&from_the_ledger(), "a", false, seconds), is_meant, "{seconds} s");
        }
        assert!(!is_put_back(&out(), "a", false, 0), "it is known why it went");
        assert!(!is_put_back(&Entry { ended: None, ..from_the_ledger() }, "a", false, 0));
    }

    #[test]
    fn from_whom_it_was_taken_is_remembered_until_it_has_been_registered_again() {
        let taken = |entry: Entry, of_the_pod| {
            let mut entry = entry;
            entry.note_taken_out(of_the_pod);
            entry.taken_from
        };
        assert_eq!(taken(registered(), true), Some(mark("a")));
        assert_eq!(taken(registered(), false), None, "what is written has taken it");
        assert_eq!(taken(Entry { taken_from: Some(mark("b")), ..registered() }, true), Some(mark("a")));
        let wanted_again = || Entry { wish: Wish::There(owner("a")), ..out() };
        assert_eq!(taken(wanted_again(), false), Some(mark("a")), "it is still out for that");
        assert_eq!(
            taken(Entry { taken_from: None, ..wanted_again() }, true),
            None,
            "it was not registered since"
        );
        assert_eq!(taken(Entry { wish: Wish::Gone(Goes::Now), ..registered() }, true), None, "nobody had it");
        let under_way = || Entry { registering: Some(RequestId(1)), taken_from: None, ..wanted_again() };
        assert_eq!(taken(under_way(), true), Some(mark("a")), "it may be brought back yet");
        let in_doubt = || Entry { removal_sent: true, taken_from: Some(mark("a")), ..registered() };
        assert_eq!(taken(in_doubt(), false), Some(mark("a")), "it may be out, and was not registered since");
        let not_sent = || Entry { removal_sent: false, ..in_doubt() };
        assert_eq!(taken(not_sent(), false), None, "it never left");
        let not_told = Entry { wish: Wish::There(owner("b")), last: owner("b"), ..registered() };
        assert_eq!(taken(not_told, true), Some(mark("a")), "AWS was not told of the other");
    }

    #[test]
    fn a_target_is_taken_from_the_pod_that_had_it_before_another_and_has_it_again() {
        let taken_from = |last: &str, told: &[&str]| {
            let mut entry = Entry::wanted(owner(last), None, Cause::PodHasIp, at(0));
            for uid in told {
                entry.tells(mark(uid));
            }
            entry.note_taken_out(true);
            entry.taken_from
        };
        for (last, told, from) in [
            ("a", &["a", "b"][..], "a"),
            ("a", &["a", "b", "b"], "a"),
            ("b", &["a", "b"], "b"),
            ("a", &["a", "b", "a"], "a"),
            ("c", &["a", "b"], "b"),
        ] {
            assert_eq!(taken_from(last, told), Some(mark(from)), "{last} {told:?}");
        }
        let mut entry = registered();
        entry.tells(mark("b"));
        entry.told = Told::Out(Out::default());
        entry.tells(mark("c"));
        entry.note_taken_out(true);
        assert_eq!(entry.taken_from, Some(mark("c")), "it was out in between");
    }

    #[test]
    fn a_tombstone_counts_for_a_pod_that_may_come_back() {
        for cause in [Cause::NotReady, Cause::NotSelected, Cause::PodEvicting] {
            let entry = || Entry { cause, ..out() };
            assert!(entry().spares_its_pod());
            assert!(!Entry { wish: Wish::There(owner("a")), ..entry() }.spares_its_pod());
            assert!(!Entry { taken_from: None, ..entry() }.spares_its_pod());
        }
        assert!(!Entry { cause: Cause::PodDeleted, ..out() }.spares_its_pod());
    }
}
