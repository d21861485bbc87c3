//! Gates of living pods whose targets are deregistered: they close before, and open again when the pod is healthy again.

use super::{
    evicting::no_budget,
    gating::{HEALTHY, closed, open, ready},
    *,
};
use crate::model::LeavingFacts;

fn deregistering() -> ServiceBuilder {
    web().with(WHEN_NOT_READY, "deregister").with(REGISTER_WHEN, "ready")
}

/// The pod has an open gate, and is healthy.
fn serving() -> World {
    let mut world = World::new(vec![deregistering()], vec![]);
    world.passes(3, &[]);
    world.apply(open("a", "1", 1).ready());
    world.passes(10, &[(1, HEALTHY)]);
    world
}

/// The pod is no longer ready, and has been so for too long: Headgate should close its gate.
fn not_ready() -> World {
    let mut world = serving();
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    assert_eq!(world.changes(), [""; 0], "its gate is open");
    world
}

/// What the target of the pod waits for, and until when.
fn next(world: &mut World) -> (Option<Moment>, Reason, String) {
    let places = world.engine.explain(&ObjectKey::new(NAMESPACE, "a"), world.now).places;
    let next = places.into_iter().find_map(|place| place.next).unwrap();
    let (reason, said) = next.waits.unwrap();
    (next.at, reason, said)
}

/// A standby that has seen that the pod is not ready any more, with the ledgers of `before`.
fn next_leader(before: &World) -> World {
    let mut world = World::standby(cluster_wide());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_written(vec![]);
    world.relist_services(vec![deregistering()]);
    world.relist_pods(vec![open("a", "1", 1).ready()]);
    world.answer_all();
    world.apply(open("a", "1", 1));
    world.wait(Duration::from_secs(60));
    world
}

/// The pod was deregistered, this many seconds ago.
fn taken_out(seconds: u64) -> World {
    let mut world = not_ready();
    assert_eq!(world.turned(), ["a - RegisteredAgain"]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.takes_changes();
    world.apply(closed("a", "1", 1));
    world.passes(seconds, &[]);
    world.turned();
    world
}

#[test]
fn a_pod_that_was_taken_out_is_registered_as_new_and_its_gate_opens_when_it_is_healthy_again() {
    for seconds in [1, 300] {
        let mut world = taken_out(seconds);
        world.apply(closed("a", "1", 1).ready());
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "after {seconds} s");
        world.takes_changes();
        assert!(!world.opens("a", 8, &[(1, HealthState::Initial)]));
        assert!(world.opens("a", 8, &[(1, HEALTHY)]));
    }
}

#[test]
fn the_gate_of_a_pod_that_is_evicted_or_not_selected_any_more_closes_before_its_target_is_deregistered() {
    let changes: [fn(&mut World); 2] = [
        |world| {
            let now = world.wall();
            world.apply(open("a", "1", 1).ready().leaving(LeavingFacts::asked(now, now)));
            for check in world.checks() {
                world.checked(&check, Ok(no_budget()));
            }
        },
        |world| world.apply(open("a", "1", 1).ready().labelled("other")),
    ];
    for change in changes {
        let mut world = serving();
        change(&mut world);
        assert_eq!(world.changes(), [""; 0]);
        assert_eq!(world.turned(), ["a - RegisteredAgain"]);
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    }
}

#[test]
fn a_leader_that_dies_while_it_closes_a_gate_leaves_the_pod_to_the_next() {
    for is_ready_again in [true, false] {
        let mut before = not_ready();
        assert_eq!(before.writes().len(), 1, "which does not arrive");
        let mut world = next_leader(&before);
        if is_ready_again {
            world.apply(open("a", "1", 1).ready());
        }
        world.step(Input::Leadership(Leadership::Leading { term: 2, is_settled: true }));
        world.passes(20, &[(1, HEALTHY)]);
        assert_eq!(world.changes(), [""; 0]);
        if is_ready_again {
            assert_eq!(world.turned(), [""; 0]);
        } else {
            assert_eq!(world.turned(), ["a - RegisteredAgain"]);
            assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
        }
    }
}

#[test]
fn while_the_calls_of_the_leader_before_may_land_no_living_pod_is_taken_out() {
    let mut world = next_leader(&not_ready());
    world.step(Input::Leadership(Leadership::Leading { term: 2, is_settled: false }));
    world.passes(30, &[(1, HEALTHY)]);
    assert_eq!((world.turned(), world.changes()), (vec![], vec![]), "the leader before may open its gate");
    let (at, reason, said) = next(&mut world);
    assert_eq!((at, reason), (Some(world.now + Duration::from_secs(1)), Reason::NotReady));
    assert!(said.contains("the previous leader"), "{said}");
    world.passes(1, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a - RegisteredAgain"]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn a_pod_whose_gate_cannot_be_closed_remains_registered_and_that_is_explained() {
    let mut world = not_ready();
    let writes = world.writes();
    world.end_write(&writes[0], Err(fails(FailureClass::Denied, "forbidden")));
    let (_, reason, said) = next(&mut world);
    assert_eq!(reason, Reason::NotReady);
    assert!(said.contains("when the pod's readiness gate is closed"), "{said}");
    world.passes(10, &[(1, HEALTHY)]);
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.turned(), ["a - RegisteredAgain"], "Headgate tries again");
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn a_pod_that_is_ready_again_before_its_gate_is_closed_remains_registered() {
    let mut world = not_ready();
    world.apply(open("a", "1", 1).ready());
    let writes = world.writes();
    world.end_write(&writes[0], Ok(()));
    world.apply(closed("a", "1", 1).ready());
    assert!(world.opens("a", 10, &[(1, HEALTHY)]));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn a_gate_that_is_just_being_opened_is_closed_before_its_target_is_deregistered() {
    for shown_first in [true, false] {
        let mut world = World::new(vec![deregistering()], vec![]);
        world.passes(3, &[]);
        world.apply(closed("a", "1", 1).ready());
        world.passes(10, &[(1, HEALTHY)]);
        let writes = world.writes();
        assert!(writes[0].condition.open);
        world.apply(closed("a", "1", 1));
        world.passes(15, &[(1, HEALTHY)]);
        assert_eq!(world.changes(), [""; 0], "the gate may open any moment");
        if shown_first {
            world.apply(open("a", "1", 1));
        }
        world.end_write(&writes[0], Ok(()));
        if !shown_first {
            world.apply(open("a", "1", 1));
        }
        assert_eq!(world.changes(), [""; 0]);
        assert_eq!(world.turned(), ["a - RegisteredAgain"]);
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    }
}

#[test]
fn a_change_of_a_service_takes_a_pod_out_with_an_open_gate_and_the_next_leader_leaves_it_open() {
    let other = || service("other").selector(&[("app", "other")]).port("http", 80).annotated("http=blue");
    let mut before = World::new(vec![web(), other()], vec![]);
    before.passes(3, &[]);
    before.apply(open("a", "1", 1));
    before.passes(10, &[(1, HEALTHY)]);
    before.annotate(service("web").port("http", 80));
    before.passes(300, &[]);
    assert_eq!(before.turned(), [""; 0], "all of its pods could be out of service at once");
    let mut world = World::standby(cluster_wide());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_written(vec![]);
    world.relist_services(vec![web(), other()]);
    world.relist_pods(vec![open("a", "1", 1)]);
    world.answer_all();
    world.step(Input::Leadership(Leadership::Leading { term: 2, is_settled: true }));
    assert_eq!(world.turned(), [""; 0]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn no_change_of_a_service_and_no_removal_by_others_closes_a_gate() {
    let mut world = ready();
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    world.annotate(service("web").port("http", 80));
    world.passes(10, &[]);
    world.annotate(web());
    world.passes(10, &[(1, HealthState::Initial)]);
    world.annotate(service("web").port("http", 80).annotated("http=blue,http=green"));
    world.answer_all();
    world.passes(20, &[]);
    assert!(world.turned().is_empty());
}
