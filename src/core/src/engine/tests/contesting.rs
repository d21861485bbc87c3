//! Tests of two pods that show the same address: which pod has the address, and what happens to the other pod.

use super::{leading::standby, *};
use crate::{
    ledger::PodMark,
    model::{NodeFacts, Uid},
};

/// How long a node must be unready before its pods lose their addresses.
const LOST: Duration = Duration::from_secs(30);
const NOT_YET: Duration = Duration::from_secs(29);

fn a() -> PodBuilder {
    pod("a", "1").at(1).on("n1").ready()
}

/// Another pod on this node, with the same address.
fn on(node: &str) -> PodBuilder {
    pod("b", "2").at(1).on(node)
}

fn node(name: &str, not_ready: bool) -> NodeFacts {
    NodeFacts { name: name.into(), not_ready, takes_pods: true, ..NodeFacts::default() }
}

/// Whose a target is: the pod of the last registration that was sent. AWS accepts the deregistration for the pod before.
fn registered_for(world: &mut World) -> Option<&str> {
    world.accepts_removals();
    let items = world.open.iter().rev().find_map(|(_, call)| match call {
        Call::Register { items, .. } => Some(items),
        _ => None,
    });
    items.and_then(|items| items.last()).map(|item| &*item.pod.name)
}

impl World {
    fn node_is(&mut self, name: &str, not_ready: bool) {
        self.step(Input::Node { change: Change::Applied(node(name, not_ready)), seen: self.now });
    }

    /// Creates a `World` in which `a` is a target and all nodes are ready.
    fn with_a() -> Self {
        let mut world = Self::new(vec![web()], vec![a()]);
        let nodes = ["n1", "n2", "n3"].map(|name| node(name, false)).to_vec();
        world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
        world
    }

    fn stands_of(&mut self, pod: &str) -> Vec<Reason> {
        let answer = self.engine.explain(&ObjectKey::new(NAMESPACE, pod), self.now);
        answer.places.iter().map(|place| place.word.0).collect()
    }
}

#[test]
fn on_one_node_the_next_pod_has_the_address_at_once() {
    // The CNI may assign an address of the node again while the previous pod is still terminating, or after its sandbox
    // was created again.
    let ends: [fn(PodBuilder) -> PodBuilder; 4] =
        [|a| a, PodBuilder::terminating, PodBuilder::stopped, PodBuilder::without_sandbox];
    for end in ends {
        let mut world = World::with_a();
        world.apply(end(a()));
        world.answer_all();
        world.apply(on("n1"));
        assert_eq!(registered_for(&mut world), Some("b"));
        assert_eq!(world.said(), []);
    }
}

#[test]
fn the_status_of_a_pod_on_another_node_takes_nothing_and_both_pods_are_told_once() {
    for labels in ["web", "other"] {
        let mut world = World::with_a();
        for readiness in [false, true, false] {
            let forged = on("n2").labelled(labels);
            world.apply(if readiness { forged.ready() } else { forged });
            assert_eq!(world.changes(), [""; 0]);
        }
        assert_eq!(world.said(), [Reason::AddressContested; 2]);
        let notes: Vec<&str> = world.notices.iter().map(|notice| &*notice.note).collect();
        assert!(
            notes[0].starts_with("This pod waits until pod shop/a on node n1 releases the IP 10.0.0.1"),
            "{}",
            notes[0]
        );
        assert!(notes[1].starts_with("Pod shop/b on node n2 also reports IP"), "{}", notes[1]);
        assert_eq!(world.engine.contested(), 1);
        world.wait(Duration::from_secs(3600));
        world.answer_all();
        assert_eq!(world.changes(), [""; 0]);
        // The pod shows another address.
        world.apply(pod("b", "2").at(7).on("n2").labelled("third"));
        assert_eq!(world.engine.contested(), 0);
    }
}

#[test]
fn a_pod_that_waits_for_its_address_says_so() {
    let mut world = World::with_a();
    world.apply(on("n2"));
    assert_eq!(world.stands_of("b"), [Reason::AddressContested]);
    let owner = world.engine.explain(&ObjectKey::new(NAMESPACE, "b"), world.now);
    assert!(owner.places[0].word.1.contains("This pod waits until pod"), "{:?}", owner.places[0]);
}

#[test]
fn between_nodes_the_address_goes_over_when_what_the_other_node_cannot_write_says_so() {
    type End = fn(&mut World);
    let ends: [(&str, End); 6] = [
        ("gone", |w| w.delete(a())),
        ("finished", |w| w.apply(a().finished())),
        ("stopped", |w| w.apply(a().stopped())),
        ("its sandbox is gone", |w| w.apply(a().without_sandbox())),
        ("its node is not ready", |w| {
            w.node_is("n1", true);
            w.wait(LOST);
        }),
        ("another life of its name is elsewhere", |w| w.apply(pod("a", "3").on("n3"))),
    ];
    for (what, end) in ends {
        let mut world = World::with_a();
        world.apply(on("n2"));
        assert_eq!(world.changes(), [""; 0], "{what}");
        end(&mut world);
        world.answer_but_changes();
        assert_eq!(registered_for(&mut world), Some("b"), "{what}");
        assert_eq!(world.engine.contested(), 0, "{what}");
    }
}

#[test]
fn a_pod_that_terminates_and_runs_keeps_its_address() {
    let mut world = World::with_a();
    world.apply(a().terminating());
    world.answer_all();
    world.apply(on("n2"));
    assert_eq!(world.changes(), [""; 0]);
    world.delete(a());
    assert_eq!(registered_for(&mut world), Some("b"));
}

#[test]
fn a_node_that_flaps_loses_nothing() {
    let mut world = World::with_a();
    world.apply(on("n2"));
    for _ in 0..10 {
        world.node_is("n1", true);
        world.wait(NOT_YET);
        world.node_is("n1", false);
        world.wait(Duration::from_secs(1));
    }
    world.answer_all();
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn what_went_over_stays_where_it_is_when_the_old_node_is_well_again() {
    let mut world = World::with_a();
    world.node_is("n1", true);
    world.wait(LOST);
    world.apply(on("n2"));
    assert_eq!(registered_for(&mut world), Some("b"));
    world.answer_all();
    world.node_is("n1", false);
    world.apply(a().containers_ready());
    world.wait(Duration::from_secs(60));
    world.answer_all();
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.stands_of("a"), [Reason::AddressChanged]);
}

#[test]
fn a_node_that_starts_again_permutes_the_addresses_of_thirty_pods() {
    let one = |at: u8, last: u8| pod(&format!("p{at}"), &format!("u{at}")).at(last).on("n1").ready();
    let pods = (1..=30).map(|at| one(at, at)).collect();
    let mut world = World::new(vec![web()], pods);
    for at in 1..=30 {
        world.apply(one(at, at % 30 + 1));
        world.answer_all();
    }
    assert_eq!(world.said(), []);
    for at in 1..=30 {
        let owner = world.engine.known.index.bindings().owner(&arn("blue"), &target(at % 30 + 1, 80));
        assert_eq!(owner.map(|owner| &*owner.name), Some(&*format!("p{at}")));
    }
}

#[test]
fn a_late_status_of_a_pod_that_lost_its_address_takes_nothing() {
    let mut world = World::with_a();
    world.apply(on("n1"));
    world.answer_all();
    world.apply(a().containers_ready());
    world.apply(a().terminating());
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn another_pod_of_a_node_never_takes_the_address_of_its_host_network() {
    let host = |name: &str| pod(name, &format!("u-{name}")).at(1).on("n1").host_network();
    let mut world = World::new(vec![web()], vec![host("h")]);
    world.apply(on("n1"));
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.stands_of("b"), [Reason::AddressContested]);
    world.apply(host("i"));
    assert_eq!(world.stands_of("i"), [Reason::AddressContested]);
}

#[test]
fn the_pods_of_a_node_take_over_so_many_addresses_in_a_minute() {
    let one = |at: u8| pod(&format!("p{at}"), &format!("u{at}")).at(at).on("n1").ready();
    let mut world = World::new(vec![web()], (1..=30).map(one).collect());
    for at in 1..=30 {
        world.apply(pod(&format!("q{at}"), &format!("v{at}")).at(at).on("n2"));
        world.apply(one(at).without_sandbox());
    }
    let taken = |world: &World| {
        let owner = |at: u8| world.engine.known.index.bindings().owner(&arn("blue"), &target(at, 80));
        (1..=30).filter(|at| owner(*at).is_some_and(|owner| owner.name.starts_with('q'))).count()
    };
    assert_eq!((taken(&world), world.engine.contested()), (20, 10));
    world.wait(Duration::from_secs(59));
    assert_eq!(taken(&world), 20);
    world.wait(Duration::from_secs(1));
    assert_eq!((taken(&world), world.engine.contested()), (30, 0));
}

#[test]
fn a_new_leader_believes_the_ledger_and_no_order_of_a_list() {
    let ledger = [(1, "1")];
    // The other one is older, and was listed first.
    let forged = on("n2").created(1);
    let mut world = standby(vec![web()], vec![a().created(2), forged], &ledger);
    assert_eq!(world.stands_of("a"), [Reason::AddressContested], "nobody knows better yet");
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    world.reads_again();
    assert_eq!(world.changes(), [""; 0]);
    let claimed = world.claims("blue").get(&target(1, 80)).map(|claim| claim.pod);
    assert_eq!(claimed, Some(PodMark::of(&Uid::new("1"))));
    assert_eq!(world.stands_of("b"), [Reason::AddressContested]);
    assert!(world.said().contains(&Reason::AddressContested));
}

#[test]
fn a_node_that_a_new_replica_sees_first_as_not_ready_has_been_that_for_long() {
    let mut world = standby(vec![web()], vec![a().created(1), on("n2").created(2)], &[]);
    let nodes = vec![node("n1", true), node("n2", false)];
    world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(registered_for(&mut world), Some("b"));
}

#[test]
fn a_node_that_is_gone_keeps_no_address() {
    let mut world = World::with_a();
    world.apply(on("n2"));
    world.step(Input::Node { change: Change::Deleted(node("n1", false)), seen: world.now });
    assert_eq!(registered_for(&mut world), Some("b"));
}
