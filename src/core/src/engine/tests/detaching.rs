//! Tests of the annotation on nodes that no load balancer sends to any more.

use super::{
    evicting::BOUND,
    leading::standby,
    passed_over::{Stage, cordoned, daemon, node, tainted},
    *,
};
use crate::model::{Hold, LeavingFacts, NodeFacts, Signals, policy::REGISTER_WHEN, signal::DYING};

fn plain(at: u8) -> PodBuilder {
    let name = format!("p{at}");
    pod(&name, &format!("u-{name}")).at(at).on(&format!("n{at}")).ready()
}

#[test]
fn a_node_is_detached_when_the_load_balancers_have_stopped_and_until_it_stays() {
    let mut stage = Stage::daemons(4);
    assert_eq!(stage.detached(), [""; 0]);
    stage.says(cordoned(1));
    stage.passes(BOUND.as_secs() - 1);
    assert!(!stage.aws.contains(&1));
    assert_eq!(stage.detached(), [""; 0], "they may go on sending");
    stage.passes(5);
    assert_eq!(stage.detached(), ["n1"]);
    stage.says(node(1));
    stage.passes(2);
    assert_eq!(stage.detached(), [""; 0]);
}

#[test]
fn so_is_one_that_dies_and_one_without_a_target() {
    let mut stage = Stage::daemons(4);
    stage.says(tainted(1, DYING[0]));
    stage.says(cordoned(9));
    stage.passes(2);
    assert_eq!(stage.detached(), ["n9"]);
    stage.passes(BOUND.as_secs() + 2);
    assert_eq!(stage.detached(), ["n1", "n9"]);
}

#[test]
fn pods_that_will_be_evicted_are_waited_for_and_those_that_end_until_their_load_balancers_have_stopped() {
    let mut stage = Stage::new(4, Signals::default(), |at| plain(at).sleeping(150, 180));
    stage.says(cordoned(1));
    stage.passes(600);
    assert_eq!(stage.detached(), [""; 0], "it is a target");
    stage.apply(plain(1).sleeping(150, 180).terminating());
    stage.passes(BOUND.as_secs() - 1);
    assert_eq!(stage.detached(), [""; 0]);
    stage.passes(5);
    assert_eq!(stage.detached(), ["n1"], "nothing is sent to it while it ends");
    let mut stage = Stage::new(4, Signals::default(), |at| plain(at).sleeping(150, 180));
    stage.says(cordoned(1));
    let gone = stage.pods.remove("p1").unwrap();
    stage.world.pod(Change::Deleted(gone));
    stage.passes(2);
    assert_eq!(stage.detached(), ["n1"], "it has ended: the machine may");
}

#[test]
fn a_new_leader_that_has_not_seen_a_pod_end_yet_waits_for_what_the_one_before_took_out() {
    let mut stage = Stage::new(4, Signals::default(), plain);
    stage.apply(plain(1).terminating());
    assert!(!stage.aws.contains(&1));
    stage.passes(100);
    stage.world.step(Input::Leadership(Leadership::Standby));
    // The standby has seen only this state of the pod.
    stage.apply(plain(1));
    stage.says(tainted(1, DYING[0]));
    stage.world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    stage.apply(plain(1).terminating());
    for _ in 0..BOUND.as_secs() - 5 {
        stage.passes(1);
        assert_eq!(stage.detached(), [""; 0], "they may go on sending");
    }
    stage.passes(10);
    assert_eq!(stage.detached(), ["n1"]);
}

#[test]
fn a_note_that_cannot_be_true_does_not_cover_what_the_leader_before_took_out() {
    let mut stage = Stage::new(4, Signals::default(), plain);
    let other = || plain(1).labelled("other");
    stage.apply(other());
    stage.passes(1);
    assert!(!stage.aws.contains(&1));
    stage.world.step(Input::Leadership(Leadership::Standby));
    let now = stage.world.wall();
    let next_month = now + Duration::from_hours(30 * 24);
    let forged =
        LeavingFacts { deregistered: Some((next_month, Duration::ZERO)), ..LeavingFacts::asked(now, now) };
    stage.apply(other().leaving(forged));
    stage.says(tainted(1, DYING[0]));
    stage.world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    // It takes the note away, and that is not done yet.
    stage.world.answer_all();
    for _ in 0..BOUND.as_secs() - 10 {
        stage.world.wait(Duration::from_secs(1));
        stage.world.answer_all();
    }
    let asked =
        stage.world.asked(|request| if let Asks::Detached(write) = request { Some(write) } else { None });
    assert_eq!(asked, [], "they may go on sending");
    stage.passes(15);
    assert_eq!(stage.detached(), ["n1"]);
}

#[test]
fn a_pod_that_is_not_to_be_held_is_not_waited_for() {
    let mut stage = Stage::new(4, Signals::default(), |at| daemon(at).held(Hold::Off));
    stage.says(cordoned(1));
    stage.passes(2);
    assert!(stage.aws.contains(&1));
    assert_eq!(stage.detached(), ["n1"]);
}

#[test]
fn a_pod_that_starts_there_and_is_registered_takes_the_word_away_at_once() {
    let mut stage = Stage::daemons(4);
    stage.says(cordoned(9));
    stage.passes(2);
    assert_eq!(stage.detached(), ["n9"]);
    // The pod tolerates all taints, and a client will evict it.
    stage.apply(pod("next", "u-next").on("n9").at(9).ready());
    stage.passes(2);
    assert!(stage.aws.contains(&9));
    assert_eq!(stage.detached(), [""; 0]);
}

#[test]
fn what_cannot_be_written_is_tried_again_after_a_while_and_a_new_leader_goes_by_what_is_written() {
    let mut stage = Stage::daemons(4);
    stage.refuses_nodes = true;
    stage.says(cordoned(9));
    stage.passes(5);
    stage.refuses_nodes = false;
    stage.passes(50);
    assert_eq!(stage.detached(), [""; 0], "not at once");
    stage.passes(15);
    assert_eq!(stage.detached(), ["n9"]);
    stage.world.step(Input::Leadership(Leadership::Standby));
    stage.says(node(9));
    stage.passes(5);
    assert_eq!(stage.detached(), ["n9"], "another one leads");
    stage.world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    stage.passes(5);
    assert_eq!(stage.detached(), [""; 0]);
}

#[test]
fn a_node_that_has_been_detached_when_this_replica_starts_is_not_written_to_again_and_one_that_is_gone_never()
{
    let mut world = World::standby(cluster_wide());
    world.relist_services(vec![web()]);
    world.relist_pods(vec![]);
    world.written(Change::Relisted(Scope::Cluster, vec![]));
    let detached = |node: NodeFacts| NodeFacts { detached: true, ..node };
    let nodes = vec![detached(cordoned(1)), detached(node(2)), node(3)];
    world.step(Input::Node { change: Change::Relisted(Scope::Cluster, nodes), seen: world.now });
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    world.wait(Duration::from_secs(2));
    let mut written = || {
        let asked =
            world.asked(|request| if let Asks::Detached(write) = request { Some(write) } else { None });
        asked.into_iter().map(|write| (write.node.to_string(), write.at.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(written(), [("n2".to_owned(), false)]);
    world.step(Input::Node { change: Change::Deleted(detached(cordoned(1))), seen: world.now });
    world.wait(Duration::from_secs(60));
    let asked = world.asked(|request| if let Asks::Detached(write) = request { Some(write) } else { None });
    assert_eq!(asked, []);
}

#[test]
fn a_new_leader_waits_for_a_pod_that_the_one_before_had_at_another_address_since_its_watch_may_be_behind() {
    for view in [pod("a", "u-a"), pod("a", "u-a").at(5).labelled("other")] {
        let noted = [(9, "u-a")];
        let mut world = standby(vec![web().with(REGISTER_WHEN, "ready")], vec![view.on("n1")], &noted);
        let nodes = Change::Relisted(Scope::Cluster, vec![cordoned(1), node(2)]);
        world.step(Input::Node { change: nodes, seen: world.now });
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        // If the pod shows another address, its target is removed at once.
        world.accepts_removals();
        let detached = |world: &mut World| {
            let asked =
                world.asked(|request| if let Asks::Detached(write) = request { Some(write) } else { None });
            asked.iter().map(|write| write.node.to_string()).collect::<Vec<_>>()
        };
        for _ in 0..(BOUND.as_secs() - 1) / 6 {
            world.read(&[(9, HealthState::Healthy)]);
            world.wait(Duration::from_secs(6));
            assert_eq!(detached(&mut world), [""; 0]);
        }
        world.wait(Duration::from_secs(6));
        assert_eq!(detached(&mut world), ["n1"], "if it had it, it would be seen by now");
    }
}

#[test]
fn a_pod_that_shows_no_address_is_waited_for_while_its_target_is_removed() {
    let view = pod("a", "u-a").on("n1");
    let mut world = standby(vec![web()], vec![view], &[(9, "u-a")]);
    let nodes = Change::Relisted(Scope::Cluster, vec![cordoned(1), node(2)]);
    world.step(Input::Node { change: nodes, seen: world.now });
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    let detached = |world: &mut World| {
        let asked =
            world.asked(|request| if let Asks::Detached(write) = request { Some(write) } else { None });
        asked.iter().map(|write| write.node.to_string()).collect::<Vec<_>>()
    };
    world.read(&[(9, HealthState::Unhealthy)]);
    assert_eq!(world.changes(), ["-blue 10.0.0.9:80"]);
    for _ in 0..40 {
        world.wait(Duration::from_secs(5));
        assert_eq!(detached(&mut world), [""; 0], "AWS has not accepted it");
    }
    world.accepts_removals();
    world.wait(BOUND.saturating_sub(Duration::from_secs(1)));
    assert_eq!(detached(&mut world), [""; 0], "the load balancer may still send");
    world.wait(Duration::from_secs(2));
    assert_eq!(detached(&mut world), ["n1"]);
}
