//! What the ledger must contain, and what Headgate takes from it.

use super::*;

#[test]
fn the_ledger_is_packed_for_the_family_of_its_targets() {
    let mut drive = Drive::default();
    let address = "fd00::1".parse().unwrap();
    drive.0.want(Ownership { target: Target::new(address, 80), ..owned(Some("a")) }, true);
    let request =
        drive.0.ledger_request(&arn("blue"), || true, RequestId(1), (Moment::START, WallTime::default()));
    let Some(LedgerRequest::Write(None, packed)) = request else { panic!("{request:?}") };
    let ledger = crate::ledger::Ledger::unpack(&packed).unwrap();
    assert!(ledger.get(&Target::new(address, 80)).is_some());
}

#[test]
fn that_a_living_pod_was_taken_out_is_written_at_once() {
    for (cause, waits) in [(Cause::NotReady, 0), (Cause::PodDeleted, 5)] {
        let mut drive = Drive::default();
        for last in [1, 2] {
            drive.0.want(Ownership { target: target(last, 80), ..owned(Some("a")) }, true);
        }
        let call = drive.add();
        drive.registered(&call, true);
        drive.write_ledger();
        drive.write_ledger();
        for (last, cause) in [(1, cause), (2, Cause::PodDeleted)] {
            drive.0.want(Ownership { target: target(last, 80), cause, ..owned(None) }, true);
        }
        drive.write_ledger();
        let call = drive.remove();
        drive.deregistered(&call, true);
        assert_eq!(drive.0.next_ledger(None, at(0)), Some(at(waits)), "{cause:?}");
    }
}

#[test]
fn what_the_ledger_says_is_registered_counts_only_when_a_read_shows_it() {
    let mut ledger = crate::ledger::Ledger::default();
    ledger.note(target(T, 80), crate::ledger::Noted::Registered, PodMark::of(&Uid::new("a")));
    for (states, is_there) in [(shows(HealthState::Healthy), true), (BTreeMap::new(), false)] {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        drive.0.inherit(&ledger, at(0));
        assert!(!drive.0.is_registered(&target(T, 80)) && drive.0.waits_for_read());
        drive.0.observed(&states, at(2), at(2), |_, _| false);
        assert_eq!(drive.0.is_registered(&target(T, 80)), is_there);
        assert_eq!(drive.0.waits_for_read(), !is_there);
    }
}

#[test]
fn since_when_a_target_is_an_orphan_is_known_while_it_is_one() {
    let mut ledger = crate::ledger::Ledger::default();
    ledger.note(target(T, 80), crate::ledger::Noted::Registered, PodMark::of(&Uid::new("a")));
    let mut drive = Drive::default();
    drive.0.inherit(&ledger, at(7));
    assert_eq!((drive.0.orphan_since(&target(T, 80)), drive.0.waits_for_read()), (Some(at(7)), true));
    drive.want(Some("a"));
    assert_eq!(drive.0.orphan_since(&target(T, 80)), None);
}

#[test]
fn a_ledger_is_looked_at_again_when_others_have_written_it_or_bindings_have_changed() {
    let mut drive = Drive::with_a_registered();
    drive.write_ledger();
    drive.write_ledger();
    assert_eq!(drive.0.next_ledger(None, at(0)), None);
    drive.0.look_at_ledger();
    assert_eq!(drive.0.next_ledger(None, at(0)), Some(at(5)));
    drive.0.ledger_is_at(&LedgerVersion::new("of somebody else"));
    let request = drive.0.ledger_request(&arn("blue"), || true, RequestId(99), (at(0), WallTime::default()));
    assert_eq!(request, Some(LedgerRequest::Load(arn("blue"))));
    assert!(drive.0.has_ledger() && !Drive::default().0.has_ledger());
}

#[test]
fn after_a_take_over_the_health_of_a_pod_that_followed_another_counts_as_of_one_that_was_there() {
    use super::super::evidence::Past;
    for (noted, past) in [("a", Past::Removed), ("z", Past::Registered)] {
        let mut drive = Drive::default();
        drive.want(Some("a"));
        drive.want(None);
        drive.want(Some("b"));
        let mut ledger = crate::ledger::Ledger::default();
        ledger.note(target(T, 80), crate::ledger::Noted::Registered, PodMark::of(&Uid::new(noted)));
        drive.0.inherit(&ledger, at(0));
        assert_eq!(drive.0.entries.get(&target(T, 80)).unwrap().evidence.past, past, "{noted}");
    }
}

#[test]
fn what_the_ledger_says_of_a_pod_is_found_by_its_uid() {
    let mut ledger = crate::ledger::Ledger::default();
    ledger.note(target(T, 80), crate::ledger::Noted::Registered, PodMark::of(&Uid::new("a")));
    let mut drive = Drive::default();
    drive.0.inherit(&ledger, at(0));
    let all_of = |uid| drive.0.all_of(&Uid::new(uid), &[]).map(|(target, _)| *target).collect::<Vec<_>>();
    assert_eq!((all_of("a"), all_of("z")), (vec![target(T, 80)], vec![]));
}

#[test]
fn that_a_target_is_out_by_the_word_of_the_ledger_alone_counts_when_a_read_shows_it() {
    let there = |state: HealthState| shows(state);
    for (read, is_out) in [
        (None, false),
        (Some(there(HealthState::Healthy)), false),
        (Some(there(HealthState::Draining)), true),
        (Some(BTreeMap::new()), true),
    ] {
        let mut ledger = crate::ledger::Ledger::default();
        let when = WallTime::since_1970(Duration::from_secs(1));
        ledger.note_removed(target(T, 80), PodMark::of(&Uid::new("a")), Some(when));
        let mut drive = Drive::default();
        drive.0.inherit(&ledger, at(0));
        if let Some(states) = &read {
            drive.0.observed(states, at(1), at(1), |_, _| true);
        }
        assert_eq!(drive.0.is_out(&target(T, 80), &Uid::new("a"), &[]), is_out, "{read:?}");
    }
}

#[test]
fn of_a_pod_whose_target_another_one_has_got_it_is_remembered_through_which_bindings_it_had_it_last() {
    let mut drive = Drive::default();
    drive.0.want(Ownership { through: through("before"), ..owned(Some("a")) }, true);
    drive.0.want(Ownership { through: through("before"), ..owned(None) }, true);
    drive.want(Some("a"));
    drive.want(Some("b"));
    let departure = drive.0.departed.of(&target(T, 80), PodMark::of(&Uid::new("a"))).unwrap();
    assert_eq!(departure.through, Some(through("web")));
    assert_eq!(departure.cause, Cause::IpChanged);
}
