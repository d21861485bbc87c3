//! Tests of evictions that wait for further targets, because the load balancer may still send to these targets.

use super::{
    evicting::{BOUND, asked, no_budget, three},
    leading::standby,
    *,
};
use crate::{
    model::{
        LeavingFacts,
        eviction::Ruling,
        gate::Shown,
        leaving::Mark,
        policy::{HOLD, PAUSED},
    },
    testing::ip,
};

#[test]
fn nobody_takes_a_pod_for_no_target_while_its_target_group_is_looked_up() {
    let mut world = World::with(cluster_wide());
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "u-a").at(1), pod("b", "u-b").at(2).sleeping(150, 180)]);
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. }));
    assert_eq!(world.asks("b"), Ruling::Pass(Cause::HoldAllows), "whatever it turns out to be");
    world.apply(asked("a", 1, world.wall()));
    world.wait(Duration::from_secs(5));
    assert_eq!((world.marks(), world.checks()), (vec![], vec![]), "the leader waits as well");
    world.answer_all();
    world.wait(Duration::from_secs(1));
    let _ = world.check_of("a");
}

#[test]
fn a_standby_does_not_take_a_pod_for_no_target_because_it_found_no_target_group_once() {
    let mut world = standby(vec![web()], vec![pod("a", "u-a").at(1)], &[]);
    world.known = Vec::new();
    world.annotate(web().annotated("http=late"));
    world.answer_all();
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. }));
    let mut world = World::with(cluster_wide());
    world.known = Vec::new();
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "u-a").at(1)]);
    world.answer_all();
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::NotATarget), "a leader looks it up again");
}

#[test]
fn what_cannot_be_looked_up_delays_no_eviction_without_end() {
    let mut world = World::with(cluster_wide());
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "u-a").at(1)]);
    world.apply(asked("a", 1, world.wall()));
    world.wait(Duration::from_secs(59));
    assert_eq!((world.marks(), world.checks()), (vec![], vec![]));
    world.wait(Duration::from_secs(2));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::Deregistered { .. }), "as if it was a target: the bound is waited for");
}

#[test]
fn a_removal_that_is_under_way_for_another_reason_is_waited_for() {
    let mut world = three();
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    world.wait(Duration::from_secs(1));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.marks(), [], "AWS has not taken it");
    world.answer_all();
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::Deregistered { bound: BOUND, .. }), "{mark:?}");
}

#[test]
fn a_pod_that_was_unbound_a_moment_ago_waits_for_the_bound_and_later_for_nothing() {
    let mut world = three();
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    world.answer_all();
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, .. }));
    world.wait(Duration::from_secs(20));
    world.answer_all();
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    world.wait(Duration::from_secs(1));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    let mark = world.mark_of("a").mark;
    let left = BOUND.saturating_sub(Duration::from_secs(20));
    assert!(matches!(mark, Mark::Deregistered { bound, .. } if bound <= left), "{mark:?}");
    world.wait(BOUND);
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::NotATarget));
}

#[test]
fn a_pod_that_is_bound_to_nothing_waits_at_the_leader_for_what_the_ledger_tells_of_it() {
    let unbound = || pod("a", "u-a").at(1).labelled("other");
    let mut world = standby(vec![web()], vec![unbound()], &[(1, "u-a")]);
    world.wait(Duration::from_secs(600));
    let waits =
        |world: &World| matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, .. });
    assert!(waits(&world), "a standby leaves it to the leader");
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    assert!(waits(&world), "AWS has not taken it");
    world.answer_all();
    world.wait(BOUND.saturating_sub(Duration::from_secs(1)));
    assert!(waits(&world), "the load balancer may go on sending");
    world.wait(Duration::from_secs(1));
    world.answer_all();
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::NotATarget), "the load balancer has stopped");
}

#[test]
fn who_stands_by_learns_once_from_the_ledgers_who_was_a_target_before_and_is_ready_without_them() {
    let unbound = || pod("a", "u-a").at(1).labelled("other");
    let fails = |fails: bool| {
        let mut world = World::standby(cluster_wide());
        world.ledgers_wait = true;
        world.written(Change::Relisted(Scope::Cluster, vec![]));
        world.relist_services(vec![web()]);
        assert!(world.loads_of_all().is_empty(), "not every pod is seen yet");
        world.relist_pods(vec![unbound()]);
        let [load] = world.loads_of_all()[..] else { panic!("{:?}", world.views) };
        assert!(!world.engine.is_synced());
        assert_eq!(world.asks("a"), Ruling::Pass(Cause::BindingsUnknown));
        world.claimed("blue", &[(1, "u-a")]);
        let result =
            if fails { Err(failure(FailureClass::Denied)) } else { world.keeps(LedgerRequest::LoadAll) };
        world.step(Input::Answered { id: load, result });
        assert!(world.engine.is_synced(), "it serves what it knows");
        world
    };
    let is_left = |world: &World| matches!(world.asks("a"), Ruling::Wait { mark: Some(_), .. });
    let mut learnt = fails(false);
    assert!(is_left(&learnt));
    learnt.wait(Duration::from_secs(600));
    assert!(learnt.loads_of_all().is_empty(), "once is enough");
    learnt.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    learnt.step(Input::Leadership(Leadership::Standby));
    assert!(is_left(&learnt), "it is not forgotten while the ledgers are loaded to lead");

    let mut denied = fails(true);
    assert_eq!(denied.asks("a"), Ruling::Pass(Cause::NotATarget));
    denied.wait(Duration::from_secs(6));
    let [load] = denied.loads_of_all()[..] else { panic!("it tries again: {:?}", denied.views) };
    let result = denied.keeps(LedgerRequest::LoadAll);
    denied.step(Input::Answered { id: load, result });
    assert!(is_left(&denied));
}

#[test]
fn a_standby_leaves_a_pod_that_was_a_target_to_the_leader_however_long_that_is_ago() {
    let unbound = || pod("a", "u-a").at(1).labelled("other");
    let was_bound = || {
        let mut world = standby(vec![web()], vec![pod("a", "u-a").at(1)], &[]);
        world.apply(unbound());
        world
    };
    let gated = |last| standby(vec![web()], vec![unbound().gated(Shown::Open(Some(ip(last))))], &[]);
    for (mut world, waits) in [(was_bound(), true), (gated(1), true), (gated(2), false)] {
        world.wait(Duration::from_secs(600));
        let is_left = |world: &World| {
            matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. })
        };
        assert_eq!(is_left(&world), waits, "{:?}: its removal may be held", world.asks("a"));
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        world.answer_all();
        assert_eq!(world.asks("a"), Ruling::Pass(Cause::NotATarget), "a leader knows");
    }
}

#[test]
fn what_the_leader_before_had_at_an_address_that_a_pod_has_lost_is_removed_at_once_and_waited_for() {
    let starting = || pod("b", "u-b").at(9);
    // The starting pod may need the target at 10.0.0.9. Without the starting pod, the address may belong to another
    // cluster.
    for others in [vec![starting()], vec![]] {
        let mut pods = vec![pod("a", "u-a").at(1).ready()];
        pods.extend(others);
        let noted = [(1, "u-a"), (9, "u-a")];
        let mut world = standby(vec![web().with(REGISTER_WHEN, "ready")], pods, &noted);
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        assert_eq!(
            (world.changes(), world.causes()),
            (vec!["-blue 10.0.0.9:80".to_owned()], vec![Cause::IpChanged])
        );
        for _ in 0..3 {
            world.read(&[(1, HealthState::Healthy), (9, HealthState::Healthy)]);
            world.wait(Duration::from_secs(6));
        }
        world.apply(asked("a", 1, world.wall()).ready());
        let check = world.check_of("a");
        world.checked(&check, Ok(no_budget()));
        assert_eq!(world.changes(), ["-blue 10.0.0.9:80", "-blue 10.0.0.1:80"]);
        world.open.retain(|(_, call)| !matches!(call, Call::ReadHealth { .. }));
        let (id, _) = world.open.pop().unwrap();
        world.step(Input::Answered { id, result: Ok(Answer::Done) });
        assert_eq!(world.marks(), [], "AWS must have taken both");
        world.accepts_removals();
        let mark = world.mark_of("a");
        assert!(matches!(mark.mark, Mark::Deregistered { bound: BOUND, .. }), "{mark:?}");
        world.written_mark(&mark, Ok(()));
        world.wait(BOUND);
        assert!(matches!(world.mark_of("a").mark, Mark::MayGo { reason: Cause::EvictionAllowed, .. }));
    }
}

#[test]
fn a_pod_that_may_have_been_readier_before_is_the_leaders_to_decide() {
    let service = web().with(REGISTER_WHEN, "ready");
    let mut world = World::new(vec![service], vec![pod("a", "u-a").at(1)]);
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, .. }));
    world.apply(asked("a", 1, world.wall()));
    let mark = world.mark_of("a").mark;
    assert!(matches!(mark, Mark::MayGo { reason: Cause::NotATarget, .. }), "{mark:?}");
}

#[test]
fn a_pod_that_is_not_ready_any_more_is_the_leaders_to_decide_who_may_keep_it() {
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], vec![]);
    world.apply(pod("a", "u-a").at(1).ready());
    world.apply(pod("a", "u-a").at(1));
    world.answer_all();
    for _ in 0..2 {
        world.wait(BOUND);
        world.answer_all();
    }
    assert!(matches!(world.asks("a"), Ruling::Wait { cause: Cause::EvictionRecorded, .. }));
    world.apply(asked("a", 1, world.wall()));
    world.wait(BOUND);
    let mark = world.mark_of("a").mark;
    assert!(matches!(mark, Mark::MayGo { reason: Cause::NotATarget, .. }), "{mark:?}");
}

#[test]
fn a_pod_that_is_no_target_any_more_may_go_at_once_when_the_load_balancer_has_stopped() {
    let mut world = three();
    world.service(Change::Deleted(web().build()));
    world.wait(GRACE);
    world.answer_all();
    world.wait(BOUND);
    world.answer_all();
    world.apply(asked("a", 1, world.wall()));
    let mark = world.mark_of("a");
    assert!(matches!(mark.mark, Mark::MayGo { reason: Cause::NotATarget, .. }));
}

#[test]
fn a_paused_group_holds_no_eviction_up_and_one_of_two_that_is_not_is_left() {
    let both = || service("web").port("http", 80).annotated("http=blue,http=green");
    let mut world = World::new(vec![both().with(PAUSED, "true")], vec![pod("a", "u-a").at(1)]);
    assert_eq!(world.asks("a"), Ruling::Pass(Cause::Paused));
    world.annotate(both().with(HOLD, "3m"));
    world.answer_all();
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes().len(), 2);
    let (id, call) = world.open.pop().unwrap();
    assert!(matches!(call, Call::Deregister { .. }));
    world.step(Input::Answered { id, result: Ok(Answer::Done) });
    assert_eq!(world.marks(), [], "AWS must have taken both");
    world.answer_all();
    // A hold of three minutes includes a reserve of 30 s.
    let bound = Duration::from_secs(150);
    assert!(matches!(world.mark_of("a").mark, Mark::Deregistered { bound: is, .. } if is == bound));
}

#[test]
fn what_was_taken_out_before_a_pause_is_waited_for() {
    let mut world = three();
    world.wait(Duration::from_secs(10));
    world.apply(pod("a", "u-a").at(1).labelled("other"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    world.answer_all();
    world.annotate(web().with(PAUSED, "true"));
    world.wait(Duration::from_secs(10));
    world.apply(asked("a", 1, world.wall()).labelled("other"));
    for check in world.checks() {
        world.checked(&check, Ok(no_budget()));
    }
    let mark = world.mark_of("a").mark;
    assert!(matches!(mark, Mark::Deregistered { bound, .. } if bound > BOUND / 2), "{mark:?}");
}

#[test]
fn what_is_removed_because_a_pause_has_ended_is_waited_for_with_its_own_bound() {
    let other = || service("other").port("http", 80).annotated("http=green").with(HOLD, "3m");
    let mut world = World::new(vec![web(), other()], vec![pod("a", "u-a").at(1)]);
    world.annotate(other().with(PAUSED, "true"));
    world.apply(asked("a", 1, world.wall()));
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    let (blue, _) = world.open.pop().unwrap();
    world.annotate(other());
    assert_eq!(world.changes(), ["-green 10.0.0.1:80"]);
    world.step(Input::Answered { id: blue, result: Ok(Answer::Done) });
    assert_eq!(world.marks(), [], "AWS must have taken both");
    world.answer_all();
    let bound = Duration::from_secs(150);
    assert!(matches!(world.mark_of("a").mark, Mark::Deregistered { bound: is, .. } if is == bound));
}

#[test]
fn a_pod_that_the_leader_before_had_at_another_address_is_asked_to_leave_and_let_go_when_it_is_seen_again() {
    let behind = |view: &PodBuilder, is_shared: bool| {
        let another = is_shared.then(|| pod("b", "u-b").at(9));
        let pods = another.into_iter().chain([view.clone()]).collect();
        let noted = [(9, "u-a")];
        let mut world = standby(vec![web().with(REGISTER_WHEN, "ready")], pods, &noted);
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        // If the pod shows another address, its target is removed at once.
        world.accepts_removals();
        for _ in 0..3 {
            world.read(&[(9, HealthState::Healthy)]);
            world.wait(Duration::from_secs(6));
        }
        let ruling = world.asks("a");
        assert!(
            matches!(ruling, Ruling::Wait { cause: Cause::EvictionRecorded, mark: Some(_), .. }),
            "{is_shared}: the watch may be behind: {ruling:?}"
        );
        world
    };
    for (view, is_removed) in [(pod("a", "u-a"), false), (pod("a", "u-a").at(5).labelled("other"), true)] {
        for is_shared in [false, true] {
            let mut world = behind(&view, is_shared);
            let at = world.wall();
            world.apply(view.clone().leaving(LeavingFacts::asked(at, at)));
            world.wait(Duration::from_secs(1));
            for check in world.checks() {
                world.checked(&check, Ok(no_budget()));
            }
            let mark = world.mark_of("a").mark;
            let has_lost = matches!(mark, Mark::MayGo { reason: Cause::NotATarget, .. });
            let waits = matches!(mark, Mark::Deregistered { .. });
            assert!(if is_removed { waits } else { has_lost }, "it has lost it: {mark:?}");
        }
        let mut world = behind(&view, false);
        world.apply(asked("a", 9, world.wall()).ready());
        let added: &[&str] = if is_removed { &["+blue 10.0.0.9:80"] } else { &[] };
        assert_eq!(world.changes(), added, "it has got it");
        let check = world.check_of("a");
        world.checked(&check, Ok(no_budget()));
        assert_eq!(world.changes().last().unwrap(), "-blue 10.0.0.9:80");
    }
}
