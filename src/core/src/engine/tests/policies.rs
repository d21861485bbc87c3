//! Tests of the other annotations.

use super::*;

#[test]
fn a_pod_is_registered_when_it_is_as_ready_as_its_service_asks_for() {
    for (when, registered_at) in [("ip", 0), ("containers-ready", 1), ("ready", 2), ("auto", 0)] {
        let mut world = World::new(vec![web().with(REGISTER_WHEN, when)], vec![]);
        let a = pod("a", "1").at(1);
        for (at, pod) in [a.clone(), a.clone().containers_ready(), a.ready()].into_iter().enumerate() {
            world.apply(pod);
            assert_eq!(!world.changes().is_empty(), at >= registered_at, "{when}, step {at}");
        }
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
        let cause = if registered_at == 0 { Cause::PodHasIp } else { Cause::PodReady };
        assert_eq!(world.causes(), [cause]);
    }
}

#[test]
fn auto_waits_for_the_containers_behind_an_application_load_balancer() {
    let mut world = World::unsynced();
    world.known = vec![TargetGroupFacts { protocol: "HTTP".into(), ..group("blue") }];
    world.relist_services(vec![web().with(REGISTER_WHEN, "auto")]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    assert_eq!(world.causes(), []);
    world.apply(pod("a", "1").at(1).containers_ready());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn a_pod_waits_for_its_containers_where_a_target_group_asks_for_more_than_one_healthy_target() {
    for (least, waits) in [
        (LeastHealthy::DEFAULT, false),
        (LeastHealthy { count: 3, percent: 0 }, true),
        (LeastHealthy { count: 1, percent: 20 }, true),
    ] {
        let mut world = World::unsynced();
        world.known = vec![TargetGroupFacts { least_healthy: None, ..group("blue") }];
        world.relist_services(vec![web()]);
        world.relist_pods(vec![pod("a", "1").at(1)]);
        let mut reads = Vec::new();
        while let Some((id, call)) = world.open.pop() {
            let result = match &call {
                Call::FindGroups { references } => find(&world.known, references),
                Call::ReadHealth { .. } => Ok(Answer::Health(Vec::new())),
                Call::ReadAttributes { .. } => {
                    reads.push(id);
                    assert!(world.causes().is_empty(), "nobody knows yet");
                    continue;
                }
                _ => panic!("{call:?}"),
            };
            world.step(Input::Answered { id, result });
        }
        let [id] = reads[..] else { panic!("{reads:?}") };
        world.step(Input::Answered { id, result: Ok(Answer::Attributes(least)) });
        assert_eq!(world.changes().is_empty(), waits, "{least:?}");
        world.apply(pod("a", "1").at(1).containers_ready());
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    }
}

#[test]
fn a_pod_that_is_not_ready_any_more_stays_unless_its_service_asks_for_its_removal() {
    let wait = Duration::from_secs(10);
    let a = pod("a", "1").at(1);
    let mut world = World::new(vec![web()], vec![a.clone().ready()]);
    world.apply(a.clone());
    world.wait(2 * wait);
    assert_eq!(world.changes(), [""; 0], "keep is the default");
    world.annotate(web().with(WHEN_NOT_READY, "deregister"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    assert_eq!(world.causes(), [Cause::NotReady]);
    world.answer_all();
    world.apply(a.ready());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    assert_eq!(world.causes(), [Cause::PodReady]);
}

#[test]
fn a_pod_that_is_not_ready_for_a_moment_is_not_deregistered() {
    let a = pod("a", "1").at(1);
    let service = web().with(WHEN_NOT_READY, "deregister").with(REGISTER_WHEN, "ready");
    let mut world = World::new(vec![service], vec![a.clone().ready()]);
    for _ in 0..2 {
        world.apply(a.clone());
        world.wait(Duration::from_millis(9_900));
        assert_eq!(world.changes(), [""; 0]);
        world.apply(a.clone().ready());
        world.answer_all();
    }
    world.apply(a.clone());
    assert!(
        world.engine.next_wakeup(world.now).is_some_and(|due| due <= world.now + Duration::from_secs(10))
    );
    world.wait(Duration::from_secs(10));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn a_slow_starter_that_is_registered_at_its_ip_is_not_deregistered_for_not_being_ready_yet() {
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], vec![]);
    world.apply(pod("a", "1").at(1));
    world.answer_all();
    world.wait(Duration::from_secs(60));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn a_pod_that_is_not_ready_does_not_take_a_new_address_with_it() {
    let mut world = World::new(vec![web().with(REGISTER_WHEN, "ready")], vec![pod("a", "1").at(1).ready()]);
    world.apply(pod("a", "1").at(2));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    assert_eq!(world.causes(), [Cause::IpChanged]);
}

#[test]
fn a_policy_that_cannot_be_read_is_said_and_changes_nothing() {
    let mut world = World::new(vec![web().with(REGISTER_WHEN, "ready")], vec![]);
    world.annotate(web().with(REGISTER_WHEN, "soon"));
    assert_eq!(world.said(), [Reason::InvalidBinding]);
    assert!(world.notices[0].note.contains("invalid value \"soon\". Set ip"), "{:?}", world.notices);
    world.apply(pod("a", "1").at(1));
    assert_eq!(world.changes(), [""; 0], "ready stays in force");
    world.apply(pod("a", "1").at(1).ready());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}
