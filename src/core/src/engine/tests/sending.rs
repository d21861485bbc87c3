//! Tests of the time at which each call is sent, the handling of its answer, and the reports to users.

use super::*;
use crate::model::rates::Limit;

#[test]
fn an_unknown_target_group_is_said_once_looked_up_again_and_disturbs_nothing() {
    let mut world = World::new(vec![web().annotated("http=blue,80=red")], vec![pod("a", "1").at(1)]);
    assert_eq!(world.said(), [Reason::TargetGroupNotFound]);
    world.wait(Duration::from_secs(40));
    world.answer_all();
    assert_eq!(world.said().len(), 1);
    world.known.push(group("red"));
    world.wait(Duration::from_secs(40));
    world.answer_all();
    world.apply(pod("a", "1").at(1).terminating());
    assert_eq!(world.changes().len(), 2, "red has been found and the pod registered in it");
}

#[test]
fn a_group_that_cannot_have_pods_as_targets_is_refused() {
    let mut world = World::unsynced();
    world.known = vec![TargetGroupFacts { target_type: TargetType::Instance, ..group("blue") }];
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    assert_eq!(world.said(), [Reason::TargetGroupUnsupported]);
    assert!(world.views.iter().all(|view| !matches!(view, Effect::Shows(Picture::Binding(_)))));
}

#[test]
fn a_failed_registration_is_tried_again_after_a_backoff_of_its_own_group() {
    let mut world = World::new(vec![web().annotated("http=blue,80=green")], vec![]);
    world.apply(pod("a", "1").at(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80", "+green 10.0.0.1:80"]);
    let blue = world.open.remove(
        world
            .open
            .iter()
            .position(|(_, call)| matches!(call, Call::Register { group, .. } if group.name() == "blue"))
            .unwrap(),
    );
    world.step(Input::Answered { id: blue.0, result: Err(failure(FailureClass::Unavailable)) });
    world.answer_all();
    world.apply(pod("b", "2").at(2));
    assert_eq!(world.changes(), ["+green 10.0.0.2:80"], "green does not wait for blue");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes()[1], "+blue 10.0.0.1:80 10.0.0.2:80");
}

#[test]
fn a_failed_removal_is_tried_again_until_it_succeeds() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(1).terminating());
    for _ in 0..5 {
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
        world.refuse_changes(FailureClass::Unavailable);
        assert_eq!(world.changes(), [""; 0]);
        let wakeup = world.engine.next_wakeup(world.now).unwrap();
        assert!(wakeup.since(world.now) <= Duration::from_secs(4));
        world.wait(Duration::from_secs(4));
    }
}

#[test]
fn a_group_that_vanished_has_nothing_left_to_remove() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(1).terminating());
    world.refuse_changes(FailureClass::Gone);
    world.wait(Duration::from_secs(60));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn what_aws_refuses_is_said_on_the_service_with_pod_group_and_code_until_it_has_passed() {
    for (class, reason, said) in [
        (FailureClass::Denied, Reason::AccessDenied, "Allow elasticloadbalancing:RegisterTargets"),
        (
            FailureClass::Refused,
            Reason::TargetRefused,
            "Target 10.0.0.1:80: AWS rejects RegisterTargets (Code: text)",
        ),
        (FailureClass::Gone, Reason::TargetGroupNotFound, "Target group blue does not exist (Code: text)"),
    ] {
        let mut world = World::new(vec![web()], vec![]);
        world.apply(pod("a", "1").at(1));
        for _ in 0..3 {
            world.refuse_changes(class);
            world.wait(Duration::from_secs(20));
        }
        assert_eq!(world.said(), [reason]);
        assert!(world.notices[0].note.contains(said), "{}", world.notices[0].note);
        world.wait(Duration::from_secs(60));
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
        world.answer_all();
        world.apply(pod("a", "1").at(1).terminating());
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    }
    let mut world = World::new(vec![web()], vec![]);
    world.apply(pod("a", "1").at(1));
    world.refuse_changes(FailureClass::Throttled);
    assert_eq!(world.said(), [], "a passing fault is no news");
}

#[test]
fn a_removal_that_aws_refuses_is_said_and_tried_again_and_holds_up_no_other() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    world.apply(pod("a", "1").at(1).terminating());
    world.refuse_changes(FailureClass::Refused);
    assert_eq!(world.said(), [Reason::TargetRefused]);
    let said = "Target 10.0.0.1:80: AWS rejects DeregisterTargets (Code: text)";
    assert!(world.notices[0].note.starts_with(said), "{}", world.notices[0].note);
    world.apply(pod("b", "2").at(2).terminating());
    world.wait(Duration::from_millis(300));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"], "alone, and at once");
    let open = world.open.iter().position(|(_, call)| matches!(call, Call::Deregister { .. })).unwrap();
    let (id, _) = world.open.remove(open);
    world.step(Input::Answered { id, result: Ok(Answer::Done) });
    world.wait(Duration::from_secs(10));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.refuse_changes(FailureClass::Refused);
    assert_eq!(world.said().len(), 1, "it was said");
}

#[test]
fn what_was_refused_takes_no_token_that_another_registration_waits_for() {
    let limits = Limits { changes: Limit { per_second: 1.0, burst: 2.0 }, reads: Limits::default().reads };
    let mut world = World::with(Settings { limits, ..cluster_wide() });
    let api = || service("api").port("http", 80).selector(&[("app", "api")]).annotated("http=green");
    world.relist_services(vec![web(), api()]);
    world.relist_pods(vec![]);
    world.answer_all();
    world.relist_pods(vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80 10.0.0.2:80"]);
    world.refuse_changes(FailureClass::Refused);
    world.apply(pod("c", "3").at(3).labelled("api"));
    assert_eq!(world.changes(), [""; 0], "there is no token");
    world.wait(Duration::from_millis(1_010));
    assert_eq!(world.changes(), ["+green 10.0.0.3:80"], "the halves have waited for longer");
}

#[test]
fn removals_take_the_tokens_before_registrations() {
    let mut world = World::new(vec![web()], vec![]);
    // The bucket has 20 tokens. Many separate registrations leave half of the tokens.
    for last in 1..=20 {
        world.apply(pod(&format!("p{last}"), &format!("{last}")).at(last));
        world.answer_all();
    }
    assert_eq!(world.changes(), [""; 0]);
    world.apply(pod("p1", "1").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "registrations have left tokens for removals");
    world.apply(pod("p2", "2").at(2).terminating());
    world.wait(Duration::from_millis(20));
    assert_eq!(world.changes()[1..], [""; 0], "more may go at any moment");
    world.wait(Duration::from_millis(30));
    assert_eq!(world.changes()[1..], ["-blue 10.0.0.2:80"]);
    world.wait(Duration::from_millis(400));
    assert_eq!(world.changes()[2..], [""; 0], "what removals took is not left yet");
    world.wait(Duration::from_millis(400));
    assert!(world.changes()[2].starts_with("+blue 10.0.0.11:80"), "{:?}", world.changes());
}

#[test]
fn a_call_says_for_how_long_it_had_to_wait_for_a_token() {
    let limits = Limits { changes: Limit { per_second: 1.0, burst: 1.0 }, ..Limits::default() };
    let mut world = World::with(Settings { limits, ..cluster_wide() });
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    world.apply(pod("b", "2").at(2));
    assert_eq!(world.changes(), [""; 0], "the only token is spent");
    while world.changes().is_empty() {
        let due = world.engine.next_wakeup(world.now).unwrap();
        world.wait(due.since(world.now));
    }
    let waits: Vec<Duration> = world
        .waits
        .iter()
        .filter(|(action, _)| *action == "RegisterTargets")
        .map(|(_, waited)| *waited)
        .collect();
    let [first, second] = waits[..] else { panic!("{waits:?}") };
    assert_eq!(first, Duration::ZERO);
    assert!(second > Duration::from_millis(990) && second < Duration::from_millis(1010), "{second:?}");
}

#[test]
fn what_aws_throttles_slows_down_and_removals_least_of_all() {
    let mut world = World::new(vec![web()], vec![pod("z", "z").at(99)]);
    world.apply(pod("a", "1").at(1));
    world.refuse_changes(FailureClass::Throttled);
    world.apply(pod("z", "z").at(99).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.99:80"], "only registrations were throttled");
    world.refuse_changes(FailureClass::Throttled);
    world.wait(Duration::from_millis(400));
    assert_eq!(world.changes(), [""; 0], "half the rate, from an empty bucket");
    world.wait(Duration::from_millis(150));
    assert_eq!(world.changes(), ["-blue 10.0.0.99:80"]);
}

#[test]
fn a_call_carries_at_most_a_hundred_targets() {
    let pods: Vec<PodBuilder> =
        (1..=150).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last)).collect();
    let mut world = World::new(vec![web()], pods);
    world.relist_pods(vec![]);
    world.relist_pods(vec![]);
    let sizes = |world: &World| -> Vec<usize> {
        world.changes().iter().map(|call| call.split(' ').count() - 1).collect()
    };
    assert_eq!(sizes(&world), [100], "a full call goes at once");
    world.wait(Duration::from_millis(50));
    assert_eq!(sizes(&world), [100, 50]);
}

#[test]
fn a_group_is_read_soon_while_a_target_is_not_healthy_and_rarely_otherwise() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    let mut reads = |state: HealthState| {
        let mut count = 0;
        for _ in 0..100 {
            world.wait(Duration::from_secs(1));
            for (id, call) in std::mem::take(&mut world.open) {
                assert!(matches!(call, Call::ReadHealth { .. }));
                count += 1;
                world.step(Input::Answered {
                    id,
                    result: Ok(Answer::Health(vec![(target(1, 80), state.into())])),
                });
            }
        }
        count
    };
    let (busy, calm) = (reads(HealthState::Initial), reads(HealthState::Healthy));
    assert!((45..=55).contains(&busy), "{busy} reads in 100 s");
    assert!((1..=3).contains(&calm), "{calm} reads in 100 s");
}

#[test]
fn views_show_a_binding_and_its_group_and_that_they_are_gone() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.wait(Duration::from_secs(2));
    let (id, _) = world.open.pop().unwrap();
    let foreign_target = Target::new("10.9.9.9".parse().unwrap(), 80);
    let states =
        vec![(target(1, 80), HealthState::Healthy.into()), (foreign_target, HealthState::Initial.into())];
    world.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
    world.wait(Duration::from_millis(200));
    let binding = world.views.iter().rev().find_map(|view| match view {
        Effect::Shows(Picture::Binding(view)) => Some(view.clone()),
        _ => None,
    });
    let shown = &binding.unwrap().targets[0];
    assert_eq!(
        (shown.target, shown.registered, shown.state),
        (target(1, 80), true, Some(HealthState::Healthy))
    );
    let group = world.views.iter().rev().find_map(|view| match view {
        Effect::Shows(Picture::Group(view)) => Some(view.clone()),
        _ => None,
    });
    assert_eq!(group.unwrap().foreign, 1);
    world.annotate(service("web").port("http", 80));
    // The pod still runs, so Headgate keeps the time of the deregistration while the load balancer may send to the pod.
    for round in 0..10 {
        world.answer_all();
        let gone = world.views.contains(&Effect::Shows(Picture::GroupGone(arn("blue"))));
        assert!(!gone || round > 5, "its target may come back");
        world.wait(Duration::from_secs(20));
    }
    world.answer_all();
    world.wait(Duration::from_secs(1));
    assert!(world.views.contains(&Effect::Shows(Picture::GroupGone(arn("blue")))));
    assert!(world.views.iter().any(|view| matches!(view, Effect::Shows(Picture::BindingGone(_)))));
}

#[test]
fn a_target_removed_by_hand_is_put_back_by_the_next_read() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.wait(Duration::from_secs(10));
    let (id, call) = world.open.pop().unwrap();
    assert!(matches!(call, Call::ReadHealth { .. }));
    world.step(Input::Answered { id, result: Ok(Answer::Health(vec![])) });
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["+blue 10.0.0.1:80".into()], vec![Cause::TargetMissing])
    );
}

#[test]
fn what_somebody_else_takes_out_is_put_back_in_the_step_that_sees_it_and_the_group_is_read_sooner() {
    let healthy = |last: u8| (last, HealthState::Healthy.into());
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    world.wait(Duration::from_secs(10));
    world.says_all(&[healthy(1), healthy(2)]);
    world.wait(Duration::from_secs(60));
    world.says_all(&[(1, HealthState::Draining.into()), healthy(2)]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    world.takes_changes();
    let mut reads = 0;
    for _ in 0..40 {
        world.wait(Duration::from_secs(1));
        reads += world.open.len();
        world.says_all(&[healthy(1), healthy(2)]);
    }
    assert!((7..=14).contains(&reads), "{reads} reads in 40 s");
    for _ in 0..600 {
        world.wait(Duration::from_secs(1));
        world.says_all(&[healthy(1), healthy(2)]);
    }
    let mut reads = 0;
    for _ in 0..180 {
        world.wait(Duration::from_secs(1));
        reads += world.open.len();
        world.says_all(&[healthy(1), healthy(2)]);
    }
    assert!((2..=3).contains(&reads), "{reads} reads in 180 s: it is over");
}
