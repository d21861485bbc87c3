//! Tests of the zone guard: evictions that would leave too few healthy targets in a zone.

use super::{evicting::no_budget, *};
use crate::model::{
    LeavingFacts, NodeFacts, Uid,
    eviction::Ruling,
    leaving::{Asked, Mark},
    policy::MIN_HEALTHY_PER_ZONE,
};

const HEALTHY: HealthState = HealthState::Healthy;

impl World {
    /// Creates one node in each zone, with the name of the zone.
    fn nodes(&mut self, zones: &[(&str, bool)]) {
        let node = |(zone, takes_pods): &(&str, bool)| NodeFacts {
            name: (*zone).into(),
            zone: Some((*zone).into()),
            takes_pods: *takes_pods,
            ..NodeFacts::default()
        };
        let nodes = zones.iter().map(node).collect();
        self.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: self.now });
    }

    /// Accepts the open calls for 10 s. AWS reports these targets.
    pub(super) fn reads(&mut self, there: &[(u8, HealthState)]) {
        for _ in 0..5 {
            self.wait(Duration::from_secs(2));
            for (id, call) in std::mem::take(&mut self.open) {
                let answer = match call {
                    Call::ReadHealth { .. } => {
                        let all = there.iter().map(|(last, state)| (target(*last, 80), (*state).into()));
                        Answer::Health(all.collect())
                    }
                    _ => Answer::Done,
                };
                self.step(Input::Answered { id, result: Ok(answer) });
            }
        }
    }

    fn ask(&mut self, builder: &PodBuilder, held: bool) {
        let at = self.wall();
        let asked = LeavingFacts { ask: Asked { held, ..Asked::first(at) }, ..LeavingFacts::asked(at, at) };
        self.apply(builder.clone().leaving(asked));
    }

    /// Completes and returns all open writes of annotations.
    fn marked(&mut self) -> Vec<(String, Mark)> {
        let marks = self.marks();
        for mark in &marks {
            self.written_mark(mark, Ok(()));
        }
        marks.iter().map(|write| (write.pod.name.to_string(), write.mark)).collect()
    }
}

fn held(name: &str, last: u8, zone: &str) -> PodBuilder {
    pod(name, &format!("u-{name}")).at(last).on(zone).sleeping(150, 180)
}

/// Creates `a1` and `a2` in one zone and `b1` in another zone. All pods are healthy and have a hold.
fn two_and_one() -> (World, [PodBuilder; 3]) {
    let pods = [held("a1", 1, "a"), held("a2", 2, "a"), held("b1", 3, "b")];
    let mut world = World::new(vec![web()], pods.to_vec());
    world.nodes(&[("a", true), ("b", true)]);
    world.reads(&[(1, HEALTHY), (2, HEALTHY), (3, HEALTHY)]);
    (world, pods)
}

fn is_let_go(said: &[(String, Mark)], pod: &str, why: Cause) -> bool {
    said.iter()
        .any(|(name, mark)| name == pod && matches!(mark, Mark::MayGo { reason, .. } if *reason == why))
}

fn waits_for_zone(said: &[(String, Mark)], pod: &str) -> bool {
    let waits = |mark: &Mark| matches!(mark, Mark::Waits { reason: Cause::EvictionWaitsForZone, .. });
    said.iter().any(|(name, mark)| name == pod && waits(mark))
}

#[test]
fn of_the_last_two_pods_of_a_zone_one_is_let_go_and_the_other_when_a_replacement_is_healthy() {
    let (mut world, [a1, a2, _]) = two_and_one();
    let Ruling::Wait { mark: Some(mark), .. } = world.asks("a1") else { panic!("it passed") };
    assert!(matches!(mark, Mark::Asked(Asked { held: true, .. })));
    world.ask(&a1, true);
    world.ask(&a2, true);
    let said = world.marked();
    assert!(is_let_go(&said, "a1", Cause::ZoneAllows), "{said:?}");
    assert!(waits_for_zone(&world.marked(), "a2") || waits_for_zone(&said, "a2"));
    assert_eq!(world.changes(), [""; 0], "a pod with a hold stays a target until it ends");
    // The first pod terminates, and another pod starts.
    world.delete(a1);
    world.apply(held("a3", 4, "a"));
    world.reads(&[(2, HEALTHY), (3, HEALTHY), (4, HealthState::Initial)]);
    assert!(!is_let_go(&world.marked(), "a2", Cause::ZoneAllows));
    world.reads(&[(2, HEALTHY), (3, HEALTHY), (4, HEALTHY)]);
    assert!(is_let_go(&world.marked(), "a2", Cause::ZoneAllows));
}

#[test]
fn an_older_state_of_a_pod_that_was_let_go_does_not_let_another_one_of_its_zone_go() {
    let (mut world, [a1, a2, _]) = two_and_one();
    world.ask(&a1, true);
    world.ask(&a2, true);
    let said = world.marked();
    assert!(is_let_go(&said, "a1", Cause::ZoneAllows), "{said:?}");
    // Two replicas have answered and recorded requests, and the watch lags.
    for _ in 0..4 {
        world.ask(&a1, true);
        world.wait(Duration::from_secs(2));
        let said = world.marked();
        assert!(!said.iter().any(|(_, mark)| matches!(mark, Mark::MayGo { .. })), "{said:?}");
    }
    // If the watch never shows an annotation, another program has removed the annotation. The leader then decides
    // again.
    world.wait(Duration::from_secs(10));
    world.ask(&a1, true);
    let said = world.marked();
    assert!(said.iter().any(|(_, mark)| matches!(mark, Mark::MayGo { .. })), "{said:?}");
}

#[test]
fn a_pod_that_is_alone_in_its_zone_and_one_that_is_not_healthy_do_not_wait() {
    let (mut world, [a1, ..]) = two_and_one();
    assert_eq!(world.asks("b1"), Ruling::Pass(Cause::HoldAllows));
    // Headgate reads the health of a healthy group once a minute.
    world.wait(Duration::from_secs(60));
    world.reads(&[(1, HealthState::Unhealthy), (2, HEALTHY), (3, HEALTHY)]);
    world.delete(held("a2", 2, "a"));
    world.apply(held("a3", 5, "a"));
    world.ask(&a1, true);
    assert!(is_let_go(&world.marked(), "a1", Cause::ZoneAllows));
}

#[test]
fn under_a_zonal_shift_its_zone_is_not_guarded_and_the_others_are_and_what_it_hides_serves_nobody() {
    const SHIFTED: HealthState = HealthState::ZonalShift;
    let (mut world, [a1, a2, _]) = two_and_one();
    world.apply(held("b2", 4, "b"));
    world.wait(Duration::from_secs(60));
    world.reads(&[(1, SHIFTED), (2, SHIFTED), (3, HEALTHY), (4, HEALTHY)]);
    for pod in [&a1, &a2] {
        world.ask(pod, true);
    }
    let mut said = world.marked();
    said.extend(world.marked());
    assert!(["a1", "a2"].iter().all(|pod| is_let_go(&said, pod, Cause::ZoneAllows)), "{said:?}");
    // In the other zone, one target must remain.
    let (b1, b2) = (held("b1", 3, "b"), held("b2", 4, "b"));
    world.ask(&b1, true);
    world.ask(&b2, true);
    let mut said = world.marked();
    said.extend(world.marked());
    let gone = ["b1", "b2"].iter().filter(|pod| is_let_go(&said, pod, Cause::ZoneAllows)).count();
    assert_eq!(gone, 1, "{said:?}");
}

#[test]
fn a_pod_that_is_starting_in_the_zone_counts_as_something_to_wait_for() {
    let (mut world, [_, _, b1]) = two_and_one();
    world.apply(pod("b2", "u-b2").on("b"));
    assert!(matches!(world.asks("b1"), Ruling::Wait { .. }));
    world.ask(&b1, true);
    assert!(waits_for_zone(&world.marked(), "b1"));
    world.delete(pod("b2", "u-b2").on("b"));
    world.wait(Duration::from_secs(2));
    assert!(is_let_go(&world.marked(), "b1", Cause::ZoneAllows), "nothing comes any more");
}

#[test]
fn it_waits_for_a_minute_from_the_first_request_at_most_and_says_whether_the_zone_had_room() {
    for (room, reason) in [(true, Reason::ReplacementTooSlow), (false, Reason::ReplacementTooSlow)] {
        let (mut world, [a1, ..]) = two_and_one();
        world.apply(held("a2", 2, "a").terminating());
        world.apply(pod("a3", "u-a3").on("a"));
        world.nodes(&[("a", room), ("b", true)]);
        world.reads(&[(1, HEALTHY), (3, HEALTHY)]);
        let first = world.wall();
        world.ask(&a1, true);
        assert!(waits_for_zone(&world.marked(), "a1"));
        // A new leader measures the timeout from the annotations.
        world.step(Input::Leadership(Leadership::Standby));
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        for _ in 0..29 {
            world.reads(&[(1, HEALTHY), (3, HEALTHY)]);
            let let_go = world.marked().iter().any(|(_, mark)| matches!(mark, Mark::MayGo { .. }));
            assert!(!let_go || world.wall().since(first) >= Duration::from_secs(60));
            if let_go {
                break;
            }
        }
        assert!(world.wall().since(first) < Duration::from_secs(80), "{:?}", world.wall().since(first));
        assert_eq!(world.notices.last().map(|notice| notice.reason), Some(reason));
    }
}

#[test]
fn a_pod_without_a_hold_is_not_taken_out_before_its_zone_allows() {
    let pods = [1, 2].map(|last| pod(&format!("a{last}"), &format!("u-a{last}")).at(last).on("a"));
    let mut world = World::new(vec![web()], pods.to_vec());
    world.nodes(&[("a", true)]);
    world.reads(&[(1, HEALTHY), (2, HEALTHY)]);
    for builder in &pods {
        world.ask(builder, false);
    }
    let check = world.check_of("a1");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.checks(), [], "its budgets are not asked about while its zone would be thin");
    assert!(waits_for_zone(&world.marked(), "a2"));
    assert_eq!(check.uid, Uid::new("u-a1"));
}

#[test]
fn two_whose_budgets_were_asked_about_side_by_side_do_not_leave_a_zone_together() {
    let pods = [1, 2].map(|last| pod(&format!("a{last}"), &format!("u-a{last}")).at(last).on("a"));
    let mut world = World::new(vec![web()], pods.to_vec());
    world.nodes(&[("a", true)]);
    world.reads(&[(1, HEALTHY), (2, HEALTHY)]);
    world.ask(&pods[0], false);
    let check = world.check_of("a1");
    // During the check, the other pod terminates.
    world.apply(pods[1].clone().terminating());
    world.apply(pod("a3", "u-a3").on("a"));
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.causes(), [Cause::PodTerminating], "it is looked at again first");
}

#[test]
fn where_nobody_asks_for_it_no_zone_is_guarded() {
    let pods = [held("a1", 1, "a"), held("a2", 2, "a")];
    let off = || web().with(MIN_HEALTHY_PER_ZONE, "0");
    let mut world = World::new(vec![off()], pods.to_vec());
    world.nodes(&[("a", true)]);
    assert_eq!(world.asks("a1"), Ruling::Pass(Cause::HoldAllows));
    world.annotate(off().with(MIN_HEALTHY_PER_ZONE, "1"));
    assert!(matches!(world.asks("a1"), Ruling::Wait { .. }));
    world.nodes(&[]);
    assert_eq!(world.asks("a1"), Ruling::Pass(Cause::HoldAllows), "nothing is known of the zones");
}

#[test]
fn an_eviction_is_not_given_up_while_the_node_takes_no_pods() {
    let (mut world, [a1, ..]) = two_and_one();
    world.nodes(&[("a", false), ("b", true)]);
    world.ask(&a1, true);
    assert!(is_let_go(&world.marked(), "a1", Cause::ZoneAllows));
    world.wait(Duration::from_secs(16 * 60));
    world.answer_all();
    assert_eq!(world.marked(), []);
    world.nodes(&[("a", true), ("b", true)]);
    world.wait(Duration::from_secs(60));
    world.answer_all();
    assert_eq!(world.marked(), [("a1".to_owned(), Mark::Undone)]);
}

#[test]
fn a_paused_group_guards_no_zone() {
    let other = || service("other").port("http", 80).annotated("http=green");
    let off = web().with(MIN_HEALTHY_PER_ZONE, "0");
    let pods = [held("a1", 1, "a"), held("a2", 2, "a")];
    let mut world = World::new(vec![off, other()], pods.to_vec());
    world.nodes(&[("a", true)]);
    assert!(matches!(world.asks("a1"), Ruling::Wait { .. }));
    world.annotate(other().with(crate::model::policy::PAUSED, "true"));
    assert_eq!(world.asks("a1"), Ruling::Pass(Cause::HoldAllows));
}

#[test]
fn a_group_in_whose_zone_a_pod_waits_is_read_often() {
    let (mut world, [a1, a2, b1]) = two_and_one();
    let reads = |world: &mut World| {
        let mut reads = 0;
        for _ in 0..10 {
            world.wait(Duration::from_secs(1));
            for (id, _) in std::mem::take(&mut world.open) {
                let there = [1, 2, 3].map(|last| (target(last, 80), HEALTHY.into()));
                reads += 1;
                world.step(Input::Answered { id, result: Ok(Answer::Health(there.into())) });
            }
            world.marked();
        }
        reads
    };
    world.ask(&b1, true);
    let before = reads(&mut world);
    world.ask(&a1, true);
    world.ask(&a2, true);
    let after = reads(&mut world);
    assert!(before <= 1 && after >= 8, "{before}, then {after} reads in ten seconds");
}
