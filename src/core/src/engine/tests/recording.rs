//! Tests of the recorded changes, on the leader and on standbys.

use super::{
    evicting::{asked, three},
    *,
};
use crate::model::{Health, NodeFacts, Transition, gate::Shown, transition::TargetStep};

impl World {
    /// Returns the changes that were recorded after the last call. Each entry names the object and its change.
    fn happened(&mut self) -> Vec<String> {
        let mut happened = Vec::new();
        self.views.retain(|view| {
            let Effect::Happened(what) = view else { return true };
            happened.push(match what {
                Transition::Target(group, target, owner, step) => {
                    format!("{} {} {target} {step:?}", group.name(), owner.pod.name)
                }
                Transition::Pod(owner, step) => format!("{} {step:?}", owner.pod.name),
                other => format!("{other:?}"),
            });
            false
        });
        happened
    }

    /// Answers the open `DescribeTargetHealth` calls, and the next call after 70 s, with these targets.
    fn answers(&mut self, shown: &[(u8, HealthState)]) {
        let states = shown.iter().map(|(last, state)| (target(*last, 80), Health::from(*state)));
        let states: Vec<_> = states.collect();
        self.wait(Duration::from_secs(70));
        for (id, call) in std::mem::take(&mut self.open) {
            let answer = match call {
                Call::ReadHealth { .. } => Answer::Health(states.clone()),
                _ => Answer::Done,
            };
            self.step(Input::Answered { id, result: Ok(answer) });
        }
    }
}

#[test]
fn the_life_of_a_target_comes_out_step_by_step() {
    let mut world = World::new(vec![web()], vec![pod("b", "u-b").at(2)]);
    world.answers(&[(2, HealthState::Healthy)]);
    world.happened();

    world.apply(pod("a", "u-a").at(1).gated(Shown::Closed));
    assert_eq!(world.happened(), ["blue a 10.0.0.1:80 Wanted(PodHasIp)"]);
    world.answers(&[(2, HealthState::Healthy)]);
    assert_eq!(world.happened(), ["blue a 10.0.0.1:80 Registered"]);
    let initial = Some(Health::from(HealthState::Initial));
    world.answers(&[(2, HealthState::Healthy), (1, HealthState::Initial)]);
    let shown = |before, now| format!("blue a 10.0.0.1:80 {:?}", TargetStep::Shown(before, now));
    assert_eq!(world.happened(), [shown(None, initial)]);
    world.answers(&[(2, HealthState::Healthy), (1, HealthState::Healthy)]);
    let healthy = Some(Health::from(HealthState::Healthy));
    assert_eq!(world.happened(), [shown(Some(HealthState::Initial), healthy)]);
    world.answers(&[(2, HealthState::Healthy), (1, HealthState::Healthy)]);
    assert_eq!(world.happened(), [""; 0], "nothing is otherwise");
    world.apply(pod("a", "u-a").at(1).gated(Shown::Open(None)));
    assert_eq!(world.happened(), ["a Gate(Open)"]);

    world.apply(pod("a", "u-a").at(1).gated(Shown::Open(None)).terminating());
    assert_eq!(world.happened(), ["blue a 10.0.0.1:80 Unwanted(PodTerminating)"]);
    world.answers(&[(2, HealthState::Healthy), (1, HealthState::Healthy)]);
    assert_eq!(world.happened(), ["blue a 10.0.0.1:80 Deregistered"]);
    world.answers(&[(2, HealthState::Healthy), (1, HealthState::Draining)]);
    let draining = Some(Health::from(HealthState::Draining));
    assert_eq!(world.happened(), [shown(Some(HealthState::Healthy), draining)]);
    world.delete(pod("a", "u-a").at(1));
    assert_eq!(world.happened(), ["a Ended", "a Gone"]);
    world.answers(&[(2, HealthState::Healthy)]);
    assert_eq!(world.happened(), [shown(Some(HealthState::Draining), None)]);
}

#[test]
fn what_aws_refuses_comes_out_and_then_ever_more_rarely() {
    let mut world = World::new(vec![web()], vec![pod("a", "u-a").at(1)]);
    world.happened();
    world.apply(pod("a", "u-a").at(1).terminating());
    world.happened();
    let mut failed = Vec::new();
    for _ in 0..9 {
        world.refuse_changes(FailureClass::Unavailable);
        failed.push(world.happened().len());
        world.wait(Duration::from_secs(10));
    }
    assert_eq!(failed, [1, 1, 0, 1, 0, 0, 0, 1, 0], "the first, second, fourth and eighth");
}

#[test]
fn a_standby_says_what_it_sees_and_the_lead_is_said_when_it_changes() {
    let mut world = World::standby(cluster_wide());
    world.relist_written(vec![]);
    world.relist_services(vec![web()]);
    world.relist_pods(vec![]);
    world.answer_all();
    world.happened();
    world.apply(pod("a", "u-a").at(1).gated(Shown::Closed));
    world.apply(pod("a", "u-a").at(1).gated(Shown::Open(None)));
    let seen = ["blue a 10.0.0.1:80 Wanted(PodHasIp)", "a Gate(Open)"];
    assert_eq!(world.happened(), seen);
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.happened(), ["Leads(true)"]);
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.happened(), [""; 0]);
    world.step(Input::Leadership(Leadership::Standby));
    assert_eq!(world.happened(), ["Leads(false)"]);
}

#[test]
fn what_the_first_read_of_a_leader_shows_may_have_been_so_for_long() {
    let mut world = World::new(vec![web()], vec![pod("a", "u-a").at(1)]);
    world.happened();
    let mut next = World::standby(cluster_wide());
    next.ledgers = world.ledgers;
    next.relist_written(vec![]);
    next.relist_services(vec![web()]);
    next.relist_pods(vec![pod("a", "u-a").at(1)]);
    next.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    next.answers(&[(1, HealthState::Healthy)]);
    let said = next.happened();
    assert!(!said.iter().any(|said| said.contains("Shown")), "{said:?}");
    next.answers(&[(1, HealthState::Healthy)]);
    next.happened();
    next.answers(&[(1, HealthState::Unhealthy)]);
    assert_eq!(next.happened().len(), 1);
}

#[test]
fn an_address_that_goes_from_one_pod_to_another_is_two_steps() {
    let mut world = World::new(vec![web()], vec![pod("a", "u-a").at(1)]);
    world.happened();
    world.apply(pod("b", "u-b").at(1));
    let said = world.happened();
    let unwanted = format!("{:?}", TargetStep::Unwanted(Cause::IpChanged));
    assert!(said[0].starts_with("blue a") && said[0].ends_with(&unwanted), "{said:?}");
    assert!(said[1].starts_with("blue b") && said[1].contains("Wanted"), "{said:?}");
}

#[test]
fn a_node_that_is_about_to_go_is_said_and_that_it_stays() {
    let mut world = World::new(vec![web()], vec![pod("a", "u-a").at(1).on("n")]);
    let node = |goes: bool| NodeFacts { name: "n".into(), shuts_down: goes, ..NodeFacts::default() };
    for goes in [false, true, false] {
        world.step(Input::Node { change: Change::Applied(node(goes)), seen: world.now });
    }
    let said: Vec<String> = world.happened().into_iter().filter(|said| said.starts_with("Node")).collect();
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn an_eviction_that_is_let_through_is_said_with_its_reason() {
    let mut world = three();
    world.happened();
    world.apply(asked("a", 1, world.wall()));
    let mut said = Vec::new();
    for _ in 0..20 {
        while let Some(check) = world.checks().pop() {
            world.checked(&check, Ok(eviction::Checked { refused: None, budgets: Vec::new() }));
        }
        while let Some(mark) = world.marks().pop() {
            world.written_mark(&mark, Ok(()));
        }
        said.extend(world.happened());
        world.answers(&[(2, HealthState::Healthy), (3, HealthState::Healthy)]);
    }
    let of_a = |step: &str| said.iter().any(|said| said.starts_with("blue a") && said.contains(step));
    assert!(of_a("Unwanted(PodEvicting)") && of_a("Deregistered"), "{said:?}");
    let passes = said.iter().filter(|said| said.starts_with("a Eviction(") && said.ends_with("true)"));
    assert_eq!(passes.count(), 1, "{said:?}");
}

#[test]
fn a_gate_that_a_pod_begins_with_is_no_news() {
    let mut world = World::new(vec![web()], vec![]);
    world.apply(pod("a", "u-a").at(1).gated(Shown::Closed));
    let said = world.happened();
    assert!(!said.is_empty() && !said.iter().any(|said| said.contains("Gate")), "{said:?}");
}
