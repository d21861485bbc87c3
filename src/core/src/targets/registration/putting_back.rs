//! Targets that are registered again for the pod for which Headgate deregistered them. The pod was not ready, its
//! labels had changed, or a list did not contain it.
//!
//! The load balancer must check such a pod again. Headgate first closes its readiness gate, then records the
//! registration in the ledger, and then sends it. A new leader thus finds either the target recorded as deregistered,
//! and closes the gate, or the gate closed. If the gate cannot be closed, the registration waits only for a moment,
//! because a serving pod is more important.
//!
//! Gates are not closed for a change of a Service, which could close the gates of all its pods at once. Soon after a
//! takeover, while target groups are still being looked up, the cause is unknown, and the record in the ledger decides.
//! Gates are not closed either if somebody else has deregistered the target, because that could close the gates of all
//! pods.
//!
//! Headgate keeps the record of a target that was deregistered because of its pod while that pod is alive with an open
//! gate. Without the record it would not know that it deregistered the target.

use std::time::Duration;

use super::{Entry, PutBack, Queue, Registrations, Told};
use crate::{
    ledger::PodMark,
    model::{Moment, Owner, Target},
};

/// How long a registration waits at most for the gate to close.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// After a takeover, the target groups should be known within this time.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(30);

impl PutBack {
    /// How long the target waits for the gate.
    pub fn until(self) -> Option<Moment> {
        match self {
            Self::Closing(until) => Some(until),
            Self::No | Self::Due | Self::Late => None,
        }
    }
}

impl Entry {
    /// The next state if the target has this owner now. `of_the_pod`: whether the cause is the pod, not the
    /// configuration. `seen`: when the change was seen.
    pub(super) fn put_back_for(&self, owner: Option<&Owner>, of_the_pod: bool, seen: Moment) -> PutBack {
        let Some(owner) = owner else { return PutBack::No };
        let is_out = match self.owner() {
            Some(before) if before.uid == owner.uid => return self.put_back,
            _ => self.told.mark().is_none() || self.removal_sent,
        };
        // For a target from the ledger, only the UID hash of its pod is known.
        let came_with_it = owner.uid != self.last.uid;
        let just_came = self.ended.is_some_and(|ended| seen.since(ended) < LOOKED_UP_WITHIN);
        let is_meant = of_the_pod || (came_with_it && just_came);
        let is_its_own = self.taken_from == Some(PodMark::of(&owner.uid));
        if is_out && is_meant && is_its_own { PutBack::Due } else { PutBack::No }
    }

    /// The target is no longer wanted. `of_the_pod`: whether the cause is the pod, not the configuration.
    pub(super) fn note_taken_out(&mut self, of_the_pod: bool) {
        // If the target was not registered since its deregistration, the reason for that deregistration still applies.
        let may_still_be_out = self.removal_sent && !of_the_pod;
        // A registration in flight may still register a target that was deregistered since.
        let may_be_in = self.told.mark().is_some() || self.registering.is_some();
        if may_be_in && self.is_wanted() && !may_still_be_out {
            // The last pod that should have had the target may not have had it yet. Its gate then does not show that it
            // serves. Or it had the target before another pod, and its gate may be open since then.
            let last = PodMark::of(&self.last.uid);
            let told = self.told.mark().filter(|_| self.told_before != Some(last));
            self.taken_from = Some(told.unwrap_or(last)).filter(|_| of_the_pod);
        } else if let (true, Told::Out(out)) = (self.is_wanted(), &mut self.told) {
            out.for_the_pod = of_the_pod;
        }
    }

    /// Whether the pod remains alive and may be wanted again, although nothing wants the target now.
    pub(super) fn spares_its_pod(&self) -> bool {
        !self.is_wanted() && self.taken_from.is_some() && self.cause.may_come_back()
    }
}

impl Registrations {
    /// The targets that wait to be registered again.
    pub fn put_backs(&self) -> impl Iterator<Item = &Target> {
        self.entries.waiting(Queue::Gate).map(|(_, target)| target)
    }

    /// The pod for which `target` is registered again, and whether its gate is being closed already.
    pub fn put_back(&self, target: &Target) -> Option<(&Owner, bool)> {
        let entry = self.entries.get(target)?;
        let owner = entry.owner()?;
        (entry.put_back != PutBack::No).then_some((owner, entry.put_back != PutBack::Due))
    }

    /// Records whether the pod's gate is open. While it is open and being closed, the registration waits, but not for
    /// long. If the gate is not open, or was not closed in time, the registration continues.
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

    /// AWS has accepted the registration for pod `a`.
    fn registered() -> Entry {
        let entry = Entry::wanted(owner("a"), None, Cause::PodHasIp, at(0));
        Entry { told: Told::Registered(mark("a")), ..entry }
    }

    /// The target was deregistered because of pod `a`, and AWS has accepted that.
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
