//! Tests of PodDisruptionBudgets, and of the evictions that count against a budget.

use super::{
    evicting::{asked, no_budget, out, three},
    *,
};
use crate::model::{LeavingFacts, gate::Shown, leaving::Mark, policy::HOLD};

#[test]
fn of_ten_that_are_asked_at_once_under_a_budget_of_one_one_leaves() {
    let pods =
        (1..=10).map(|last| pod(&format!("p{last:02}"), &format!("u-p{last:02}")).at(last).on("n").ready());
    let mut world = World::new(vec![web()], pods.collect());
    world.node("n", false);
    let at = world.wall();
    for last in 1..=10 {
        world.apply(asked(&format!("p{last:02}"), last, at).on("n").ready());
    }
    let check = world.check_of("p01");
    assert_eq!(check.departing, []);
    world.allowed(&check, 1);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    // A dry run reserves nothing: the budget still allows one eviction.
    for last in 2..=10 {
        let name = format!("p{last:02}");
        let check = world.check_of(&name);
        assert_eq!(check.departing.len(), 1);
        world.allowed(&check, 1);
        // The leader writes an annotation that the eviction of the pod waits.
        let mark = world.mark_of(&name);
        assert!(matches!(mark.mark, Mark::Waits { reason: Cause::EvictionWaitsForDeparture, .. }));
        world.written_mark(&mark, Ok(()));
    }
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "and no other");
    // The first pod has terminated, so the next eviction is allowed.
    world.delete(pod("p01", "u-p01").at(1).on("n"));
    world.wait(Duration::from_secs(2));
    let check = world.check_of("p02");
    assert_eq!(check.departing, []);
    world.allowed(&check, 1);
    assert_eq!(world.changes().last().unwrap(), "-blue 10.0.0.2:80");
}

#[test]
fn a_pod_that_has_its_hold_when_the_budgets_are_known_is_not_taken_out() {
    let held = || pod("a", "u-a").at(1).sleeping(60, 90);
    let mut world = World::new(vec![web()], vec![held()]);
    let at = world.wall();
    world.apply(held().leaving(LeavingFacts::asked(at, at)));
    let check = world.check_of("a");
    world.annotate(web().with(HOLD, "60s"));
    world.checked(&check, Ok(no_budget()));
    for _ in 0..3 {
        assert_eq!((world.changes(), world.checks()), (vec![], vec![]));
        world.wait(Duration::from_secs(10));
        world.answer_all();
    }
}

#[test]
fn a_pod_that_is_not_ready_takes_nothing_of_a_budget() {
    for (builder, leaves) in [
        (pod("a", "u-a").at(1), true),
        (pod("a", "u-a").at(1).ready(), false),
        (pod("a", "u-a").at(1).ready().gated(Shown::Closed), true),
    ] {
        let mut world = three();
        let at = world.wall();
        world.apply(builder.leaving(LeavingFacts::asked(at, at)));
        let check = world.check_of("a");
        world.allowed(&check, 0);
        assert_eq!(world.changes() == ["-blue 10.0.0.1:80"], leaves);
    }
}

#[test]
fn an_abandoned_departure_on_a_pod_that_stays_out_does_not_hold_up_the_others_for_ever() {
    let mut world = out();
    world.node("n", false);
    world.apply(asked("b", 2, world.wall()).on("n").ready());
    let check = world.check_of("b");
    assert_eq!(check.departing.len(), 1);
    // The write that undoes the eviction fails.
    world.wait(Duration::from_secs(15 * 60));
    for mark in world.marks() {
        world.written_mark(&mark, Err(fails(FailureClass::Unavailable, "later")));
    }
    let at = world.wall();
    world.apply(pod("b", "u-b").at(2).on("n").ready().leaving(LeavingFacts::asked(at, at)));
    world.allowed(&check, 1);
    for _ in 0..3 {
        for mark in world.marks() {
            let undoes = mark.mark == Mark::Undone;
            world.written_mark(
                &mark,
                if undoes { Err(fails(FailureClass::Unavailable, "later")) } else { Ok(()) },
            );
        }
        world.wait(Duration::from_secs(2));
    }
    let check = world.check_of("b");
    assert_eq!(check.departing, []);
}
