//! What chance seldom brings about, played once.

mod stage;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use headgate_core::{
    Change, Input, Leadership, Reason,
    ledger::Noted,
    model::{
        GateFacts, Health, HealthState, LeavingFacts, NodeFacts, PodFacts, Readiness, ServiceFacts, Target,
        TargetPort, Uid, WallTime,
        gate::Shown,
        health::NOT_IN_USE,
        leaving::{Annotations, Asked, Mark},
        pod::{Ending, PassedOver},
        policy::{PAUSED, REGISTER_WHEN, WHEN_NOT_READY},
        signal::{DISRUPTED, DYING},
    },
};

use self::stage::{SECOND, Stage};
use crate::objects::{pod, service};
use crate::words::ip;

/// What the load balancer says of a target at first.
const STARTS: Health = Health { state: HealthState::Initial, reason: "", shifted: false, zone: None };

/// Plays all of them.
///
/// # Errors
/// What is not as it should be.
pub fn all() -> Result<(), String> {
    [
        a_zone_without_the_load_balancer,
        a_doubt_that_comes_late,
        a_removal_of_the_leader_before,
        a_pod_that_is_out_by_the_word_of_the_leader_before_alone,
        a_pod_that_the_leader_before_had_at_another_address,
        a_pod_that_gets_the_address_again_at_which_it_was_a_target,
        a_pod_that_was_taken_out_before_a_pause,
        a_target_that_comes_back_while_its_pod_leaves,
        a_word_of_an_earlier_leaving_that_lands_late,
        a_target_that_was_missing_for_one_read,
        a_pod_that_starts_where_the_leader_before_has_registered_it,
        a_target_at_which_another_pod_was_for_a_moment,
        a_target_of_nobody_knows_whom_at_the_address_of_a_paused_one,
        the_last_healthy_target_on_a_node_that_goes,
        a_pod_that_the_cluster_autoscaler_does_not_wait_for,
        a_zone_of_which_a_pod_was_let_go,
        a_pod_that_is_ready_again_beside_the_last_one_of_its_zone,
        an_address_that_another_installation_registers,
        a_registration_that_lands_late,
        a_pod_that_is_not_selected_for_a_moment_while_others_have_taken_its_target_out,
        a_gate_that_opens_for_what_cannot_be_read,
        a_removal_that_was_given_up_before_nothing_can_be_read,
        pods_of_a_daemon_set_with_their_hold_on_nodes_that_are_cordoned,
        a_node_of_which_the_leader_before_has_taken_the_pods_out,
        a_note_that_cannot_be_true,
        pods_that_a_standby_cannot_judge,
        a_pod_that_was_bound_while_the_watches_of_a_standby_were_cut,
        a_pod_whose_target_group_cannot_be_looked_up,
    ]
    .into_iter()
    .try_for_each(|case| case())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, should_be: &T) -> Result<(), String> {
    if is == should_be { Ok(()) } else { Err(format!("{what}: expected {should_be:?}, found {is:?}")) }
}

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

/// The removal of a stale target waits for the end of a pause; meanwhile a Service that selects its pod becomes doubtful.
fn a_doubt_that_comes_late() -> Result<(), String> {
    let mut stage = Stage::new(&[(1, Noted::Registered)]);
    stage.service(paused());
    stage.pods(&[pod("api", 1)]);
    stage.lead();
    stage.apply(ServiceFacts { target_groups: Some("http=unknown".into()), ..service("api") });
    stage.apply(service("web"));
    stage.passes(61 * SECOND);
    stage.reads(&[(1, HealthState::Healthy.into())]);
    expect("removed targets", &stage.removed, &Vec::new())
}

/// While another replica leads a pod goes, then another one has its address for a moment: what the ledger says of the first
/// goes at once.
fn a_target_at_which_another_pod_was_for_a_moment() -> Result<(), String> {
    let mut stage = Stage::new(&[(1, Noted::Registered)]);
    stage.service(service("web"));
    stage.pods(&[pod("web", 1)]);
    stage.goes(&pod("web", 1));
    stage.pod(of_another_life(1));
    stage.goes(&of_another_life(1));
    stage.lead();
    stage.reads(&[(1, HealthState::Healthy.into())]);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])
}

/// The ledger has a target of a pod that nobody here has seen; a pod of a paused Service went from its address. It may as
/// well be another Service's, which is not paused.
fn a_target_of_nobody_knows_whom_at_the_address_of_a_paused_one() -> Result<(), String> {
    let mut stage = Stage::new(&[(1, Noted::Registered)]);
    stage.service(paused());
    stage.apply(service("api"));
    stage.pods(&[]);
    stage.pod(of_another_life(1));
    stage.goes(&of_another_life(1));
    stage.lead();
    stage.shows_until_one_goes(10, &[(1, HealthState::Unhealthy.into())]);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])
}

/// A pod that is asked to leave is out already, by the word of the leader before: it may still be sent to for a while.
fn a_removal_of_the_leader_before() -> Result<(), String> {
    let mut stage = Stage::new(&[(1, Noted::Removed)]);
    stage.service(service("web"));
    stage.pods(&[pod("other", 1)]);
    stage.passes(120 * SECOND);
    stage.lead();
    let asked = Box::new(LeavingFacts::asked(stage.wall(), stage.wall()));
    stage.pod(PodFacts { leaving: Some(asked), ..pod("other", 1) });
    stage.passes(SECOND);
    let goes = stage.marks.iter().any(|mark| matches!(mark, Mark::MayGo { .. }));
    expect("whether it may go at once", &goes, &false)
}

/// A pod was taken out by the leader before, for another reason, and is asked to leave: that it is out is noted when a read
/// has shown it, for a late call may have put it back.
fn a_pod_that_is_out_by_the_word_of_the_leader_before_alone() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(10, &[(1, HealthState::Healthy.into())]);
    let other = PodFacts { labels: pod("other", 1).labels, ..pod("web", 1) };
    stage.pod(other.clone());
    stage.shows(1, &[]);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
    stage.step(Input::Leadership(Leadership::Standby));
    stage.shows(10, &[]);
    stage.lead();
    let asked = Box::new(LeavingFacts::asked(stage.wall(), stage.wall()));
    stage.pod(PodFacts { leaving: Some(asked), ..other });
    stage.passes(SECOND);
    stage.passes(SECOND);
    let is_noted = |stage: &Stage| stage.marks.iter().any(|mark| matches!(mark, Mark::Deregistered { .. }));
    expect("whether it is noted as out before a read", &is_noted(&stage), &false)?;
    stage.shows(10, &[]);
    expect("whether it is noted as out after that", &is_noted(&stage), &true)
}

/// A new leader sees a pod without an address, or at another one than the leader before has registered, and nothing binds it:
/// the watch may be behind, so its eviction is noted first.
fn a_pod_that_the_leader_before_had_at_another_address() -> Result<(), String> {
    for ips in [vec![], vec![ip(5)]] {
        let mut stage = Stage::new(&[(1, Noted::Registered)]);
        stage.service(service("web"));
        stage.pods(&[PodFacts { ips: ips.clone(), ..pod("other", 1) }, pod("other", 2)]);
        stage.lead();
        stage.shows(15, &[(1, HealthState::Healthy.into())]);
        let left: Vec<u8> = (1..=2).filter(|last| stage.waits(*last)).collect();
        expect(&format!("pods whose eviction waits, with {ips:?}"), &left, &vec![1])?;
    }
    Ok(())
}

/// A pod was taken out, gets another address and then the first one again, and is asked to leave: it may still be sent to there.
fn a_pod_that_gets_the_address_again_at_which_it_was_a_target() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(10, &[(1, HealthState::Healthy.into())]);
    let other =
        |last| PodFacts { ips: pod("other", last).ips, labels: pod("other", last).labels, ..pod("web", 1) };
    stage.pod(other(1));
    stage.shows(1, &[]);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
    stage.pod(other(9));
    stage.shows(60, &[]);
    let asked = Box::new(LeavingFacts::asked(stage.wall(), stage.wall()));
    stage.pod(PodFacts { leaving: Some(asked), ..other(1) });
    stage.shows(1, &[]);
    let goes = stage.marks.iter().any(|mark| matches!(mark, Mark::MayGo { .. }));
    expect("whether it may go at once", &goes, &false)
}

/// A pod was taken out, then its Service is paused, and it is asked to leave: it may still be sent to.
fn a_pod_that_was_taken_out_before_a_pause() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(10, &[(1, HealthState::Healthy.into())]);
    let other = PodFacts { labels: pod("other", 1).labels, ..pod("web", 1) };
    stage.pod(other.clone());
    stage.shows(1, &[]);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
    stage.apply(paused());
    let asked = Box::new(LeavingFacts::asked(stage.wall(), stage.wall()));
    stage.pod(PodFacts { leaving: Some(asked), ..other });
    stage.shows(1, &[]);
    let goes = stage.marks.iter().any(|mark| matches!(mark, Mark::MayGo { .. }));
    expect("whether it may go at once", &goes, &false)
}

/// What a Service bound was taken out. Its pod is asked to leave, is bound again, and somebody registers it: it goes for its
/// eviction. When that is given up its gate is closed before it is put back.
fn a_target_that_comes_back_while_its_pod_leaves() -> Result<(), String> {
    let gate = Some(Box::new(GateFacts { shown: Shown::Open(Some(ip(1))), ..GateFacts::default() }));
    let its = PodFacts { gate, ..pod("web", 1) };
    // So soon it may be a late call of its own.
    for seconds in [3, 90] {
        let mut stage = Stage::leading();
        stage.pod(its.clone());
        stage.shows(10, &[(1, HealthState::Healthy.into())]);
        stage.apply(ServiceFacts { target_groups: None, ..service("web") });
        stage.shows(seconds, &[]);
        let asked = Box::new(LeavingFacts::asked(stage.wall(), stage.wall()));
        stage.pod(PodFacts { leaving: Some(asked), ..its.clone() });
        stage.apply(service("web"));
        stage.removed.clear();
        stage.shows_until_one_goes(60, &[(1, HealthState::Healthy.into())]);
        expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
        stage.shows(3, &[]);
        stage.pod(its.clone());
        let closed =
            |(_, open, reason): &&(String, bool, Reason)| !open && *reason == Reason::RegisteredAgain;
        let closed = stage.gates.iter().filter(closed).count();
        expect(&format!("gates closed to register again, after {seconds} s"), &closed, &1)?;
    }
    Ok(())
}

/// What let a pod go that was asked to leave before lands late: before the pod is asked again, and the clock was set back
/// since; or after that. The pod waits.
fn a_word_of_an_earlier_leaving_that_lands_late() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(10, &[(1, HealthState::Healthy.into())]);
    let asked = Mark::Asked(Asked::first(stage.wall()));
    let may_go = |at| Mark::MayGo { at, reason: Reason::NotATarget };
    let (before, after) = (WallTime::default(), stage.wall() + 60 * SECOND);
    for marks in [[may_go(after), asked], [asked, may_go(before)]] {
        let mut written = Annotations::default();
        for mark in marks {
            written.write(mark);
        }
        stage.pod(PodFacts { leaving: written.facts().map(Box::new), ..pod("web", 1) });
        expect(&format!("whether its eviction waits after {written:?}"), &stage.waits(1), &true)?;
    }
    Ok(())
}

/// A read shows nothing of a target that is there, and then its pod is not selected for a while: it is taken out from here, so
/// its gate is closed before it is put back.
fn a_target_that_was_missing_for_one_read() -> Result<(), String> {
    let mut stage = Stage::leading();
    let gate = Some(Box::new(GateFacts { shown: Shown::Open(Some(ip(1))), ..GateFacts::default() }));
    let its = PodFacts { gate, ..pod("web", 1) };
    stage.pod(its.clone());
    // Registered again and again, it waits.
    stage.shows(20, &[]);
    stage.pod(PodFacts { labels: pod("other", 1).labels, ..its.clone() });
    stage.shows_until_one_goes(60, &[(1, HealthState::Healthy.into())]);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
    stage.pod(its);
    let closed = |(_, open, reason): &&(String, bool, Reason)| !open && *reason == Reason::RegisteredAgain;
    expect("gates closed to register again", &stage.gates.iter().filter(closed).count(), &1)
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
    for (noted, is_kept_out) in [(Noted::Registered, false), (Noted::Removed, true)] {
        let mut stage = Stage::new(&[(1, noted)]);
        stage.service(ready_alone.clone());
        stage.apply(beside.clone());
        stage.pods(&[PodFacts { ips: vec![], ..its.clone() }]);
        stage.nodes(vec![NodeFacts { cordoned: true, takes_pods: false, ..node("goes") }, node("stays")]);
        stage.lead();
        stage.pod(its.clone());
        let is_out = stage.engine.apart().get(&its.key).is_some_and(|apart| apart.node_goes);
        expect(&format!("whether it is kept out, noted as {noted:?}"), &is_out, &is_kept_out)?;
    }
    Ok(())
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
    for (may_go, removed) in [(None, vec![its]), (Some(Reason::ZoneAllows), vec![])] {
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
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
    stage.pod(on("both", 1));
    stage.passes(SECOND);
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])
}

/// A pod goes, and another installation that shares the target group registers its address for a pod of another cluster.
fn an_address_that_another_installation_registers() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    stage.goes(&pod("web", 1));
    let removed = vec![Target::new(ip(1), 80)];
    expect("removed targets", &stage.removed, &removed)?;
    stage.shows(4, &[]);
    stage.shows(10, &[(1, HealthState::Initial.into())]);
    stage.shows(120, &[(1, HealthState::Healthy.into())]);
    expect("removed targets", &stage.removed, &removed)
}

/// A pod goes a moment after it was registered, and a call that was given up brings its target back.
fn a_registration_that_lands_late() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(3, &[(1, HealthState::Initial.into())]);
    stage.goes(&pod("web", 1));
    stage.shows(4, &[]);
    for _ in 0..60 {
        let is_back = stage.removed.len() == 1;
        stage.shows(1, if is_back { &[(1, STARTS)] } else { &[] });
    }
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80); 2])
}

/// Somebody else takes a target out again and again, so that it is registered ever more rarely. Its pod was not taken out from
/// here, whatever happens to it meanwhile.
fn a_pod_that_is_not_selected_for_a_moment_while_others_have_taken_its_target_out() -> Result<(), String> {
    let mut stage = Stage::leading();
    let gate = Some(Box::new(GateFacts { shown: Shown::Open(Some(ip(1))), ..GateFacts::default() }));
    let its = PodFacts { gate, ..pod("web", 1) };
    stage.pod(its.clone());
    stage.shows(20, &[]);
    stage.pod(PodFacts { labels: pod("other", 1).labels, ..its.clone() });
    stage.passes(SECOND);
    stage.pod(its);
    stage.shows(60, &[]);
    let closed = |(_, open, reason): &&(String, bool, Reason)| !open && *reason == Reason::RegisteredAgain;
    expect("gates closed to register again", &stage.gates.iter().filter(closed).count(), &0)?;
    expect("removed targets", &stage.removed, &Vec::new())
}

/// Its health cannot be read for a minute: its gate opens, says so, and says the usual when the target is seen healthy.
fn a_gate_that_opens_for_what_cannot_be_read() -> Result<(), String> {
    let mut stage = Stage::leading();
    let gated = |gate| PodFacts { gate: Some(Box::new(gate)), ..pod("web", 1) };
    stage.pod(gated(GateFacts::default()));
    stage.reads_fail(70);
    let opened = |stage: &Stage| {
        let opened = stage.gates.iter().filter(|(_, open, _)| *open);
        opened.map(|(.., reason)| *reason).collect::<BTreeSet<_>>()
    };
    expect("why it is open", &opened(&stage), &BTreeSet::from([Reason::HealthUnreadable]))?;
    stage.pod(gated(GateFacts { shown: Shown::Open(Some(ip(1))), unread: true, expected: None }));
    stage.gates.clear();
    stage.shows(30, &[(1, HealthState::Unhealthy.into())]);
    expect("what is written while it is unhealthy", &stage.gates.len(), &0)?;
    stage.shows(60, &[(1, HealthState::Healthy.into())]);
    expect("why it is open", &opened(&stage), &BTreeSet::from([Reason::TargetsHealthy]))
}

/// The answer to the removal of a pod's target is lost. Another pod gets the address, is registered, and cannot be read: the
/// removal may be applied after that, and nobody would know.
fn a_removal_that_was_given_up_before_nothing_can_be_read() -> Result<(), String> {
    let mut stage = Stage::leading();
    stage.pod(pod("web", 1));
    stage.shows(5, &[(1, HealthState::Healthy.into())]);
    stage.lost_removals = 1;
    stage.goes(&pod("web", 1));
    stage.pod(PodFacts { gate: Some(Box::default()), ..of_another_life(1) });
    stage.reads_fail(120);
    expect("removals", &stage.removed.len(), &2)?;
    expect("open gates", &stage.gates.iter().filter(|(_, open, _)| *open).count(), &0)
}

/// The Service, and nothing is to be written about its targets.
fn paused() -> ServiceFacts {
    let mut paused = service("web");
    paused.policy.set(PAUSED, "true");
    paused
}

/// Another pod of the same name and address.
fn of_another_life(last: u8) -> PodFacts {
    PodFacts { uid: Uid::new("another"), ..pod("web", last) }
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
    stage.pass(30);
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
    expect("removed targets", &stage.removed, &vec![Target::new(ip(1), 80)])?;
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

/// A standby has not seen that they were ready, or has seen them bound, or their gates are open, or the ledger tells of them;
/// and it does not know what the leader has taken out. It leaves their evictions to the leader, and lets the one go that
/// nothing tells of.
fn pods_that_a_standby_cannot_judge() -> Result<(), String> {
    let mut stage = Stage::new(&[(6, Noted::Registered)]);
    let mut ready_alone = service("web");
    ready_alone.policy.set(REGISTER_WHEN, "ready");
    stage.service(ready_alone);
    let open =
        |last| Some(Box::new(GateFacts { shown: Shown::Open(Some(ip(last))), ..GateFacts::default() }));
    let is_ready = Readiness { containers: true, gates: true };
    let was_bound = PodFacts { readiness: is_ready, ..pod("web", 2) };
    let had_another_address = PodFacts { gate: open(9), ..pod("other", 4) };
    let was_opened = PodFacts { gate: open(3), ..pod("other", 3) };
    stage.pods(&[
        pod("web", 1),
        was_bound.clone(),
        was_opened,
        had_another_address,
        pod("other", 5),
        pod("other", 6),
    ]);
    stage.pod(PodFacts { labels: pod("other", 2).labels, ..was_bound });
    stage.passes(600 * SECOND);
    let left: Vec<u8> = (1..=6).filter(|last| stage.waits(*last)).collect();
    expect("pods whose eviction waits for the leader", &left, &vec![1, 2, 3, 6])
}

/// A standby has not seen that a pod was bound, for its watches were cut: when they have listed again the ledgers say so.
fn a_pod_that_was_bound_while_the_watches_of_a_standby_were_cut() -> Result<(), String> {
    let mut stage = Stage::new(&[]);
    stage.service(service("web"));
    let pods = [pod("other", 1), pod("other", 2)];
    stage.pods(&pods);
    stage.passes(SECOND);
    stage.another_notes(&[(1, Noted::Registered)]);
    stage.pods(&pods);
    stage.passes(SECOND);
    let left: Vec<u8> = (1..=2).filter(|last| stage.waits(*last)).collect();
    expect("pods whose eviction waits for the leader", &left, &vec![1])
}

/// The leader cannot look up the target group that a Service names: its pods may be targets there.
fn a_pod_whose_target_group_cannot_be_looked_up() -> Result<(), String> {
    let mut stage = Stage::new(&[]);
    stage.no_lookups = true;
    stage.service(service("web"));
    stage.pods(&[pod("web", 1), pod("other", 2)]);
    stage.lead();
    stage.passes(SECOND);
    let left: Vec<u8> = (1..=2).filter(|last| stage.waits(*last)).collect();
    expect("pods whose eviction waits", &left, &vec![1])
}
