//! Tests of the zone guard for pods that are no longer ready.

use super::*;
use crate::model::NodeFacts;

const HEALTHY: HealthState = HealthState::Healthy;

fn in_a(name: &str, last: u8) -> PodBuilder {
    pod(name, &format!("u-{name}")).at(last).on("a")
}

fn lets_go() -> ServiceBuilder {
    web().with(WHEN_NOT_READY, "deregister")
}

fn node(name: &str, takes_pods: bool) -> Input {
    let node = NodeFacts { name: name.into(), zone: Some(name.into()), takes_pods, ..NodeFacts::default() };
    Input::Node { change: Change::Applied(node), seen: Moment::START }
}

/// Creates `a1` and `a2` in one zone and `b1` in another zone. All pods are ready and healthy.
fn world(service: ServiceBuilder) -> World {
    let b1 = pod("b1", "u-b1").at(3).on("b");
    let mut world = World::new(vec![service], vec![in_a("a1", 1).ready(), in_a("a2", 2).ready(), b1.ready()]);
    world.step(node("a", true));
    world.step(node("b", true));
    world.reads(&[(1, HEALTHY), (2, HEALTHY), (3, HEALTHY)]);
    world.notices.clear();
    world
}

impl World {
    /// Makes both pods in zone `a` unready for 10 s.
    fn both_not_ready(&mut self) {
        self.apply(in_a("a1", 1));
        self.apply(in_a("a2", 2));
        self.wait(Duration::from_secs(10));
    }

    fn is_said_to_be_held(&self) -> bool {
        let last = self.views.iter().rev().find_map(|view| match view {
            Effect::Shows(Picture::Binding(view)) => {
                Some(view.said.iter().any(|(reason, _)| *reason == Reason::RemovalHeld))
            }
            _ => None,
        });
        last.unwrap_or_default()
    }
}

#[test]
fn of_two_that_are_not_ready_any_more_one_stays_until_another_one_of_its_zone_is_healthy() {
    let mut world = world(lets_go());
    world.both_not_ready();
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".to_owned()], vec![Cause::NotReady])
    );
    assert_eq!(world.said(), [Reason::RemovalHeld]);
    world.apply(in_a("a3", 4).ready());
    world.reads(&[(2, HEALTHY), (3, HEALTHY), (4, HealthState::Initial)]);
    assert!(world.is_said_to_be_held());
    assert_eq!(world.changes(), [""; 0]);
    let place = &world.engine.explain(&ObjectKey::new(NAMESPACE, "a2"), world.now).places[0];
    let next = place.next.as_ref().unwrap();
    assert_eq!(next.waits.as_ref().map(|(reason, _)| *reason), Some(Reason::RemovalHeld));
    assert!(next.at.is_some_and(|at| at > world.now), "{next:?}");
    world.reads(&[(2, HEALTHY), (3, HEALTHY), (4, HEALTHY)]);
    world.wait(Duration::from_secs(1));
    assert!(!world.is_said_to_be_held());
    let removed =
        |view: &Effect| matches!(view, Effect::Shows(Picture::Binding(view)) if view.targets.len() == 2);
    assert!(
        world
            .views
            .iter()
            .rev()
            .find(|view| matches!(view, Effect::Shows(Picture::Binding(_))))
            .is_some_and(removed)
    );
    assert_eq!(world.said(), [Reason::RemovalHeld], "nothing was lost, so nobody need know");
}

#[test]
fn it_stays_for_a_minute_at_most_and_an_event_says_whether_the_zone_had_room() {
    for (room, reason) in [(true, Reason::ReplacementTooSlow), (false, Reason::ReplacementTooSlow)] {
        let mut world = world(lets_go());
        world.step(node("a", room));
        world.both_not_ready();
        world.answer_all();
        world.wait(Duration::from_secs(59));
        assert_eq!(world.causes(), []);
        world.wait(Duration::from_secs(1));
        assert_eq!(world.causes(), [Cause::NotReady]);
        assert_eq!(world.said(), [Reason::RemovalHeld, reason]);
    }
}

#[test]
fn a_pod_that_is_ready_again_stays_and_is_counted_anew_the_next_time() {
    let mut world = world(lets_go());
    world.both_not_ready();
    world.reads(&[(2, HEALTHY), (3, HEALTHY)]);
    world.apply(in_a("a2", 2).ready());
    world.wait(Duration::from_secs(2));
    assert!(!world.is_said_to_be_held());
    world.apply(in_a("a2", 2));
    for _ in 0..6 {
        world.reads(&[(2, HEALTHY), (3, HEALTHY)]);
        assert_eq!(world.changes(), [""; 0]);
    }
    world.reads(&[(3, HEALTHY)]);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.said().last(), Some(&Reason::ReplacementTooSlow));
}

#[test]
fn one_that_is_ready_again_lets_another_one_go_only_when_it_serves_again() {
    let mut world = world(lets_go());
    world.both_not_ready();
    let removal = ["-blue 10.0.0.1:80"];
    assert_eq!(world.changes(), removal);
    world.apply(in_a("a1", 1).ready());
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes(), removal, "its removal is under way");
    world.takes_changes();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    world.takes_changes();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes(), [""; 0], "what was read of it is from before");
    world.reads(&[(1, HealthState::Initial), (2, HEALTHY), (3, HEALTHY)]);
    assert!(world.is_said_to_be_held());
    world.reads(&[(1, HEALTHY), (2, HEALTHY), (3, HEALTHY)]);
    assert!(!world.is_said_to_be_held());
}

#[test]
fn a_pod_that_is_kept_and_ends_goes_at_once() {
    let mut world = world(lets_go());
    world.both_not_ready();
    world.reads(&[(2, HEALTHY), (3, HEALTHY)]);
    world.apply(in_a("a2", 2).terminating());
    assert_eq!(world.causes(), [Cause::PodTerminating]);
}

#[test]
fn where_the_removal_of_such_pods_is_asked_for_late_their_zone_is_looked_at_all_the_same() {
    let mut world = world(web());
    world.both_not_ready();
    assert_eq!(world.changes(), [""; 0]);
    world.annotate(lets_go());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.annotate(web());
    world.wait(Duration::from_secs(70));
    assert_eq!(world.said(), [Reason::RemovalHeld], "it stays, as it is asked for now");
}

#[test]
fn a_pod_alone_in_its_zone_or_not_healthy_is_not_kept() {
    let mut world = world(lets_go());
    world.apply(pod("b1", "u-b1").at(3).on("b"));
    world.wait(Duration::from_secs(10));
    assert_eq!(world.changes(), ["-blue 10.0.0.3:80"]);
    world.wait(Duration::from_secs(60));
    world.reads(&[(1, HealthState::Unhealthy), (2, HealthState::Unhealthy)]);
    world.both_not_ready();
    let removed: Vec<String> = world.changes().into_iter().filter(|call| call.starts_with('-')).collect();
    assert_eq!(removed, ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    assert_eq!(world.said(), []);
}
