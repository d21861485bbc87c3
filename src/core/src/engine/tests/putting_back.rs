//! Tests of gates that Headgate closes before it registers a target again.

use super::{
    evicting::no_budget,
    gating::{HEALTHY, closed, open, ready},
    *,
};
use crate::model::{LeavingFacts, leaving::Mark};

fn deregistering() -> ServiceBuilder {
    web().with(WHEN_NOT_READY, "deregister").with(REGISTER_WHEN, "ready")
}

/// A pod with an open gate that was unready for too long and was deregistered this many seconds ago.
fn taken_out(seconds: u64) -> World {
    let mut world = World::new(vec![deregistering()], vec![]);
    world.passes(3, &[]);
    world.apply(open("a", "1", 1).ready());
    world.passes(10, &[(1, HEALTHY)]);
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    world.passes(seconds, &[]);
    assert_eq!(world.turned(), [""; 0], "the pod is not ready anyway");
    world.changes();
    world
}

#[test]
fn a_gate_closes_before_headgate_puts_back_what_it_took_out_itself_however_long_ago() {
    for seconds in [1, 300] {
        let mut world = taken_out(seconds);
        world.apply(open("a", "1", 1).ready());
        assert_eq!(world.changes(), [""; 0]);
        assert_eq!(world.turned(), ["a - RegisteredAgain"], "after {seconds} s");
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
        world.apply(closed("a", "1", 1).ready());
        world.passes(10, &[(1, HEALTHY)]);
        assert_eq!(world.turned(), ["a + TargetsHealthy"]);
    }
}

#[test]
fn a_leader_that_dies_while_it_puts_a_target_back_leaves_the_gate_to_the_next() {
    for ready_before in [true, false] {
        let mut before = taken_out(10);
        before.apply(open("a", "1", 1).ready());
        assert_eq!(before.writes().len(), 1, "which does not arrive");
        let mut world = World::standby(cluster_wide());
        world.ledgers.clone_from(&before.ledgers);
        world.relist_written(vec![]);
        world.relist_services(vec![deregistering()]);
        let a = open("a", "1", 1);
        world.relist_pods(vec![if ready_before { a.clone().ready() } else { a.clone() }]);
        world.answer_all();
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world.apply(a.ready());
        assert_eq!(world.changes(), [""; 0]);
        assert_eq!(world.turned(), ["a - RegisteredAgain"]);
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    }
}

#[test]
fn a_gate_that_cannot_be_closed_keeps_no_pod_out_of_service_for_long() {
    let mut world = taken_out(10);
    world.apply(open("a", "1", 1).ready());
    let writes = world.writes();
    world.end_write(&writes[0], Err(fails(FailureClass::Denied, "forbidden")));
    let place = world.engine.explain(&ObjectKey::new(NAMESPACE, "a"), world.now).places.remove(0);
    let next = place.next.unwrap();
    assert_eq!(
        (next.waits.unwrap().0, next.at),
        (Reason::RegisteredAgain, Some(world.now + Duration::from_secs(5)))
    );
    world.wait(Duration::from_secs(4));
    assert_eq!(world.changes(), [""; 0]);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn a_gate_closes_before_a_pod_is_put_back_that_is_selected_again() {
    let mut world = ready();
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    world.apply(open("a", "1", 1).labelled("other"));
    world.passes(300, &[]);
    world.changes();
    world.open.clear();
    world.apply(open("a", "1", 1));
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.turned(), ["a - RegisteredAgain"]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn a_gate_that_is_just_being_opened_is_closed_before_its_pod_is_put_back() {
    for shown_first in [true, false] {
        let mut world = World::new(vec![deregistering()], vec![]);
        world.passes(3, &[]);
        world.apply(closed("a", "1", 1).ready());
        world.passes(10, &[(1, HEALTHY)]);
        let writes = world.writes();
        assert!(writes[0].condition.open);
        world.apply(closed("a", "1", 1));
        world.passes(9, &[(1, HEALTHY)]);
        world.passes(6, &[]);
        world.apply(closed("a", "1", 1).ready());
        assert_eq!(world.changes(), [""; 0], "the gate may open any moment");
        if shown_first {
            world.apply(open("a", "1", 1).ready());
        }
        world.end_write(&writes[0], Ok(()));
        if !shown_first {
            world.apply(open("a", "1", 1).ready());
        }
        assert_eq!(world.changes(), [""; 0]);
        assert_eq!(world.turned(), ["a - RegisteredAgain"]);
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    }
}

#[test]
fn what_was_taken_out_for_a_change_of_a_service_is_not_remembered_for_long() {
    let other = || service("other").selector(&[("app", "other")]).port("http", 80).annotated("http=blue");
    let mut before = World::new(vec![web(), other()], vec![]);
    before.passes(3, &[]);
    before.apply(open("a", "1", 1));
    before.passes(10, &[(1, HEALTHY)]);
    before.annotate(service("web").port("http", 80));
    before.passes(300, &[]);
    let mut world = World::standby(cluster_wide());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_written(vec![]);
    world.relist_services(vec![web(), other()]);
    world.relist_pods(vec![open("a", "1", 1)]);
    world.answer_all();
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.turned(), [""; 0], "all of its pods could be out of service at once");
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

#[test]
fn a_gate_closes_before_a_target_is_put_back_that_had_come_back_and_went_for_an_eviction() {
    let mut world = ready();
    world.apply(open("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    world.annotate(service("web").port("http", 80));
    world.passes(90, &[]);
    let now = world.wall();
    world.apply(open("a", "1", 1).leaving(LeavingFacts::asked(now, now)));
    for check in world.checks() {
        world.checked(&check, Ok(no_budget()));
    }
    for mark in world.marks() {
        assert!(matches!(mark.mark, Mark::Deregistered { .. }), "{mark:?}");
        world.written_mark(&mark, Ok(()));
    }
    world.annotate(web());
    assert_eq!(world.changes(), [""; 0], "it leaves");
    // Another program has registered the target again.
    for _ in 0..40 {
        world.wait(Duration::from_secs(1));
        world.says(&[(1, HEALTHY)]);
    }
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    assert_eq!(world.causes(), [Cause::PodEvicting]);
    world.passes(3, &[]);
    assert_eq!(world.turned(), [""; 0]);
    world.apply(open("a", "1", 1));
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.turned(), ["a - RegisteredAgain"]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}
