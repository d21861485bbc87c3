//! Rejections by AWS: calls are halved, targets wait and are retried.

use super::*;

#[test]
fn a_refused_call_is_halved_until_the_bad_target_is_alone_and_set_aside() {
    let mut drive = Drive::default();
    for last in 1..=8 {
        drive.0.want(Ownership { target: target(last, 80), ..owned(Some("a")) }, true);
    }
    let bad = target(6, 80);
    let (mut calls, mut registered) = (0, 0);
    while drive.due().0 {
        let call = drive.add();
        calls += 1;
        if call.1.iter().any(|item| item.target == bad) {
            drive.refused(&call);
        } else {
            registered += call.1.len();
            drive.registered(&call, true);
        }
    }
    assert_eq!((calls, registered), (7, 7), "8, 4, 4, 2, 2, 1, 1");
    assert_eq!(drive.0.next_take_up(), Some(Moment::START + FIRST_WAIT));
    drive.0.pass(Moment::START + FIRST_WAIT);
    let again = drive.add();
    assert_eq!(again.1[0].target, bad);
    drive.refused(&again);
    assert_eq!(drive.0.next_take_up(), Some(Moment::START + 2 * FIRST_WAIT), "twice as long");
}

#[test]
fn a_new_pod_is_not_set_aside_for_what_the_old_one_did() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.refused(&call);
    assert_eq!(drive.due(), (false, false));
    drive.want(Some("b"));
    assert_eq!((drive.due(), drive.0.next_take_up()), ((true, false), None));
}

#[test]
fn what_is_refused_and_not_wanted_any_more_is_not_set_aside() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.want(None);
    drive.refused(&call);
    assert_eq!((drive.due(), drive.0.next_take_up()), ((false, true), None));
}

#[test]
fn what_was_set_aside_and_is_no_longer_wanted_is_removed_at_once() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.refused(&call);
    drive.want(None);
    assert_eq!((drive.due(), drive.0.next_take_up()), ((false, true), None));
}

/// A fake AWS that rejects calls with some of the targets.
struct Aws {
    refuses: Vec<Target>,
    now: Moment,
    calls: usize,
}

impl Aws {
    fn new(refuses: impl IntoIterator<Item = u8>) -> Self {
        Self { refuses: refuses.into_iter().map(|last| target(last, 80)).collect(), now: at(0), calls: 0 }
    }

    /// Answers all calls that may be sent at this moment. Returns how many there were.
    fn answer(&mut self, drive: &mut Drive) -> usize {
        let before = self.calls;
        drive.0.pass(self.now);
        loop {
            let (adds, removes) = drive.due();
            if !adds && !removes {
                return self.calls - before;
            }
            let call = if removes { drive.remove() } else { drive.add() };
            let is_bad = call.1.iter().any(|item| self.refuses.contains(&item.target));
            let failure = is_bad.then_some(FailureClass::Refused);
            self.calls += 1;
            assert!(!call.1.is_empty() && self.calls < 1_000);
            if removes {
                drive.0.deregistered(call.0, &call.1, failure, None, self.now);
            } else {
                drive.0.registered(call.0, &call.1, failure, self.now);
            }
        }
    }

    /// Advances the time by this many seconds and answers the calls.
    fn wait(&mut self, drive: &mut Drive, seconds: u64) -> usize {
        self.now = self.now + Duration::from_secs(seconds);
        self.answer(drive)
    }
}

impl Drive {
    fn want_these(&mut self, targets: impl IntoIterator<Item = u8>, by: Option<&str>) {
        for last in targets {
            self.0.want(Ownership { target: target(last, 80), ..owned(by) }, true);
        }
    }

    fn registered_ones(&self) -> usize {
        self.0.entries.values().filter(|entry| entry.is_registered()).count()
    }
}

#[test]
fn of_targets_that_are_all_refused_a_few_are_tried_at_first_and_then_one_each_time() {
    let mut drive = Drive::default();
    let mut aws = Aws::new(1..=250);
    drive.want_these(1..=250, Some("a"));
    assert_eq!(aws.answer(&mut drive), 6, "three calls of up to a hundred, and three alone");
    for wait in [10, 20, 40, 80, 160, 160] {
        assert_eq!((aws.wait(&mut drive, wait - 1), aws.wait(&mut drive, 1)), (0, 1), "{wait}");
    }
    aws.refuses.clear();
    assert_eq!(aws.wait(&mut drive, 160), 4, "one, and all others in three calls");
    assert_eq!((drive.registered_ones(), drive.0.next_take_up()), (250, None));
}

#[test]
fn wherever_one_bad_target_is_among_good_ones_it_is_found_with_few_calls() {
    for bad in [1, 2, 33, 50, 51, 99, 100] {
        let mut drive = Drive::default();
        let mut aws = Aws::new([bad]);
        drive.want_these(1..=100, Some("a"));
        assert!(aws.answer(&mut drive) <= 15, "{bad}: {} calls", aws.calls);
        assert_eq!(drive.registered_ones(), 99, "{bad}");
    }
}

#[test]
fn good_targets_among_many_bad_ones_are_all_registered_soon() {
    for (bad, waits) in [
        ((1..=20).collect::<Vec<u8>>(), 0),
        ((81..=100).collect(), 0),
        ((1..=100).filter(|last| last % 25 == 0).collect(), 0),
        ((1..=100).filter(|last| last % 2 == 0).collect(), 60),
    ] {
        let good = 100 - bad.len();
        let mut drive = Drive::default();
        let mut aws = Aws::new(bad.clone());
        drive.want_these(1..=100, Some("a"));
        aws.answer(&mut drive);
        for _ in 0..waits {
            aws.wait(&mut drive, 10);
        }
        assert_eq!(drive.registered_ones(), good, "{bad:?}");
        aws.wait(&mut drive, 160);
        assert!(aws.wait(&mut drive, 160) <= 3, "{bad:?}");
    }
}

#[test]
fn what_comes_beside_targets_that_are_all_refused_is_tried_at_once_and_not_before_others() {
    let mut drive = Drive::default();
    let mut aws = Aws::new(1..=50);
    drive.want_these(1..=50, Some("a"));
    aws.answer(&mut drive);
    drive.want_these([60, 61], Some("a"));
    drive.write_ledger();
    assert_eq!((drive.0.oldest_addition(), drive.0.oldest_retry()), (None, Some((at(0), false))));
    assert_eq!((aws.answer(&mut drive), drive.registered_ones()), (1, 2));
    assert_eq!(aws.wait(&mut drive, 0), 1, "and then one of the others: what was in the way may be over");
    drive.want_these([62], Some("a"));
    drive.write_ledger();
    assert!(drive.0.oldest_addition().is_some(), "something was taken");
}

#[test]
fn a_few_that_are_refused_alone_are_each_tried_again() {
    let mut drive = Drive::default();
    let mut aws = Aws::new([1, 2, 3]);
    drive.want_these(1..=40, Some("a"));
    aws.answer(&mut drive);
    assert_eq!(drive.registered_ones(), 37);
    assert_eq!((aws.wait(&mut drive, 10), aws.wait(&mut drive, 20)), (3, 3));
    aws.refuses = vec![target(1, 80), target(2, 80)];
    aws.wait(&mut drive, 40);
    assert_eq!(drive.registered_ones(), 38);
}

#[test]
fn a_refused_removal_is_halved_and_the_bad_target_alone_waits() {
    let mut drive = Drive::default();
    let mut aws = Aws::new([]);
    drive.want_these(1..=40, Some("a"));
    aws.answer(&mut drive);
    aws.refuses = vec![target(6, 80)];
    drive.want_these(1..=40, None);
    assert!(aws.answer(&mut drive) <= 13, "{} calls", aws.calls);
    let out = |drive: &Drive| {
        (1..=40).filter(|last| drive.0.is_out(&target(*last, 80), &Uid::new("a"), &[])).count()
    };
    assert_eq!(out(&drive), 39);
    assert_eq!((drive.0.oldest_removal(), drive.0.next_removal()), (None, Some(at(10))));
    assert_eq!(drive.0.account(&target(6, 80)).unwrap().under, Under::SetAside(at(10)));
    drive.want_these([50], Some("a"));
    aws.answer(&mut drive);
    drive.want_these([50], None);
    assert_eq!(aws.answer(&mut drive), 1, "another one does not wait");
    assert_eq!((aws.wait(&mut drive, 10), drive.0.next_removal()), (1, Some(at(30))), "twice as long");
    aws.refuses.clear();
    aws.wait(&mut drive, 20);
    assert_eq!((out(&drive), drive.0.next_removal()), (40, None));
}

#[test]
fn a_removal_that_aws_refuses_is_over_when_a_read_does_not_show_the_target() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let call = drive.remove();
    drive.0.deregistered(call.0, &call.1, Some(FailureClass::Refused), None, at(0));
    let draining = BTreeMap::from([(target(T, 80), HealthState::Draining.into())]);
    for (states, began, is_over) in
        [(draining, 10, false), (BTreeMap::new(), 4, false), (BTreeMap::new(), 5, true)]
    {
        drive.0.observed(&states, at(began), at(began), |_, _| false);
        assert_eq!(drive.0.next_removal().is_none(), is_over, "{began}");
    }
    assert!(drive.0.is_out(&target(T, 80), &Uid::new("a"), &[]));
}

#[test]
fn what_was_refused_counts_for_the_one_wish_only() {
    let mut drive = Drive::default();
    let mut aws = Aws::new([T]);
    drive.want(Some("a"));
    aws.answer(&mut drive);
    drive.want(None);
    assert_eq!(drive.due(), (false, true), "its removal was not refused");
    aws.answer(&mut drive);
    assert_eq!(drive.due(), (false, false));
    drive.want(Some("b"));
    assert_eq!(drive.due(), (true, false), "nor was its registration for another pod");
}

#[test]
fn a_lost_answer_changes_nothing_about_what_is_refused() {
    let mut drive = Drive::default();
    drive.want_these(1..=4, Some("a"));
    let call = drive.add();
    drive.refused(&call);
    let part = drive.add();
    drive.registered(&part, false);
    let again = drive.add();
    assert_eq!(part.1.len(), 2);
    assert_eq!(
        again.1.iter().map(|item| item.target).collect::<Vec<_>>(),
        part.1.iter().map(|item| item.target).collect::<Vec<_>>()
    );
}

#[test]
fn a_foreign_target_whose_removal_is_refused_waits_and_takes_no_others_with_it() {
    let mut drive = Drive::default();
    let mut aws = Aws::new([9]);
    drive.0.expel(target(9, 80), at(0));
    aws.answer(&mut drive);
    assert!(drive.0.knows(&target(9, 80)));
    drive.0.expel(target(9, 80), at(1));
    assert_eq!(drive.due(), (false, false));
}
