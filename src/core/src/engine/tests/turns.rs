//! Evictions of pods whose nodes stay: one at a time of each target group.

use super::{
    evicting::{BOUND, asked, no_budget, three},
    *,
};
use crate::model::{
    LeavingFacts,
    eviction::{Limits, MarkWrite},
    leaving::Mark,
};

/// `a` and `b` are asked to leave, on the node `n`, and no budget is about them.
fn two_of_a_node(takes_pods: bool) -> World {
    let mut world = three();
    world.node("n", takes_pods);
    let at = world.wall();
    for (name, last) in [("a", 1), ("b", 2)] {
        world.apply(asked(name, last, at).on("n"));
        for check in world.checks() {
            world.checked(&check, Ok(no_budget()));
        }
    }
    world
}

#[test]
fn whose_node_stays_leaves_when_no_other_one_of_its_target_group_is_out() {
    let mut world = two_of_a_node(true);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.answer_all();
    let waits = |mark: &Sent<MarkWrite>| {
        matches!(mark.mark, Mark::Waits { reason: Reason::EvictionWaitsForTurn, .. })
    };
    let marks = world.marks();
    assert!(marks.iter().any(|mark| &*mark.pod.name == "b" && waits(mark)), "{marks:?}");
    for mark in &marks {
        world.written_mark(mark, Ok(()));
    }
    world.wait(Duration::from_secs(5));
    assert_eq!(world.checks(), []);
    world.delete(asked("a", 1, world.wall()).on("n"));
    world.wait(Duration::from_secs(1));
    let check = world.check_of("b");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
}

#[test]
fn whose_node_takes_no_pods_leaves_beside_others() {
    let mut world = two_of_a_node(false);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "-blue 10.0.0.2:80"]);
}

#[test]
fn who_is_held_in_a_group_that_nothing_binds_it_to_any_more_waits_for_its_turn_there() {
    let mut world = three();
    world.node("n", true);
    for (name, last) in [("a", 1), ("b", 2)] {
        world.apply(pod(name, &format!("u-{name}")).at(last).on("n"));
    }
    world.apply(pod("x", "u-x").at(9).labelled("new"));
    world.annotate(service("web").selector(&[("app", "new")]).port("http", 80).annotated("http=blue"));
    assert_eq!(world.changes(), ["+blue 10.0.0.9:80"], "the old ones are held");
    let at = world.wall();
    for (name, last) in [("a", 1), ("b", 2)] {
        world.apply(asked(name, last, at).on("n"));
    }
    for _ in 0..2 {
        for check in world.checks() {
            world.checked(&check, Ok(no_budget()));
        }
        world.wait(Duration::from_secs(1));
    }
    assert_eq!(world.changes()[1..], ["-blue 10.0.0.1:80"], "one at a time");
}

#[test]
fn beside_one_that_was_not_ready_and_is_asked_to_leave_the_next_one_waits_for_its_turn() {
    let on = |name: &str, last| pod(name, &format!("u-{name}")).at(last).on("n");
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], vec![]);
    world.node("n", true);
    world.apply(on("a", 1).ready());
    world.apply(on("b", 2).ready());
    world.answer_all();
    world.apply(on("a", 1));
    world.wait(Duration::from_secs(30));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.answer_all();
    let at = world.wall();
    world.apply(asked("a", 1, at).on("n"));
    world.apply(asked("b", 2, at).on("n").ready());
    for _ in 0..2 {
        for check in world.checks() {
            world.checked(&check, Ok(no_budget()));
        }
        world.wait(Duration::from_secs(1));
    }
    assert_eq!(world.changes(), [""; 0], "a may come back at any time, and is kept out");
}

#[test]
fn nobody_waits_for_its_turn_without_end() {
    let mut world = two_of_a_node(true);
    world.answer_all();
    for mark in world.marks() {
        world.written_mark(&mark, Ok(()));
    }
    let turn = Limits::default().turn;
    let mut at = world.wall();
    let begin = at;
    while at.since(begin) < turn + Duration::from_secs(5) {
        at = at + Duration::from_secs(30);
        for (name, last) in [("a", 1), ("b", 2)] {
            let facts = LeavingFacts::asked(begin, at);
            let out = (name == "a").then_some((begin, BOUND));
            world.apply(
                pod(name, &format!("u-{name}"))
                    .at(last)
                    .on("n")
                    .leaving(LeavingFacts { deregistered: out, ..facts }),
            );
        }
        world.wait(Duration::from_secs(30));
        world.answer_all();
        for mark in world.marks() {
            world.written_mark(&mark, Ok(()));
        }
    }
    assert!(world.said().contains(&Reason::TurnTooSlow), "{:?}", world.said());
    assert_eq!(world.changes(), [""; 0], "it is let go without");
}
