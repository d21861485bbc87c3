//! Zones, and nodes that go.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_core::{
    Cause, Change, Input, Leadership,
    model::{
        GateFacts, Health, HealthState, LeavingFacts, NodeFacts, PodFacts, Readiness, ServiceFacts, Target,
        TargetPort,
        gate::Shown,
        health::NOT_IN_USE,
        leaving::{Asked, Mark},
        pod::{Ending, PassedOver},
        policy::{REGISTER_WHEN, WHEN_NOT_READY},
        signal::{DISRUPTED, DYING},
    },
};

use super::stage::{Case, SECOND, Stage, expect};
use crate::objects::{pod, service};
use crate::words::ip;

/// All of them.
pub const ALL: [Case; 10] = [
    ("a_zone_without_the_load_balancer", a_zone_without_the_load_balancer),
    ("the_last_healthy_target_on_a_node_that_goes", the_last_healthy_target_on_a_node_that_goes),
    (
        "a_pod_that_the_cluster_autoscaler_does_not_wait_for",
        a_pod_that_the_cluster_autoscaler_does_not_wait_for,
    ),
    ("a_zone_of_which_a_pod_was_let_go", a_zone_of_which_a_pod_was_let_go),
    (
        "a_pod_that_is_ready_again_beside_the_last_one_of_its_zone",
        a_pod_that_is_ready_again_beside_the_last_one_of_its_zone,
    ),
    (
        "a_pod_that_starts_where_the_leader_before_has_registered_it",
        a_pod_that_starts_where_the_leader_before_has_registered_it,
    ),
    (
        "pods_of_a_daemon_set_with_their_hold_on_nodes_that_are_cordoned",
        pods_of_a_daemon_set_with_their_hold_on_nodes_that_are_cordoned,
    ),
    (
        "a_node_of_which_the_leader_before_has_taken_the_pods_out",
        a_node_of_which_the_leader_before_has_taken_the_pods_out,
    ),
    ("a_note_that_cannot_be_true", a_note_that_cannot_be_true),
    (
        "a_node_whose_pod_is_out_by_the_word_of_the_leader_before_alone",
        a_node_whose_pod_is_out_by_the_word_of_the_leader_before_alone,
    ),
];

/// A load balancer serves the zone of one of two pods: the gate of the other one stays closed.
fn a_zone_without_the_load_balancer() -> Result<(), String> {
    let mut stage = Stage::new(&[]);
    stage.service(service("web"));
    stage.pods(&[]);
    stage.lead();
    stage.shows(3, &[]);
    for last in [1, 2] {
        let gate = Some(Box::new(GateFacts { shown: Shown::Closed, ..GateFacts::default() }));
        stage.pod(PodFacts { gate, ..pod("web", last) });
    }
    let unused = Health { reason: NOT_IN_USE, ..HealthState::Unused.into() };
    stage.shows(20, &[(1, HealthState::Healthy.into()), (2, unused)]);
    let open: BTreeSet<&str> =
        stage.gates.iter().filter(|(_, open, _)| *open).map(|(pod, ..)| &**pod).collect();
    expect("open gates", &open, &BTreeSet::from(["pod-1"]))
}

/// A node is to be drained, and nobody asks for the eviction of its pod so far: its target goes if another one is healthy,
/// and stays if none is.
fn the_last_healthy_target_on_a_node_that_goes() -> Result<(), String> {
    let its = Target::new(ip(1), 80);
    for (other, removed) in [(HealthState::Healthy, vec![its]), (HealthState::Unhealthy, vec![])] {
        let mut stage = Stage::leading();
        stage.nodes(vec![node("goes"), node("stays")]);
        let its_pod = on("goes", 1);
        stage.pod(its_pod.clone());
        stage.pod(on("stays", 2));
        let there = [(1, HealthState::Healthy.into()), (2, other.into())];
        stage.shows(60, &there);
        stage.nodes(vec![NodeFacts { taints: vec![DISRUPTED[0].into()], ..node("goes") }, node("stays")]);
        let asked = Asked::early(stage.wall());
        expect("what is written on pods", &stage.marks, &vec![Mark::Asked(asked)])?;
        let leaving = LeavingFacts { ask: asked, ..LeavingFacts::asked(stage.wall(), stage.wall()) };
        stage.pod(PodFacts { leaving: Some(Box::new(leaving)), ..its_pod });
        stage.shows_until_one_goes(600, &there);
        expect("removed targets", &stage.removed, &removed)?;
    }
    Ok(())
}

/// A pod has its hold, and the cluster-autoscaler does not wait for it: it leaves early on that one's taint, and is left to its
/// hold on another's.
fn a_pod_that_the_cluster_autoscaler_does_not_wait_for() -> Result<(), String> {
    for (taint, leaves) in [(DISRUPTED[0], false), (DISRUPTED[1], true)] {
        let mut stage = Stage::leading();
        stage.nodes(vec![node("goes"), node("stays")]);
        let passed_over = PassedOver { by_cluster_autoscaler: true, ..PassedOver::default() };
        stage.pod(PodFacts { ending: Ending { grace: 180, sleeps: 150 }, passed_over, ..on("goes", 1) });
        stage.pod(on("stays", 2));
        stage.shows(60, &[(1, HealthState::Healthy.into()), (2, HealthState::Healthy.into())]);
        stage.nodes(vec![NodeFacts { taints: vec![taint.into()], ..node("goes") }, node("stays")]);
        let asked = leaves.then(|| Mark::Asked(Asked::early(stage.wall())));
        expect("what is written on pods", &stage.marks, &asked.into_iter().collect())?;
    }
    Ok(())
}

/// Of two pods of a zone one has its hold, so that it stays a target until it ends. When it has been let go it counts no more:
/// the other one has to wait.
fn a_zone_of_which_a_pod_was_let_go() -> Result<(), String> {
    let its = Target::new(ip(2), 80);
    for (may_go, removed) in [(None, vec![its]), (Some(Cause::ZoneAllows), vec![])] {
        let mut stage = Stage::leading();
        stage.nodes(vec![NodeFacts { zone: Some("a".into()), ..node("both") }]);
        let held = PodFacts { ending: Ending { grace: 180, sleeps: 150 }, ..on("both", 1) };
        stage.pod(held.clone());
        stage.pod(on("both", 2));
        let there = [(1, HealthState::Healthy.into()), (2, HealthState::Healthy.into())];
        stage.shows(60, &there);
        let asked = LeavingFacts::asked(stage.wall(), stage.wall());
        let goes = LeavingFacts { ask: Asked { held: true, ..asked.ask }, may_go, ..asked };
        stage.pod(PodFacts { leaving: may_go.map(|_| Box::new(goes)), ..held });
        stage.pod(PodFacts { leaving: Some(Box::new(asked)), ..on("both", 2) });
        stage.shows_until_one_goes(30, &there);
        expect("removed targets", &stage.removed, &removed)?;
    }
    Ok(())
}

/// Two pods of a zone are not ready any more, so one is taken out. It is ready again: until it is seen healthy the other one
/// stays.
fn a_pod_that_is_ready_again_beside_the_last_one_of_its_zone() -> Result<(), String> {
    let mut stage = Stage::leading();
    let mut lets_go = service("web");
    lets_go.policy.set(WHEN_NOT_READY, "deregister");
    stage.apply(lets_go);
    stage.nodes(vec![NodeFacts { zone: Some("a".into()), ..node("both") }]);
    stage.pod(on("both", 1));
    stage.pod(on("both", 2));
    let there = [(1, HealthState::Healthy.into()), (2, HealthState::Healthy.into())];
    stage.shows(60, &there);
    for last in [1, 2] {
        stage.pod(PodFacts { readiness: Readiness::default(), ..on("both", last) });
    }
    stage.shows_until_one_goes(30, &there);
    stage.expect_removed(&[1])?;
    stage.pod(on("both", 1));
    stage.passes(SECOND);
    stage.expect_removed(&[1])
}

/// The leader before has registered a pod of which this one sees the address only now, with its node about to go. As it is now
/// it would be no target there, but at another port: it is not kept out, but asked to leave.
fn a_pod_that_starts_where_the_leader_before_has_registered_it() -> Result<(), String> {
    let mut ready_alone = service("web");
    ready_alone.policy.set(REGISTER_WHEN, "ready");
    let mut beside = ServiceFacts { selector: ready_alone.selector.clone(), ..service("beside") };
    beside.ports[0].target_port = TargetPort::Number(81);
    let its = PodFacts {
        node: Some("goes".into()),
        passed_over: PassedOver { by_all: true, ..PassedOver::default() },
        ..pod("web", 1)
    };
    for (claimed, is_kept_out) in [(&[1][..], false), (&[], true)] {
        let mut stage = Stage::new(claimed);
        stage.service(ready_alone.clone());
        stage.apply(beside.clone());
        stage.pods(&[PodFacts { ips: vec![], ..its.clone() }]);
        stage.nodes(vec![NodeFacts { cordoned: true, takes_pods: false, ..node("goes") }, node("stays")]);
        stage.lead();
        stage.pod(its.clone());
        let is_out = stage.engine.apart().get(&its.key).is_some_and(|apart| apart.node_goes);
        expect(&format!("whether it is kept out, claimed: {claimed:?}"), &is_out, &is_kept_out)?;
    }
    Ok(())
}

/// Half of the nodes are cordoned, and nobody evicts the pods there: one in four of all leaves, though each has its hold.
fn pods_of_a_daemon_set_with_their_hold_on_nodes_that_are_cordoned() -> Result<(), String> {
    let mut stage = OnNodes::new(8);
    for at in 1..=4 {
        stage.cordon(at);
    }
    stage.pass(60);
    expect("so many of eight have left", &stage.stage.removed.len(), &2)
}

/// Another replica comes to lead while the load balancers may still send to a pod that the one before has taken out, and noted
/// that: their node is detached only when they have stopped.
fn a_node_of_which_the_leader_before_has_taken_the_pods_out() -> Result<(), String> {
    let mut stage = OnNodes::new(4);
    stage.cordon(1);
    stage.pass(20);
    expect("so many of four have left", &stage.stage.removed.len(), &1)?;
    stage.stage.step(Input::Leadership(Leadership::Standby));
    stage.stage.lead();
    stage.pass(80);
    expect("detached nodes", &stage.stage.detached, &Vec::new())?;
    stage.pass(60);
    expect("detached nodes", &stage.stage.detached, &vec![("n1".to_owned(), true)])
}

/// A pod was taken out by the leader before, for another reason, and somebody notes next month on it. Its node dies: it is
/// detached only when the load balancers have stopped.
fn a_note_that_cannot_be_true() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.nodes(vec![node("goes"), node("stays")]);
    stage.pod(on("goes", 1));
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    let other = PodFacts { labels: pod("other", 1).labels, ..on("goes", 1) };
    stage.pod(other.clone());
    stage.shows(1, &[]);
    stage.expect_removed(&[1])?;
    stage.step(Input::Leadership(Leadership::Standby));
    let (now, next_month) = (stage.wall(), stage.wall() + Duration::from_hours(30 * 24));
    let noted = LeavingFacts { deregistered: Some((next_month, SECOND)), ..LeavingFacts::asked(now, now) };
    stage.pod(PodFacts { leaving: Some(Box::new(noted)), ..other });
    stage.nodes(vec![NodeFacts { taints: vec![DYING[0].into()], ..node("goes") }, node("stays")]);
    stage.lead();
    stage.shows(60, &[]);
    expect("detached nodes", &stage.detached, &Vec::new())?;
    stage.shows(120, &[]);
    expect("detached nodes", &stage.detached, &vec![("goes".to_owned(), true)])
}

/// A pod was taken out by the leader before, for another reason, and its node dies: it is detached when the load balancer has
/// stopped sending after the new leader's own deregistration, also if nothing can be read.
fn a_node_whose_pod_is_out_by_the_word_of_the_leader_before_alone() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.nodes(vec![node("goes"), node("stays")]);
    stage.pod(on("goes", 1));
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    stage.pod(PodFacts { labels: pod("other", 1).labels, ..on("goes", 1) });
    stage.shows(1, &[]);
    stage.expect_removed(&[1])?;
    stage.step(Input::Leadership(Leadership::Standby));
    stage.nodes(vec![NodeFacts { taints: vec![DYING[0].into()], ..node("goes") }, node("stays")]);
    stage.lead();
    stage.reads_fail(110);
    expect("detached nodes before that", &stage.detached, &Vec::new())?;
    stage.reads_fail(60);
    expect("detached nodes", &stage.detached, &vec![("goes".to_owned(), true)])
}

/// So many nodes, and on each a pod that nobody evicts, with its hold.
struct OnNodes {
    stage: Stage,
    pods: BTreeMap<String, PodFacts>,
}

impl OnNodes {
    fn new(nodes: u8) -> Self {
        let mut stage = Stage::leading();
        let name = |at: u8| format!("n{at}");
        stage.nodes((1..=nodes).map(|at| node(&name(at))).collect());
        let passed_over = PassedOver { by_all: true, ..PassedOver::default() };
        let ending = Ending { grace: 180, sleeps: 150 };
        let mut pods: BTreeMap<String, PodFacts> = BTreeMap::new();
        for at in 1..=nodes {
            let pod = PodFacts { passed_over, ending, ..on(&name(at), at) };
            stage.pod(pod.clone());
            pods.insert(pod.key.name.to_string(), pod);
        }
        let mut it = Self { stage, pods };
        it.pass(10);
        it
    }

    fn cordon(&mut self, at: u8) {
        let cordoned = NodeFacts { cordoned: true, takes_pods: false, ..node(&format!("n{at}")) };
        self.stage.step(Input::Node { change: Change::Applied(cordoned), seen: self.stage.now });
    }

    /// So many seconds pass. What is written on pods is seen, and what is not taken out is healthy.
    fn pass(&mut self, seconds: usize) {
        let Self { stage, pods } = self;
        for _ in 0..seconds {
            for (pod, mark) in std::mem::take(&mut stage.marked) {
                let Some(it) = pods.get_mut(&pod) else { continue };
                let before = it.leaving.as_deref().copied();
                let before = before.unwrap_or(LeavingFacts::asked(stage.wall(), stage.wall()));
                it.leaving = before.with(mark).map(Box::new);
                stage.pod(it.clone());
            }
            let last = u8::try_from(pods.len()).unwrap_or(u8::MAX);
            let there = (1..=last).filter(|at| !stage.removed.contains(&Target::new(ip(*at), 80)));
            let there: Vec<(u8, Health)> = there.map(|at| (at, HealthState::Healthy.into())).collect();
            stage.shows(1, &there);
        }
    }
}

/// It takes pods.
fn node(name: &str) -> NodeFacts {
    NodeFacts { name: name.into(), takes_pods: true, ..NodeFacts::default() }
}

/// It is ready.
fn on(node: &str, last: u8) -> PodFacts {
    let readiness = Readiness { containers: true, gates: true };
    PodFacts { node: Some(node.into()), readiness, ..pod("web", last) }
}
