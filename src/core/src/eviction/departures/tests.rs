//! Tests of the pods that should be evicted, without an index or nodes.

use super::{super::departure::Decision, *};
use crate::{
    model::{LeavingFacts, leaving::Asked},
    testing::{arn, pod},
};

const BOUND: Duration = Duration::from_secs(120);

fn wall(seconds: u64) -> WallTime {
    WallTime::since_1970(Duration::from_secs(seconds))
}

/// Limits under which evictions are not undone when no client repeats the request.
fn patient() -> Limits {
    Limits { given_up_after: Duration::from_secs(900), ..Limits::default() }
}

fn case(seconds: u64) -> Case {
    Case {
        zones: Ok(Cause::ZoneAllows),
        has_hold: false,
        is_target: true,
        lingers: Duration::ZERO,
        is_back: false,
        is_gone: true,
        is_unknown: false,
        node_goes: false,
        node_stays: false,
        now: Moment::after_start(Duration::from_secs(seconds)),
        wall: wall(seconds),
    }
}

/// Pods with an eviction request. The requests are one second apart, and each pod has been checked once.
fn asked(names: &[&str]) -> (Departures, Vec<ObjectKey>) {
    let (mut departures, mut keys) = (Departures::default(), Vec::new());
    for (name, at) in names.iter().zip(1..) {
        let leaving = LeavingFacts::asked(wall(at), wall(at));
        let last = u8::try_from(at).unwrap();
        let facts = pod(name, name).at(last).leaving(leaving).build();
        departures.saw(&facts, case(9).now, wall(9));
        keys.push(facts.key);
    }
    assert_eq!(departures.take_due(case(9).now), keys, "who was asked first goes first");
    (departures, keys)
}

fn groups(names: &[&str]) -> BTreeSet<TargetGroupArn> {
    names.iter().map(|name| arn(name)).collect()
}

fn decide(departures: &mut Departures, pod: &ObjectKey, now: Moment) {
    let decision = Decision { since: now, targets: Vec::new(), bound: BOUND, taken: None };
    departures.pods.get_mut(pod).unwrap().decision = Some(decision);
}

/// Starts and completes the write of an annotation.
fn written(departures: &mut Departures, pod: &ObjectKey, id: u64, mark: Mark, at: u64) {
    let begun =
        if let Mark::Deregistered { at, .. } = mark { Moment::START + at.elapsed() } else { case(at).now };
    assert!(departures.begin(pod, RequestId(id), Some(mark), begun).is_some());
    answered(departures, id, at);
}

fn answered(departures: &mut Departures, id: u64, at: u64) {
    let now = case(at).now;
    let open = departures.answered(RequestId(id), now).unwrap();
    let mark = open.mark.unwrap();
    assert_eq!(departures.marked(open, mark, Ok(()), now), None);
}

#[test]
fn what_happens_in_a_group_is_looked_at_by_those_that_have_to_do_with_it() {
    let (mut departures, pods) = asked(&["a", "b", "c"]);
    departures.concern(&pods[0], groups(&["g"]));
    departures.concern(&pods[1], groups(&["h"]));
    let now = case(10).now;
    departures.touch(Touched::Group(&arn("g")), now);
    assert_eq!(departures.take_due(now), [pods[0].clone()]);
    departures.concern(&pods[0], groups(&["h"]));
    departures.touch(Touched::Group(&arn("g")), now);
    assert_eq!(departures.agenda.next_due(), None);
    departures.touch(Touched::Group(&arn("h")), now);
    assert_eq!(departures.take_due(now), pods[..2]);
    departures.forget(&pods[0]);
    departures.touch(Touched::All, now);
    assert_eq!(departures.take_due(now), pods[1..]);
    assert_eq!(departures.by_group.len(), 1, "nothing is left of what is forgotten");
}

#[test]
fn those_that_wait_for_a_check_have_their_turn_also_if_the_first_of_them_does_not_check_after_all() {
    let (mut departures, pods) = asked(&["a", "b", "c", "d"]);
    let limits = patient();
    let check = |departures: &mut Departures, pod: &ObjectKey, id| {
        assert_eq!(departures.next(pod, &case(10), &limits), Next::Check);
        assert!(departures.begin(pod, RequestId(id), None, Moment::START).is_some());
    };
    let checks = |departures: &mut Departures, id, result, at| {
        let now = case(at).now;
        let open = departures.answered(RequestId(id), now).unwrap();
        departures.checked(open, result, true, &limits, now)
    };
    check(&mut departures, &pods[0], 1);
    for pod in &pods[1..] {
        assert_eq!(departures.next(pod, &case(10), &limits), Next::Wait(None));
    }
    assert_eq!(departures.agenda.next_due(), None);
    let checked = Ok(Checked { refused: None, budgets: Vec::new() });
    let checked = checks(&mut departures, 1, checked, 11);
    assert_eq!(checked, Some(Outcome::Leaves { pod: pods[0].clone(), node: None }));
    let now = case(11).now;
    assert_eq!(departures.take_due(now), pods[..2]);
    let is_none = Case { is_target: false, ..case(11) };
    assert!(matches!(departures.next(&pods[1], &is_none, &limits), Next::Mark(Mark::MayGo { .. })));
    assert_eq!(departures.take_due(now), [pods[2].clone()]);
    check(&mut departures, &pods[2], 2);
    assert_eq!(departures.take_due(now), [], "one at a time");
    departures.forget(&pods[3]);
    let failed = Err(Failure::new(FailureClass::Unavailable, "Timeout", "late"));
    assert_eq!(checks(&mut departures, 2, failed, 12), None);
    assert_eq!(departures.take_due(case(12).now), [pods[2].clone()]);
}

#[test]
fn what_aws_has_again_while_that_it_is_out_is_being_written_is_waited_for() {
    let limits = patient();
    let mut departures = Departures::default();
    let facts = pod("web", "u-1").at(1).leaving(LeavingFacts::asked(wall(1), wall(1))).build();
    let key = facts.key.clone();
    departures.saw(&facts, case(1).now, wall(1));
    decide(&mut departures, &key, case(1).now);
    let out = |at| Next::Mark(Mark::Deregistered { at: wall(at), bound: BOUND });
    assert_eq!(departures.next(&key, &case(2), &limits), out(2));
    let mark = Mark::Deregistered { at: wall(2), bound: BOUND };
    assert!(departures.begin(&key, RequestId(1), Some(mark), case(2).now).is_some());
    // A late call of the previous leader registered the target again, and the leader has now deregistered it.
    departures.touch(Touched::Removal(&key), case(3).now);
    answered(&mut departures, 1, 4);
    assert_eq!(departures.next(&key, &case(9), &limits), out(9), "and the bound counts from then");
    written(&mut departures, &key, 2, Mark::Deregistered { at: wall(9), bound: BOUND }, 10);
    assert!(matches!(departures.next(&key, &case(2 + 120), &limits), Next::Wait(_)));
    let go = Next::Mark(Mark::MayGo { at: wall(9 + 120), reason: Cause::EvictionAllowed });
    assert_eq!(departures.next(&key, &case(9 + 120), &limits), go);
}

#[test]
fn for_whom_nobody_asks_waits_for_aws_as_long_as_it_takes_and_is_looked_at_now_and_then() {
    let limits = Limits::default();
    let asked = LeavingFacts { ask: Asked::early(wall(1)), ..LeavingFacts::asked(wall(1), wall(1)) };
    let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
    let mut departures = Departures::default();
    let facts = pod("web", "u-1").at(1).leaving(out).build();
    departures.saw(&facts, case(3).now, wall(3));
    for at in [4, 300] {
        let case = Case { is_back: true, node_goes: true, ..case(at) };
        let Next::Wait(Some(due)) = departures.next(&facts.key, &case, &limits) else { panic!() };
        assert!(due > case.now, "{due:?} at {at}");
    }
}

#[test]
fn only_what_is_out_is_back() {
    let limits = Limits::default();
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
    for (leaving, is_back) in [(out, true), (asked, false)] {
        let mut departures = Departures::default();
        let facts = pod("web", "u-1").at(1).leaving(leaving).build();
        departures.saw(&facts, case(3).now, wall(3));
        departures.touch(Touched::Removal(&facts.key), case(3).now);
        let case = Case { is_gone: false, ..case(4) };
        let next = departures.next(&facts.key, &case, &limits);
        let anew = Next::Mark(Mark::Deregistered { at: wall(4), bound: BOUND });
        assert_eq!(next == anew, is_back, "{leaving:?}: {next:?}");
    }
}

/// A pod whose eviction was requested at 1 s and that was checked at 4 s.
fn one(leaving: LeavingFacts) -> (Departures, PodFacts) {
    let mut departures = Departures::default();
    let facts = pod("web", "u-1").at(1).leaving(leaving).build();
    departures.saw(&facts, case(1).now, wall(1));
    departures.saw(&facts, case(4).now, wall(4));
    (departures, facts)
}

/// Returns the cause of the Event after a request with this result.
fn tells(departures: &mut Departures, id: u64, result: Result<(), Failure>, at: u64) -> Option<Cause> {
    let now = case(at).now;
    let open = departures.answered(RequestId(id), now).unwrap();
    let mark = open.mark.unwrap();
    match departures.marked(open, mark, result, now) {
        Some(Outcome::Tells { cause, .. }) => Some(cause),
        _ => None,
    }
}

#[test]
fn an_earlier_word_that_lands_late_does_not_shorten_the_wait() {
    let says =
        |at| LeavingFacts { deregistered: Some((wall(at), BOUND)), ..LeavingFacts::asked(wall(1), wall(1)) };
    let (mut departures, mut facts) = one(says(3));
    facts.leaving = Some(Box::new(says(30)));
    departures.saw(&facts, case(31).now, wall(31));
    assert_eq!(departures.pods[&facts.key].back, None, "a later one is the one that counts");
    facts.leaving = Some(Box::new(says(2)));
    departures.saw(&facts, case(32).now, wall(32));
    let limits = patient();
    let anew = Next::Mark(Mark::Deregistered { at: wall(40), bound: BOUND });
    assert_eq!(departures.next(&facts.key, &case(40), &limits), anew);
}

#[test]
fn what_cannot_be_true_is_taken_away_and_said() {
    let far = wall(4) + crate::model::leaving::AHEAD + Duration::from_secs(1);
    for forged in [(wall(4), Duration::from_secs(u32::MAX.into())), (far, BOUND)] {
        let asked = LeavingFacts::asked(wall(4), wall(4));
        let (mut departures, facts) = one(LeavingFacts { deregistered: Some(forged), ..asked });
        let next = departures.next(&facts.key, &case(4), &Limits::default());
        assert_eq!(next, Next::Mark(Mark::Disbelieved));
        departures.begin(&facts.key, RequestId(1), Some(Mark::Disbelieved), Moment::START);
        assert_eq!(tells(&mut departures, 1, Ok(()), 5), Some(Cause::LeavingNotCredible));
    }
}

#[test]
fn what_the_watch_says_before_the_answer_to_a_write_is_told_all_the_same() {
    let (mut departures, mut facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    assert_eq!(departures.next(&facts.key, &case(61), &Limits::default()), Next::Mark(Mark::Undone));
    departures.begin(&facts.key, RequestId(1), Some(Mark::Undone), Moment::START);
    facts.leaving = None;
    departures.saw(&facts, case(62).now, wall(62));
    assert_eq!(tells(&mut departures, 1, Ok(()), 63), Some(Cause::EvictionGivenUp));
}

#[test]
fn a_mark_that_may_not_be_written_is_said_once() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let mark = Mark::MayGo { at: wall(4), reason: Cause::NotATarget };
    let mut said = Vec::new();
    for (id, at) in [(1, 4), (2, 14), (3, 24)] {
        let is_none = Case { is_target: false, ..case(at) };
        let next = departures.next(&facts.key, &is_none, &Limits::default());
        assert!(matches!(next, Next::Mark(Mark::MayGo { .. })), "{next:?}");
        departures.begin(&facts.key, RequestId(id), Some(mark), Moment::START);
        let denied = Failure::new(FailureClass::Denied, "Forbidden", "cannot patch pods");
        said.extend(tells(&mut departures, id, Err(denied), at));
    }
    assert_eq!(said, [Cause::LeavingNotRecorded]);
}

#[test]
fn when_aws_does_not_take_the_removal_the_eviction_is_let_through_after_a_while() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    decide(&mut departures, &facts.key, case(4).now);
    for (at, passes) in [(63, false), (64, true)] {
        let next = departures.next(&facts.key, &Case { is_gone: false, ..case(at) }, &patient());
        let go = Next::Mark(Mark::MayGo { at: wall(at), reason: Cause::DeregistrationTooSlow });
        assert_eq!(next == go, passes, "{next:?} at {at}");
    }
}

#[test]
fn when_kubernetes_does_not_say_what_the_budgets_allow_it_is_let_through_after_a_while() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let limits = patient();
    for (id, at) in (4..64).step_by(2).enumerate() {
        let id = RequestId(id.try_into().unwrap());
        assert_eq!(departures.next(&facts.key, &case(at), &limits), Next::Check);
        departures.begin(&facts.key, id, None, Moment::START);
        let open = departures.answered(id, case(at).now).unwrap();
        let failed = Err(Failure::new(FailureClass::Unavailable, "Timeout", "forbidden"));
        assert_eq!(departures.checked(open, failed, true, &limits, case(at).now), None);
    }
    let mark = Mark::MayGo { at: wall(64), reason: Cause::EvictionUncheckable };
    assert_eq!(departures.next(&facts.key, &case(64), &limits), Next::Mark(mark));
    departures.begin(&facts.key, RequestId(99), Some(mark), Moment::START);
    let open = departures.answered(RequestId(99), case(65).now).unwrap();
    let told = departures.marked(open, mark, Ok(()), case(65).now);
    let Some(Outcome::Tells { why, passes: true, .. }) = told else { panic!("{told:?}") };
    assert_eq!(&*why, "forbidden");
}

#[test]
fn what_a_budget_refuses_waits_is_asked_again_and_said_once_it_is_long() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let limits = patient();
    let (mut said, mut asked, mut noted) = (Vec::new(), 0, 0);
    for (id, at) in (4..100).enumerate() {
        let id = RequestId(id.try_into().unwrap());
        let now = case(at).now;
        match departures.next(&facts.key, &case(at), &limits) {
            Next::Wait(_) => {}
            Next::Check => {
                asked += 1;
                departures.begin(&facts.key, id, None, Moment::START);
                let open = departures.answered(id, now).unwrap();
                let refused = Checked { refused: Some("needs 3 healthy pods".into()), budgets: Vec::new() };
                said.extend(departures.checked(open, Ok(refused), true, &limits, now));
            }
            Next::Mark(mark) => {
                assert!(matches!(mark, Mark::Waits { reason: Cause::EvictionWaitsForBudget, .. }));
                noted += 1;
                departures.begin(&facts.key, id, Some(mark), Moment::START);
                assert_eq!(tells(&mut departures, id.0, Ok(()), at), None);
            }
        }
    }
    assert!((40..=48).contains(&asked) && noted < asked / 5, "{asked} {noted}");
    let [Outcome::Tells { cause: Cause::EvictionWaitsForBudget, why, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(&**why, "needs 3 healthy pods");
}

#[test]
fn a_pod_that_leaves_no_more_has_no_turn_to_be_checked() {
    let (mut departures, pods) = asked(&["a", "b", "c"]);
    assert_eq!(departures.next(&pods[0], &case(10), &patient()), Next::Check);
    departures.begin(&pods[0], RequestId(1), None, Moment::START);
    for pod in &pods[1..] {
        assert_eq!(departures.next(pod, &case(10), &patient()), Next::Wait(None));
    }
    departures.forget(&pods[1]);
    let now = case(11).now;
    departures.answered(RequestId(1), now).unwrap();
    assert_eq!(departures.take_due(now), [pods[0].clone(), pods[2].clone()]);
}

#[test]
fn those_that_wait_for_a_check_are_looked_at_when_it_ends_and_its_pod_is_gone() {
    let (mut departures, pods) = asked(&["a", "b"]);
    let now = case(10).now;
    let looks = Case { is_gone: false, ..case(10) };
    assert_eq!(departures.next(&pods[0], &looks, &patient()), Next::Check);
    departures.begin(&pods[0], RequestId(1), None, now);
    assert_eq!(departures.next(&pods[1], &looks, &patient()), Next::Wait(None));
    departures.forget(&pods[0]);
    departures.answered(RequestId(1), now);
    assert_eq!(departures.agenda.next_due(), Some(now), "nothing else need happen");
    assert_eq!(departures.take_due(now), [pods[1].clone()]);
}

#[test]
fn a_pod_counts_as_on_its_way_out_for_a_quarter_of_an_hour_after_it_was_asked_for_last() {
    let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..LeavingFacts::asked(wall(1), wall(1)) };
    let (departures, facts) = one(out);
    let departs = |at| departures.pods[&facts.key].departs(&Limits::default(), case(at).now);
    assert!(departs(900) && !departs(901));
    assert!(departures.pods[&facts.key].was_taken_out(), "AWS has taken it");
    let (departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let departure = &departures.pods[&facts.key];
    assert!(
        !departure.departs(&Limits::default(), case(4).now) && !departure.was_taken_out(),
        "it is asked, no more"
    );
}

#[test]
fn zones_are_asked_until_something_was_done_so_that_a_pod_may_leave() {
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let (mut departures, facts) = one(asked);
    assert!(departures.pods[&facts.key].asks_zones());
    decide(&mut departures, &facts.key, case(4).now);
    assert!(!departures.pods[&facts.key].asks_zones(), "it is being taken out");
    let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
    let gone = LeavingFacts { may_go: Some(Cause::NotATarget), ..asked };
    for facts in [out, gone] {
        let (departures, pod) = one(facts);
        assert!(!departures.pods[&pod.key].asks_zones(), "{facts:?}");
    }
}

#[test]
fn what_has_to_be_looked_up_is_waited_for_as_long_as_patience_lasts() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let soon = Next::Wait(Some(case(61).now));
    for (at, next) in [(60, soon), (61, Next::Check)] {
        let case = Case { is_unknown: true, ..case(at) };
        assert_eq!(departures.next(&facts.key, &case, &patient()), next, "{at}");
    }
}

#[test]
fn why_a_pod_waits_for_its_zone_is_written_when_it_is_another_reason_or_long_ago() {
    let said =
        |reason| LeavingFacts { waits: Some((wall(5), reason)), ..LeavingFacts::asked(wall(1), wall(1)) };
    let limits = patient();
    let mark = |at| Next::Mark(Mark::Waits { at: wall(at), reason: Cause::EvictionWaitsForZone });
    let long = 1 + limits.refresh().as_secs();
    let same = Cause::EvictionWaitsForZone;
    let quiet = |at| Next::Wait(Some(case(at + 1).now));
    for (before, at, next) in [
        (same, long - 1, quiet(long - 1)),
        (same, long, mark(long)),
        (Cause::EvictionWaitsForBudget, 6, mark(6)),
    ] {
        let (mut departures, facts) = one(said(before));
        let case = Case { zones: Err(Cause::EvictionWaitsForZone), ..case(at) };
        assert_eq!(departures.next(&facts.key, &case, &limits), next, "{before:?} at {at}");
    }
}

#[test]
fn what_aws_has_again_for_too_long_is_let_through_if_somebody_asks() {
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..asked };
    let early = LeavingFacts { ask: Asked::early(wall(1)), ..out };
    for (leaving, passes) in [(out, true), (early, false)] {
        let (mut departures, facts) = one(leaving);
        departures.touch(Touched::Removal(&facts.key), case(4).now);
        for (at, late) in [(63, false), (64, true)] {
            let case = Case { is_back: true, ..case(at) };
            let go = Next::Mark(Mark::MayGo { at: wall(at), reason: Cause::DeregistrationTooSlow });
            let next = departures.next(&facts.key, &case, &patient());
            assert_eq!(next == go, passes && late, "{next:?} at {at}");
        }
    }
}

#[test]
fn what_aws_had_again_before_the_pod_was_asked_anew_is_not_waited_for_since_then() {
    let out = LeavingFacts { deregistered: Some((wall(2), BOUND)), ..LeavingFacts::asked(wall(1), wall(1)) };
    let anew =
        LeavingFacts { deregistered: Some((wall(55), BOUND)), ..LeavingFacts::asked(wall(50), wall(50)) };
    for (leaving, is_late) in [(out, true), (anew, false)] {
        let (mut departures, mut facts) = one(out);
        departures.touch(Touched::Removal(&facts.key), case(4).now);
        facts.leaving = Some(Box::new(leaving));
        departures.saw(&facts, case(60).now, wall(60));
        let case = Case { is_back: true, ..case(64) };
        let go = Next::Mark(Mark::MayGo { at: wall(64), reason: Cause::DeregistrationTooSlow });
        let next = departures.next(&facts.key, &case, &patient());
        assert_eq!(next == go, is_late, "{leaving:?}: {next:?}");
    }
}

#[test]
fn nobody_is_told_of_a_pod_that_leaves_early_that_it_may_go() {
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let early = LeavingFacts { ask: Asked::early(wall(1)), ..asked };
    for (leaving, told) in [(asked, Some(Cause::EvictionAllowed)), (early, None)] {
        let (mut departures, facts) = one(leaving);
        let mark = Mark::MayGo { at: wall(4), reason: Cause::EvictionAllowed };
        departures.begin(&facts.key, RequestId(1), Some(mark), Moment::START);
        assert_eq!(tells(&mut departures, 1, Ok(()), 5), told);
    }
}

#[test]
fn what_kubernetes_says_against_a_mark_is_told_and_that_the_eviction_does_not_pass() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let mark = Mark::MayGo { at: wall(4), reason: Cause::NotATarget };
    departures.begin(&facts.key, RequestId(1), Some(mark), Moment::START);
    let open = departures.answered(RequestId(1), case(5).now).unwrap();
    let denied = Failure::new(FailureClass::Denied, "Forbidden", "cannot patch pods");
    let told = departures.marked(open, mark, Err(denied), case(5).now);
    let Some(Outcome::Tells { why, passes: false, .. }) = told else { panic!("{told:?}") };
    assert_eq!(&*why, "cannot patch pods");
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    departures.begin(&facts.key, RequestId(1), Some(Mark::Undone), Moment::START);
    let open = departures.answered(RequestId(1), case(62).now).unwrap();
    let told = departures.marked(open, Mark::Undone, Ok(()), case(62).now);
    assert!(matches!(told, Some(Outcome::Tells { passes: false, .. })), "{told:?}: it is given up");
}

#[test]
fn what_a_budget_refuses_is_asked_again_after_two_seconds_while_it_stands_on_the_pod() {
    let limits = patient();
    let refused = || Ok(Checked { refused: Some("needs 3 healthy pods".into()), budgets: Vec::new() });
    let written = |reason, at| Some((wall(at), reason));
    let long = 10 - 4 + limits.refresh().as_secs();
    for (waits, at, again) in [
        (written(Cause::EvictionWaitsForBudget, 9), 10, true),
        (written(Cause::EvictionWaitsForZone, 9), 10, false),
        (written(Cause::EvictionWaitsForBudget, 6), long, false),
        (None, 10, false),
    ] {
        let asked = LeavingFacts::asked(wall(1), wall(1));
        let (mut departures, facts) = one(LeavingFacts { waits, ..asked });
        let now = case(at).now;
        assert_eq!(departures.next(&facts.key, &case(at), &limits), Next::Check);
        departures.begin(&facts.key, RequestId(1), None, Moment::START);
        let open = departures.answered(RequestId(1), now).unwrap();
        departures.checked(open, refused(), true, &limits, now);
        let next = departures.next(&facts.key, &case(at), &limits);
        assert_eq!(next == Next::Wait(Some(case(at + 2).now)), again, "{waits:?} at {at}: {next:?}");
    }
}

#[test]
fn that_a_budget_refuses_is_said_of_a_pod_that_is_asked_for_and_waits_for_long() {
    let limits = patient();
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let early = LeavingFacts { ask: Asked::early(wall(1)), ..asked };
    for (leaving, at, says) in [(asked, 60, false), (asked, 61, true), (early, 61, false)] {
        let (mut departures, facts) = one(leaving);
        let now = case(at).now;
        assert_eq!(departures.next(&facts.key, &case(at), &limits), Next::Check);
        departures.begin(&facts.key, RequestId(1), None, Moment::START);
        let open = departures.answered(RequestId(1), now).unwrap();
        let refused = Checked { refused: Some("needs 3 healthy pods".into()), budgets: Vec::new() };
        let told = departures.checked(open, Ok(refused), true, &limits, now);
        assert_eq!(told.is_some(), says, "{leaving:?} at {at}");
    }
}

#[test]
fn a_pod_that_leaves_no_more_and_one_that_another_follows_are_forgotten() {
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let (mut departures, mut facts) = one(asked);
    decide(&mut departures, &facts.key, case(4).now);
    let follower = pod("web", "u-2").at(2).leaving(asked).build();
    departures.saw(&follower, case(5).now, wall(5));
    let Departure { uid, decision, .. } = &departures.pods[&facts.key];
    assert_eq!((uid, decision), (&follower.uid, &None));
    facts = follower;
    facts.leaving = None;
    departures.saw(&facts, case(6).now, wall(6));
    assert!(departures.pods.is_empty());
}

#[test]
fn what_the_watch_says_of_a_pod_that_is_taken_out_does_not_make_it_wait_longer() {
    let asked = LeavingFacts::asked(wall(1), wall(1));
    let (mut departures, facts) = one(asked);
    decide(&mut departures, &facts.key, case(4).now);
    let late = 4 + patient().patience.as_secs();
    departures.saw(&facts, case(late - 1).now, wall(late - 1));
    let next = departures.next(&facts.key, &Case { is_gone: false, ..case(late) }, &patient());
    let go = Mark::MayGo { at: wall(late), reason: Cause::DeregistrationTooSlow };
    assert_eq!(next, Next::Mark(go));
}

#[test]
fn a_check_that_failed_is_repeated_after_two_seconds() {
    let (mut departures, facts) = one(LeavingFacts::asked(wall(1), wall(1)));
    let limits = patient();
    assert_eq!(departures.next(&facts.key, &case(5), &limits), Next::Check);
    departures.begin(&facts.key, RequestId(1), None, Moment::START);
    let now = case(6).now;
    let open = departures.answered(RequestId(1), now).unwrap();
    let failed = Err(Failure::new(FailureClass::Unavailable, "Timeout", "late"));
    assert_eq!(departures.checked(open, failed, true, &limits, now), None);
    assert_eq!(departures.next(&facts.key, &case(6), &limits), Next::Wait(Some(now + AGAIN)));
    assert_eq!(departures.next(&facts.key, &case(8), &limits), Next::Check);
}
