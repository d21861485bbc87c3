//! Tests of a standby, and of a new leader that takes over the ledgers.

use super::{
    evicting::{BOUND, no_budget},
    *,
};
use crate::{
    ledger::PodMark,
    model::account::Under,
    model::{
        IpFamily, LeavingFacts, Uid, WallTime,
        policy::{OWNERSHIP, PAUSED},
    },
};

/// A replica that has seen all there is, while another one leads that has left this ledger of blue.
pub(super) fn standby(services: Vec<ServiceBuilder>, pods: Vec<PodBuilder>, claims: &[(u8, &str)]) -> World {
    let mut world = World::standby(cluster_wide());
    world.claimed("blue", claims);
    world.written(Change::Relisted(Scope::Cluster, vec![]));
    world.relist_services(services);
    world.relist_pods(pods);
    world.answer_all();
    world
}

impl World {
    /// Waits for the second `DescribeTargetHealth` call. A new leader does not act on the answer of its first call.
    pub(super) fn reads_again(&mut self) {
        self.wait(Duration::from_secs(5));
        self.answer_all();
    }

    fn lead(&mut self) {
        self.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    }

    /// Answers the open `DescribeTargetHealth` calls with these targets.
    pub(super) fn read(&mut self, shows: &[(u8, HealthState)]) {
        let (reads, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
        self.open = rest;
        for (id, _) in reads {
            let states = shows.iter().map(|(last, state)| (target(*last, 80), (*state).into())).collect();
            self.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
        }
    }
}

#[test]
fn a_standby_looks_up_groups_and_neither_calls_nor_speaks() {
    let mut world = standby(vec![web().annotated("http=blue,80=red")], vec![pod("a", "1").at(1)], &[]);
    world.wait(Duration::from_secs(120));
    assert!(world.open.iter().all(|(_, call)| matches!(call, Call::FindGroups { .. })), "{:?}", world.open);
    assert_eq!(world.said(), []);
    world.lead();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    assert_eq!(world.said(), [Reason::TargetGroupNotFound], "said when it came to lead");
}

#[test]
fn a_registration_goes_only_when_the_ledger_says_so() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1)], &[]);
    world.lead();
    let claimed = world.claims("blue").get(&target(1, 80)).map(|claim| claim.pod);
    assert_eq!(claimed, Some(PodMark::of(&Uid::new("1"))));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn what_is_registered_already_needs_no_call_once_a_read_has_shown_it() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1)], &[(1, "1")]);
    world.lead();
    assert_eq!(world.changes(), [""; 0]);
    world.read(&[(1, HealthState::Healthy)]);
    world.wait(Duration::from_secs(7));
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!(world.changes(), [""; 0]);
    world.wait(Duration::from_secs(60));
    world.read(&[]);
    assert_eq!(world.causes(), [Cause::TargetMissing]);
}

#[test]
fn what_was_only_intended_is_registered_once_a_read_that_counts_lacks_it() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1)], &[(1, "1")]);
    world.lead();
    world.read(&[]);
    assert_eq!(world.changes(), [""; 0], "the read may have shown the past");
    world.wait(Duration::from_secs(7));
    world.read(&[]);
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn what_was_another_pods_is_removed_before_it_is_registered() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1)], &[(1, "0")]);
    world.lead();
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "or its health would count for the new pod");
    world.accepts_removals();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn a_target_whose_pod_the_standby_saw_go_is_removed_as_its_first_act() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1)], &[(1, "1")]);
    world.delete(pod("a", "1").at(1));
    assert_eq!(world.changes(), [""; 0]);
    world.lead();
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".into()], vec![Cause::PodDeleted])
    );
}

#[test]
fn it_is_also_when_another_pod_was_there_for_a_moment_since() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1)], &[(1, "1")]);
    world.delete(pod("a", "1").at(1));
    world.apply(pod("b", "2").at(1));
    world.delete(pod("b", "2").at(1));
    world.lead();
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".into()], vec![Cause::PodDeleted])
    );
}

#[test]
fn a_target_of_the_ledger_that_is_missing_in_an_early_read_may_be_there_all_the_same() {
    let mut world = standby(vec![web()], vec![], &[(1, "1")]);
    world.lead();
    world.read(&[]);
    world.wait(Duration::from_secs(5));
    world.read(&[(1, HealthState::Unhealthy)]);
    assert_eq!(world.causes(), [Cause::StaleTarget], "the first read has shown the past");
}

#[test]
fn a_stale_target_of_a_pod_that_is_still_there_is_removed_at_once() {
    for (there, cause) in [
        (pod("a", "1").at(1).terminating(), Cause::PodTerminating),
        (pod("a", "2").at(1).labelled("api"), Cause::StaleTarget),
    ] {
        let mut world = standby(vec![web()], vec![there], &[(1, "1")]);
        world.lead();
        assert_eq!(world.causes(), [cause]);
    }
}

#[test]
fn a_target_group_of_the_same_name_casts_doubt_only_in_the_same_account_and_region() {
    for (from, to, goes) in [
        ("us-east-1", "us-east-1", false),
        ("123456789012", "210987654321", true),
        ("us-east-1", "eu-central-1", true),
    ] {
        let there = pod("a", "1").at(1).labelled("api");
        let mut world = standby(vec![web()], vec![there], &[(1, "1")]);
        let other = arn("blue").as_str().replace("0123456789abcdef", "fedcba9876543210").replace(from, to);
        let other = TargetGroupArn::parse(&other).unwrap();
        let claim = Claim { pod: PodMark::of(&Uid::new("9")), binding: None };
        let claims = Content { claims: [(target(9, 80), claim)].into(), ..Content::default() };
        let ledger = PackedLedger::of(&other, IpFamily::V4, &claims);
        world.ledgers.insert(object_name(&other), (1, ledger));
        world.lead();
        let gone: &[&str] = if goes { &["-blue 10.0.0.1:80"] } else { &[] };
        assert_eq!(world.changes(), gone, "{to}");
    }
}

#[test]
fn a_stale_target_at_an_address_that_nobody_here_has_is_removed_only_when_it_is_not_healthy() {
    let mut world = standby(vec![web()], vec![], &[(1, "1")]);
    world.lead();
    assert_eq!(world.changes(), [""; 0], "nothing is known of it yet");
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!((world.changes(), world.said()), (vec![], vec![Reason::ForeignTarget]));
    world.wait(Duration::from_secs(61));
    world.read(&[(1, HealthState::Unhealthy)]);
    assert_eq!(world.causes(), [Cause::StaleTarget]);
}

#[test]
fn a_suspect_is_removed_where_the_group_is_headgates_alone_and_from_the_moment_it_is() {
    let exclusive = || web().with(OWNERSHIP, "exclusive");
    let noted = [(1, "1")];
    let mut world = standby(vec![exclusive()], vec![], &noted);
    world.lead();
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!((world.causes(), world.said()), (vec![Cause::StaleTarget], vec![]));

    let mut world = standby(vec![web()], vec![], &noted);
    world.lead();
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!((world.causes(), world.said()), (vec![], vec![Reason::ForeignTarget]));
    world.annotate(exclusive());
    assert_eq!(world.causes(), [Cause::StaleTarget]);
}

#[test]
fn a_suspect_stays_while_a_service_beside_may_turn_out_to_share_the_group() {
    let doubtful = service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=unknown");
    let services = vec![web().with(OWNERSHIP, "exclusive"), doubtful];
    let mut world = standby(services, vec![], &[(1, "1")]);
    world.lead();
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn the_pod_of_a_stale_target_that_has_ended_may_have_lost_its_address() {
    let mut world = standby(vec![web()], vec![pod("a", "1").at(1).finished()], &[(1, "1")]);
    world.lead();
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!((world.changes(), world.said()), (vec![], vec![Reason::ForeignTarget]));
}

#[test]
fn a_stale_target_that_is_gone_is_only_remembered_for_a_while() {
    let mut world = standby(vec![web()], vec![], &[(1, "1")]);
    world.lead();
    for seconds in (0..140).step_by(5) {
        world.read(&[]);
        world.wait(Duration::from_secs(5));
        assert!(seconds > 120 || world.claims("blue").len() == 1, "the load balancer may go on sending");
    }
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.claims("blue"), Claims::new());
}

#[test]
fn a_stale_target_at_another_port_does_not_stay_because_its_pod_only_has_to_become_ready() {
    for (port, stays) in [(80, true), (8080, false)] {
        let waits =
            service("web").port_to("http", 80, port).annotated("http=blue").with(REGISTER_WHEN, "ready");
        let known = [(1, "1")];
        let mut world = standby(vec![waits], vec![pod("a", "1").at(1)], &known);
        world.lead();
        world.read(&[(1, HealthState::Unhealthy)]);
        assert_eq!(world.changes().is_empty(), stays, "{port}: {:?}", world.changes());
    }
}

#[test]
fn a_living_pods_target_is_left_alone_while_a_service_beside_it_is_in_doubt() {
    let bad = web().annotated("http=");
    let mut world = standby(vec![bad], vec![pod("a", "1").at(1)], &[(1, "1")]);
    world.lead();
    world.read(&[(1, HealthState::Unhealthy)]);
    assert_eq!(world.changes(), [""; 0]);
    world.annotate(web().annotated("http=green"));
    assert_eq!(world.changes(), [""; 0], "green has not been found yet");
    let at = world.open.iter().position(|(_, call)| matches!(call, Call::FindGroups { .. })).unwrap();
    let (id, _) = world.open.remove(at);
    world.step(Input::Answered { id, result: Ok(Answer::Groups(vec![group("green")])) });
    assert!(world.changes().contains(&"-blue 10.0.0.1:80".to_owned()), "{:?}", world.changes());
}

fn api() -> ServiceBuilder {
    service("api").selector(&[("app", "api")]).port("http", 80)
}

/// A Service that selects the pod becomes doubtful while the removal of the pod's stale target waits for the end of a
/// pause.
fn beside_a_doubt_that_comes_late() -> World {
    let paused = || web().with(PAUSED, "true");
    let stale = || vec![pod("a", "1").at(1).labelled("api")];
    let mut world = standby(vec![paused()], stale(), &[(1, "1")]);
    world.lead();
    world.annotate(api().annotated("http=unknown"));
    world.annotate(web());
    world.wait(Duration::from_secs(61));
    world.read(&[(1, HealthState::Healthy)]);
    world
}

#[test]
fn a_stale_target_whose_removal_waits_is_spared_when_a_service_beside_it_becomes_doubtful() {
    let mut world = beside_a_doubt_that_comes_late();
    assert_eq!(world.changes(), [""; 0], "it may turn out to be bound");
    world.annotate(api());
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".into()], vec![Cause::StaleTarget])
    );
}

/// The state of 10.0.0.1:80 in `blue`.
fn first_is_under(world: &World) -> Under {
    let registrations = world.engine.groups.get(&arn("blue")).unwrap().registrations();
    registrations.account(&target(1, 80)).unwrap().under
}

#[test]
fn a_stale_target_whose_removal_waits_is_spared_when_its_pod_only_has_to_become_ready_by_now() {
    let paused = web().with(PAUSED, "true").with(REGISTER_WHEN, "ready");
    let other = pod("a", "1").at(1).labelled("api");
    let mut world = standby(vec![paused], vec![other], &[(1, "1")]);
    world.lead();
    assert_eq!(first_is_under(&world), Under::ToRemove);
    world.apply(pod("a", "1").at(1));
    assert_eq!(first_is_under(&world), Under::Doubted);
    world.annotate(web().with(REGISTER_WHEN, "ready"));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn of_two_pods_that_show_its_address_the_one_that_got_it_last_may_turn_out_to_be_wanted_at_a_stale_target() {
    for (name, created, under) in [
        ("0", 10, Under::Doubted),
        ("b", 10, Under::Doubted),
        ("0", 30, Under::ToRemove),
        ("b", 30, Under::ToRemove),
    ] {
        let paused = web().with(PAUSED, "true").with(REGISTER_WHEN, "ready");
        let other = pod(name, "2").at(1).labelled("api").created(created);
        let mut world = standby(vec![paused], vec![pod("a", "1").at(1).created(20), other], &[(1, "1")]);
        world.lead();
        assert_eq!(first_is_under(&world), under, "beside {name} of {created}");
    }
}

#[test]
fn a_stale_target_whose_removal_waits_is_spared_when_a_pod_beside_something_doubtful_gets_its_address() {
    let services = vec![web().with(PAUSED, "true"), service("api").port("http", 80).annotated("http=")];
    let mut world = standby(services, vec![pod("a", "1")], &[(1, "1")]);
    world.lead();
    world.read(&[(1, HealthState::Unhealthy)]);
    assert_eq!(first_is_under(&world), Under::ToRemove);
    let other = || pod("a", "1").at(1).labelled("api");
    world.apply(other());
    assert_eq!(first_is_under(&world), Under::Doubted);
    world.annotate(web());
    assert_eq!(world.changes(), [""; 0], "it may turn out to be bound");
}

/// The eviction of `a` is requested and allowed. The ledger contains its target at a port without a binding, while
/// another Service is unresolved.
fn leaves_in_doubt() -> World {
    let at = WallTime::default();
    let services = vec![
        service("web").port_to("http", 80, 81).annotated("http=blue"),
        service("api").port("http", 80).annotated("http="),
    ];
    let leaving = pod("a", "1").at(1).leaving(LeavingFacts::asked(at, at));
    let mut world = standby(services, vec![leaving, pod("b", "2").at(2)], &[(1, "1")]);
    world.lead();
    world.read(&[(1, HealthState::Healthy)]);
    assert_eq!(first_is_under(&world), Under::Doubted);
    world
}

#[test]
fn a_stale_target_of_a_pod_that_leaves_is_removed_whatever_is_in_doubt_beside_it_and_replaces_it() {
    let mut world = leaves_in_doubt();
    let check = world.check_of("a");
    world.checked(&check, Ok(no_budget()));
    assert_eq!(first_is_under(&world), Under::Removing);
    let removals: Vec<String> =
        world.changes().into_iter().filter(|change| change.starts_with('-')).collect();
    assert_eq!(removals, ["-blue 10.0.0.1:80 10.0.0.1:81"]);
    assert!(world.causes().contains(&Cause::PodEvicting), "{:?}", world.causes());
}

#[test]
fn a_stale_target_of_a_pod_that_stays_is_left_alone_in_doubt_and_then_held_until_it_is_replaced() {
    let mut world = leaves_in_doubt();
    world.annotate(service("api").port("http", 80));
    assert_eq!(first_is_under(&world), Under::Held);
}

#[test]
fn the_removal_of_a_stale_target_that_was_sent_goes_on_whatever_becomes_doubtful() {
    let stale = pod("a", "1").at(1).labelled("api");
    let mut world = standby(vec![web()], vec![stale], &[(1, "1")]);
    world.lead();
    world.annotate(service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=unknown"));
    world.refuse_changes(FailureClass::Unavailable);
    world.wait(Duration::from_secs(5));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn a_ledger_that_makes_no_sense_is_said_and_stops_the_registrations_of_its_group_alone() {
    let services = vec![web().annotated("http=blue,80=green")];
    let mut world = standby(services, vec![pod("a", "1").at(1)], &[]);
    let name = object_name(&arn("blue"));
    let mut garbage = world.ledgers[&name].1.clone();
    garbage.content.claims = vec![1, 2, 3];
    world.ledgers.insert(name.clone(), (7, garbage.clone()));
    world.lead();
    assert_eq!(world.changes(), ["+green 10.0.0.1:80"]);
    world.wait(Duration::from_secs(40));
    assert_eq!(world.ledgers[&name], (7, garbage), "it is not written over");
    let said = world.notices.iter().find(|notice| notice.reason == Reason::LedgerUnreadable).unwrap();
    assert!(said.note.contains(&name) && said.note.contains("3 bytes"), "{}", said.note);
    let mended = PackedLedger::of(&arn("blue"), IpFamily::V4, &Content::default());
    world.ledgers.insert(name, (8, mended));
    world.wait(Duration::from_secs(5));
    assert!(world.changes().contains(&"+blue 10.0.0.1:80".to_owned()));
}

#[test]
fn a_leader_that_leaves_writes_down_at_once_what_the_next_one_would_have_to_ask_again() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.changes();
    assert_eq!(world.claims("blue").len(), 1, "written before the call");
    world.delete(pod("a", "1").at(1));
    world.apply(pod("b", "2").at(2));
    world.step(Input::Leadership(Leadership::Leaving));
    world.answer_all();
    assert_eq!(world.claims("blue").len(), 2, "also what is still under way");
}

#[test]
fn a_deposed_leader_calls_no_more_and_takes_no_answer_to_what_it_asked_before() {
    let mut world = World::new(vec![web()], vec![]);
    world.apply(pod("a", "1").at(1));
    let open = std::mem::take(&mut world.open);
    world.step(Input::Leadership(Leadership::Standby));
    for (id, _) in open {
        world.step(Input::Answered { id, result: Ok(Answer::Done) });
    }
    world.delete(pod("a", "1").at(1));
    world.wait(Duration::from_secs(100));
    assert_eq!(world.changes(), [""; 0]);
    world.lead();
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "its intention is in the ledger");
}

#[test]
fn the_next_leader_says_again_what_is_wrong_with_an_annotation() {
    let mut world = World::new(vec![service("web").port("http", 80).annotated("http=")], vec![]);
    assert_eq!(world.said(), [Reason::InvalidBinding]);
    world.step(Input::Leadership(Leadership::Standby));
    world.annotate(service("web").port("http", 80).annotated("http="));
    assert_eq!(world.said().len(), 1, "a standby says nothing");
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.said(), [Reason::InvalidBinding; 2]);
}

#[test]
fn a_ledger_that_a_leader_before_wrote_late_is_taken_over_when_the_ledgers_are_looked_at_once_more() {
    let mut world = standby(vec![web()], vec![], &[]);
    world.lead();
    world.claimed("green", &[(7, "7")]);
    let late = cluster_wide().late;
    world.answer_all();
    world.wait(late.checked_sub(Duration::from_secs(1)).unwrap());
    world.read(&[(7, HealthState::Unhealthy)]);
    assert_eq!(world.changes(), [""; 0], "it is not known yet");
    world.wait(Duration::from_secs(2));
    world.read(&[(7, HealthState::Unhealthy)]);
    assert_eq!(world.changes(), ["-green 10.0.0.7:80"]);
}

/// Answers every open call with the failure that the target group does not exist.
fn blue_is_gone(world: &mut World) {
    for (id, _) in std::mem::take(&mut world.open) {
        world.step(Input::Answered { id, result: Err(failure(FailureClass::Gone)) });
    }
}

#[test]
fn the_ledger_of_a_target_group_that_is_found_gone_while_it_is_written_does_not_stay() {
    let seconds = Duration::from_secs;
    for given_up in [false, true] {
        let noted = [(1, "1"), (2, "2")];
        let mut world = standby(vec![], vec![], &noted);
        world.lead();
        world.wait(cluster_wide().late + seconds(1));
        // The previous leader's deletion of the ledger takes effect late. Headgate writes the ledger again, and the
        // answer is delayed.
        world.ledgers.clear();
        world.new_ledgers_wait = true;
        world.read(&[(1, HealthState::Unhealthy), (2, HealthState::Healthy)]);
        world.accepts_removals();
        for _ in 0..BOUND.as_secs() / 5 + 4 {
            world.wait(seconds(5));
            world.read(&[(2, HealthState::Healthy)]);
        }
        let writes = world.asked(|asks| if let Asks::Ledger(write) = asks { Some(write) } else { None });
        let [Sent { id, what: write }] = &writes[..] else { panic!("{writes:?}") };
        blue_is_gone(&mut world);
        world.wait(seconds(1));
        let answer =
            if given_up { Err(failure(FailureClass::Unavailable)) } else { world.keeps(write.clone()) };
        world.step(Input::Answered { id: *id, result: answer });
        if given_up {
            world.wait(seconds(6));
            assert_eq!(world.loads, 2, "it was looked for");
            assert!(world.keeps(write.clone()).is_ok(), "and lands only then");
            let again = world.asked(|asks| if let Asks::Ledger(write) = asks { Some(write) } else { None });
            for Sent { id, what } in again {
                let result = world.keeps(what);
                assert!(result.is_err(), "it was written again, and there is one by now");
                world.step(Input::Answered { id, result });
            }
        }
        world.new_ledgers_wait = false;
        assert_eq!(world.ledgers.len(), 1);
        for _ in 0..2 * BOUND.as_secs() / 5 {
            world.wait(seconds(5));
            blue_is_gone(&mut world);
        }
        assert!(world.ledgers.is_empty() && world.engine.groups.is_empty(), "given up: {given_up}");
    }
}

#[test]
fn the_ledger_of_a_target_group_that_is_bound_for_the_first_time_is_known_not_to_be_there() {
    let mut world = World::new(vec![], vec![pod("a", "1").at(1)]);
    world.annotate(web());
    world.answer_all();
    assert_eq!((world.ledgers.len(), world.loads), (1, 0));
}
