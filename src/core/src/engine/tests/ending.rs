//! Tests of pods that terminate before their load balancer has stopped sending to them.

use super::*;
use crate::{
    hold::Holds,
    model::{
        Bounds, Hold, NodeFacts,
        policy::{HOLD, PAUSED},
    },
};

const HEALTHY: HealthState = HealthState::Healthy;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl World {
    /// Waits a second. Then returns these targets for all open `DescribeTargetHealth` calls.
    fn read_shows(&mut self, there: &[(u8, HealthState)]) {
        self.wait(seconds(1));
        let (reads, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
        self.open = rest;
        assert_ne!(reads, [], "a read is due");
        for (id, _) in reads {
            let states = there.iter().map(|(last, state)| (target(*last, 80), (*state).into())).collect();
            self.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
        }
    }

    /// The target group of each pod that terminated too early.
    fn short(&self) -> Vec<&str> {
        let short = self.views.iter().filter_map(|view| match view {
            Effect::HoldTooShort(group) => Some(group.name()),
            _ => None,
        });
        short.collect()
    }

    fn notes(&self) -> Vec<(&str, &str)> {
        let about = |notice: &Notice| match &notice.about {
            About::Service(..) => "service",
            About::TargetBinding(..) => "targetbinding",
            About::Pod(..) => "pod",
            About::Grant(..) => "grant",
            About::IngressDaemonSet(..) => "set",
        };
        let all = self.notices.iter().filter(|notice| notice.reason == Reason::HoldTooShort);
        all.map(|notice| (about(notice), &*notice.note)).collect()
    }
}

/// Creates a `World` in which `a` at 10.0.0.1 is a healthy target in the target group of this Service.
fn healthy_for(service: ServiceBuilder, facts: &TargetGroupFacts) -> World {
    let mut world = World::unsynced();
    world.known = vec![facts.clone()];
    world.relist_services(vec![service]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    world.read_shows(&[(1, HEALTHY)]);
    world
}

fn healthy() -> World {
    healthy_for(web(), &group("blue"))
}

/// Terminates the pod. AWS accepts its deregistration immediately, and the pod is deleted after this time.
fn gone_after(world: &mut World, after: Duration) {
    world.apply(pod("a", "1").at(1).terminating());
    world.answer_all();
    world.wait(after);
    world.delete(pod("a", "1").at(1).terminating());
}

#[test]
fn a_pod_that_ends_before_the_load_balancer_stops_sending_is_counted_and_told() {
    let mut world = healthy();
    gone_after(&mut world, Duration::from_millis(1200));
    assert_eq!(world.short(), ["blue"]);
    let [(pod, said), (service, also)] = world.notes()[..] else { panic!("{:?}", world.notices) };
    assert_eq!((pod, service), ("pod", "service"));
    let part = "Target 10.0.0.1:80 of blue: the pod stopped 1.2 s after deregistration, but requests can arrive for 120 s.";
    assert!(said.contains(part), "{said}");
    assert!(also.contains("pod a stopped"), "{also}");
}

#[test]
fn a_pod_that_outlives_the_bound_of_its_load_balancer_is_not() {
    let alb = TargetGroupFacts { protocol: "HTTP".into(), ..group("blue") };
    for (facts, bound) in [(group("blue"), 120), (alb, 20)] {
        for (less, short) in [(0, 0), (1, 1)] {
            let mut world = healthy_for(web(), &facts);
            gone_after(&mut world, seconds(bound - less));
            assert_eq!(world.short().len(), short, "{bound} less {less}");
        }
    }
    let mut world = healthy();
    world.engine.leader.as_mut().unwrap().holds =
        Holds::new(Bounds { application: seconds(1), network: seconds(6) });
    gone_after(&mut world, seconds(6));
    assert_eq!(world.short(), [""; 0]);
}

#[test]
fn a_pod_that_is_gone_before_aws_has_answered_is_counted() {
    let mut forced = healthy();
    forced.delete(pod("a", "1").at(1));
    let mut missing = healthy();
    missing.relist_pods(vec![]);
    let mut unanswered = healthy();
    unanswered.apply(pod("a", "1").at(1).terminating());
    unanswered.refuse_changes(FailureClass::Throttled);
    unanswered.wait(seconds(300));
    unanswered.delete(pod("a", "1").at(1).terminating());
    for mut world in [forced, missing, unanswered] {
        assert_eq!(world.short(), ["blue"]);
        let (_, said) = world.notes()[0];
        assert!(said.contains("the pod stopped before deregistration"), "{said}");
        world.answer_all();
        world.wait(seconds(60));
        assert_eq!(world.short().len(), 1, "once");
    }
}

#[test]
fn a_pod_ends_once_when_its_containers_have_stopped_or_its_phase_says_so() {
    for ended in [pod("a", "1").at(1).stopped(), pod("a", "1").at(1).finished()] {
        let mut world = healthy();
        world.apply(pod("a", "1").at(1).terminating());
        world.answer_all();
        world.wait(seconds(5));
        world.apply(ended.clone());
        assert_eq!(world.short(), ["blue"]);
        world.wait(seconds(5));
        world.delete(ended);
        assert_eq!(world.short().len(), 1);
    }
    let mut held = healthy();
    held.apply(pod("a", "1").at(1).terminating());
    held.answer_all();
    held.wait(seconds(120));
    held.apply(pod("a", "1").at(1).stopped());
    assert_eq!(held.short(), [""; 0]);
}

#[test]
fn a_hold_that_was_asked_for_counts_as_far_as_it_says_that_more_is_needed() {
    for (of_service, of_pod, after, short) in [
        ("off", None, 0, 0),
        ("1s", None, 119, 1),
        ("1s", None, 120, 0),
        ("5m", None, 269, 1),
        ("5m", None, 270, 0),
        ("auto", Some(Hold::Off), 0, 0),
        ("off", Some(Hold::Auto), 119, 1),
        ("5m", Some(Hold::For(90)), 120, 0),
    ] {
        let mut world = healthy_for(web().with(HOLD, of_service), &group("blue"));
        let here = |of_pod: Option<Hold>| {
            let pod = pod("a", "1").at(1);
            of_pod.map_or(pod.clone(), |hold| pod.held(hold))
        };
        world.apply(here(of_pod));
        world.apply(here(of_pod).terminating());
        world.answer_all();
        world.wait(seconds(after));
        world.delete(here(of_pod).terminating());
        assert_eq!(world.short().len(), short, "{of_service} {of_pod:?} {after}");
    }
}

#[test]
fn a_pod_that_the_load_balancer_never_sent_to_or_that_lost_its_address_or_that_is_paused_is_not_counted() {
    let mut never_healthy = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    never_healthy.read_shows(&[(1, HealthState::Initial)]);
    let mut another_address = healthy();
    another_address.apply(pod("a", "1").at(2));
    another_address.answer_all();
    let mut paused = healthy();
    paused.annotate(web().with(PAUSED, "true"));
    for mut world in [never_healthy, another_address, paused] {
        world.delete(pod("a", "1").at(1));
        assert_eq!(world.short(), [""; 0]);
    }
}

#[test]
fn a_pod_that_was_taken_out_for_another_reason_must_outlive_the_bound_too_unless_it_is_put_back() {
    let mut world = healthy();
    world.apply(pod("a", "1").at(1).labelled("quarantine"));
    world.answer_all();
    world.wait(seconds(30));
    world.delete(pod("a", "1").at(1).labelled("quarantine"));
    assert_eq!(world.short(), ["blue"]);

    let mut back = healthy();
    back.apply(pod("a", "1").at(1).labelled("quarantine"));
    back.answer_all();
    back.apply(pod("a", "1").at(1));
    back.answer_all();
    back.wait(seconds(300));
    gone_after(&mut back, seconds(119));
    assert_eq!(back.short(), [""; 0], "it has not been healthy again");
}

#[test]
fn of_several_target_groups_the_one_counts_that_lacked_most() {
    let mut world = World::new(vec![web().annotated("http=blue,80=green")], vec![pod("a", "1").at(1)]);
    world.read_shows(&[(1, HEALTHY)]);
    world.apply(pod("a", "1").at(1).terminating());
    let is_of = |name: &str| {
        let name = name.to_owned();
        move |(_, call): &(RequestId, Call)| matches!(call, Call::Deregister { group, .. } if group.name() == name)
    };
    let at = world.open.iter().position(is_of("blue")).unwrap();
    let (id, _) = world.open.remove(at);
    world.step(Input::Answered { id, result: Ok(Answer::Done) });
    world.wait(seconds(10));
    world.delete(pod("a", "1").at(1));
    assert_eq!(world.short(), ["green"], "which had not answered at all");
}

#[test]
fn a_service_is_told_every_ten_minutes_at_most_and_of_each_pod_there_is_an_event() {
    let mut world = healthy();
    let another = |world: &mut World, uid: &str| {
        world.apply(pod(uid, uid).at(9));
        world.answer_all();
        world.read_shows(&[(9, HEALTHY)]);
        world.delete(pod(uid, uid).at(9));
        world.answer_all();
        world.notes().iter().filter(|(about, _)| *about == "service").count()
    };
    assert_eq!([another(&mut world, "x"), another(&mut world, "y")], [1, 1]);
    world.wait(seconds(600));
    assert_eq!(another(&mut world, "z"), 2);
    assert_eq!(world.short().len(), 3);
    assert_eq!(world.notes().iter().filter(|(about, _)| *about == "pod").count(), 3);
}

/// A standby that has seen the pod, whose target is in the ledger.
fn next_leader() -> World {
    let mut world = World::standby(cluster_wide());
    world.written(Change::Relisted(Scope::Cluster, vec![]));
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    world.claimed("blue", &[(1, "1")]);
    world
}

#[test]
fn the_next_leader_counts_what_it_has_removed_itself_and_nothing_twice() {
    let mut world = next_leader();
    world.apply(pod("a", "1").at(1).terminating());
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.delete(pod("a", "1").at(1));
    assert_eq!(world.short(), ["blue"], "gone before the answer");

    let mut gone_before = next_leader();
    gone_before.delete(pod("a", "1").at(1));
    gone_before.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    gone_before.answer_all();
    assert_eq!(gone_before.short(), [""; 0], "the leader before may have counted it");

    let mut deposed = healthy();
    deposed.apply(pod("a", "1").at(1).terminating());
    deposed.answer_all();
    deposed.step(Input::Leadership(Leadership::Standby));
    deposed.delete(pod("a", "1").at(1));
    assert_eq!(deposed.short(), [""; 0], "a standby counts nothing");
}

/// The number of pods whose termination the leader waits for.
fn awaited(world: &World) -> usize {
    world.engine.leader.as_ref().unwrap().holds.awaited()
}

#[test]
fn the_end_of_a_pod_that_has_ended_is_not_awaited() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    world.apply(pod("a", "1").at(1).terminating());
    world.apply(pod("b", "2").at(2).finished());
    world.answer_all();
    assert_eq!(awaited(&world), 1);
    world.delete(pod("a", "1").at(1));
    assert_eq!(awaited(&world), 0);
}

/// Creates a `World` in which `a` is a healthy target on an existing node.
fn healthy_on_a_node() -> World {
    let mut world = World::unsynced();
    world.relist_services(vec![web()]);
    let nodes = vec![node("n1"), node("n2"), node("n3")];
    world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
    world.relist_pods(vec![on_n1()]);
    world.answer_all();
    world.read_shows(&[(1, HEALTHY)]);
    world
}

fn node(name: &str) -> NodeFacts {
    NodeFacts { name: name.into(), takes_pods: true, ..NodeFacts::default() }
}

fn on_n1() -> PodBuilder {
    pod("a", "1").at(1).on("n1")
}

#[test]
fn a_pod_has_ended_when_its_node_was_gone_and_not_when_kubernetes_deletes_it() {
    let mut world = healthy_on_a_node();
    world.step(Input::Node { change: Change::Deleted(node("n1")), seen: world.now });
    world.answer_all();
    world.wait(seconds(600));
    assert_eq!(world.short(), [""; 0], "it may come back");
    world.delete(on_n1().terminating());
    assert_eq!(world.short(), ["blue"]);
}

#[test]
fn one_whose_node_was_gone_for_a_while_and_came_back_ends_when_it_is_deleted() {
    for (held, short) in [(110, vec!["blue"]), (130, vec![])] {
        let mut world = healthy_on_a_node();
        world.step(Input::Node { change: Change::Deleted(node("n1")), seen: world.now });
        world.answer_all();
        world.wait(seconds(60));
        world.step(Input::Node { change: Change::Applied(node("n1")), seen: world.now });
        world.answer_all();
        while world.open.is_empty() {
            world.wait(seconds(1));
        }
        world.read_shows(&[(1, HEALTHY)]);
        gone_after(&mut world, seconds(held));
        assert_eq!(world.short(), short, "it was a target again");
    }
}
