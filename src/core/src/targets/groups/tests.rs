//! When a target group is read, and when it is checked.

use std::time::Duration;

use super::*;
use crate::{
    ledger::{LedgerRequest, LedgerVersion, StoredLedger, object_name},
    model::rates::Lane,
    model::{Failure, FailureClass, Health, HealthState, RequestId, time::Window},
    testing::{arn, target},
};

const RARELY: Duration = Duration::from_secs(60);

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

/// One target group, without a ledger. Nothing has to be written for it.
fn one() -> (Groups, TargetGroupArn) {
    let mut groups = Groups::new(GroupSettings {
        late: Duration::from_secs(30),
        replacement_grace: Duration::from_secs(300),
        holder_patience: Duration::from_secs(3600),
        dates_registrations: false,
        add_window: Window { idle: Duration::ZERO, most: Duration::ZERO },
        read_only: false,
        bounds: crate::model::Bounds::default(),
        seed: 1,
    });
    let web = arn("web");
    let registrations = groups.make(&web).registrations_mut();
    registrations.no_ledger();
    assert_eq!(registrations.ledger_request(&web, || false, RequestId(1), at(0)), None);
    (groups, web)
}

/// A read begins and shows nothing under way.
fn read(group: &mut Group, now: Moment) {
    group.start_read(now);
    let health = Health { state: HealthState::Healthy, reason: "", zone: None };
    group.observed(vec![(target(9, 80), health)], RARELY, now);
}

#[test]
fn while_a_pod_waits_for_another_one_of_its_zone_a_group_is_read_twice_a_second_for_three_seconds() {
    let (mut groups, web) = one();
    let group = groups.get_mut(&web).unwrap();
    read(group, at(0));
    assert_eq!(group.next_read(), Some(at(60_000)));
    group.look_closely(at(1_000));
    assert_eq!(group.next_read(), Some(at(1_500)));
    read(group, at(1_500));
    assert_eq!(group.next_read(), Some(at(2_000)));
    read(group, at(4_000));
    assert_eq!(group.next_read(), Some(at(64_000)), "nobody waits any more");
}

#[test]
fn a_group_that_does_not_exist_is_missing_until_a_read_shows_it_and_is_asked_for_less_often() {
    let (mut groups, web) = one();
    let group = groups.get_mut(&web).unwrap();
    for (class, is_missing) in [(FailureClass::Unavailable, false), (FailureClass::Gone, true)] {
        let before = group.next_read().unwrap();
        group.start_read(before);
        assert_eq!(group.next_read(), None, "one is in flight");
        group.unread(&Failure::new(class, "Code", "why"), before);
        assert_eq!(group.is_missing(), is_missing);
        assert!(group.next_read() > Some(before), "not at once");
    }
    let next = group.next_read().unwrap();
    read(group, next);
    assert!(!group.is_missing());
    assert_eq!(group.next_read(), Some(next + RARELY));
}

#[test]
fn nothing_waits_for_its_turn_in_a_group_in_which_nothing_is_to_be_removed() {
    let (mut groups, web) = one();
    let group = groups.get_mut(&web).unwrap();
    read(group, at(0));
    assert_eq!((group.next_removal(), group.next_addition()), (None, None));
    assert_eq!(group.next_due(at(1)), Some(at(60_000)), "the next read");
}

#[test]
fn a_group_sleeps_until_something_is_due_in_it_and_is_not_looked_at() {
    let (mut groups, web) = one();
    assert_eq!(groups.calls(at(0)).due(Lane::Read).count(), 1);
    read(groups.get_mut(&web).unwrap(), at(0));
    groups.sleep(at(0));
    assert_eq!(groups.calls(at(0)).later(Lane::Read).count(), 0, "it is not looked at");
    assert_eq!(groups.calls(at(0)).when(), Some(at(60_000)));
    groups.pass(at(59_999));
    assert_eq!(groups.calls(at(59_999)).later(Lane::Read).count(), 0);
    groups.pass(at(60_000));
    assert_eq!(groups.calls(at(60_000)).due(Lane::Read).count(), 1);
    groups.sleep(at(60_000));
    assert_eq!(groups.calls(at(60_000)).due(Lane::Read).count(), 1, "a read that is due keeps it awake");
}

#[test]
fn a_group_that_sleeps_past_its_time_is_found_out() {
    let (mut groups, web) = one();
    read(groups.get_mut(&web).unwrap(), at(0));
    assert_eq!(groups.calls(at(0)).overslept().count(), 0, "it is awake");
    groups.sleep(at(0));
    assert_eq!(groups.calls(at(0)).overslept().count(), 0, "it is woken in time");
    let alarm = groups.alarms.when(&web).unwrap();
    groups.alarms.put(&web, None);
    assert_eq!(groups.calls(at(0)).overslept().count(), 1, "nobody wakes it");
    groups.alarms.put(&web, Some(alarm + RARELY));
    assert_eq!(groups.calls(at(0)).overslept().count(), 1, "it is woken too late");
}

#[test]
fn a_group_that_nothing_is_bound_to_is_dropped_when_it_has_nothing_left_to_do() {
    let (mut groups, web) = one();
    let drop =
        |groups: &mut Groups, bound: bool| groups.drop_unused([arn("web")].iter(), |_| bound, false).len();
    assert_eq!(drop(&mut groups, true), 0);
    assert!(groups.contains_key(&web));
    assert_eq!(drop(&mut groups, false), 1);
    assert!(groups.is_empty());
    assert_eq!(groups.calls(at(0)).when(), None);
}

#[test]
fn a_ledger_that_cannot_be_read_is_read_again_also_if_the_group_was_bound_after_the_take_over() {
    let (mut groups, _) = one();
    let blue = arn("blue");
    let torn = StoredLedger {
        name: object_name(&blue).into(),
        version: LedgerVersion::new("1"),
        content: Err("torn".into()),
    };
    let group = groups.make(&blue);
    group.take_over(Some(&torn), at(0));
    assert_eq!(group.next_ledger(at(0)), Some(at(5_000)));
    let request = group.registrations_mut().ledger_request(&blue, || true, RequestId(2), at(5_000));
    assert_eq!(request, Some(LedgerRequest::Load(blue)));
}
