//! Tests of the explanation of one pod.

use super::*;
use crate::{
    explanation::{Explanation, Life, Next, Place, Progress, Step},
    model::{
        Hold, HoldWanted, NodeFacts,
        gate::Shown,
        policy::{HOLD, PAUSED},
    },
    view::GateView,
};

fn ask(world: &mut World, pod: &str) -> Explanation {
    world.engine.explain(&ObjectKey::new(NAMESPACE, pod), world.now)
}

/// The only target group of a pod.
fn place(world: &mut World, pod: &str) -> Place {
    let mut explanation = ask(world, pod);
    assert_eq!((explanation.places.len(), &explanation.nowhere), (1, &None), "{explanation:?}");
    explanation.places.remove(0)
}

/// The progress of the pod in its target group, and the reason.
fn stands(world: &mut World, pod: &str) -> (Progress, Reason) {
    let place = place(world, pod);
    (place.progress, place.word.0)
}

/// The next step for a pod, with its reason and its time. Asserts that the sentence contains `said`.
fn waits(world: &mut World, pod: &str, said: &str) -> (Step, Option<Reason>, Option<Moment>) {
    let Next { step, at, waits } = place(world, pod).next.unwrap();
    let text = waits.as_ref().map_or("", |(_, text)| text);
    assert!(text.contains(said), "{text}");
    (step, waits.map(|(reason, _)| reason), at)
}

/// Answers all open calls of this action with this result.
fn answer(world: &mut World, action: &str, result: &Result<Answer, Failure>) {
    let (meant, rest) =
        std::mem::take(&mut world.open).into_iter().partition(|(_, call)| call.action() == action);
    world.open = rest;
    for (id, _) in meant {
        world.step(Input::Answered { id, result: result.clone() });
    }
}

fn nowhere(world: &mut World, pod: &str) -> (Reason, String) {
    let explanation = ask(world, pod);
    assert_eq!(explanation.places, []);
    explanation.nowhere.unwrap()
}

const READ: &str = "DescribeTargetHealth";
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_target_is_followed_from_the_address_to_the_last_word_about_it() {
    let mut world = World::new(vec![web()], vec![]);
    world.wait(SECOND);
    world.apply(pod("a", "1"));
    assert_eq!(stands(&mut world, "a"), (Progress::NotATarget, Reason::NotReady));
    world.apply(pod("a", "1").at(1));
    assert_eq!(stands(&mut world, "a"), (Progress::Registering, Reason::PodSelected));
    assert_eq!(
        waits(&mut world, "a", "AWS has not answered RegisterTargets"),
        (Step::Register, Some(Reason::TargetPending), None)
    );
    world.wait(SECOND);
    answer(&mut world, "RegisterTargets", &Ok(Answer::Done));
    let registered = world.now;
    world.wait(SECOND);
    let read = world.now;
    answer(&mut world, READ, &Ok(Answer::Health(vec![(target(1, 80), HealthState::Initial.into())])));
    let there = place(&mut world, "a");
    assert_eq!(
        (there.progress, there.word.0, there.since),
        (Progress::Registered, Reason::PodSelected, Some(registered))
    );
    assert_eq!((there.health, there.read), (Some(HealthState::Initial.into()), Some(read)));
    assert_eq!(there.next, Some(Next { step: Step::Read, at: Some(read + 2 * SECOND), waits: None }));
    world.apply(pod("a", "1").at(1).terminating());
    let explanation = ask(&mut world, "a");
    let all: Vec<_> =
        explanation.places.iter().map(|place| (place.progress, place.word.0, place.target)).collect();
    let target = Some(target(1, 80));
    let selected = (Progress::NotATarget, Reason::PodTerminating, None);
    assert_eq!(all, [selected, (Progress::Deregistering, Reason::PodTerminating, target)]);
    let next = explanation.places[1].next.clone().unwrap();
    assert_eq!((next.step, next.waits.unwrap().0), (Step::Deregister, Reason::PodTerminating));
    answer(&mut world, "DeregisterTargets", &Ok(Answer::Done));
    world.delete(pod("a", "1").at(1).terminating());
    assert_eq!(stands(&mut world, "a"), (Progress::Deregistered, Reason::PodTerminating));
    assert_eq!(place(&mut world, "a").next, None);
}

#[test]
fn every_reason_not_to_be_a_target_is_said() {
    let named = || service("web").annotated("blue").port_named("http", 80, "web");
    for (service, pod, reason) in [
        (web(), pod("a", "1"), Reason::NotReady),
        (web(), pod("a", "1").at_v6(), Reason::InvalidBinding),
        (named(), pod("a", "1").at(1), Reason::InvalidBinding),
        (web(), pod("a", "1").at(1).terminating(), Reason::PodTerminating),
        (web(), pod("a", "1").at(1).finished(), Reason::PodFinished),
        (web().with(REGISTER_WHEN, "ready"), pod("a", "1").at(1), Reason::NotReady),
    ] {
        let mut world = World::new(vec![service], vec![pod]);
        assert_eq!(stands(&mut world, "a"), (Progress::NotATarget, reason));
        let is_over = [Reason::PodTerminating, Reason::PodFinished].contains(&reason);
        assert_eq!(ask(&mut world, "a").seen.unwrap().life != Life::Lives, is_over, "{reason}");
        let place = place(&mut world, "a");
        assert!(
            !place.word.1.contains("is not a target of this target group"),
            "{reason} has a sentence of its own"
        );
        assert_eq!((place.next, place.since), (None, None));
    }
}

#[test]
fn a_pod_that_is_nowhere_a_target_is_told_why() {
    let mut world = World::new(vec![web(), service("plain").selector(&[("app", "api")])], vec![]);
    world.apply(pod("api", "1").at(1).labelled("api"));
    world.apply(pod("other", "2").at(2).labelled("other"));
    let (reason, said) = nowhere(&mut world, "api");
    assert_eq!(reason, Reason::NotSelected);
    assert!(said.ends_with("these Services select the pod, but lack the annotation: plain"), "{said}");
    let (reason, said) = nowhere(&mut world, "other");
    assert_eq!(reason, Reason::NotSelected);
    assert!(said.contains("compare the pod's labels"), "{said}");
    assert_eq!(nowhere(&mut world, "none").0, Reason::PodDeleted);
    world.annotate(service("bad").selector(&[("app", "other")]).port("http", 80).annotated("htp=blue"));
    let (reason, said) = nowhere(&mut world, "other");
    assert_eq!(reason, Reason::InvalidBinding);
    assert!(said.contains("names port \"htp\""), "{said}");
    world.annotate(service("bad").selector(&[("app", "other")]).port("http", 80).annotated("http=green"));
    assert_eq!(nowhere(&mut world, "other").0, Reason::NotSelected);
}

#[test]
fn a_namespace_that_does_not_count_is_the_reason_and_so_is_a_watch_that_has_not_listed() {
    assert_eq!(nowhere(&mut World::unsynced(), "a").0, Reason::NotListedYet);
    let elsewhere = Settings { scopes: vec![Scope::Namespace("other".into())], ..Settings::default() };
    assert_eq!(nowhere(&mut World::fresh(elsewhere), "a").0, Reason::NamespaceNotServed);
    let selected =
        Settings { scopes: vec![Scope::Cluster], namespaces_are_selected: true, ..Settings::default() };
    let mut world = World::fresh(selected);
    world.relist_written(vec![]);
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.step(Input::Namespace { change: Change::Relisted(Scope::Cluster, vec![]), seen: Moment::START });
    assert_eq!(nowhere(&mut world, "a").0, Reason::NamespaceNotServed);
}

#[test]
fn another_pod_that_has_the_address_is_named() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("b", "2").at(1));
    world.answer_all();
    assert_eq!(stands(&mut world, "a"), (Progress::NotATarget, Reason::AddressChanged));
    assert!(place(&mut world, "a").word.1.starts_with("pod shop/b now has the address"));
    let hosts = vec![pod("a", "1").at(1).host_network(), pod("b", "2").at(1).host_network()];
    let mut world = World::new(vec![web()], hosts);
    assert_eq!(stands(&mut world, "a"), (Progress::Registered, Reason::PodSelected));
    assert_eq!(stands(&mut world, "b"), (Progress::NotATarget, Reason::AddressContested));
    assert!(place(&mut world, "b").word.1.starts_with("pod shop/a of the host network"));
}

#[test]
fn what_a_registration_waits_for_is_said_with_the_word_of_its_event() {
    for (class, reason, said) in [
        (FailureClass::Throttled, Reason::Throttled, "the last RegisterTargets failed"),
        (FailureClass::Unavailable, Reason::Unavailable, "the last RegisterTargets failed"),
        (FailureClass::Denied, Reason::AccessDenied, "IAM denies RegisterTargets"),
        (FailureClass::Gone, Reason::TargetGroupNotFound, "Target group blue does not exist"),
        (FailureClass::Refused, Reason::TargetRefused, "AWS rejects RegisterTargets"),
        (FailureClass::Full, Reason::QuotaExceeded, "Request a higher quota"),
    ] {
        let mut world = World::new(vec![web()], vec![]);
        world.apply(pod("a", "1").at(1));
        world.refuse_changes(class);
        assert_eq!(stands(&mut world, "a").0, Progress::Registering);
        let (step, waits_for, at) = waits(&mut world, "a", said);
        assert_eq!((step, waits_for), (Step::Register, Some(reason)));
        assert!(at.is_some_and(|at| at > world.now), "{reason}: tried again then");
        if ![Reason::Throttled, Reason::Unavailable].contains(&reason) {
            assert!(world.said().contains(&reason), "{reason} is the word of the Event");
            let troubles = place(&mut world, "a").troubles;
            assert!(troubles.iter().any(|(said, _)| *said == reason), "{troubles:?}");
        }
    }
}

#[test]
fn a_pod_that_has_ended_is_told_from_one_that_ends() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1).finished().terminating()]);
    assert_eq!(ask(&mut world, "a").seen.unwrap().life, Life::Finished);
    world.apply(pod("a", "1").at(1).terminating());
    assert_eq!(ask(&mut world, "a").seen.unwrap().life, Life::Terminating);
}

#[test]
fn a_registration_that_waits_for_the_removal_at_its_address_says_so() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.delete(pod("a", "1").at(1));
    world.apply(pod("b", "2").at(1));
    assert_eq!(
        waits(&mut world, "b", "AWS has not answered DeregisterTargets"),
        (Step::Register, Some(Reason::PodSelected), None)
    );
}

#[test]
fn a_target_that_aws_refuses_and_one_that_others_remove_say_when_they_are_tried_again() {
    let mut world = World::new(vec![web()], vec![]);
    world.apply(pod("a", "1").at(1));
    world.refuse_changes(FailureClass::Refused);
    let due = Some(world.now + 10 * SECOND);
    assert_eq!(
        waits(&mut world, "a", "AWS rejects"),
        (Step::Register, Some(Reason::TargetRefused), due),
        "set aside"
    );
    assert!(place(&mut world, "a").word.1.contains("waits before the next retry"));

    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    let mut waited = 0;
    while !place(&mut world, "a").word.1.contains("another system repeatedly removes") {
        world.wait(SECOND);
        world.answer_all();
        waited += 1;
        assert!(waited < 1_000, "{:?}", place(&mut world, "a"));
    }
    let (step, reason, at) = waits(&mut world, "a", "Let only one controller");
    assert_eq!((step, reason), (Step::Register, Some(Reason::UnknownWriter)));
    assert!(at.is_some_and(|at| at > world.now + 20 * SECOND), "{at:?}");
}

#[test]
fn before_everything_is_listed_nothing_is_done_and_that_is_said() {
    let mut before = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    before.wait(SECOND);
    before.answer_all();
    before.apply(pod("b", "2").at(2));
    before.apply(pod("a", "1").at(1).terminating());
    before.step(Input::Leadership(Leadership::Standby));
    let (step, reason, at) = waits(&mut before, "b", "before the initial sync");
    assert_eq!((step, reason, at), (Step::Register, Some(Reason::NotListedYet), None));
}

#[test]
fn what_is_paused_is_said_of_what_comes_and_of_what_goes() {
    let mut world = World::new(vec![web()], vec![pod("old", "1").at(1)]);
    world.annotate(web().with(PAUSED, "true"));
    world.apply(pod("new", "2").at(2));
    assert_eq!(
        waits(&mut world, "new", "Service shop/web (annotation"),
        (Step::Register, Some(Reason::Paused), None)
    );
    world.delete(pod("old", "1").at(1));
    assert_eq!(stands(&mut world, "old"), (Progress::Deregistering, Reason::PodDeleted));
    assert_eq!(
        waits(&mut world, "old", "end the pause"),
        (Step::Deregister, Some(Reason::RemovalsPaused), None)
    );
}

#[test]
fn a_removal_that_is_held_is_said_with_what_it_waits_for() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.annotate(service("web").port_to("http", 80, 81).annotated("http=blue"));
    world.answer_all();
    world.wait(SECOND);
    let explanation = ask(&mut world, "a");
    let [new, old] = &explanation.places[..] else { panic!("{explanation:?}") };
    assert_eq!((new.target, new.progress), (Some(target(1, 81)), Progress::Registered));
    assert_eq!((old.target, old.word.0), (Some(target(1, 80)), Reason::AddressChanged));
    let next = old.next.clone().unwrap();
    assert_eq!(next.waits.unwrap().0, Reason::RemovalHeld);
    assert_eq!(next.at, None, "what never is healthy replaces nothing");
}

#[test]
fn what_would_take_a_target_away_is_said_with_the_time() {
    let a = || pod("a", "1").at(1);
    let mut world = World::new(vec![web().with(WHEN_NOT_READY, "deregister")], vec![a().ready()]);
    world.apply(a());
    let due = world.now + Settings::default().not_ready_for;
    assert_eq!(
        waits(&mut world, "a", "unless the pod is ready again"),
        (Step::Deregister, Some(Reason::NotReady), Some(due))
    );
    let mut world = World::new(vec![web()], vec![a(), pod("b", "2").at(2)]);
    world.relist_pods(vec![]);
    let due = world.now + Settings::default().relist_patience;
    assert_eq!(
        waits(&mut world, "a", "unless a second list"),
        (Step::Deregister, Some(Reason::ListDoubted), Some(due))
    );
    let mut world = World::new(vec![web()], vec![a()]);
    world.service(Change::Deleted(web().build()));
    assert_eq!(
        waits(&mut world, "a", "unless the Service is made again"),
        (Step::Deregister, Some(Reason::BindingRemoved), Some(world.now + GRACE))
    );
}

#[test]
fn a_ledger_that_kubernetes_refuses_is_what_a_registration_waits_for_and_one_that_fails_once_is_not() {
    for (class, says, reason) in [
        (FailureClass::Denied, "Kubernetes rejects its TargetLedger", Reason::LedgerUnreadable),
        (FailureClass::Unavailable, "before RegisterTargets is called", Reason::TargetPending),
    ] {
        let mut world = World::new(vec![web()], vec![]);
        let effects = world.engine.step(
            Input::Pod { change: Change::Applied(pod("a", "1").at(1).build()), seen: world.now },
            world.now,
        );
        let id = effects.iter().find_map(|effect| match effect {
            Effect::Send { id, request: Asks::Ledger(_), .. } => Some(*id),
            _ => None,
        });
        let id = id.expect("the ledger comes first");
        let before = waits(&mut world, "a", "before RegisterTargets is called").1;
        assert_eq!(before, Some(Reason::TargetPending));
        world.step(Input::Answered { id, result: Err(failure(class)) });
        assert_eq!(waits(&mut world, "a", says).1, Some(reason), "{class:?}");
    }
}

#[test]
fn the_gate_is_said_as_it_is_and_as_it_should_be() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    assert_eq!(ask(&mut world, "a").gate.unwrap().shown, GateView::None);
    world.apply(pod("a", "1").at(1).gated(Shown::Closed));
    let gate = ask(&mut world, "a").gate.unwrap();
    let ((reason, said), since) = gate.verdict.unwrap();
    assert_eq!((gate.shown, reason, since), (GateView::Closed, Reason::HealthUnread, world.now));
    assert!(said.contains("target 10.0.0.1:80 of target group blue"), "{said}");
    world.apply(pod("a", "1").at(1).gated(Shown::Open(None)));
    let gate = ask(&mut world, "a").gate.unwrap();
    assert_eq!((gate.shown, gate.verdict), (GateView::Open, None));
}

#[test]
fn the_longest_hold_of_its_bindings_is_what_a_pod_needs() {
    let green = service("api").port("http", 80).annotated("http=green").with(HOLD, "4m");
    let mut world = World::new(vec![web(), green], vec![pod("a", "1").at(1)]);
    assert_eq!(ask(&mut world, "a").hold, Some(HoldWanted { seconds: 240, bound: 210 }));
    world.apply(pod("b", "2").at(2).labelled("other"));
    assert_eq!(ask(&mut world, "b").hold, None);
    let own = PodFacts { hold: Hold::parse("off"), ..pod("c", "3").at(3).build() };
    world.pod(Change::Applied(own));
    assert_eq!(ask(&mut world, "c").hold, Some(HoldWanted { seconds: 0, bound: 0 }), "its own counts first");
}

#[test]
fn a_node_is_explained_with_what_says_that_it_goes_and_its_pods_that_have_to_do_with_target_groups() {
    let here = [pod("a", "u-a").at(1).on("n"), pod("other", "u-o").labelled("other").at(3).on("n")];
    let there = pod("b", "u-b").at(2).on("elsewhere");
    let mut world = World::new(vec![web()], here.into_iter().chain([there]).collect());
    let unknown = world.engine.explain_node("n", world.now);
    assert_eq!((unknown.seen, unknown.goes), (None, None), "nodes may not be watched");
    let node =
        NodeFacts { name: "n".into(), zone: Some("here".into()), shuts_down: true, ..NodeFacts::default() };
    world.step(Input::Node { change: Change::Applied(node.clone()), seen: world.now });
    let known = world.engine.explain_node("n", world.now);
    assert_eq!(known.seen, Some(node));
    let ((reason, said), _) = known.goes.unwrap();
    assert_eq!(reason, Reason::NodeDying);
    assert!(said.contains("about to fail"), "{said}");
    let pods: Vec<_> = known.pods.iter().map(|pod| &*pod.pod.name).collect();
    assert_eq!(pods, ["a"]);
    assert_eq!(world.engine.explain_node("nowhere", world.now).pods, []);
}

#[test]
fn what_is_otherwise_than_it_should_be_is_said_target_by_target() {
    let mut world = World::new(vec![web()], vec![pod("a", "u-a").at(1), pod("b", "u-b").at(2)]);
    let sides = |world: &mut World| {
        let mut all = world.engine.compare_groups(world.now);
        let one = all.remove(0);
        assert!(all.is_empty());
        let shown = one.differences.iter().map(|it| {
            let pod = it.pod.as_ref().map_or("-", |pod| &pod.name);
            format!("{} {} {pod} {:?}", it.side.as_str(), it.target, it.word.0)
        });
        (one.wanted, one.there, shown.collect::<Vec<_>>())
    };
    world.reads(&[(1, HealthState::Healthy), (2, HealthState::Unhealthy)]);
    assert_eq!(sides(&mut world), (2, 2, vec![]), "one that is unhealthy is there");
    world.apply(pod("c", "u-c").at(3));
    let missing = "missing 10.0.0.3:80 c PodSelected".to_owned();
    assert_eq!(sides(&mut world), (3, 2, vec![missing]));
    let next = world.engine.compare_groups(world.now)[0].differences[0].next.clone().unwrap();
    assert_eq!(next.step, Step::Register);
    world.reads(&[
        (1, HealthState::Healthy),
        (2, HealthState::Healthy),
        (3, HealthState::Initial),
        (9, HealthState::Healthy),
    ]);
    assert_eq!(sides(&mut world), (3, 4, vec!["foreign 10.0.0.9:80 - ForeignTarget".to_owned()]));
    world.apply(pod("a", "u-a").at(1).terminating());
    assert_eq!(sides(&mut world).2[0], "left-over 10.0.0.1:80 a PodTerminating");
    world.reads(&[(1, HealthState::Draining), (2, HealthState::Healthy), (3, HealthState::Healthy)]);
    assert_eq!(sides(&mut world), (2, 2, vec![]), "what drains counts as out");
    assert!(world.engine.compare_groups(world.now)[0].read.is_some());
}
