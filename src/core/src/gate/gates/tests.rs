//! Tests of the writes to a gate and their times, without an engine.

use super::*;
use crate::model::gate::open_for;
use crate::testing::{NAMESPACE, PodBuilder, arn, ip, pod};

const PATIENCE: Duration = Duration::from_secs(30);

fn at(seconds: u64) -> Moment {
    Moment::after_start(Duration::from_secs(seconds))
}

fn key() -> ObjectKey {
    ObjectKey::new(NAMESPACE, "a")
}

/// A pod at 10.0.0.`last` with this state of its gate.
fn a(last: u8, shown: Shown) -> PodFacts {
    pod("a", "1").at(last).gated(shown).build()
}

fn closed() -> PodFacts {
    a(1, Shown::Closed)
}

fn open() -> PodFacts {
    a(1, Shown::Open(Some(ip(1))))
}

fn waits(reason: Cause) -> Verdict {
    Verdict { open: false, reason, message: "not yet".into(), look_again: None }
}

fn opens_for(last: u8) -> Verdict {
    let message = open_for(ip(last)) + "healthy";
    Verdict { open: true, reason: Cause::TargetsHealthy, message, look_again: None }
}

/// The gates of one pod, and the number of the last write.
struct Drive(Gates, u64);

impl Drive {
    fn with(pod: &PodFacts) -> Self {
        let mut gates = Gates::new(PATIENCE, None, 1);
        gates.saw(pod, None, true, Moment::START);
        Self(gates, 0)
    }
    fn judged(&mut self, verdict: Verdict, now: Moment) {
        self.0.take_dirty(now);
        self.0.judged(&key(), verdict, BTreeSet::from([arn("blue")]), now);
    }
    fn write(&mut self) -> Option<GateWrite> {
        self.1 += 1;
        let id = RequestId(self.1);
        match self.0.write(|| id)? {
            Due::Write(given, write) if given == id => Some(write),
            other => panic!("{other:?}"),
        }
    }
    fn waits(&self) -> bool {
        self.0.waiting.contains_key(&key())
    }
    /// Returns the reason in the write that is due, and completes the write.
    fn writes(&mut self, now: Moment) -> Option<Cause> {
        let write = self.write()?;
        self.succeeds(self.1, now);
        Some(write.condition.reason)
    }
    /// Returns the number of the write in flight that opens the gate.
    fn opening(&mut self, now: Moment) -> u64 {
        self.judged(opens_for(1), now);
        let write = self.write().unwrap();
        assert!(write.condition.open);
        self.1
    }
    fn succeeds(&mut self, id: u64, now: Moment) {
        assert!(self.0.waiting[&key()].in_flight.as_ref().is_some_and(|(own, _)| own.0 == id));
        self.0.written(&key(), RequestId(id), Ok(()), now);
    }
    fn fails(&mut self, id: u64, now: Moment) {
        let no_answer = Failure::new(FailureClass::Unavailable, "Timeout", "no answer");
        assert_eq!(self.0.written(&key(), RequestId(id), Err(no_answer), now), []);
    }
}

#[test]
fn what_happens_to_a_namespace_or_a_group_is_judged_for_its_own_pods_alone() {
    let mut gates = Gates::new(PATIENCE, None, 1);
    for namespace in ["apps", NAMESPACE, "zoo"] {
        let facts = PodFacts { key: ObjectKey::new(namespace, "a"), ..closed() };
        gates.saw(&facts, None, true, Moment::START);
    }
    assert_eq!(gates.take_dirty(at(0)).len(), 3);
    gates.touch(Touched::Namespace { name: &NAMESPACE.into(), changed: false, selected: false }, at(0));
    assert_eq!(gates.take_dirty(at(0)), [key()]);
    gates.touch(Touched::Pod(&ObjectKey::new(NAMESPACE, "b")), at(0));
    gates.touch(Touched::Pod(&key()), at(0));
    assert_eq!(gates.take_dirty(at(0)), [key()]);
    gates.judged(&key(), waits(Cause::HealthUnread), BTreeSet::from([arn("blue")]), at(0));
    gates.touch(Touched::Group(&arn("green")), at(0));
    assert_eq!(gates.take_dirty(at(0)), []);
    gates.touch(Touched::Group(&arn("blue")), at(0));
    assert_eq!((gates.take_dirty(at(0)), gates.by_group.len()), (vec![key()], 1));
    gates.judged(&key(), waits(Cause::HealthUnread), BTreeSet::new(), at(0));
    gates.touch(Touched::Group(&arn("blue")), at(0));
    assert_eq!((gates.take_dirty(at(0)), gates.by_group.len()), (vec![], 0));
}

#[test]
fn a_pod_that_is_gone_is_forgotten_with_all_that_was_due() {
    let mut drive = Drive::with(&closed());
    drive.judged(waits(Cause::HealthUnread), at(0));
    for (gone, uid) in [(ObjectKey::new(NAMESPACE, "b"), "1"), (key(), "2")] {
        drive.0.touch(Touched::Gone(&gone, &Uid::new(uid)), at(1));
        assert!(drive.waits() && drive.0.next_due().is_some(), "that was another one");
    }
    drive.0.touch(Touched::Gone(&key(), &Uid::new("1")), at(1));
    assert!(!drive.waits());
    assert_eq!((drive.0.next_due(), drive.0.by_group.len(), drive.write()), (None, 0, None));
}

#[test]
fn a_pod_of_the_same_name_begins_anew() {
    let mut drive = Drive::with(&closed());
    drive.0.saw(&pod("a", "2").at(2).gated(Shown::Closed).build(), None, true, at(100));
    let waiting = &drive.0.waiting[&key()];
    assert_eq!((waiting.uid.as_str(), waiting.since), ("2", at(100)));
}

#[test]
fn it_is_looked_at_again_to_explain_it_and_when_it_has_been_closed_for_long() {
    let mut drive = Drive::with(&closed());
    drive.judged(waits(Cause::HealthUnread), at(0));
    assert_eq!(drive.0.next_due(), Some(at(3)));
    drive.judged(waits(Cause::HealthUnread), at(3));
    assert_eq!(drive.writes(at(3)), Some(Cause::HealthUnread));
    drive.judged(waits(Cause::HealthUnread), at(4));
    assert_eq!(drive.0.next_due(), Some(at(300)), "nothing more to say until then");
    drive.judged(waits(Cause::TargetUnhealthy), at(12));
    assert_eq!(
        drive.0.next_due(),
        Some(at(15)),
        "more than ten seconds after the last word, three after it changed"
    );
    drive.judged(waits(Cause::TargetUnhealthy), at(300));
    assert_eq!(drive.writes(at(300)), Some(Cause::TargetUnhealthy));
    drive.judged(waits(Cause::TargetUnhealthy), at(301));
    assert_eq!(drive.0.next_due(), None, "the user has been told");

    let mut drive = Drive::with(&PodFacts { ips: vec![], ..closed() });
    drive.judged(waits(Cause::NoIp), at(3));
    drive.judged(waits(Cause::NoIp), at(6));
    assert_eq!(drive.writes(at(6)), Some(Cause::NoIp));
    drive.judged(waits(Cause::NoIp), at(7));
    assert_eq!(drive.0.next_due(), None, "without an IP it is not ours to tell");
}

#[test]
fn a_term_begins_with_what_the_watches_have_shown() {
    let mut watched = Drive::with(&closed()).0;
    assert_eq!((watched.take_dirty(at(1)), watched.begin().take_dirty(at(7))), (vec![key()], vec![key()]));
    watched.saw(&a(2, Shown::Open(None)), Some(&closed()), true, at(1));
    let mut drive = Drive(watched.begin(), 0);
    drive.judged(waits(Cause::HealthUnread), at(2));
    assert_eq!(drive.writes(at(2)), Some(Cause::IpChanged));
}

#[test]
fn a_gate_that_turned_out_to_be_open_is_left_so_whatever_the_verdict() {
    let mut drive = Drive::with(&closed());
    let id = drive.opening(at(0));
    drive.0.saw(&open(), Some(&closed()), true, at(1));
    drive.fails(id, at(1));
    drive.judged(waits(Cause::TargetUnhealthy), at(2));
    assert!(!drive.waits());
    assert_eq!(drive.write(), None);
}

#[test]
fn an_opened_gate_is_measured_once_also_when_the_watch_is_faster_than_the_answer() {
    let mut drive = Drive::with(&closed());
    let id = drive.opening(at(0));
    drive.0.saw(&open(), Some(&closed()), true, at(1));
    let due = drive.0.written(&key(), RequestId(id), Ok(()), at(1));
    assert_eq!(due, [Due::Count(Duration::from_secs(1))]);

    let mut drive = Drive::with(&closed());
    let id = drive.opening(at(0));
    drive.succeeds(id, at(0));
    drive.judged(opens_for(1), at(5));
    assert!(drive.write().is_some_and(|write| !write.condition.turns));
    assert_eq!(drive.0.written(&key(), RequestId(drive.1), Ok(()), at(6)), [], "it did not turn");
}

#[test]
fn a_gate_that_was_opened_for_another_ip_is_opened_for_this_one_at_once() {
    let mut drive = Drive::with(&closed());
    drive.judged(opens_for(1), at(0));
    assert_eq!(drive.writes(at(0)), Some(Cause::TargetsHealthy));
    drive.0.saw(&a(2, Shown::Closed), Some(&closed()), true, at(1));
    drive.judged(opens_for(2), at(1));
    assert_eq!(drive.writes(at(1)), Some(Cause::TargetsHealthy));
    drive.judged(opens_for(2), at(2));
    assert_eq!(
        (drive.write(), drive.0.next_due()),
        (None, Some(at(6))),
        "written again if nobody has seen it"
    );
}

#[test]
fn a_gate_that_somebody_opened_by_hand_closes_for_another_ip_however_often_the_pod_is_seen() {
    let mut drive = Drive::with(&closed());
    let by_hand = a(2, Shown::Open(None));
    drive.0.saw(&by_hand, Some(&closed()), true, at(1));
    drive.0.saw(&by_hand, Some(&by_hand), true, at(2));
    drive.judged(waits(Cause::HealthUnread), at(2));
    let write = drive.write().unwrap();
    assert_eq!((write.condition.open, write.condition.reason), (false, Cause::IpChanged));
    assert_eq!(write.condition.message, "closed again: the pod has another IP; not yet");
}

#[test]
fn a_gate_is_closed_for_a_target_that_is_put_back_once() {
    let mut drive = Drive::with(&closed());
    assert!(!drive.0.close(&closed(), false, at(0)), "it is closed");
    assert!(drive.0.close(&open(), false, at(1)));
    drive.judged(waits(Cause::HealthUnread), at(1));
    assert!(drive.0.close(&open(), true, at(1)), "that has not been written yet");
    let write = drive.write().unwrap();
    assert_eq!((write.condition.open, write.condition.reason), (false, Cause::RegisteredAgain));
    assert!(write.condition.message.starts_with("closed again: Headgate deregisters the target; "));
    assert!(drive.0.close(&open(), true, at(1)), "nor has Kubernetes answered");
    drive.succeeds(drive.1, at(2));
    assert!(!drive.0.close(&open(), true, at(2)), "the watch need not show it");
    drive.0.saw(&closed(), Some(&closed()), true, at(3));
    drive.judged(opens_for(1), at(3));
    assert_eq!(drive.writes(at(3)), Some(Cause::TargetsHealthy));
}

#[test]
fn a_gate_that_opens_while_it_is_to_be_closed_is_closed_all_the_same() {
    for answered in [true, false] {
        let mut drive = Drive::with(&closed());
        let id = drive.opening(at(0));
        assert!(drive.0.close(&closed(), false, at(1)), "it may open any moment");
        drive.0.saw(&open(), Some(&closed()), true, at(1));
        if answered {
            drive.succeeds(id, at(2));
        } else {
            drive.fails(id, at(2));
        }
        drive.judged(waits(Cause::HealthUnread), at(10));
        assert_eq!(drive.writes(at(10)), Some(Cause::RegisteredAgain), "{answered}");
    }
}

#[test]
fn what_was_explained_before_is_not_taken_for_closing_it() {
    let mut drive = Drive::with(&closed());
    drive.judged(waits(Cause::HealthUnread), at(0));
    drive.judged(waits(Cause::HealthUnread), at(3));
    assert_eq!(drive.writes(at(3)), Some(Cause::HealthUnread));
    let id = drive.opening(at(4));
    assert!(drive.0.close(&closed(), false, at(5)));
    drive.0.saw(&open(), Some(&closed()), true, at(5));
    drive.fails(id, at(5));
    assert!(drive.0.close(&open(), true, at(5)), "it is open");

    let mut drive = Drive::with(&closed());
    drive.judged(waits(Cause::HealthUnread), at(0));
    drive.judged(waits(Cause::HealthUnread), at(3));
    assert!(drive.write().is_some());
    drive.0.saw(&open(), Some(&closed()), true, at(4));
    assert!(drive.0.close(&open(), false, at(4)));
    drive.succeeds(drive.1, at(5));
    assert!(drive.0.close(&open(), true, at(5)), "that was sent before it had to be closed");
}

#[test]
fn what_was_to_close_it_is_over_when_it_may_be_open_or_is_closed() {
    let mut drive = Drive::with(&closed());
    assert!(drive.0.close(&open(), false, at(1)));
    drive.0.saw(&open(), Some(&closed()), true, at(1));
    drive.judged(opens_for(1), at(2));
    assert!(!drive.waits(), "the pod is healthy anew, and the gate is open");

    let mut drive = Drive::with(&closed());
    assert!(drive.0.close(&open(), false, at(1)));
    drive.0.saw(&closed(), Some(&closed()), true, at(2));
    drive.judged(waits(Cause::HealthUnread), at(2));
    assert_eq!(drive.writes(at(2)), None, "somebody else has closed it");
    drive.judged(waits(Cause::HealthUnread), at(5));
    assert_eq!(drive.writes(at(5)), Some(Cause::HealthUnread));
}

#[test]
fn a_pod_that_ends_has_no_gate_to_close() {
    let ends: [fn(PodBuilder) -> PodBuilder; 2] = [PodBuilder::terminating, PodBuilder::finished];
    for end in ends {
        let mut drive = Drive::with(&closed());
        let facts = end(pod("a", "1").at(1).gated(Shown::Open(None))).build();
        assert!(!drive.0.close(&facts, false, at(1)));
    }
}

#[test]
fn an_older_write_that_lands_over_the_one_that_opened_it_does_not_keep_it_open_for_another_ip() {
    for (shown, closes) in [(Shown::Open(Some(ip(9))), true), (Shown::Closed, false)] {
        let mut drive = Drive::with(&closed());
        drive.judged(opens_for(1), at(0));
        assert_eq!(drive.writes(at(0)), Some(Cause::TargetsHealthy));
        drive.0.saw(&a(1, shown), Some(&closed()), true, at(1));
        drive.judged(waits(Cause::PodEvicting), at(1));
        assert_eq!(drive.writes(at(4)), None, "the watch may be late");
        drive.judged(waits(Cause::PodEvicting), at(6));
        assert_eq!(drive.writes(at(6)).is_some(), closes, "{shown:?}");
    }
}
