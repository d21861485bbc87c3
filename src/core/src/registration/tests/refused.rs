//! What AWS refuses: halved, set aside, taken up again.

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
    assert_eq!(drive.0.next_take_up(), Some(Moment::START + FIRST_SET_ASIDE));
    drive.0.pass(Moment::START + FIRST_SET_ASIDE);
    let again = drive.add();
    assert_eq!(again.1[0].target, bad);
    drive.refused(&again);
    assert_eq!(drive.0.next_take_up(), Some(Moment::START + 2 * FIRST_SET_ASIDE), "twice as long");
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
