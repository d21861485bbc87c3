//! Which calls are sent and when: registrations and deregistrations, one after the other.

use super::*;

#[test]
fn a_wanted_target_is_registered_once_and_removed_once() {
    let mut drive = Drive::with_a_registered();
    assert!(drive.0.is_registered(&target(T, 80)));
    assert_eq!(drive.due(), (false, false));
    drive.want(None);
    let call = drive.remove();
    assert_eq!((call.1[0].uid.as_str(), call.1[0].reason), ("a", Cause::PodTerminating));
    assert_eq!(drive.due(), (false, false));
    drive.deregistered(&call, true);
    assert!(drive.0.next_look(Moment::START).is_some());
}

#[test]
fn what_aws_may_have_of_a_pod_is_known_though_another_was_to_have_it_for_a_moment() {
    let of = |drive: &Drive, uid: &str| drive.0.all_of(&Uid::new(uid), &[]).count();
    let mut drive = Drive::with_a_registered();
    drive.want(Some("b"));
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (0, 1));
    drive.want(None);
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (1, 1));
    let call = drive.remove();
    drive.deregistered(&call, true);
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (0, 0));
}

#[test]
fn what_is_held_for_the_pod_that_has_got_an_address_is_no_concern_of_the_one_that_has_lost_it() {
    let (here, elsewhere) = (target(T, 80), target(9, 80));
    let a = Uid::new("a");
    for (cause, of_a) in [(Cause::BindingRemoved, 0), (Cause::PodTerminating, 1)] {
        let mut drive = Drive::with_a_registered();
        drive.want(Some("b"));
        drive.0.want(Ownership { cause, ..owned(None) }, true);
        let of = |ip| drive.0.all_of(&a, &[ip]).count();
        assert_eq!((of(here.ip), of(elsewhere.ip)), (1, of_a), "{cause:?}");
        let is_out = |ip| drive.0.is_out(&here, &a, &[ip]);
        assert_eq!((is_out(here.ip), is_out(elsewhere.ip)), (false, of_a == 0), "{cause:?}");
    }
}

#[test]
fn a_pod_that_had_a_target_before_another_is_put_back_when_it_was_taken_out_and_comes_back() {
    let mut drive = Drive::with_a_registered();
    drive.want(Some("b"));
    let call = drive.add();
    drive.registered(&call, true);
    drive.want(Some("a"));
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, true);
    drive.want(Some("a"));
    let owner = drive.0.put_back(&target(T, 80)).map(|(owner, _)| owner.uid.as_str());
    assert_eq!(owner, Some("a"), "its gate may be open since it had the target for the first time");
}

#[test]
fn what_was_never_registered_from_here_is_never_removed() {
    let mut drive = Drive::default();
    drive.want(None);
    assert_eq!(drive.due(), (false, false));
    drive.want(Some("a"));
    drive.want(None);
    assert!(drive.is_over(3600));
}

#[test]
fn a_removal_goes_at_once_beside_a_registration_in_flight_and_again_after_it() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let register = drive.add();
    drive.want(None);
    let first = drive.remove();
    drive.deregistered(&first, true);
    assert_eq!(drive.due(), (false, false), "the registration is still in flight");
    drive.registered(&register, true);
    let second = drive.remove();
    drive.deregistered(&second, true);
    assert!(drive.0.next_look(Moment::START).is_some());
}

#[test]
fn a_registration_waits_for_the_removal_of_the_same_target() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let removal = drive.remove();
    drive.want(Some("b"));
    assert_eq!(drive.due(), (false, false));
    drive.deregistered(&removal, true);
    assert_eq!(drive.add().1[0].uid.as_str(), "b");
}

#[test]
fn a_target_that_passes_to_another_pod_is_registered_again_and_not_removed() {
    let mut drive = Drive::with_a_registered();
    drive.want(Some("b"));
    assert_eq!(drive.due(), (true, false));
    assert!(!drive.0.is_registered(&target(T, 80)), "b has not been registered");
    let call = drive.add();
    drive.registered(&call, true);
    assert!(drive.0.is_registered(&target(T, 80)));
}

#[test]
fn a_removal_that_was_not_sent_yet_is_called_off_by_a_new_owner() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    drive.want(Some("b"));
    assert_eq!(drive.due(), (true, false));
}

#[test]
fn a_failed_registration_is_tried_again_and_removed_if_no_longer_wanted() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    drive.registered(&call, false);
    let retry = drive.add();
    assert_eq!((retry.1[0].reason, retry.1[0].attempt), (Cause::PodHasIp, 2));
    drive.registered(&retry, false);
    drive.want(None);
    assert_eq!(drive.due(), (false, true), "its answer may have been lost");
}

#[test]
fn a_failed_removal_is_tried_again() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, false);
    assert_eq!(drive.due(), (false, true));
}

#[test]
fn one_registration_call_at_a_time_and_what_comes_meanwhile_travels_together() {
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let call = drive.add();
    for last in [2, 3] {
        drive.0.want(Ownership { target: target(last, 80), ..owned(Some("b")) }, true);
    }
    assert_eq!(drive.due(), (false, false));
    drive.registered(&call, true);
    assert_eq!(drive.add().1.len(), 2);
}

#[test]
fn what_is_wanted_and_what_is_out_is_told_pod_by_pod() {
    let (here, elsewhere) = (target(T, 80), target(9, 80));
    let is_out = |drive: &Drive, uid: &str| drive.0.is_out(&here, &Uid::new(uid), &[]);
    let mut drive = Drive::with_a_registered();
    assert!(drive.0.wants(&here) && !drive.0.wants(&elsewhere));
    assert!(!is_out(&drive, "a"));
    assert!(!drive.is_over(3600));
    drive.want(None);
    assert!(!drive.0.wants(&here) && !is_out(&drive, "a"), "AWS has not taken it");
    assert!(is_out(&removed(), "a"));
    drive.want(Some("b"));
    assert!(is_out(&drive, "a") && !is_out(&drive, "b"));
}

#[test]
fn the_oldest_and_the_newest_registration_that_waits_are_known() {
    let mut drive = Drive::default();
    assert_eq!((drive.0.oldest_addition(), drive.0.newest_addition()), (None, None));
    for last in [1, 2, 3] {
        let seen = at(u64::from(last));
        drive.0.want(Ownership { target: target(last, 80), seen, ..owned(Some("a")) }, true);
    }
    drive.write_ledger();
    assert_eq!((drive.0.oldest_addition(), drive.0.newest_addition()), (Some(at(1)), Some(at(3))));
}

#[test]
fn what_aws_may_have_of_a_pod_is_known_by_its_uid_until_it_is_out() {
    let [ours, other] = ["a", "b"].map(Uid::new);
    let of = |drive: &Drive, uid: &Uid| drive.0.all_of(uid, &[]).count();
    let knows = |drive: &Drive| [&ours, &other].map(|uid| drive.0.knows_pod(PodMark::of(uid)));
    let drive = Drive::with_a_registered();
    assert_eq!((of(&drive, &ours), of(&drive, &other), knows(&drive)), (1, 0, [true, false]));
    assert_eq!(drive.0.account(&target(T, 80)).map(|account| account.under), Some(Under::Registered));
    let drive = removed();
    assert_eq!((of(&drive, &ours), of(&drive, &other)), (0, 0), "AWS has taken its removal");
    let mut drive = Drive::default();
    drive.want(Some("a"));
    assert_ne!(drive.0.account(&target(T, 80)).map(|account| account.under), Some(Under::Registered));
}

#[test]
fn what_is_put_back_needs_nothing_before_its_gate_is_closed() {
    let owner = owned(Some("a")).owner.unwrap();
    let mut entry = Entry::wanted(owner, Some(through("web")), Cause::PodHasIp, at(0));
    assert_eq!(entry.need(), Need::Register);
    entry.put_back = PutBack::Due;
    assert_eq!(entry.need(), Need::Nothing);
}

#[test]
fn how_a_target_stands_is_not_known_any_more_once_its_removal_was_sent() {
    let from_to = |drive: &mut Drive, from: u16, to: u16| {
        let change = |port, by: Option<&str>| {
            let cause = if by.is_some() { Cause::BindingAdded } else { Cause::PortChanged };
            Ownership { target: target(T, port), cause, ..owned(by) }
        };
        drive.0.want(change(to, Some("a")), false);
        drive.0.want(change(from, None), false);
        drive.0.hold(false, at(9));
    };
    let mut drive = Drive::with_a_registered();
    drive.0.observed(&shows(HealthState::Unhealthy), at(6), at(6), |_, _| false);
    from_to(&mut drive, 80, 81);
    let call = drive.remove();
    drive.deregistered(&call, false);
    from_to(&mut drive, 81, 80);
    from_to(&mut drive, 80, 81);
    assert_eq!(drive.0.oldest_removal(), None, "it may have become healthy since: the new one comes first");
    assert_eq!(drive.0.held().count(), 1);
}

#[test]
fn what_comes_back_late_after_its_removal_is_not_held_until_others_replace_it() {
    let change = |port, by: Option<&str>| {
        let cause = if by.is_some() { Cause::BindingAdded } else { Cause::PortChanged };
        Ownership { target: target(T, port), cause, ..owned(by) }
    };
    // AWS answers the registration late.
    let mut drive = Drive::default();
    drive.want(Some("a"));
    let register = drive.add();
    drive.want(None);
    let removal = drive.remove();
    drive.deregistered(&removal, true);
    drive.want(Some("b"));
    drive.0.want(change(81, Some("b")), false);
    drive.0.want(change(80, None), false);
    drive.registered(&register, true);
    drive.0.hold(false, at(1));
    assert_eq!(drive.0.held().count(), 0, "nobody looks any more whether its pod lives on");
    assert!(drive.0.oldest_removal().is_some());
    // A read shows the target again.
    let mut drive = removed();
    drive.want(Some("b"));
    drive.0.want(change(81, Some("b")), false);
    drive.0.want(change(80, None), false);
    drive.0.observed(&shows(HealthState::Healthy), at(9), at(9), |_, _| false);
    drive.0.hold(false, at(9));
    assert_eq!(drive.0.held().count(), 0);
    assert!(drive.0.oldest_removal().is_some());
}

#[test]
fn the_pod_of_a_target_that_may_come_to_be_held_is_known_while_its_removal_is_on_its_way() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let removal = drive.remove();
    drive.want(Some("a"));
    drive.0.want(Ownership { target: target(T, 81), ..owned(Some("a")) }, false);
    drive.0.want(Ownership { cause: Cause::PortChanged, ..owned(None) }, false);
    assert_eq!(drive.0.spare_their_pods().count(), 1);
    drive.deregistered(&removal, false);
    drive.0.hold(false, at(1));
    assert_eq!(drive.0.held().count(), 1);
}

#[test]
fn a_pod_whose_target_was_taken_out_has_to_do_with_it_though_another_one_got_the_address_for_a_moment() {
    let mut drive = Drive::with_a_registered();
    let unbound = || Ownership { cause: Cause::BindingRemoved, ..owned(None) };
    drive.0.want(unbound(), false);
    drive.0.hold(false, at(1));
    let removal = drive.remove();
    drive.deregistered(&removal, true);
    drive.want(Some("b"));
    let of = |drive: &Drive, uid: &str| drive.0.out_of(&Uid::new(uid)).count();
    assert_eq!((of(&drive, "a"), of(&drive, "b")), (1, 0));
    drive.0.want(unbound(), false);
    assert_eq!(of(&drive, "a"), 1, "the load balancer may go on sending to it");
    assert!(drive.0.knows_pod(PodMark::of(&Uid::new("a"))));
    // The target is therefore remembered while the caller knows that pod.
    let reads = |drive: &mut Drive, keeps: &dyn Fn(PodMark) -> bool| {
        for second in 100..110 {
            let is_of = |uid: &str| PodMark::of(&Uid::new(uid));
            let kept = |_: &Target, tombstone: Tombstone<'_>| {
                ["a", "b"]
                    .map(is_of)
                    .into_iter()
                    .any(|mark| tombstone.marks().any(|of| of == mark) && keeps(mark))
            };
            drive.0.observed(&BTreeMap::new(), at(second), at(second), kept);
        }
        of(drive, "a")
    };
    let is_a = |mark| mark == PodMark::of(&Uid::new("a"));
    assert_eq!((reads(&mut drive, &is_a), reads(&mut drive, &|_| false)), (1, 0));
}
