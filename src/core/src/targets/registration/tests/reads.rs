//! What a read means for the targets: removals by somebody else, targets that appear again, remembered targets, foreign
//! targets.

use super::*;

#[test]
fn a_target_that_somebody_else_removed_is_registered_again_once_a_late_enough_read_misses_it() {
    let draining = BTreeMap::from([(target(T, 80), HealthState::Draining.into())]);
    for states in [BTreeMap::new(), draining] {
        let mut drive = Drive::with_a_registered();
        drive.0.observed(&states, at(4), at(4), |_, _| false);
        assert_eq!(drive.due(), (false, false), "the read may be older than the registration");
        drive.0.observed(&states, at(5), at(5), |_, _| false);
        assert_eq!(drive.add().1[0].reason, Cause::TargetMissing);
    }
}

#[test]
fn what_somebody_else_removed_is_registered_again_for_a_pod_that_was_gone_meanwhile_without_closing_its_gate()
{
    let mut drive = Drive::with_a_registered();
    drive.0.observed(&BTreeMap::new(), at(5), at(5), |_, _| false);
    // A list did not contain the pod, before the registration was sent.
    drive.want(None);
    assert_eq!(drive.due(), (false, false), "it is out");
    drive.want(Some("a"));
    assert_eq!(drive.0.put_backs().next(), None, "it was not taken out from here");
    assert_eq!(drive.due(), (true, false));
}

#[test]
fn what_was_missing_in_a_read_and_is_removed_after_all_is_put_back_like_what_was_taken_out_for_its_pod() {
    for (of_the_pod, puts_back) in [(true, 1), (false, 0)] {
        let mut drive = Drive::with_a_registered();
        drive.0.observed(&BTreeMap::new(), at(5), at(5), |_, _| false);
        drive.0.want(owned(None), of_the_pod);
        drive.0.observed(&shows(HealthState::Healthy), at(10), at(10), |_, _| false);
        let removal = drive.remove();
        assert_eq!(removal.1[0].reason, Cause::TargetReappeared);
        drive.deregistered(&removal, true);
        drive.want(Some("a"));
        assert_eq!(
            drive.0.put_backs().count(),
            puts_back,
            "its gate may be open, and it was taken out from here"
        );
    }
}

#[test]
fn a_removed_target_that_a_late_call_brought_back_is_removed_again() {
    let mut drive = removed();
    let back = BTreeMap::from([(target(T, 80), HealthState::Initial.into())]);
    drive.0.observed(&back, at(4), at(4), |_, _| false);
    assert_eq!(drive.due(), (false, false), "the read may be older than the removal");
    drive.0.observed(&back, at(5), at(5), |_, _| false);
    assert_eq!(drive.remove().1[0].reason, Cause::TargetReappeared);
}

#[test]
fn what_a_late_call_brought_back_is_still_of_the_pod_that_had_it_though_another_one_had_the_address_for_a_moment()
 {
    let mut drive = Drive::with_a_registered();
    let unbound = || Ownership { cause: Cause::BindingRemoved, ..owned(None) };
    drive.0.want(unbound(), false);
    drive.0.hold(false, at(1));
    let removal = drive.remove();
    drive.deregistered(&removal, true);
    drive.want(Some("b"));
    drive.0.want(unbound(), false);
    let back = BTreeMap::from([(target(T, 80), HealthState::Healthy.into())]);
    drive.0.observed(&back, at(6), at(6), |_, _| false);
    let a = Uid::new("a");
    assert_eq!(drive.0.all_of(&a, &[target(T, 80).ip]).count(), 1, "a load balancer sends to it there");
    let removal = drive.remove();
    drive.deregistered(&removal, true);
    assert_eq!(drive.0.out_of(&a).count(), 1, "and may go on doing so for a while");
}

#[test]
fn a_read_that_began_before_the_last_call_ended_says_nothing() {
    let mut drive = removed();
    drive.0.observed(
        &BTreeMap::from([(target(T, 80), HealthState::Healthy.into())]),
        Moment::START,
        at(1),
        |_, _| false,
    );
    assert_eq!(drive.due(), (false, false));
}

#[test]
fn a_tombstone_is_dropped_after_two_reads_without_it_and_when_no_call_can_land_any_more() {
    let nothing = BTreeMap::new();
    let mut drive = removed();
    for second in [5, 6, 29] {
        drive.0.observed(&nothing, at(second), at(second), |_, _| false);
        assert!(drive.0.next_look(at(second)).is_some(), "{second}");
    }
    drive.0.observed(&nothing, at(30), at(30), |_, _| false);
    assert!(drive.is_over(3600));
    let mut drive = removed();
    for second in [1, 2, 60] {
        drive.0.observed(&nothing, at(second), at(second), |_, _| false);
    }
    assert!(drive.0.next_look(at(60)).is_some(), "one read that is late enough is not enough");
    let mut drive = removed();
    for (began, ended, is_kept) in [(5, 5, true), (6, 6, true), (29, 40, true), (30, 50, false)] {
        drive.0.observed(&nothing, at(began), at(ended), |_, _| false);
        assert_eq!(drive.0.knows(&target(T, 80)), is_kept, "a read from {began} s to {ended} s");
    }
}

#[test]
fn a_group_that_is_gone_needs_no_tombstones() {
    let mut drive = removed();
    drive.0.group_is_gone();
    assert!(drive.is_over(3600));
}

/// A ledger that names pod `a` for the target of the driver.
fn told(noted: crate::ledger::Noted) -> crate::ledger::Ledger {
    let mut ledger = crate::ledger::Ledger::default();
    ledger.note(target(T, 80), noted, PodMark::of(&Uid::new("a")));
    ledger
}

fn departed(uid: &str, name: &str, cause: Cause) -> Departure {
    let owner = Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) };
    Departure { owner, through: Some(through(name)), cause, seen: at(0) }
}

/// The bindings of the last pod of the driver's target, after it is judged.
fn judged(drive: &mut Drive) -> Option<Through> {
    drive.0.judge(&target(T, 80), &Holder::Pod, None, None, false, at(99));
    drive.0.entries.get(&target(T, 80)).unwrap().through.clone()
}

#[test]
fn a_removed_target_of_which_the_ledger_tells_again_is_of_the_bindings_that_its_pod_had_it_through_last() {
    for is_followed in [false, true] {
        let mut drive = removed();
        let before = departed("a", "other", Cause::IpChanged);
        drive.0.departed.note(target(T, 80), before);
        if is_followed {
            drive.want(Some("b"));
            drive.want(None);
            let departed = drive.0.departed(at(0));
            drive = Drive::default();
            drive.0.have_departed(departed);
        } else {
            drive.0.group_is_gone();
        }
        // The ledger was not written since.
        drive.0.inherit(&told(crate::ledger::Noted::Intended), at(1));
        assert_eq!(judged(&mut drive), Some(through("web")), "{is_followed}");
    }
}

#[test]
fn the_last_departure_of_a_pod_counts_and_not_one_before_when_the_ledger_tells_of_it_again() {
    let mut drive = Drive::default();
    drive.0.want(Ownership { through: through("before"), ..owned(Some("a")) }, true);
    drive.0.want(Ownership { through: through("before"), cause: Cause::NotSelected, ..owned(None) }, true);
    drive.want(Some("a"));
    let call = drive.add();
    drive.registered(&call, true);
    drive.want(None);
    let call = drive.remove();
    drive.deregistered(&call, true);
    // The target is forgotten, and the ledger was not written since.
    drive.0.entries.remove(&target(T, 80));
    drive.0.inherit(&told(crate::ledger::Noted::Registered), at(100));
    assert_eq!(judged(&mut drive), Some(through("web")));
    assert_eq!(drive.0.entries.get(&target(T, 80)).unwrap().cause, Cause::PodTerminating);
}

#[test]
fn that_a_pod_had_lost_its_address_counts_no_more_when_it_has_it_again() {
    for (living, cause) in
        [(Some("a"), Cause::StaleTarget), (Some("b"), Cause::IpChanged), (None, Cause::IpChanged)]
    {
        let mut drive = removed();
        drive.0.departed.note(target(T, 80), departed("a", "other", Cause::IpChanged));
        drive.0.entries.remove(&target(T, 80));
        drive.0.inherit(&told(crate::ledger::Noted::Intended), at(1));
        let living = living.map(|uid| Owner { pod: ObjectKey::new("shop", uid), uid: Uid::new(uid) });
        let living = living.map(|owner| (owner, None));
        drive.0.judge(&target(T, 80), &Holder::Pod, living, None, false, at(99));
        assert_eq!(drive.0.entries.get(&target(T, 80)).unwrap().cause, cause);
    }
}

#[test]
fn a_target_that_is_there_again_is_of_the_bindings_that_its_own_pod_had_it_through() {
    let mut drive = removed();
    drive.0.departed.note(target(T, 80), departed("b", "other", Cause::PodDeleted));
    drive.0.observed(&shows(HealthState::Healthy), at(60), at(60), |_, _| false);
    assert!(drive.0.orphans().next().is_some(), "nothing of ours can have brought it back");
    assert_eq!(judged(&mut drive), Some(through("web")));
}

#[test]
fn a_removed_target_is_new_until_a_read_has_missed_it() {
    let mut drive = removed();
    assert_eq!(drive.0.next_look(at(0)), Some(STALE));
    drive.0.observed(&BTreeMap::new(), at(5), at(5), |_, _| false);
    assert_ne!(drive.0.next_look(at(0)), Some(STALE));
    assert_eq!(Drive::with_a_registered().0.next_look(at(0)), None);
}

#[test]
fn a_foreign_target_whose_removal_was_not_sent_is_spared_and_a_target_of_our_own_is_not() {
    let foreign_target = target(9, 80);
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    drive.0.expel(foreign_target, at(1));
    assert_eq!(drive.0.entries.tried(Action::Deregister).all(), 2);
    drive.0.spare_foreign_targets();
    assert_eq!(drive.0.entries.tried(Action::Deregister).all(), 1);
    assert!(!drive.0.knows(&foreign_target));
    drive.0.expel(foreign_target, at(1));
    drive.remove();
    drive.0.spare_foreign_targets();
    assert!(drive.0.knows(&foreign_target), "its removal is on its way");
}

#[test]
fn since_when_a_target_is_gone_is_known_when_it_is_to_be_forgotten() {
    let mut drive = Drive::with_a_registered();
    drive.want(None);
    let call = drive.remove();
    drive.0.deregistered(call.0, &call.1, None, None, at(5));
    let since = std::cell::Cell::new(None);
    for seconds in [100, 200, 300] {
        drive.0.observed(&BTreeMap::new(), at(seconds), at(seconds), |_, tombstone| {
            since.set(tombstone.out_since());
            true
        });
    }
    assert_eq!(since.get(), Some(Since::now(at(5))));
}

#[test]
fn a_removed_target_that_no_call_of_ours_can_have_brought_back_may_be_another_installations() {
    use Sight::There;
    let judged = |holder: &Holder, state: HealthState, exclusive: bool| {
        let mut drive = removed();
        drive.0.observed(&shows(state), at(30), at(30), |_, _| false);
        assert_eq!(drive.due(), (false, false), "it is to be judged");
        let living = (*holder == Holder::Pod).then(|| owned(Some("b")).owner.unwrap());
        let living = living.map(|pod| (pod, None));
        drive.0.judge(&target(T, 80), holder, living, Some(There(state)), exclusive, at(30));
        let suspects = drive.0.orphans().filter(|(_, orphan)| **orphan == Orphan::Suspect).count();
        let goes = drive.due().1.then(|| drive.remove().1[0].reason);
        (suspects, goes)
    };
    let (healthy, sick) = (HealthState::Healthy, HealthState::Unhealthy);
    let goes = (0, Some(Cause::TargetReappeared));
    assert_eq!(
        judged(&Holder::Nobody, healthy, false),
        (1, None),
        "another cluster may have got the address"
    );
    assert_eq!(judged(&Holder::Nobody, HealthState::Initial, false), (0, None), "too early to tell");
    assert_eq!(judged(&Holder::Nobody, healthy, true), goes);
    assert_eq!(judged(&Holder::Nobody, sick, false), goes);
    assert_eq!(judged(&Holder::Pod, healthy, false), goes);
}
