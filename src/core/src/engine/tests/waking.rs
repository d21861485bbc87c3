//! Tests that the engine requests each wake-up that it needs, and that no wake-up is missed.

use super::*;
use crate::{
    model::{NodeFacts, gate::Shown},
    testing::ip,
};

const SECOND: Duration = Duration::from_secs(1);

impl World {
    /// Advances the time and wakes the engine only at the requested times. AWS accepts every change and reports these
    /// targets in this state.
    fn sleeps(&mut self, until: Moment, there: &[u8], state: HealthState) {
        let mut wakes = 0;
        loop {
            while !self.open.is_empty() {
                let (id, call) = self.open.remove(0);
                let result = match call {
                    Call::ReadHealth { .. } => {
                        Answer::Health(there.iter().map(|last| (target(*last, 80), state.into())).collect())
                    }
                    _ => Answer::Done,
                };
                self.step(Input::Answered { id, result: Ok(result) });
            }
            let Some(due) = self.engine.next_wakeup(self.now).filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            self.step(Input::Tick);
            wakes += 1;
            let asked = until.since(Moment::START).as_secs() * 20 + 100;
            assert!(wakes < asked, "it never sleeps: {:?}", self.engine.next_wakeup(self.now));
        }
        self.now = until;
    }

    /// Sleeps until a deregistration is sent, for at most `most`. Returns how long the sleep took.
    fn sleeps_until_removed(&mut self, most: Duration, there: &[u8]) -> Option<Duration> {
        let start = self.now;
        while self.now < start + most {
            self.sleeps(self.now + Duration::from_millis(100), there, HealthState::Healthy);
            let ended = self.views.iter().rev().find_map(|view| match view {
                Effect::Shows(Picture::Binding(view)) => {
                    Some(view.targets.len() + usize::from(!view.ending.is_empty()) * 100)
                }
                _ => None,
            });
            if ended.is_some_and(|ended| ended >= 100) {
                return Some(self.now.since(start));
            }
        }
        None
    }
}

fn is_about(took: Option<Duration>, expected: Duration) {
    let took = took.expect("it is removed");
    assert!(took >= expected && took < expected + SECOND, "{took:?} instead of {expected:?}");
}

#[test]
fn it_is_woken_when_the_grace_of_a_deleted_service_is_over() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.sleeps(world.now + 10 * SECOND, &[1], HealthState::Healthy);
    world.service(Change::Deleted(web().build()));
    world.sleeps(world.now + GRACE - SECOND, &[1], HealthState::Healthy);
    assert!(world.engine.next_wakeup(world.now).is_some_and(|due| due <= world.now + SECOND));
    world.now = world.now + SECOND;
    world.step(Input::Tick);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn it_is_woken_when_a_pod_was_not_ready_for_long_enough() {
    let a = || pod("a", "1").at(1);
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], vec![a().ready()]);
    world.sleeps(world.now + 10 * SECOND, &[1], HealthState::Healthy);
    world.apply(a());
    is_about(world.sleeps_until_removed(60 * SECOND, &[1]), Settings::default().not_ready_for);
}

#[test]
fn it_is_woken_when_the_patience_with_a_zone_is_over() {
    let in_a = |name: &str, last| pod(name, &format!("u-{name}")).at(last).on("a");
    let b = pod("b", "u-b").at(3).on("b").ready();
    let pods = vec![in_a("a1", 1).ready(), in_a("a2", 2).ready(), b];
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], pods);
    for name in ["a", "b"] {
        let node = NodeFacts {
            name: name.into(),
            zone: Some(name.into()),
            takes_pods: true,
            ..NodeFacts::default()
        };
        world.step(Input::Node { change: Change::Applied(node), seen: world.now });
    }
    world.sleeps(world.now + 10 * SECOND, &[1, 2, 3], HealthState::Healthy);
    world.apply(in_a("a1", 1));
    world.apply(in_a("a2", 2));
    world.sleeps(world.now + 30 * SECOND, &[2, 3], HealthState::Healthy);
    assert_eq!(world.said(), [Reason::RemovalHeld]);
    world.sleeps(world.now + 45 * SECOND, &[2, 3], HealthState::Healthy);
    assert_eq!(world.said().last(), Some(&Reason::ReplacementTooSlow));
}

#[test]
fn it_is_woken_to_say_why_a_gate_is_closed_and_that_it_has_been_for_long() {
    let mut world = World::new(vec![web()], vec![]);
    world.sleeps(world.now + 10 * SECOND, &[], HealthState::Healthy);
    world.apply(pod("a", "1").at(1).gated(Shown::Closed));
    let start = world.now;
    world.sleeps(start + 10 * SECOND, &[1], HealthState::Initial);
    let writes =
        world.views.iter().filter(|view| matches!(view, Effect::Send { request: Asks::Gate(_), .. })).count();
    assert_eq!(writes, 1);
    world.sleeps(start + 301 * SECOND, &[1], HealthState::Initial);
    assert!(world.said().contains(&Reason::GateDelayed), "{:?}", world.said());
}

#[test]
fn it_sleeps_for_long_when_nothing_is_to_be_done() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1).gated(Shown::Open(Some(ip(1))))]);
    world.sleeps(world.now + 120 * SECOND, &[1], HealthState::Healthy);
    let due = world.engine.next_wakeup(world.now);
    assert!(due.is_none_or(|due| due > world.now), "{due:?}");
}
