//! Tests of evictions that one leader starts and another leader completes.

use super::{
    evicting::{BOUND, asked, no_budget, out, three},
    leading::standby,
    *,
};
use crate::model::{LeavingFacts, eviction::Ruling, leaving::Mark, policy::PAUSED};

#[test]
fn what_another_leader_has_written_counts_from_when_the_target_is_really_out() {
    let mut world = three();
    let at = world.wall();
    world.wait(Duration::from_secs(5));
    // The previous leader deregistered the pod, and this leader registered it again before it saw the annotation.
    let leaving = LeavingFacts { deregistered: Some((at, BOUND)), ..LeavingFacts::asked(at, at) };
    world.apply(pod("a", "u-a").at(1).leaving(leaving));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.wait(Duration::from_secs(10));
    assert_eq!(world.marks(), []);
    world.answer_all();
    let mark = world.mark_of("a");
    assert_eq!(mark.mark, Mark::Deregistered { at: world.wall(), bound: BOUND });
    world.written_mark(&mark, Ok(()));
    world.wait(BOUND.saturating_sub(Duration::from_secs(1)));
    world.answer_all();
    assert_eq!(world.marks(), []);
    world.wait(Duration::from_secs(1));
    assert!(matches!(world.mark_of("a").mark, Mark::MayGo { reason: Cause::EvictionAllowed, .. }));
}

#[test]
fn a_new_leader_goes_on_from_what_is_written() {
    let mut world = out();
    world.node("n", false);
    let at = world.wall();
    let leaving = LeavingFacts { deregistered: Some((at, BOUND)), ..LeavingFacts::asked(at, at) };
    world.step(Input::Leadership(Leadership::Standby));
    world.apply(pod("a", "u-a").at(1).leaving(leaving));
    world.apply(asked("b", 2, at).on("n").ready());
    assert_eq!((world.checks(), world.marks()), (vec![], vec![]), "a standby does nothing");
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionWaitsForLoadBalancer, .. }));
    world.wait(Duration::from_secs(119));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    let check = world.check_of("b");
    assert_eq!(check.departing.len(), 1, "the departure of the leader before counts");
    // It has removed the target again, because the ledger does not tell when that was accepted first.
    assert_eq!(world.may_go_after("a"), BOUND.as_secs());
}

#[test]
fn a_new_leader_waits_for_what_the_one_before_took_out_for_another_reason() {
    let mut world = three();
    world.wait(Duration::from_secs(10));
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    world.answer_all();
    world.step(Input::Leadership(Leadership::Standby));
    world.wait(Duration::from_secs(30));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    world.wait(Duration::from_secs(1));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    world.reads_again();
    let mark = world.mark_of("a");
    let Mark::Deregistered { bound, .. } = mark.mark else { panic!("{mark:?}") };
    // The ledger does not tell whether and when AWS accepted the first removal. The new leader has removed it again.
    assert_eq!(bound, BOUND);
}

#[test]
fn what_a_pod_that_ends_was_taken_out_of_is_remembered_until_it_is_gone_or_the_load_balancer_has_stopped() {
    let ending = || pod("a", "u-a").at(1).terminating();
    let knows = |world: &World| world.claims("blue").contains_key(&target(1, 80));
    let passes = |world: &mut World, most: Duration| {
        for _ in 0..most.as_secs() / 5 {
            world.wait(Duration::from_secs(5));
            world.answer_all();
        }
    };
    for is_gone in [false, true] {
        let mut world = three();
        world.wait(Duration::from_secs(10));
        world.apply(ending());
        world.answer_all();
        passes(&mut world, BOUND.saturating_sub(Duration::from_secs(10)));
        assert!(knows(&world));
        if is_gone {
            world.delete(ending());
            passes(&mut world, Duration::from_secs(5));
        }
        passes(&mut world, Duration::from_secs(120));
        assert!(!knows(&world), "gone: {is_gone}");
    }
}

#[test]
fn what_a_pod_was_taken_out_of_counts_while_it_has_another_address_too() {
    for last in [1, 9] {
        let mut world = three();
        world.wait(Duration::from_secs(10));
        let at = |last| pod("a", "u-a").at(last).labelled("other");
        for last in [1, 9] {
            world.apply(at(last));
            world.answer_all();
        }
        for _ in 0..12 {
            world.wait(Duration::from_secs(5));
            world.answer_all();
        }
        world.apply(asked("a", last, world.wall()).labelled("other"));
        world.wait(Duration::from_secs(1));
        for check in world.checks() {
            world.checked(&check, Ok(no_budget()));
        }
        let mark = world.mark_of("a").mark;
        // The watch may lag, so the address that this replica sees may be outdated.
        assert!(matches!(mark, Mark::Deregistered { .. }), "{mark:?}");
    }
}

/// The annotation that a leader writes for an eviction of a pod that the ledger shows as deregistered.
fn mark_of_a_pod_that_is_out() -> Mark {
    let other = || pod("a", "u-a").at(1).labelled("other");
    let mut world = standby(vec![web()], vec![other()], &[(1, "u-a")]);
    world.wait(BOUND);
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    world.wait(Duration::from_secs(1));
    for check in world.checks() {
        world.checked(&check, Ok(no_budget()));
    }
    world.mark_of("a").mark
}

#[test]
fn a_removal_of_the_leader_before_is_waited_for_as_one_of_ones_own() {
    assert!(matches!(mark_of_a_pod_that_is_out(), Mark::Deregistered { .. }));
}

#[test]
fn what_a_read_does_not_show_any_more_left_a_moment_ago_for_all_that_is_known() {
    let mut world = standby(vec![web()], vec![pod("a", "u-a").at(1)], &[(1, "u-a")]);
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    world.annotate(web().with(PAUSED, "true"));
    world.wait(Duration::from_secs(60));
    world.read(&[]);
    world.annotate(service("web").port("http", 80));
    world.apply(asked("a", 1, world.wall()));
    world.wait(Duration::from_secs(1));
    for check in world.checks() {
        world.checked(&check, Ok(no_budget()));
    }
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::Deregistered { bound, .. } if bound > BOUND / 2), "{mark:?}");
}

#[test]
fn what_was_decided_and_not_written_is_void_when_another_one_leads() {
    let mut world = three();
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    world.step(Input::Leadership(Leadership::Standby));
    let ruling = world.asks("a");
    assert!(matches!(ruling, Ruling::Wait { cause: Cause::EvictionRecorded, .. }), "{ruling:?}");
    world.open.clear();
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    let check = world.check_of("a");
    assert_eq!(check.departing, []);
}
