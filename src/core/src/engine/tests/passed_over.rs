//! Tests of pods that drain tools skip, such as pods of DaemonSets. Headgate deregisters these pods before the machine
//! stops.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    evicting::{BOUND, no_budget},
    gating::HEALTHY,
    leading::standby,
    *,
};
use crate::model::{
    Cordon, Hold, LeastHealthy, LeavingFacts, NodeFacts, Readiness, Signals, WallTime,
    eviction::{Checked, Ruling},
    gate::Shown,
    leaving::{Asked, Mark},
    pod::PassedOver,
    signal::{DISRUPTED, DYING},
};

/// A simulated API server that shows all writes to pods, and an AWS that accepts every call. All targets are healthy.
pub struct Stage {
    pub world: World,
    pub pods: BTreeMap<Arc<str>, PodFacts>,
    pub aws: BTreeSet<u8>,
    /// The deregistered targets, by the last part of the address.
    removed: Vec<u8>,
    /// The writes to gates.
    gates: Vec<String>,
    /// The pods whose evictions a PodDisruptionBudget prevents.
    refused: BTreeSet<&'static str>,
    /// The existing nodes.
    nodes: BTreeMap<Arc<str>, NodeFacts>,
    /// Whether Kubernetes rejects all writes to nodes.
    pub refuses_nodes: bool,
}

fn last(target: &Target) -> u8 {
    let IpAddr::V4(ip) = target.ip else { panic!("{target}") };
    ip.octets()[3]
}

/// A pod of a DaemonSet on node `n`AT, with a hold.
pub fn daemon(at: u8) -> PodBuilder {
    let name = format!("p{at}");
    pod(&name, &format!("u-{name}")).at(at).on(&format!("n{at}")).ready().sleeping(150, 180).of_daemon_set()
}

pub fn node(at: u8) -> NodeFacts {
    NodeFacts { name: format!("n{at}").into(), takes_pods: true, ..NodeFacts::default() }
}

pub fn cordoned(at: u8) -> NodeFacts {
    NodeFacts { cordoned: true, takes_pods: false, ..node(at) }
}

pub fn tainted(at: u8, taint: &str) -> NodeFacts {
    NodeFacts { taints: vec![taint.into()], takes_pods: false, ..node(at) }
}

impl Stage {
    /// Creates this many nodes with one pod each.
    pub fn new(nodes: u8, signals: Signals, of: impl Fn(u8) -> PodBuilder) -> Self {
        Self::refusing(BTreeSet::new(), nodes, signals, of)
    }

    fn refusing(
        refused: BTreeSet<&'static str>,
        nodes: u8,
        signals: Signals,
        of: impl Fn(u8) -> PodBuilder,
    ) -> Self {
        let mut world = World::with(Settings { signals, ..cluster_wide() });
        world.relist_services(vec![web()]);
        let all = (1..=nodes).map(node).collect();
        world.step(Input::Node { change: Change::Relisted(Scope::Cluster, all), seen: world.now });
        let pods: Vec<PodFacts> = (1..=nodes).map(|at| of(at).build()).collect();
        world.pod(Change::Relisted(Scope::Cluster, pods.clone()));
        let pods = pods.into_iter().map(|pod| (pod.key.name.clone(), pod)).collect();
        let nodes = (1..=nodes).map(|at| (node(at).name, node(at))).collect();
        let mut stage = Self {
            world,
            pods,
            aws: BTreeSet::new(),
            removed: vec![],
            gates: vec![],
            refused,
            nodes,
            refuses_nodes: false,
        };
        stage.passes(5);
        assert_eq!(stage.aws.len(), stage.nodes.len());
        stage
    }

    pub fn daemons(nodes: u8) -> Self {
        Self::new(nodes, Signals::default(), daemon)
    }

    pub fn says(&mut self, node: NodeFacts) {
        let detached = self.nodes.get(&node.name).is_some_and(|before| before.detached);
        self.shows(NodeFacts { detached, ..node });
        self.answer();
    }

    fn shows(&mut self, node: NodeFacts) {
        self.nodes.insert(node.name.clone(), node.clone());
        self.world.step(Input::Node { change: Change::Applied(node), seen: self.world.now });
    }

    /// The nodes with the annotation `headgate.dev/detached-at`.
    pub fn detached(&self) -> Vec<&str> {
        self.nodes.values().filter(|node| node.detached).map(|node| &*node.name).collect()
    }

    pub fn apply(&mut self, pod: PodBuilder) {
        let pod = pod.build();
        self.pods.insert(pod.key.name.clone(), pod.clone());
        self.world.pod(Change::Applied(pod));
        self.answer();
    }

    pub fn passes(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.world.wait(Duration::from_secs(1));
            self.answer();
        }
    }

    fn answer(&mut self) {
        loop {
            let marks = self.world.marks();
            for write in &marks {
                let mut pod = self.pods[&write.pod.name].clone();
                let before = pod.leaving.as_deref().copied();
                let before = before.unwrap_or(LeavingFacts::asked(self.world.wall(), self.world.wall()));
                pod.leaving = before.with(write.mark).map(Box::new);
                self.pods.insert(pod.key.name.clone(), pod.clone());
                self.world.written_mark(write, Ok(()));
                self.world.pod(Change::Applied(pod));
            }
            let checks = self.world.checks();
            for check in &checks {
                let refused = self.refused.contains(&*check.pod.name).then(|| Box::from("no"));
                self.world.checked(check, Ok(Checked { refused, ..no_budget() }));
            }
            self.gates.extend(self.world.turned());
            let open = std::mem::take(&mut self.world.open);
            let on_nodes = self
                .world
                .asked(|request| if let Asks::Detached(write) = request { Some(write) } else { None });
            for write in &on_nodes {
                let result = if self.refuses_nodes {
                    Err(failure(FailureClass::Denied))
                } else {
                    let node = self.nodes[&write.node].clone();
                    assert_eq!(node.uid, write.uid);
                    self.shows(NodeFacts { detached: write.at.is_some(), ..node });
                    Ok(Answer::Done)
                };
                self.world.step(Input::Answered { id: write.id, result });
            }
            let is_quiet = open.is_empty() && marks.is_empty() && checks.is_empty() && on_nodes.is_empty();
            for (id, call) in open {
                let result = match call {
                    Call::Register { items, .. } => {
                        self.aws.extend(items.iter().map(|item| last(&item.target)));
                        Ok(Answer::Done)
                    }
                    Call::Deregister { items, .. } => {
                        for at in items.iter().map(|item| last(&item.target)) {
                            self.aws.remove(&at);
                            self.removed.push(at);
                        }
                        Ok(Answer::Done)
                    }
                    Call::ReadHealth { .. } => {
                        let all = self.aws.iter().map(|at| (target(*at, 80), HEALTHY.into()));
                        Ok(Answer::Health(all.collect()))
                    }
                    Call::FindGroups { .. } => Ok(Answer::Groups(vec![group("blue")])),
                    Call::ReadAttributes { .. } => Ok(Answer::Attributes(LeastHealthy::DEFAULT)),
                };
                self.world.step(Input::Answered { id, result });
            }
            if is_quiet {
                break;
            }
        }
    }

    /// The reason why the next deregistration of a target waits.
    fn waits(&mut self, at: u8) -> Option<Reason> {
        let pod = ObjectKey::new(NAMESPACE, format!("p{at}"));
        let explained = self.world.engine.explain(&pod, self.world.now);
        explained.places[0].next.as_ref().and_then(|next| next.waits.as_ref()).map(|(reason, _)| *reason)
    }

    fn leaving(&self, at: u8) -> Option<&LeavingFacts> {
        self.pods[&*format!("p{at}")].leaving.as_deref()
    }
}

#[test]
fn a_daemon_sets_pod_leaves_a_node_that_is_cordoned_or_disrupted_whatever_its_hold() {
    for sign in [cordoned(1), tainted(1, DISRUPTED[0]), tainted(1, DISRUPTED[1])] {
        let mut stage = Stage::daemons(4);
        stage.says(sign);
        stage.passes(2);
        assert_eq!(stage.removed, [1]);
        assert_eq!(stage.world.said(), [Reason::NodeDisrupted]);
        let note = &stage.world.notices[0].note;
        assert!(note.contains("skip this pod"), "{note}");
        stage.passes(BOUND.as_secs());
        assert_eq!(stage.leaving(1).and_then(|leaving| leaving.may_go), Some(Cause::EvictionAllowed));
        // Karpenter evicts the pod last.
        assert_eq!(stage.world.asks("p1"), Ruling::Pass(Cause::EvictionAllowed));
    }
}

#[test]
fn an_eviction_of_one_that_has_left_early_waits_for_nothing_if_it_has_its_hold() {
    let mut stage = Stage::daemons(4);
    stage.says(cordoned(1));
    stage.passes(2);
    assert!(stage.leaving(1).is_some_and(LeavingFacts::is_out));
    assert_eq!(stage.world.asks("p1"), Ruling::Pass(Cause::HoldAllows));
}

#[test]
fn pods_that_are_evicted_stay_until_then_on_a_node_that_is_cordoned() {
    let plain = |at: u8| {
        let name = format!("p{at}");
        pod(&name, &format!("u-{name}")).at(at).on(&format!("n{at}")).ready()
    };
    for (cordon, leaves) in [(Cordon::None, 0), (Cordon::Unevictable, 0), (Cordon::All, 1)] {
        let mut stage = Stage::new(4, Signals { cordon, ..Signals::default() }, plain);
        stage.says(cordoned(1));
        stage.passes(60);
        assert_eq!(stage.removed.len(), leaves, "{cordon:?}");
        assert_eq!(stage.world.said().len(), leaves);
    }
    let mut stage = Stage::new(4, Signals { cordon: Cordon::None, ..Signals::default() }, daemon);
    stage.says(cordoned(1));
    stage.passes(60);
    assert_eq!(stage.removed, [0; 0], "nor those that are not, if a cordon is to say nothing");
}

#[test]
fn what_one_of_those_who_drain_passes_over_leaves_on_its_taint_and_no_other() {
    let (karpenter, autoscaler) = ("karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler");
    let tolerates = PassedOver { by_karpenter: true, ..PassedOver::default() };
    let as_daemon = PassedOver { by_cluster_autoscaler: true, ..PassedOver::default() };
    for (by, sign, leaves) in [
        (tolerates, tainted(1, karpenter), 1),
        (tolerates, tainted(1, autoscaler), 0),
        (tolerates, cordoned(1), 0),
        (as_daemon, tainted(1, karpenter), 0),
        (as_daemon, tainted(1, autoscaler), 1),
        (as_daemon, cordoned(1), 0),
    ] {
        let mut stage = Stage::new(4, Signals::default(), |at| {
            let name = format!("p{at}");
            let pod = pod(&name, &format!("u-{name}")).at(at).on(&format!("n{at}")).ready();
            pod.sleeping(150, 180).passed_over(by)
        });
        stage.says(sign);
        stage.passes(60);
        assert_eq!(stage.removed.len(), leaves, "{by:?}");
    }
}

#[test]
fn a_mark_that_many_nodes_have_moves_nothing_until_one_of_them_is_drained_cordoned_or_dies() {
    let marked = || {
        let mut stage = Stage::daemons(8);
        for at in 1..=4 {
            stage.says(tainted(at, DISRUPTED[1]));
        }
        // The first two nodes got their taints before many nodes had a taint.
        stage.passes(60);
        assert_eq!(stage.removed, [1, 2]);
        stage
    };
    let mut stage = marked();
    // The first two pods are deleted and replaced.
    for at in 1..=2 {
        let gone = stage.pods.remove(&*format!("p{at}")).unwrap();
        stage.world.pod(Change::Deleted(gone));
        stage.apply(daemon(10 + at));
    }
    stage.passes(60);
    assert_eq!(stage.removed, [1, 2], "still it says nothing of those");
    assert_eq!(stage.waits(3), Some(Reason::RemovalHeld));
    let evicted = pod("other", "u-other").labelled("other").on("n3").evicted();
    stage.apply(evicted);
    stage.passes(2);
    assert_eq!(stage.removed, [1, 2, 3]);
    stage.says(NodeFacts { cordoned: true, ..tainted(4, DISRUPTED[1]) });
    stage.passes(2);
    assert_eq!(stage.removed, [1, 2, 3, 4]);
    let mut stage = marked();
    stage.says(tainted(4, DYING[0]));
    assert_eq!(stage.removed, [1, 2, 4], "at once");
}

#[test]
fn of_many_nodes_that_are_cordoned_at_once_one_in_four_leaves_and_more_when_others_serve_instead() {
    let mut stage = Stage::daemons(12);
    for at in 1..=12 {
        stage.says(cordoned(at));
    }
    stage.passes(300);
    assert_eq!((stage.removed.len(), stage.aws.len()), (3, 9));
    assert_eq!(stage.waits(12), Some(Reason::RemovalHeld));
    for at in 21..=24 {
        stage.says(NodeFacts { created: 61, ..node(at) });
        stage.apply(daemon(at));
    }
    stage.passes(60);
    assert_eq!((stage.removed.len(), stage.aws.len()), (7, 9), "each takes the place of one");
    // The deregistered pods terminate.
    for at in stage.removed.clone() {
        let gone = stage.pods.remove(&*format!("p{at}")).unwrap();
        stage.world.pod(Change::Deleted(gone));
    }
    stage.passes(60);
    assert_eq!(
        stage.aws.iter().filter(|at| **at <= 12).count(),
        0,
        "they were replaced, and one in four of five is one"
    );
}

#[test]
fn nodes_that_were_made_with_the_others_or_long_before_replace_none() {
    let mut stage = Stage::daemons(12);
    let long_before = NodeFacts { created: 61, ..node(12) };
    stage.says(long_before.clone());
    // More than an hour passes, so node 12 replaces no other node. Node 11 is at most a minute younger than the other
    // nodes.
    stage.passes(3700);
    stage.says(NodeFacts { created: 60, ..node(11) });
    for at in 1..=6 {
        stage.says(cordoned(at));
    }
    stage.passes(300);
    assert_eq!(stage.aws.len(), 9);
}

#[test]
fn one_that_starts_on_such_a_node_is_not_registered_and_no_rollout_waits_for_it() {
    let mut stage = Stage::daemons(4);
    stage.says(cordoned(1));
    stage.passes(2);
    assert_eq!(stage.removed, [1]);
    let gone = stage.pods.remove("p1").unwrap();
    stage.world.pod(Change::Deleted(gone));
    // The replacement pod of the DaemonSet first appears without an address.
    let next = pod("next", "u-next").on("n1").of_daemon_set().sleeping(150, 180).gated(Shown::Closed);
    stage.apply(next.clone());
    stage.apply(next.at(9));
    stage.passes(10);
    assert_eq!((stage.aws.contains(&9), &stage.removed[..]), (false, &[1][..]));
    assert!(!stage.gates.is_empty() && stage.gates.iter().all(|gate| gate == "next + NodeDisrupted"));
    let explained = stage.world.engine.explain(&ObjectKey::new(NAMESPACE, "next"), stage.world.now);
    assert_eq!(explained.places[0].word.0, Reason::NodeDisrupted);
    assert!(stage.pods["next"].leaving.as_deref().is_some_and(LeavingFacts::is_out), "the next leader knows");
    stage.says(node(1));
    stage.passes(10);
    assert!(stage.aws.contains(&9), "its node stays");
    assert_eq!(stage.pods["next"].leaving, None);
}

#[test]
fn one_that_starts_there_is_registered_when_another_sign_says_that_it_will_be_evicted() {
    let tolerates = PassedOver { by_karpenter: true, ..PassedOver::default() };
    let mut stage = Stage::daemons(4);
    stage.says(tainted(5, "karpenter.sh/disrupted"));
    let next = pod("next", "u-next").on("n5").sleeping(150, 180).passed_over(tolerates).at(9);
    // Headgate has not written an annotation yet.
    stage.world.pod(Change::Applied(next.build()));
    let next = ObjectKey::new(NAMESPACE, "next");
    let apart = |stage: &Stage| stage.world.engine.apart().get(&next).is_some_and(|apart| apart.node_goes);
    assert!(apart(&stage));
    let sign = tainted(5, "ToBeDeletedByClusterAutoscaler");
    stage.world.step(Input::Node { change: Change::Applied(sign), seen: stage.world.now });
    assert!(!apart(&stage));
}

#[test]
fn one_that_starts_there_while_as_many_are_out_as_may_be_is_registered() {
    let mut stage = Stage::daemons(4);
    for at in 1..=4 {
        stage.says(cordoned(at));
    }
    stage.passes(10);
    assert_eq!(stage.removed, [1]);
    stage.apply(pod("next", "u-next").on("n2").of_daemon_set().sleeping(150, 180).at(9));
    stage.passes(10);
    assert!(stage.aws.contains(&9));
    assert_eq!(stage.removed, [1]);
}

#[test]
fn one_that_the_leader_before_has_registered_is_not_kept_out_where_it_would_not_be_one_as_it_is_now() {
    let other = service("other").port("http", 80).annotated("http=green");
    let services = vec![web().with(REGISTER_WHEN, "ready"), other];
    let mut starting = daemon(1).build();
    starting.readiness = Readiness::default();
    let at_first = PodFacts { ips: vec![], ..starting.clone() };
    for (claims, is_kept_out) in [(&[(1, "u-p1")][..], false), (&[], true)] {
        let mut world = standby(services.clone(), vec![], claims);
        world.pod(Change::Applied(at_first.clone()));
        let nodes = vec![cordoned(1), node(2)];
        world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world.answer_all();
        world.pod(Change::Applied(starting.clone()));
        let key = ObjectKey::new(NAMESPACE, "p1");
        let is_out = world.engine.apart().get(&key).is_some_and(|apart| apart.node_goes);
        assert_eq!(is_out, is_kept_out, "{claims:?}");
    }
}

#[test]
fn when_its_node_stays_after_all_it_is_registered_again() {
    let mut stage = Stage::daemons(4);
    stage.says(cordoned(1));
    stage.passes(5);
    assert!(!stage.aws.contains(&1));
    stage.says(node(1));
    stage.passes(10);
    assert!(stage.aws.contains(&1));
    assert_eq!(stage.leaving(1), None);
    assert_eq!(stage.world.said(), [Reason::NodeDisrupted, Reason::RegisteredAgain]);
}

#[test]
fn the_last_healthy_target_stays_though_nobody_will_evict_it() {
    let mut stage = Stage::daemons(1);
    stage.says(cordoned(1));
    stage.passes(300);
    assert_eq!(stage.removed, [0; 0]);
    assert!(matches!(
        stage.leaving(1).and_then(|leaving| leaving.waits),
        Some((_, Cause::LastHealthyTarget))
    ));
    stage.says(node(2));
    stage.apply(daemon(2));
    stage.passes(20);
    assert_eq!(stage.removed, [1]);
}

#[test]
fn a_pod_that_is_not_to_be_held_is_left_alone() {
    let mut stage = Stage::new(4, Signals::default(), |at| daemon(at).held(Hold::Off));
    stage.says(cordoned(1));
    stage.passes(60);
    assert!(stage.removed.is_empty() && stage.leaving(1).is_none());
    assert!(!matches!(stage.world.asks("p1"), Ruling::Wait { mark: Some(Mark::Asked(_)), .. }));
}

#[test]
fn a_leader_that_stands_by_has_decided_nothing_about_one_that_starts_there_unless_it_was_written_down() {
    let mut stage = Stage::daemons(4);
    stage.says(cordoned(1));
    stage.passes(2);
    let next = pod("next", "u-next").on("n1").of_daemon_set().sleeping(150, 180).at(9);
    let gone = stage.pods.remove("p1").unwrap();
    stage.world.pod(Change::Deleted(gone));
    // From here on, no request is answered.
    stage.world.pod(Change::Applied(next.build()));
    let next = ObjectKey::new(NAMESPACE, "next");
    let apart = |stage: &Stage| stage.world.engine.apart().get(&next).is_some_and(|apart| apart.node_goes);
    assert!(apart(&stage));
    stage.world.step(Input::Leadership(Leadership::Standby));
    assert!(!apart(&stage), "the next leader registers it");
}

#[test]
fn a_standby_leaves_it_to_the_leader_what_becomes_of_one_that_starts_there() {
    let mut world = World::standby(cluster_wide());
    world.relist_services(vec![web()]);
    world.written(Change::Relisted(Scope::Cluster, vec![]));
    let nodes = vec![cordoned(1), node(2)];
    world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
    world.relist_pods(vec![daemon(2)]);
    world.apply(daemon(1));
    assert!(world.engine.apart().is_empty());
}

#[test]
fn one_that_would_not_be_registered_as_it_is_now_leaves_all_the_same() {
    let ready = web().with(crate::model::policy::REGISTER_WHEN, "ready");
    let mut stage = Stage::daemons(4);
    stage.world.annotate(ready);
    let unready = |at: u8| {
        let mut pod = daemon(at).build();
        pod.readiness = Readiness::default();
        pod
    };
    let pod = unready(1);
    stage.pods.insert(pod.key.name.clone(), pod.clone());
    stage.world.pod(Change::Applied(pod));
    stage.says(cordoned(1));
    stage.passes(5);
    assert_eq!(stage.removed, [1]);
}

#[test]
fn what_waits_for_its_budget_to_leave_early_keeps_no_pod_that_nobody_evicts_from_leaving() {
    let at = WallTime::default();
    let waits = LeavingFacts { ask: Asked::early(at), ..LeavingFacts::asked(at, at) };
    let mut stage = Stage::refusing(["p4"].into(), 4, Signals::default(), |at| match at {
        4 => pod("p4", "u-p4").at(4).on("n4").ready().leaving(waits),
        at => daemon(at),
    });
    stage.says(NodeFacts { zone: Some("a".into()), ..tainted(4, DISRUPTED[1]) });
    stage.says(cordoned(1));
    stage.passes(5);
    assert_eq!(stage.removed, [1]);
}
