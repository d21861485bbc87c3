//! Tests of gates that open for the first time because the health of a registered target was unreadable for too long.

use super::{
    gating::{HEALTHY, closed, open},
    *,
};
use crate::model::gate::Shown;

const PATIENCE: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings { gate_patience: Some(PATIENCE), ..cluster_wide() }
}

/// Creates a leader with these Services. AWS has reported that their groups are empty.
fn ready_with(settings: Settings, services: Vec<ServiceBuilder>) -> World {
    let mut world = World::with(settings);
    world.relist_services(services);
    world.relist_pods(vec![]);
    world.answer_all();
    world.passes(8, &[]);
    world
}

fn ready() -> World {
    ready_with(settings(), vec![web()])
}

impl World {
    /// Answers the open `DescribeTargetHealth` calls of these groups with a failure.
    fn reads_fail(&mut self, of: &[&str], class: FailureClass) {
        let fails = |call: &Call| matches!(call, Call::ReadHealth { group } if of.contains(&group.name()));
        let (reads, rest) = std::mem::take(&mut self.open).into_iter().partition(|(_, call)| fails(call));
        self.open = rest;
        for (id, _) in reads {
            self.step(Input::Answered { id, result: Err(failure(class)) });
        }
    }

    /// Advances the time second by second. AWS accepts changes, but every `DescribeTargetHealth` call fails.
    fn unread_for(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.wait(Duration::from_secs(1));
            self.takes_changes();
            self.reads_fail(&["blue", "green"], FailureClass::Unavailable);
        }
    }
}

/// Creates a pod whose registration AWS accepts. No `DescribeTargetHealth` call is open.
fn registered() -> World {
    let mut world = ready();
    world.apply(closed("a", "1", 1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    world.takes_changes();
    world
}

/// Whether a gate opens within this many seconds, while every `DescribeTargetHealth` call fails.
fn opens(world: &mut World, seconds: u64) -> bool {
    let mut opened = false;
    for _ in 0..seconds {
        world.unread_for(1);
        opened |= world.turned().iter().any(|turned| turned.contains('+'));
    }
    opened
}

#[test]
fn a_gate_opens_when_the_health_of_a_registered_target_could_not_be_read_for_as_long_as_is_asked_for() {
    let mut world = registered();
    assert!(!opens(&mut world, 59));
    world.wait(Duration::from_secs(1));
    let writes = world.writes();
    let condition = &writes[0].condition;
    assert_eq!((writes.len(), condition.open, condition.turns), (1, true, true));
    assert_eq!(condition.reason, Cause::HealthUnreadable);
    assert_eq!(
        condition.message,
        "pod IP 10.0.0.1, target 10.0.0.1:80 of target group blue: registered, but its health was unreadable for \
         60 s"
    );
    assert_eq!(world.said(), []);
    world.end_write(&writes[0], Ok(()));
    assert_eq!(world.said(), [Reason::HealthUnread]);
    assert!(world.notices[0].note.contains("AWS did not answer DescribeTargetHealth"));
}

#[test]
fn without_being_asked_for_it_stays_closed_however_long_nothing_can_be_read() {
    let mut world = ready_with(cluster_wide(), vec![web()]);
    world.apply(closed("a", "1", 1));
    world.takes_changes();
    assert!(!opens(&mut world, 3600));
}

#[test]
fn no_read_need_fail_for_it_to_be_looked_at_and_without_one_that_failed_it_does_not_open() {
    let mut world = registered();
    world.wait(Duration::from_secs(90));
    assert!(world.open.iter().any(|(_, call)| matches!(call, Call::ReadHealth { .. })), "it is under way");
    world.wait(Duration::from_secs(90));
    assert_eq!(world.turned().iter().filter(|turned| turned.contains('+')).count(), 0);
    world.reads_fail(&["blue"], FailureClass::Unavailable);
    world.wait(Duration::from_secs(5));
    assert_eq!(world.turned(), ["a + HealthUnreadable"]);
}

#[test]
fn a_read_that_was_answered_is_an_answer_whatever_it_says() {
    for state in [HealthState::Initial, HealthState::Unhealthy, HealthState::Unavailable] {
        let mut world = registered();
        world.unread_for(5);
        world.passes(15, &[(1, state)]);
        assert!(!opens(&mut world, 600), "{state:?}");
    }
    let mut world = registered();
    world.passes(2, &[]);
    assert!(!opens(&mut world, 600), "AWS may not show it yet");
}

#[test]
fn a_read_that_began_before_the_registration_was_taken_is_none() {
    let mut world = ready();
    world.wait(Duration::from_secs(60));
    world.apply(closed("a", "1", 1));
    world.wait(Duration::from_secs(1));
    world.takes_changes();
    world.says(&[]);
    assert!(opens(&mut world, 61));
}

#[test]
fn what_aws_did_not_say_that_it_has_taken_is_not_waited_for() {
    for class in [FailureClass::Unavailable, FailureClass::Throttled, FailureClass::Denied] {
        let mut world = ready();
        world.apply(closed("a", "1", 1));
        for _ in 0..600 {
            world.refuse_changes(class);
            world.reads_fail(&["blue"], FailureClass::Unavailable);
            world.wait(Duration::from_secs(1));
            assert!(world.turned().iter().all(|turned| turned.contains('-')), "{class:?}");
        }
        // AWS accepts the next registration, which starts the timeout.
        assert!(!opens(&mut world, 60));
        assert!(opens(&mut world, 20), "{class:?}");
    }
}

#[test]
fn every_target_of_a_pod_has_to_be_healthy_or_unreadable_for_long_enough() {
    let both = || web().annotated("http=blue,http=green");
    for state in [HEALTHY, HealthState::Unhealthy] {
        let mut world = ready_with(settings(), vec![both()]);
        world.apply(closed("a", "1", 1));
        world.takes_changes();
        let mut turned = Vec::new();
        for _ in 0..70 {
            world.wait(Duration::from_secs(1));
            world.takes_changes();
            world.reads_fail(&["green"], FailureClass::Denied);
            world.says(&[(1, state)]);
            turned.extend(world.turned());
        }
        let opened = turned.contains(&"a + HealthUnreadable".to_owned());
        assert_eq!(opened, state == HEALTHY, "one group alone cannot be read, {state:?}");
    }
}

#[test]
fn that_the_target_group_does_not_exist_is_an_answer() {
    let mut world = registered();
    for _ in 0..300 {
        world.wait(Duration::from_secs(1));
        world.reads_fail(&["blue"], FailureClass::Gone);
        assert!(world.turned().iter().all(|turned| turned.contains('-')));
    }
}

#[test]
fn a_gate_that_was_closed_for_another_ip_waits_for_a_read_also_under_the_next_leader() {
    let mut world = registered();
    world.passes(5, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
    world.apply(open("a", "1", 1));
    world.apply(open("a", "1", 1).at(2));
    assert_eq!(world.turned(), ["a - IpChanged"]);
    world.takes_changes();
    world.apply(closed("a", "1", 2));
    world.unread_for(20);
    let writes = world.writes();
    assert!(writes[0].condition.message.starts_with("closed again; target 10.0.0.2:80"), "{writes:?}");
    world.end_write(&writes[0], Ok(()));
    assert!(!opens(&mut world, 300));

    let mut next = ready();
    next.apply(pod("a", "1").at(2).gated(Shown::ClosedAgain));
    next.takes_changes();
    assert!(!opens(&mut next, 300));
}

#[test]
fn nor_does_one_open_again_whose_target_headgate_took_out_and_registers_again() {
    let deregisters = || web().with(WHEN_NOT_READY, "deregister").with(REGISTER_WHEN, "ready");
    let mut world = ready_with(settings(), vec![deregisters()]);
    world.apply(closed("a", "1", 1).ready());
    world.takes_changes();
    world.passes(5, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
    world.apply(open("a", "1", 1).ready());
    world.apply(open("a", "1", 1));
    world.passes(20, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a - RegisteredAgain"]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.takes_changes();
    world.apply(closed("a", "1", 1));
    world.unread_for(5);
    world.apply(closed("a", "1", 1).ready());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    assert!(!opens(&mut world, 300));
}

#[test]
fn one_whose_condition_was_wiped_out_was_open_before() {
    let mut world = registered();
    world.passes(5, &[(1, HEALTHY)]);
    world.apply(open("a", "1", 1));
    world.turned();
    world.apply(pod("a", "1").at(2).gated(Shown::Missing));
    world.takes_changes();
    assert!(!opens(&mut world, 300));
}

#[test]
fn the_next_leader_believes_no_registration_that_it_has_not_seen_itself() {
    let before = registered();
    let mut world = World::standby(settings());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_written(vec![]);
    world.relist_services(vec![web()]);
    world.relist_pods(vec![closed("a", "1", 1)]);
    world.answer_all();
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert!(!opens(&mut world, 300), "a removal may have been sent that the ledger does not tell of");
    world.apply(closed("b", "2", 2));
    assert_eq!(world.changes(), ["+blue 10.0.0.2:80"]);
    assert!(opens(&mut world, 70), "it has seen that one");
}

#[test]
fn who_loses_the_lead_and_leads_again_begins_anew() {
    let mut world = registered();
    world.unread_for(40);
    world.step(Input::Leadership(Leadership::Standby));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.open.clear();
    assert!(!opens(&mut world, 300));
}

#[test]
fn the_time_does_not_begin_while_a_removal_that_was_given_up_may_take_effect() {
    let mut world = ready();
    world.apply(pod("z", "26").at(1));
    world.takes_changes();
    world.delete(pod("z", "26").at(1));
    world.refuse_changes(FailureClass::Unavailable);
    world.apply(closed("a", "1", 1));
    assert!(!opens(&mut world, 30 + 60), "it takes effect within half a minute, if at all");
    assert!(opens(&mut world, 10), "the registration was sent after that");
}

#[test]
fn a_pod_that_ends_meanwhile_or_is_taken_out_is_not_opened() {
    let mut world = registered();
    world.unread_for(30);
    world.apply(closed("a", "1", 1).terminating());
    assert!(!opens(&mut world, 100));
    let mut world = registered();
    world.unread_for(30);
    world.apply(closed("a", "1", 1).labelled("other"));
    world.takes_changes();
    world.apply(closed("a", "1", 1));
    world.takes_changes();
    assert!(!opens(&mut world, 59), "it is registered anew, and counts from then");
}

/// Creates a pod `a` whose gate is open because the health of its target was unreadable.
fn unread() -> World {
    let mut world = registered();
    assert!(opens(&mut world, 60));
    world.apply(open("a", "1", 1).unread());
    world
}

#[test]
fn when_the_target_can_be_read_and_is_healthy_the_gate_gets_its_usual_reason() {
    let mut world = unread();
    world.unread_for(30);
    assert_eq!(world.turned(), [""; 0]);
    world.passes(15, &[(1, HEALTHY)]);
    let writes = world.writes();
    let condition = &writes[0].condition;
    assert_eq!((condition.open, condition.turns, condition.reason), (true, false, Cause::TargetsHealthy));
    world.end_write(&writes[0], Ok(()));
    world.apply(open("a", "1", 1));
    world.passes(60, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), [""; 0]);
    assert_eq!(world.said(), [Reason::HealthUnread]);
}

#[test]
fn when_it_can_be_read_and_is_not_healthy_the_gate_stays_open() {
    let mut world = unread();
    world.passes(400, &[(1, HealthState::Unhealthy)]);
    assert_eq!(world.turned(), [""; 0], "nothing closes a gate because of what the load balancer says");
    assert!(!world.said().contains(&Reason::GateDelayed));
    let gate = world.engine.explain(&ObjectKey::new(NAMESPACE, "a"), world.now).gate.unwrap();
    assert_eq!(gate.verdict, None, "what its status says is what there is to say");
    world.passes(30, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
}

#[test]
fn an_unread_gate_closes_for_another_ip_like_any_other_and_under_any_leader() {
    let mut world = unread();
    world.apply(open("a", "1", 1).at(2).unread());
    assert_eq!(world.turned(), ["a - IpChanged"]);

    let mut next = ready_with(cluster_wide(), vec![web()]);
    next.apply(open("a", "1", 1).unread());
    next.passes(10, &[(1, HEALTHY)]);
    assert_eq!(next.turned(), ["a + TargetsHealthy"], "also without the setting");
}
