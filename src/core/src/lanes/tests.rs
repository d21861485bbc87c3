//! Tests of the time at which each call is sent.

use super::*;
use crate::testing::arn;

fn at(ms: u64) -> Moment {
    Moment::after_start(Duration::from_millis(ms))
}

fn due(group: &TargetGroupArn, since: Moment, targets: usize) -> Due<'_> {
    Due { group, since, targets }
}

fn lanes() -> Lanes {
    Lanes::new(Limits::default())
}

/// Sends a deregistration that is answered immediately.
fn removal<'a>(lanes: &mut Lanes, due: &[Due<'a>], now: Moment) -> Option<&'a TargetGroupArn> {
    let (group, ticket) = lanes.removal(due, now)?;
    lanes.answered(ticket, false, now);
    Some(group)
}

/// The number of calls of this kind that can be sent if each call is answered immediately.
fn count(lanes: &mut Lanes, lane: Lane, now: Moment) -> usize {
    let mut count = 0;
    while let Some(ticket) = lanes.take(lane, now) {
        lanes.answered(ticket, false, now);
        count += 1;
    }
    count
}

fn groups(count: usize) -> Vec<TargetGroupArn> {
    (0..count).map(|at| arn(&format!("g{at}"))).collect()
}

#[test]
fn a_removal_goes_at_once_while_tokens_are_plenty_and_pods_go_here_and_there() {
    let (mut lanes, groups) = (lanes(), groups(3));
    for (at_ms, group) in [(0, 0), (400, 0), (800, 1), (810, 2), (1_200, 0)] {
        lanes.removal_caused(&groups[group], at(at_ms));
        let due = due(&groups[group], at(at_ms), 1);
        assert_eq!(removal(&mut lanes, &[due], at(at_ms)), Some(&groups[group]), "{at_ms}");
    }
}

#[test]
fn a_group_that_was_not_called_yet_goes_before_those_that_take_turns() {
    let (mut lanes, groups) = (lanes(), groups(3));
    for group in &groups[..2] {
        lanes.removal_caused(group, at(0));
        assert!(removal(&mut lanes, &[due(group, at(0), 1)], at(0)).is_some());
    }
    for group in &groups {
        lanes.removal_caused(group, at(1_000));
    }
    let due: Vec<_> = groups.iter().map(|group| due(group, at(500), 1)).collect();
    assert_eq!(removal(&mut lanes, &due, at(1_200)), Some(&groups[2]));
}

#[test]
fn registrations_leave_half_of_the_tokens_for_removals() {
    let mut lanes = lanes();
    assert_eq!(count(&mut lanes, Lane::Addition, at(0)), 10);
    let next = lanes.when(Lane::Addition, at(0));
    assert!(next > at(249) && next < at(252), "{next:?}");
    let groups = groups(12);
    let due: Vec<_> = groups.iter().map(|group| due(group, at(0), 100)).collect();
    let gone = (0..12).filter_map(|at_| removal(&mut lanes, &due[at_..], at(0)));
    assert_eq!(gone.count(), 10);
    let small = Limits { changes: Limit { per_second: 1.0, burst: 1.0 }, ..Limits::default() };
    assert_eq!(count(&mut Lanes::new(small), Lane::Addition, at(0)), 1, "of one token none can be left");
}

/// The state after `count` groups each sent a deregistration at time 0.
fn after_removals(count: usize) -> Lanes {
    let mut lanes = lanes();
    for group in &groups(count) {
        lanes.removal_caused(group, at(0));
        assert!(removal(&mut lanes, &[due(group, at(0), MAX_TARGETS_PER_CALL)], at(0)).is_some());
    }
    lanes
}

#[test]
fn while_pods_are_going_registrations_leave_two_thirds_of_the_tokens() {
    let mut lanes = after_removals(1);
    assert_eq!(count(&mut lanes, Lane::Addition, at(0)), 6, "13 of 20");
    let next = lanes.when(Lane::Addition, at(0));
    assert!(next >= at(250) && next <= at(250) + Duration::from_micros(1), "as tokens come: {next:?}");
    assert_eq!(count(&mut lanes, Lane::Addition, at(749)), 2);
}

#[test]
fn what_a_burst_of_removals_has_spent_is_not_saved_up_again_before_registrations() {
    let mut lanes = after_removals(20);
    assert_eq!(lanes.when(Lane::Addition, at(0)), at(750), "pods may still be going");
    assert_eq!(count(&mut lanes, Lane::Addition, at(749)), 0);
    assert_eq!(count(&mut lanes, Lane::Addition, at(750)), 2, "of three that have come");
    for ms in (1_000..6_000).step_by(250) {
        assert_eq!(count(&mut lanes, Lane::Addition, at(ms)), 1, "all that come: {ms}");
    }
}

#[test]
fn of_a_few_removals_each_makes_that_registrations_leave_one_token_less() {
    for (removals, calls) in [(1, 11), (4, 13), (8, 13), (12, 10)] {
        let mut lanes = after_removals(removals);
        // The bucket has three more tokens than after the deregistrations, or is full.
        assert_eq!(count(&mut lanes, Lane::Addition, at(750)), calls, "{removals}");
    }
}

#[test]
fn however_many_removals_were_sent_one_token_is_left_for_one_that_nobody_expects() {
    let mut lanes = after_removals(20);
    assert_eq!(count(&mut lanes, Lane::Addition, at(2_000)), 7);
    let group = arn("blue");
    lanes.removal_caused(&group, at(2_000));
    assert!(removal(&mut lanes, &[due(&group, at(2_000), MAX_TARGETS_PER_CALL)], at(2_000)).is_some());
}

#[test]
fn ten_seconds_after_a_burst_registrations_leave_half_of_the_tokens_again() {
    for (ms, calls) in [(9_999, 19), (10_000, 10)] {
        assert_eq!(count(&mut after_removals(20), Lane::Addition, at(ms)), calls, "{ms}");
    }
}

#[test]
fn a_registration_that_is_refused_after_a_burst_is_one_near_an_empty_bucket() {
    let mut lanes = after_removals(20);
    let refused = lanes.take(Lane::Addition, at(750)).unwrap();
    lanes.answered(refused, true, at(800));
    assert_eq!(lanes.throttled(at(800)), None);
}

#[test]
fn retries_of_what_was_refused_leave_half_of_what_registrations_may_take() {
    let mut lanes = lanes();
    assert_eq!(count(&mut lanes, Lane::Retry, at(0)), 5);
    assert_eq!(count(&mut lanes, Lane::Addition, at(0)), 5);
    let next = lanes.when(Lane::Retry, at(0));
    assert!(next > at(1_499) && next < at(1_502), "when registrations could take six: {next:?}");
    let small = Limits { changes: Limit { per_second: 1.0, burst: 1.0 }, ..Limits::default() };
    assert_eq!(count(&mut Lanes::new(small), Lane::Retry, at(0)), 1, "of one token none can be left");
    let refused = lanes.take(Lane::Retry, at(60_000)).unwrap();
    lanes.answered(refused, true, at(60_000));
    assert!(lanes.throttled(at(60_000)).is_some() && lanes.when(Lane::Addition, at(60_000)) > at(60_000));
}

#[test]
fn a_bucket_of_one_token_serves_registrations_too() {
    let limit = Limit { per_second: 1.0, burst: 1.0 };
    let mut lanes = Lanes::new(Limits { changes: limit, reads: limit });
    for (ms, calls) in [(0, 1), (900, 0), (1_100, 1)] {
        assert_eq!(count(&mut lanes, Lane::Addition, at(ms)), calls, "{ms}");
    }
    assert_eq!(count(&mut lanes, Lane::LookUp, at(0)), 1);
}

#[test]
fn registrations_in_flight_leave_half_of_the_tokens_too() {
    let mut lanes = lanes();
    let sent: Vec<Ticket> = (0..12).filter_map(|_| lanes.take(Lane::Addition, at(0))).collect();
    assert_eq!(sent.len(), 10);
    assert!(lanes.take(Lane::Addition, at(400)).is_none(), "AWS may count them only now");
    for ticket in sent {
        lanes.answered(ticket, false, at(400));
    }
    assert!(lanes.take(Lane::Addition, at(649)).is_none() && lanes.take(Lane::Addition, at(651)).is_some());
}

#[test]
fn refused_registrations_slow_down_alone_and_refused_removals_slow_both() {
    let mut lanes = lanes();
    let refused = lanes.take(Lane::Addition, at(0)).unwrap();
    lanes.answered(refused, true, at(0));
    assert!(lanes.when(Lane::Addition, at(0)) >= at(500), "at half the rate");
    let group = arn("blue");
    lanes.removal_caused(&group, at(0));
    let due = [due(&group, at(0), 1)];
    let (_, refused) = lanes.removal(&due, at(0)).unwrap();
    lanes.answered(refused, true, at(0));
    assert_eq!(removal(&mut lanes, &due, at(400)), None);
    assert!(removal(&mut lanes, &due, at(520)).is_some());
}

#[test]
fn a_removal_that_is_refused_near_an_empty_bucket_slows_nothing_but_itself() {
    let mut lanes = lanes();
    let groups = groups(20);
    let due: Vec<_> = groups.iter().map(|group| due(group, at(0), MAX_TARGETS_PER_CALL)).collect();
    for _ in 0..19 {
        assert!(removal(&mut lanes, &due, at(0)).is_some());
    }
    let (_, refused) = lanes.removal(&due, at(0)).unwrap();
    lanes.answered(refused, true, at(30));
    assert_eq!(lanes.throttled(at(30)), None);
    assert!(removal(&mut lanes, &due, at(281)).is_some(), "one token later");
    assert!(removal(&mut lanes, &due, at(531)).is_some(), "and so on");
}

#[test]
fn reads_take_half_of_their_bucket_and_no_token_of_changes() {
    let mut lanes = lanes();
    assert_eq!(count(&mut lanes, Lane::AwaitedRead, at(0)), 100);
    assert_eq!(count(&mut lanes, Lane::Read, at(0)), 1, "one after the other");
    assert_eq!(count(&mut lanes, Lane::LookUp, at(0)), 20, "a tenth of all");
    assert_eq!(count(&mut lanes, Lane::Addition, at(0)), 10);
}

#[test]
fn reads_that_nobody_waits_for_are_fewer_than_fit_and_those_that_somebody_waits_for_have_some_for_themselves()
{
    let mut lanes = lanes();
    count(&mut lanes, Lane::AwaitedRead, at(0));
    let mut in_10_s = |lane| (1..=10_000).map(|ms| count(&mut lanes, lane, at(ms))).sum::<usize>();
    let other = in_10_s(Lane::Read);
    assert!((149..=152).contains(&other), "{other}");
    assert_eq!(count(&mut lanes, Lane::AwaitedRead, at(10_000)), 100, "they were left alone");
    let both: usize = (10_001..=20_000)
        .flat_map(|ms| [Lane::Read, Lane::AwaitedRead].map(|lane| (lane, ms)))
        .map(|(lane, ms)| count(&mut lanes, lane, at(ms)))
        .sum();
    assert!((248..=252).contains(&both), "half of all: {both}");
}

#[test]
fn refused_reads_are_sent_at_half_the_rate() {
    let mut lanes = lanes();
    let refused = lanes.take(Lane::Read, at(0)).unwrap();
    lanes.answered(refused, true, at(0));
    for (lane, early, late) in
        [(Lane::Read, 130, 134), (Lane::AwaitedRead, 195, 201), (Lane::LookUp, 395, 405)]
    {
        assert!(lanes.take(lane, at(early)).is_none() && lanes.take(lane, at(late)).is_some(), "{lane:?}");
    }
}

#[test]
fn many_target_groups_are_read_less_often() {
    assert_eq!(lanes().read_period(100), Duration::from_secs(8));
    assert_eq!(lanes().read_period(3_000), Duration::from_secs(240));
}

#[test]
fn when_the_next_call_may_go_is_when_there_is_a_token_for_it() {
    let mut lanes = lanes();
    assert_eq!((lanes.when(Lane::LookUp, at(0)), lanes.when(Lane::Read, at(0))), (at(0), at(0)));
    count(&mut lanes, Lane::Read, at(0));
    let next = lanes.when(Lane::Read, at(0));
    assert!(
        next > at(0) && lanes.take(Lane::Read, at(0)).is_none() && lanes.take(Lane::LookUp, at(0)).is_some()
    );
    assert!(lanes.take(Lane::Read, next).is_some());
    count(&mut lanes, Lane::LookUp, next);
    let next = lanes.when(Lane::LookUp, at(100));
    assert!(lanes.take(Lane::LookUp, next).is_some());
}

#[test]
fn when_throttling_is_over_is_known_while_it_lasts() {
    let mut lanes = lanes();
    assert_eq!((lanes.throttled(at(0)), lanes.next_recovery()), (None, None));
    let refused = lanes.take(Lane::Read, at(0)).unwrap();
    lanes.answered(refused, true, at(0));
    assert_eq!(lanes.throttled(at(0)), Some("Describe calls"));
    let over = lanes.next_recovery().unwrap();
    assert!(over > at(0));
    assert_eq!(lanes.throttled(over + Duration::from_millis(1)), None);
}

#[test]
fn while_one_kind_of_calls_is_throttled_nobody_is_woken_for_the_recovery_of_another_that_is_over() {
    let mut lanes = lanes();
    for (lane, ms) in [(Lane::Read, 0), (Lane::Addition, 10_000)] {
        let refused = lanes.take(lane, at(ms)).unwrap();
        lanes.answered(refused, true, at(ms));
    }
    let mut wakes = Vec::new();
    let mut now = at(10_000);
    while let Some(next) = lanes.next_recovery() {
        assert!(next > now && wakes.len() < 10, "woken again and again at {now:?}");
        now = next;
        wakes.push(lanes.throttled(now));
    }
    assert_eq!(wakes.last(), Some(&None));
    assert!(wakes.contains(&Some("RegisterTargets and DeregisterTargets")), "{wakes:?}");
}

#[test]
fn a_removal_without_a_token_goes_when_the_next_one_comes() {
    let mut lanes = lanes();
    let groups = groups(30);
    for group in &groups {
        lanes.removal_caused(group, at(0));
    }
    let full: Vec<_> = groups.iter().map(|group| due(group, at(0), MAX_TARGETS_PER_CALL)).collect();
    let mut sent = 0;
    while removal(&mut lanes, &full, at(0)).is_some() {
        sent += 1;
    }
    assert_eq!(sent, 20, "all tokens");
    let next = lanes.next_removal(&full, at(0)).unwrap();
    assert!(next >= at(250) && next < at(251), "four come in a second: {next:?}");
    assert!(removal(&mut lanes, &full, next).is_some());
    assert_eq!(lanes.next_removal(&[], at(0)), None);
}

/// A state with a bucket of 20 tokens that regains almost no tokens and has `left` tokens.
fn nearly_still(per_second: f64, left: usize) -> Lanes {
    let mut lanes = Lanes::new(Limits { changes: Limit { per_second, burst: 20.0 }, ..Limits::default() });
    let before = arn("before");
    for _ in left..20 {
        assert!(removal(&mut lanes, &[due(&before, at(0), MAX_TARGETS_PER_CALL)], at(0)).is_some());
    }
    lanes
}

fn cause(lanes: &mut Lanes, causes: &[(&TargetGroupArn, u64)]) {
    for (group, ms) in causes {
        lanes.removal_caused(group, at(*ms));
    }
}

#[test]
fn the_removals_of_a_group_are_over_when_none_has_come_for_four_times_as_long_and_others_went_on() {
    let (mut lanes, groups) = (nearly_still(0.01, 7), groups(2));
    let [here, other] = &groups[..] else { panic!("two") };
    cause(&mut lanes, &[(other, 5_000), (here, 5_010), (other, 5_020), (here, 5_060)]);
    for ms in 5_061..=5_067 {
        cause(&mut lanes, &[(other, ms)]);
        let next = lanes.next_removal(&[due(here, at(5_010), 2)], at(ms));
        assert_eq!(next, Some(at(ms + 250)), "{ms}: it may be a pause of the whole burst");
    }
    cause(&mut lanes, &[(other, 5_068)]);
    let next = lanes.next_removal(&[due(here, at(5_010), 2)], at(5_068));
    assert_eq!(
        next,
        Some(at(5_060 + 4 * 50)),
        "eight of the other, two of which came between two of its own"
    );
}

#[test]
fn how_far_apart_the_removals_of_a_group_are_is_that_of_the_last_few() {
    let (mut lanes, groups) = (nearly_still(0.01, 7), groups(2));
    let [here, other] = &groups[..] else { panic!("two") };
    cause(&mut lanes, &[(other, 5_000), (here, 5_010), (other, 5_020), (here, 5_050), (here, 5_130)]);
    let quick: Vec<_> = (0..4).map(|ms| (other, 5_131 + ms)).collect();
    cause(&mut lanes, &quick);
    let next = lanes.next_removal(&[due(here, at(5_010), 3)], at(5_134));
    assert_eq!(next, Some(at(5_130 + 4 * 50)), "40 ms three times and 80 ms once");
}

#[test]
fn removals_that_come_far_apart_do_not_tell_when_they_are_over() {
    let (mut lanes, groups) = (nearly_still(0.01, 7), groups(2));
    let [here, other] = &groups[..] else { panic!("two") };
    cause(&mut lanes, &[(here, 5_000), (here, 5_500)]);
    let after: Vec<_> = (0..10).map(|ms| (other, 6_990 + ms)).collect();
    cause(&mut lanes, &after);
    let next = lanes.next_removal(&[due(here, at(5_000), 2)], at(6_999));
    assert_eq!(next, Some(at(6_999 + 250)));
}

/// The time in ms at which a group without a previous call may send a call. `burst`: the number of groups that lose
/// pods at 900 ms. `due_now`: the number of groups with due calls. `left`: the number of tokens at the start, out of
/// 20.
fn turn_in_a_burst(burst: usize, due_now: usize, left: usize) -> f64 {
    let (mut lanes, groups) = (nearly_still(1.0, left), groups(due_now));
    for group in &groups[..burst] {
        lanes.removal_caused(group, at(900));
    }
    let due: Vec<_> = groups.iter().map(|group| due(group, at(900), 1)).collect();
    let next = lanes.next_removal(&due, at(900)).unwrap();
    (next.elapsed().as_secs_f64() * 1_000.0).round()
}

#[test]
fn in_a_burst_four_tokens_are_kept_for_each_group_that_is_in_it_or_waits_but_not_the_last_one() {
    for (burst, due, kept) in [(1, 1, 8), (2, 2, 12), (2, 3, 16), (1, 3, 16), (3, 3, 16), (6, 6, 19)] {
        assert!((turn_in_a_burst(burst, due, kept - 1) - 1_000.0).abs() < 0.5, "{burst} {due}: {kept}");
        assert!((turn_in_a_burst(burst, due, kept) - 900.0).abs() < 0.5, "{burst} {due}: {kept}");
    }
}

#[test]
fn a_group_in_which_pods_go_no_more_is_not_in_the_burst_any_more() {
    let (mut lanes, group) = (nearly_still(0.01, 4), arn("web"));
    lanes.removal_caused(&group, at(1_999));
    assert_eq!(lanes.next_removal(&[due(&group, at(1_999), 1)], at(1_999)), Some(at(2_249)), "two: eight");
    assert_eq!(lanes.next_removal(&[due(&group, at(1_999), 1)], at(2_000)), Some(at(2_000)), "one: four");
}

#[test]
fn in_a_burst_each_further_call_of_a_group_waits_twice_as_long_but_not_longer_than_its_share_of_the_rate() {
    for (calls, pause) in [(1, 50), (2, 100), (4, 400), (12, 500)] {
        let changes = Limit { per_second: 2.0, burst: 20.0 };
        let mut lanes = Lanes::new(Limits { changes, ..Limits::default() });
        let group = arn("web");
        for _ in 0..calls {
            lanes.removal_caused(&group, at(1_000));
            assert!(
                removal(&mut lanes, &[due(&group, at(1_000), MAX_TARGETS_PER_CALL)], at(1_000)).is_some()
            );
        }
        // Pods terminate every 700 ms, so the end of the deregistrations cannot be predicted.
        lanes.removal_caused(&group, at(1_700));
        let next = lanes.next_removal(&[due(&group, at(1_700), 1)], at(1_001));
        assert_eq!(next, Some(at(1_000 + pause)), "{calls}");
    }
}
