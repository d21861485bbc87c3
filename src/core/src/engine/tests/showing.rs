//! Tests of the views of a binding.

use super::*;
use crate::{
    model::{Health, NodeFacts, ZoneName, policy::PAUSED},
    view::{GroupView, ZoneView},
};

impl World {
    /// The distinct reports in the last view of this object's bindings.
    fn said_of(&mut self, name: &str) -> Vec<(Reason, String)> {
        self.wait(Duration::from_millis(200));
        let views = self.views.iter().rev().find_map(|effect| match effect {
            Effect::Shows(Picture::Binding(view)) if &*view.key.origin.key().name == name => {
                Some(view.said.clone())
            }
            _ => None,
        });
        views.unwrap_or_default()
    }

    /// The last view of a target group.
    fn last_group(&mut self) -> GroupView {
        self.wait(Duration::from_millis(200));
        let views = self.views.iter().rev().find_map(|effect| match effect {
            Effect::Shows(Picture::Group(view)) => Some(view.clone()),
            _ => None,
        });
        views.unwrap()
    }

    fn reasons_of(&mut self, name: &str) -> Vec<Reason> {
        self.said_of(name).into_iter().map(|(reason, _)| reason).collect()
    }

    /// Answers the open calls. These targets are healthy, and AWS accepts every registration and deregistration.
    fn answer_with(&mut self, there: &[Target]) {
        while !self.open.is_empty() {
            let (id, call) = self.open.remove(0);
            let result = match call {
                Call::ReadHealth { .. } => Answer::Health(
                    there.iter().map(|target| (*target, HealthState::Healthy.into())).collect(),
                ),
                _ => Answer::Done,
            };
            self.step(Input::Answered { id, result: Ok(result) });
        }
    }

    /// Advances the time second by second while AWS lists these targets. Returns the times of registrations, in seconds
    /// since the start.
    fn registrations_for(&mut self, seconds: u64, there: &[Target]) -> Vec<u64> {
        let mut sent = Vec::new();
        for _ in 0..seconds {
            self.wait(Duration::from_secs(1));
            if self.changes().iter().any(|call| call.starts_with('+')) {
                sent.push(self.now.since(Moment::START).as_secs());
            }
            self.answer_with(there);
        }
        sent
    }
}

#[test]
fn a_binding_shows_that_it_is_paused_until_the_pause_ends_and_others_of_the_group_do_not() {
    let api = || service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=blue");
    let other = pod("b", "2").at(2).labelled("api");
    let mut world = World::new(vec![web(), api()], vec![pod("a", "1").at(1), other.clone()]);
    assert_eq!(world.said_of("api"), []);
    world.annotate(api().with(PAUSED, "true"));
    let [(Reason::Paused, said)] = &world.said_of("api")[..] else { panic!("{:?}", world.said_of("api")) };
    assert!(
        said.contains(
            "blue: Headgate changes no target of Service shop/api (annotation headgate.dev/paused)"
        ),
        "{said}"
    );
    world.delete(other);
    assert_eq!(world.reasons_of("api"), [Reason::RemovalsPaused, Reason::Paused]);
    assert_eq!(world.said_of("web"), []);
    world.annotate(api());
    assert_eq!(world.said_of("api"), []);
}

#[test]
fn every_binding_shows_that_headgate_only_reads() {
    let mut world = World::with(Settings { read_only: true, ..cluster_wide() });
    world.relist_services(vec![web().with(PAUSED, "true")]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    assert_eq!(world.reasons_of("web"), [Reason::ReadOnly]);
}

#[test]
fn two_that_claim_one_target_show_each_other_until_one_gives_way() {
    let twin = || service("twin").port("http", 80).annotated("http=blue");
    let mut world = World::new(vec![web(), twin()], vec![pod("a", "1").at(1)]);
    for (one, other) in [("web", "twin"), ("twin", "web")] {
        let [(Reason::TargetClaimedTwice, said)] = &world.said_of(one)[..] else { panic!() };
        assert!(said.contains(&format!("is also bound to blue by Service shop/{other}")), "{said}");
    }
    world.annotate(twin().selector(&[("app", "twin")]));
    assert_eq!((world.said_of("web"), world.said_of("twin")), (vec![], vec![]));
    world.annotate(twin());
    assert_eq!(world.said(), [Reason::TargetClaimedTwice; 4], "each was told, and again");
}

#[test]
fn a_pod_of_the_host_network_that_waits_is_shown_while_it_does() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1).host_network()]);
    world.apply(pod("b", "2").at(1).host_network());
    world.apply(pod("c", "3").at(1).host_network());
    assert_eq!(world.reasons_of("web"), [Reason::AddressContested], "one stands for all");
    world.delete(pod("b", "2").at(1).host_network());
    assert_eq!(world.reasons_of("web"), [Reason::AddressContested]);
    world.delete(pod("c", "3").at(1).host_network());
    assert_eq!(world.said_of("web"), []);
}

#[test]
fn pods_that_cannot_be_targets_are_shown_while_there_are_any() {
    let named = service("web").port_named("http", 80, "web").annotated("http=blue");
    let mut world = World::new(vec![named], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    assert_eq!(world.reasons_of("web"), [Reason::InvalidBinding]);
    world.delete(pod("a", "1").at(1));
    assert_eq!(world.reasons_of("web"), [Reason::InvalidBinding]);
    world.delete(pod("b", "2").at(2));
    assert_eq!(world.said_of("web"), []);
}

#[test]
fn a_doubted_list_is_said_and_shown_until_it_is_decided() {
    let pods = || (1..=4).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last)).collect();
    for second_list_has in [0, 4] {
        let mut world = World::new(vec![web()], pods());
        world.relist_pods(vec![]);
        let [(Reason::ListDoubted, said)] = &world.said_of("web")[..] else { panic!() };
        assert!(said.contains("a list omits most pods, such as p1"), "{said}");
        assert_eq!(world.said(), [Reason::ListDoubted]);
        world.relist_pods(pods().into_iter().take(second_list_has).collect());
        assert_eq!(world.said_of("web"), []);
    }
}

#[test]
fn a_doubted_pod_that_comes_back_under_another_label_is_in_no_doubt() {
    let pods = || (1..=4).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last)).collect();
    let mut world = World::new(vec![web()], pods());
    world.relist_pods(vec![]);
    world.annotate(web().selector(&[("app", "other")]));
    for pod in pods() {
        world.apply(pod.labelled("api"));
    }
    assert_eq!(world.said_of("web"), []);
}

#[test]
fn throttling_is_shown_on_every_binding_until_calls_are_as_fast_as_before() {
    let other = service("other").selector(&[("app", "other")]).port("http", 80).annotated("http=green");
    let mut world = World::new(vec![web(), other], vec![]);
    world.apply(pod("a", "1").at(1));
    world.refuse_changes(FailureClass::Throttled);
    world.answer_all();
    for name in ["web", "other"] {
        let [(Reason::Throttled, said)] = &world.said_of(name)[..] else { panic!() };
        assert!(said.contains("AWS throttles RegisterTargets and DeregisterTargets"), "{said}");
    }
    assert_eq!(world.said(), [], "a condition, not an Event");
    let mut last = world.now;
    while let Some(due) =
        world.engine.next_wakeup(world.now).filter(|due| *due < last + Duration::from_secs(60))
    {
        last = world.now;
        world.wait(due.since(world.now));
        world.answer_with(&[target(1, 80)]);
        if world.now.since(Moment::START) > Duration::from_secs(120) {
            break;
        }
    }
    assert_eq!((world.said_of("web"), world.said_of("other")), (vec![], vec![]));
}

#[test]
fn targets_that_somebody_else_removes_again_and_again_are_shown_and_registered_ever_more_rarely() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.notices.clear();
    let sent = world.registrations_for(1200, &[]);
    let pauses: Vec<u64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [72, 132, 252, 312, 312], "each time until a read that counts, and the wait");
    let [(Reason::UnknownWriter, said)] = &world.said_of("web")[..] else {
        panic!("{:?}", world.said_of("web"))
    };
    assert!(said.contains("Let only one controller manage this group"), "{said}");
    assert_eq!(world.said(), [Reason::UnknownWriter], "once");

    world.apply(pod("b", "2").at(2));
    assert_eq!(world.changes(), ["+blue 10.0.0.2:80"], "others do not wait");
    let both = [target(1, 80), target(2, 80)];
    assert_eq!(world.registrations_for(400, &both).len(), 2, "its own, and one more try for the other");
    assert_eq!(world.reasons_of("web"), [Reason::UnknownWriter], "it may happen again");
    assert_eq!(world.registrations_for(700, &both), []);
    assert_eq!(world.said_of("web"), [], "it stayed");
}

#[test]
fn a_target_that_goes_while_somebody_else_removes_it_is_no_concern_any_more() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.registrations_for(100, &[]);
    assert_eq!(world.reasons_of("web"), [Reason::UnknownWriter]);
    world.delete(pod("a", "1").at(1));
    world.registrations_for(100, &[]);
    assert_eq!(world.said_of("web"), []);
}

#[test]
fn a_target_on_its_way_out_is_shown_with_its_reason_until_the_load_balancer_has_let_it_go() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    world.wait(Duration::from_secs(2));
    world.answer_with(&[target(1, 80), target(2, 80)]);
    let ending = |world: &mut World| {
        world.said_of("web");
        let views = world.views.iter().rev().find_map(|effect| match effect {
            Effect::Shows(Picture::Binding(view)) => Some(view.clone()),
            _ => None,
        });
        let ending = views.unwrap().ending.into_iter();
        ending.map(|view| (view.target, view.reason, view.registered)).collect::<Vec<_>>()
    };
    assert_eq!(ending(&mut world), []);
    world.apply(pod("a", "1").at(1).terminating());
    assert_eq!(ending(&mut world), [(target(1, 80), Reason::PodTerminating, true)]);
    world.answer_with(&[target(1, 80), target(2, 80)]);
    assert_eq!(ending(&mut world), [(target(1, 80), Reason::PodTerminating, false)], "it still drains");
    world.wait(Duration::from_secs(1));
    world.answer_with(&[target(2, 80)]);
    assert_eq!(ending(&mut world), []);
}

#[test]
fn a_group_shows_its_targets_by_zone_as_aws_says_it_or_the_node_while_aws_has_not() {
    use HealthState::{Draining, Healthy, Initial};
    let pods = [("a", 1), ("b", 2), ("c", 3)].map(|(name, last)| pod(name, name).at(last).on("node-1"));
    let mut world = World::new(vec![web()], pods.to_vec());
    let node = NodeFacts { name: "node-1".into(), zone: Some("here".into()), ..NodeFacts::default() };
    world.step(Input::Node { change: Change::Relisted(Scope::Cluster, vec![node]), seen: world.now });
    let shown = [
        (1, Healthy, Some("zone-a")),
        (2, Initial, Some("zone-b")),
        (8, Healthy, Some("zone-b")),
        (9, Draining, None),
    ];
    let states =
        shown.map(|(last, state, zone)| (target(last, 80), Health::from(state).within(zone))).to_vec();
    world.wait(Duration::from_secs(2));
    while let Some((id, call)) = world.open.pop() {
        let answer =
            if let Call::ReadHealth { .. } = call { Answer::Health(states.clone()) } else { Answer::Done };
        world.step(Input::Answered { id, result: Ok(answer) });
    }
    let view = world.last_group();
    let zone = |name: &str| view.zones[&ZoneName::parse(name)].clone();
    let is = |name: &str| {
        let ZoneView { wanted, serving, states } = zone(name);
        (wanted, serving, states.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(is("zone-a"), (1, 1, vec![(Healthy, 1)]));
    assert_eq!(is("zone-b"), (1, 0, vec![(Initial, 1), (Healthy, 1)]), "another one is a stranger's");
    assert_eq!(is("here"), (1, 0, vec![]), "AWS does not show it yet");
    assert_eq!(is(""), (0, 0, vec![(Draining, 1)]));
    assert_eq!((view.zones.len(), view.in_state(Healthy)), (4, 2));
}

#[test]
fn a_group_shows_since_when_the_oldest_removal_waits_that_aws_has_not_taken() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    world.wait(Duration::from_secs(2));
    world.answer_with(&[target(1, 80), target(2, 80)]);
    assert_eq!(world.last_group().oldest_removal, None);
    world.delete(pod("a", "1").at(1));
    let since = world.now;
    world.refuse_changes(FailureClass::Unavailable);
    world.delete(pod("b", "2").at(2));
    for _ in 0..3 {
        assert_eq!(world.last_group().oldest_removal, Some(since), "in flight, refused, tried again");
        world.refuse_changes(FailureClass::Unavailable);
    }
    world.wait(Duration::from_secs(2));
    world.answer_with(&[]);
    assert_eq!(world.last_group().oldest_removal, None);
}

#[test]
fn a_zone_in_which_a_target_was_healthy_is_shown_for_an_hour_more() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    let reads = |world: &mut World, shown: &[(u8, &str)]| {
        let states = shown
            .iter()
            .map(|(last, zone)| (target(*last, 80), Health::from(HealthState::Healthy).within(Some(zone))));
        let states: Vec<_> = states.collect();
        world.wait(Duration::from_secs(30));
        for (id, call) in std::mem::take(&mut world.open) {
            let answer = if let Call::ReadHealth { .. } = call {
                Answer::Health(states.clone())
            } else {
                Answer::Done
            };
            world.step(Input::Answered { id, result: Ok(answer) });
        }
        let view = world.last_group();
        view.zones.into_iter().map(|(zone, is)| (zone.unwrap().to_string(), is.wanted)).collect::<Vec<_>>()
    };
    let both = [("a".to_owned(), 1), ("b".to_owned(), 1)];
    assert_eq!(reads(&mut world, &[(1, "a"), (2, "b")]), both);
    world.delete(pod("b", "2").at(2));
    let mut shown = 0;
    let left = [("a".to_owned(), 1), ("b".to_owned(), 0)];
    while reads(&mut world, &[(1, "a")]) == left {
        shown += 30;
        assert!(shown < 2 * 3600);
    }
    assert!((3_500..=3_700).contains(&shown), "{shown}");
    assert_eq!(reads(&mut world, &[(1, "a")]), left[..1]);
}
