//! Tests of targets that never become healthy.

use super::*;
use crate::{
    model::{Health, gate::Shown, health::NOT_IN_USE},
    testing::ip,
};

const FAILS: Health =
    Health { state: HealthState::Unhealthy, reason: "Target.FailedHealthChecks", zone: None };

/// Advances the time second by second. AWS accepts every change and reports this health of 10.0.0.1:80.
fn pass(world: &mut World, seconds: u64, health: Health) {
    for _ in 0..seconds {
        world.wait(Duration::from_secs(1));
        for (id, call) in std::mem::take(&mut world.open) {
            let answer = match call {
                Call::ReadHealth { .. } => Answer::Health(vec![(target(1, 80), health)]),
                _ => Answer::Done,
            };
            world.step(Input::Answered { id, result: Ok(answer) });
        }
    }
}

/// The number of targets of `blue` that the view shows as never healthy.
fn shown(world: &mut World) -> Option<usize> {
    world.wait(Duration::from_secs(1));
    let mut groups = world.views.iter().rev().filter_map(|view| match view {
        Effect::Shows(Picture::Group(view)) => Some(view.never_healthy),
        _ => None,
    });
    groups.next()
}

fn told(world: &World) -> Vec<&Notice> {
    world.notices.iter().filter(|notice| notice.reason == Reason::NeverHealthy).collect()
}

fn registered() -> World {
    World::new(vec![web()], vec![pod("a", "1").at(1)])
}

#[test]
fn a_target_that_never_was_healthy_is_told_once_and_shown_until_it_is() {
    let mut world = registered();
    pass(&mut world, 297, FAILS);
    assert_eq!((told(&world).len(), shown(&mut world)), (0, Some(0)));
    pass(&mut world, 31, FAILS);
    let [notice] = told(&world)[..] else { panic!("{:?}", world.notices) };
    assert!(matches!(&notice.about, About::Pod(pod, uid) if &*pod.name == "a" && uid.as_str() == "1"));
    let part = "Target 10.0.0.1:80 of blue was never healthy within 3";
    assert!(notice.note.starts_with(part), "{}", notice.note);
    assert!(notice.note.contains(" s (Target.FailedHealthChecks)"), "{}", notice.note);
    assert_eq!(shown(&mut world), Some(1));
    pass(&mut world, 900, FAILS);
    assert_eq!((told(&world).len(), shown(&mut world)), (1, Some(1)));
    pass(&mut world, 31, HealthState::Healthy.into());
    assert_eq!(shown(&mut world), Some(0));
    pass(&mut world, 900, FAILS);
    assert_eq!((told(&world).len(), shown(&mut world)), (1, Some(0)), "it was healthy once");
}

#[test]
fn a_target_that_leaves_is_not_shown_any_more() {
    let mut world = registered();
    pass(&mut world, 310, HealthState::Initial.into());
    assert_eq!((told(&world).len(), shown(&mut world)), (1, Some(1)));
    world.delete(pod("a", "1").at(1));
    assert_eq!(shown(&mut world), Some(0));
}

#[test]
fn one_that_was_healthy_for_a_moment_or_that_nobody_checks_is_none() {
    let unused = Health { state: HealthState::Unused, reason: NOT_IN_USE, zone: None };
    for (before, then) in [(HealthState::Healthy.into(), FAILS), (FAILS, unused)] {
        let mut world = registered();
        pass(&mut world, 10, before);
        pass(&mut world, 900, then);
        assert_eq!((told(&world).len(), shown(&mut world)), (0, Some(0)), "{before:?} {then:?}");
    }
}

#[test]
fn another_pod_at_the_address_has_a_time_of_its_own() {
    let mut world = registered();
    pass(&mut world, 250, FAILS);
    world.delete(pod("a", "1").at(1));
    world.apply(pod("b", "2").at(1));
    pass(&mut world, 250, FAILS);
    assert_eq!(told(&world).len(), 0);
    pass(&mut world, 60, FAILS);
    assert_eq!(told(&world).len(), 1);
}

#[test]
fn the_next_leader_counts_from_its_own_beginning_and_believes_an_open_gate() {
    let open = pod("a", "1").at(1).gated(Shown::Open(Some(ip(1))));
    let closed = pod("a", "1").at(1).gated(Shown::Closed);
    // This gate opened because the health of its target was unreadable.
    let unread = open.clone().unread();
    for (there, times) in [(pod("a", "1").at(1), 1), (closed, 1), (unread, 1), (open, 0)] {
        let mut world = World::standby(cluster_wide());
        world.written(Change::Relisted(Scope::Cluster, vec![]));
        world.relist_services(vec![web()]);
        world.relist_pods(vec![there]);
        world.answer_all();
        world.claimed("blue", &[(1, "1")]);
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        pass(&mut world, 290, FAILS);
        assert_eq!(told(&world).len(), 0);
        pass(&mut world, 41, FAILS);
        assert_eq!(told(&world).len(), times);
    }
}
