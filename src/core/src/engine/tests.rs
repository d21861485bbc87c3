//! The engine as a whole: events in, calls out. AWS answers when the test says so.

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    health::HealthState,
    pod::PodFacts,
    service::ServiceFacts,
    target::Target,
    target_group::{GroupRef, TargetGroupFacts, TargetType},
    testing::{NAMESPACE, PodBuilder, ServiceBuilder, arn, group, pod, service, target},
};

struct World {
    engine: Engine,
    now: Moment,
    open: Vec<(CallId, Call)>,
    notices: Vec<Notice>,
    views: Vec<Effect>,
    known: Vec<TargetGroupFacts>,
}

impl World {
    fn unsynced() -> Self {
        Self::with(Settings {
            region: "us-east-1".into(),
            scopes: vec![Scope::Cluster],
            namespaces_are_selected: false,
            seed: 1,
        })
    }

    fn with(settings: Settings) -> Self {
        Self {
            engine: Engine::new(settings),
            now: Moment::START,
            open: Vec::new(),
            notices: Vec::new(),
            views: Vec::new(),
            known: vec![group("blue"), group("green")],
        }
    }

    /// Synced, with these Services and pods, and everything answered.
    fn new(services: Vec<ServiceBuilder>, pods: Vec<PodBuilder>) -> Self {
        let mut world = Self::unsynced();
        world.relist_services(services);
        world.relist_pods(pods);
        world.answer_all();
        world
    }

    fn step(&mut self, input: Input) {
        for effect in self.engine.step(input, self.now) {
            match effect {
                Effect::Call { id, call } => self.open.push((id, call)),
                Effect::Notice(notice) => self.notices.push(notice),
                other => self.views.push(other),
            }
        }
    }

    fn pod(&mut self, change: Change<PodFacts>) {
        self.step(Input::Pod { change, seen: self.now });
    }
    fn apply(&mut self, pod: PodBuilder) {
        self.pod(Change::Applied(pod.build()));
    }
    fn delete(&mut self, pod: PodBuilder) {
        self.pod(Change::Deleted(pod.build()));
    }
    fn relist_pods(&mut self, pods: Vec<PodBuilder>) {
        self.pod(Change::Relisted(Scope::Cluster, pods.into_iter().map(PodBuilder::build).collect()));
    }
    fn service(&mut self, change: Change<ServiceFacts>) {
        self.step(Input::Service { change, seen: self.now });
    }
    fn annotate(&mut self, service: ServiceBuilder) {
        self.service(Change::Applied(service.build()));
    }
    fn relist_services(&mut self, services: Vec<ServiceBuilder>) {
        let services = services.into_iter().map(ServiceBuilder::build).collect();
        self.service(Change::Relisted(Scope::Cluster, services));
    }
    fn wait(&mut self, wait: Duration) {
        self.now = self.now + wait;
        self.step(Input::Tick);
    }

    /// The open changes: `+` or `-`, group, target, in the order they were sent.
    fn changes(&self) -> Vec<String> {
        let show = |sign: char, group: &TargetGroupArn, items: &[CallItem]| {
            let targets: Vec<String> = items.iter().map(|item| item.target.to_string()).collect();
            format!("{sign}{} {}", group.name(), targets.join(" "))
        };
        let of = |(_, call): &(CallId, Call)| match call {
            Call::Register { group, items } => Some(show('+', group, items)),
            Call::Deregister { group, items } => Some(show('-', group, items)),
            _ => None,
        };
        self.open.iter().filter_map(of).collect()
    }

    fn reasons(&self) -> Vec<Reason> {
        let items = self.open.iter().flat_map(|(_, call)| match call {
            Call::Register { items, .. } | Call::Deregister { items, .. } => items.clone(),
            _ => Vec::new(),
        });
        items.map(|item| item.reason).collect()
    }

    /// AWS takes every open call and those that follow from the answers.
    fn answer_all(&mut self) {
        while let Some((id, call)) = self.open.pop() {
            let result = match &call {
                Call::Register { .. } | Call::Deregister { .. } => Ok(Answer::Done),
                Call::ReadHealth { .. } => Ok(Answer::Health(Vec::new())),
                Call::FindGroup { reference } => self
                    .known
                    .iter()
                    .find(|facts| match reference {
                        GroupRef::Arn(arn) => *arn == facts.arn,
                        GroupRef::Name(name) => **name == *facts.arn.name(),
                    })
                    .map(|facts| Answer::Group(facts.clone()))
                    .ok_or(failure(ErrorClass::GroupGone)),
            };
            self.step(Input::Answered { id, result });
        }
    }

    /// AWS refuses the open changes; everything else is left open.
    fn refuse_changes(&mut self, class: ErrorClass) {
        let (changes, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::Register { .. } | Call::Deregister { .. }));
        self.open = rest;
        for (id, _) in changes {
            self.step(Input::Answered { id, result: Err(failure(class)) });
        }
    }

    fn said(&self) -> Vec<Reason> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }
}

fn failure(class: ErrorClass) -> Failure {
    Failure { class, code: "Code".into(), message: "text".into() }
}

fn web() -> ServiceBuilder {
    service("web").port("http", 80).annotated("http=blue")
}

#[test]
fn a_pod_is_registered_the_moment_it_has_its_ip() {
    let mut world = World::new(vec![web()], vec![pod("a", "1")]);
    assert_eq!(world.changes(), [""; 0]);
    world.apply(pod("a", "1").at(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    assert_eq!(world.reasons(), [Reason::PodHasIp]);
}

#[test]
fn every_way_of_ending_deregisters_at_once_with_its_reason() {
    let running = || pod("a", "1").at(1);
    type End = fn(&mut World);
    let ends: [(Reason, End); 11] = [
        (Reason::PodTerminating, |w| w.apply(pod("a", "1").at(1).terminating())),
        (Reason::PodDeleted, |w| w.delete(pod("a", "1").at(1))),
        (Reason::PodDeleted, |w| w.apply(pod("a", "2"))),
        (Reason::PodMissing, |w| w.relist_pods(vec![])),
        (Reason::PodFinished, |w| w.apply(pod("a", "1").at(1).finished())),
        (Reason::IpChanged, |w| w.apply(pod("a", "1"))),
        (Reason::NotSelected, |w| w.apply(pod("a", "1").at(1).labelled("other"))),
        (Reason::NotSelected, |w| w.annotate(web().selector(&[("app", "other")]))),
        (Reason::BindingRemoved, |w| w.annotate(service("web").port("http", 80))),
        (Reason::BindingRemoved, |w| w.service(Change::Deleted(web().build()))),
        (Reason::BindingRemoved, |w| w.relist_services(vec![])),
    ];
    for (reason, end) in ends {
        let mut world = World::new(vec![web()], vec![running()]);
        end(&mut world);
        assert_eq!((world.changes(), world.reasons()), (vec!["-blue 10.0.0.1:80".into()], vec![reason]));
        world.answer_all();
        assert_eq!(world.changes(), [""; 0], "{reason}");
    }
}

#[test]
fn a_registration_says_whether_the_pod_the_list_or_the_binding_caused_it() {
    let world = World::new(vec![web()], vec![]);
    let cause = |mut world: World, cause: fn(&mut World)| {
        cause(&mut world);
        (world.changes(), world.reasons())
    };
    let call = vec!["+blue 10.0.0.1:80".to_owned()];
    assert_eq!(
        cause(world, |w| w.relist_pods(vec![pod("a", "1").at(1)])),
        (call.clone(), vec![Reason::PodListed])
    );
    let bound_elsewhere = web().selector(&[("app", "other")]);
    let world = World::new(vec![bound_elsewhere], vec![pod("a", "1").at(1)]);
    assert_eq!(cause(world, |w| w.annotate(web())), (call, vec![Reason::BindingAdded]));
}

#[test]
fn a_changed_ip_moves_the_target_and_the_removal_is_sent_first() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(2));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.2:80"]);
    assert_eq!(world.reasons(), [Reason::IpChanged, Reason::PodHasIp]);
}

#[test]
fn a_changed_target_port_moves_the_targets() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.annotate(service("web").port_to("http", 80, 8080).annotated("http=blue"));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.1:8080"]);
    assert_eq!(world.reasons()[0], Reason::PortChanged);
}

#[test]
fn a_late_deleted_of_the_old_pod_never_removes_the_reused_ip() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(1).terminating());
    world.answer_all();
    world.apply(pod("b", "2").at(1));
    world.answer_all();
    world.delete(pod("a", "1").at(1));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn a_late_deleted_of_an_older_life_of_the_name_changes_nothing() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "2").at(2));
    world.answer_all();
    world.delete(pod("a", "1").at(1));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn the_pod_that_got_an_ip_last_owns_it() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("b", "2").at(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "registered again for b");
    world.answer_all();
    world.apply(pod("a", "1").at(1).terminating());
    assert_eq!(world.changes(), [""; 0], "a's claim was void");
    world.apply(pod("b", "2").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn of_two_pods_listed_with_one_ip_the_younger_owns_it() {
    let (old, young) = (pod("z", "1").at(1).created(10), pod("a", "2").at(1).created(20));
    let mut world = World::new(vec![web()], vec![young.clone(), old.clone()]);
    world.apply(old.terminating());
    assert_eq!(world.changes(), [""; 0]);
    world.apply(young.terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn pods_of_the_host_network_wait_for_each_other_and_both_are_told() {
    let first = || pod("a", "1").at(1).host_network();
    let mut world = World::new(vec![web()], vec![first()]);
    world.apply(pod("b", "2").at(1).host_network());
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.said(), [Reason::WaitsForHostNetworkPod; 2]);
    world.apply(first().terminating());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "b takes over");
}

#[test]
fn nothing_is_sent_before_every_watch_has_listed() {
    let mut world = World::unsynced();
    world.relist_services(vec![web()]);
    world.apply(pod("a", "1").at(1));
    assert!(world.open.is_empty() && !world.engine.is_synced());
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    assert!(world.engine.is_synced());
}

#[test]
fn a_relist_of_one_namespace_says_nothing_about_another() {
    let scopes = vec![Scope::Namespace(NAMESPACE.into()), Scope::Namespace("other".into())];
    let settings = Settings {
        region: "us-east-1".into(),
        scopes: scopes.clone(),
        namespaces_are_selected: false,
        seed: 1,
    };
    let mut world = World::with(settings);
    for scope in &scopes {
        world.service(Change::Relisted(scope.clone(), vec![]));
        world.pod(Change::Relisted(scope.clone(), vec![]));
    }
    world.annotate(web());
    world.apply(pod("a", "1").at(1));
    world.answer_all();
    world.pod(Change::Relisted(scopes[1].clone(), vec![]));
    assert_eq!(world.changes(), [""; 0]);
    world.pod(Change::Relisted(scopes[0].clone(), vec![]));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn only_services_of_selected_namespaces_count() {
    let settings = Settings {
        region: "us-east-1".into(),
        scopes: vec![Scope::Cluster],
        namespaces_are_selected: true,
        seed: 1,
    };
    let mut world = World::with(settings);
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    assert!(!world.engine.is_synced());
    let namespace = |change| Input::Namespace { change, seen: Moment::START };
    world.step(namespace(Change::Relisted(Scope::Cluster, vec![])));
    assert!(world.engine.is_synced() && world.open.is_empty());
    let shop: Arc<str> = NAMESPACE.into();
    world.step(namespace(Change::Applied(shop.clone())));
    world.answer_all();
    world.step(namespace(Change::Deleted(shop)));
    assert_eq!(
        (world.changes(), world.reasons()),
        (vec!["-blue 10.0.0.1:80".into()], vec![Reason::NamespaceNotSelected])
    );
}

#[test]
fn a_pod_is_a_target_of_every_group_of_every_port_with_its_own_number_for_a_named_port() {
    let service = || {
        service("web").port_named("http", 80, "web").port("admin", 9000).annotated("http=blue,admin=green")
    };
    let pods = vec![pod("a", "1").at(1).port("web", 8080), pod("b", "2").at(2).port("web", 8081)];
    let mut world = World::unsynced();
    world.relist_services(vec![service()]);
    world.relist_pods(pods);
    let finds = std::mem::take(&mut world.open);
    for (id, call) in finds {
        let Call::FindGroup { reference } = call else { continue };
        world.step(Input::Answered { id, result: Ok(Answer::Group(group(&reference.to_string()))) });
    }
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8080 10.0.0.2:8081", "+green 10.0.0.1:9000 10.0.0.2:9000"]);
}

#[test]
fn a_pod_without_the_named_port_or_of_the_wrong_family_is_no_target_and_is_said_once() {
    let named = service("web").port_named("http", 80, "web").annotated("http=blue");
    let world = World::new(vec![named], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    assert_eq!(world.said(), [Reason::NoSuchPort]);
    assert!(world.notices[0].note.contains("no container port named \"web\" of protocol TCP"));

    let mut world = World::new(vec![web()], vec![pod("a", "1").at_v6(), pod("b", "2").at_v6()]);
    assert_eq!((world.said(), world.changes()), (vec![Reason::WrongIpFamily], vec![]));
    assert!(world.notices[0].note.contains("blue takes ipv4 addresses, and pod a has none; expected"));
    world.apply(pod("c", "3").at(3));
    assert_eq!(world.changes(), ["+blue 10.0.0.3:80"]);
}

#[test]
fn two_services_with_one_group_each_have_their_pods_in_it() {
    let api = service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=blue");
    let mut world = World::new(vec![web(), api], vec![pod("a", "1").at(1)]);
    world.apply(pod("b", "2").at(2).labelled("api"));
    assert_eq!((world.changes(), world.said()), (vec!["+blue 10.0.0.2:80".into()], vec![]));
}

#[test]
fn two_services_that_claim_one_target_are_told_once_and_it_stays_while_either_claims_it() {
    let twin = || service("twin").port("http", 80).annotated("http=blue");
    let mut world = World::new(vec![web(), twin()], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    assert_eq!(world.said(), [Reason::TargetClaimedTwice]);
    assert!(world.notices[0].note.contains("claimed by Service shop/"), "{}", world.notices[0].note);
    world.service(Change::Deleted(twin().build()));
    assert_eq!(world.changes(), [""; 0]);
    world.service(Change::Deleted(web().build()));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
}

#[test]
fn an_unknown_target_group_is_said_once_looked_up_again_and_disturbs_nothing() {
    let mut world = World::new(vec![web().annotated("http=blue,80=red")], vec![pod("a", "1").at(1)]);
    assert_eq!(world.said(), [Reason::TargetGroupNotFound]);
    world.wait(Duration::from_secs(40));
    world.answer_all();
    assert_eq!(world.said().len(), 1);
    world.known.push(group("red"));
    world.wait(Duration::from_secs(40));
    world.answer_all();
    world.apply(pod("a", "1").at(1).terminating());
    assert_eq!(world.changes().len(), 2, "red has been found and the pod registered in it");
}

#[test]
fn a_group_that_cannot_have_pods_as_targets_is_refused() {
    let mut world = World::unsynced();
    world.known = vec![TargetGroupFacts { target_type: TargetType::Instance, ..group("blue") }];
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    assert_eq!(world.said(), [Reason::TargetGroupUnsupported]);
    assert!(world.views.iter().all(|view| !matches!(view, Effect::Binding(_))));
}

#[test]
fn a_failed_registration_is_tried_again_after_a_backoff_of_its_own_group() {
    let mut world = World::new(vec![web().annotated("http=blue,80=green")], vec![]);
    world.apply(pod("a", "1").at(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80", "+green 10.0.0.1:80"]);
    let blue = world.open.remove(
        world
            .open
            .iter()
            .position(|(_, call)| matches!(call, Call::Register { group, .. } if group.name() == "blue"))
            .unwrap(),
    );
    world.step(Input::Answered { id: blue.0, result: Err(failure(ErrorClass::Unavailable)) });
    world.answer_all();
    world.apply(pod("b", "2").at(2));
    assert_eq!(world.changes(), ["+green 10.0.0.2:80"], "green does not wait for blue");
    world.wait(Duration::from_secs(1));
    assert_eq!(world.changes()[1], "+blue 10.0.0.1:80 10.0.0.2:80");
}

#[test]
fn a_failed_removal_is_tried_again_until_it_succeeds() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(1).terminating());
    for _ in 0..5 {
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
        world.refuse_changes(ErrorClass::Unavailable);
        assert_eq!(world.changes(), [""; 0]);
        let wakeup = world.engine.next_wakeup(world.now).unwrap();
        assert!(wakeup.since(world.now) <= Duration::from_secs(4));
        world.wait(Duration::from_secs(4));
    }
}

#[test]
fn a_group_that_vanished_has_nothing_left_to_remove() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(1).terminating());
    world.refuse_changes(ErrorClass::GroupGone);
    world.wait(Duration::from_secs(60));
    assert_eq!(world.changes(), [""; 0]);
}

#[test]
fn what_aws_refuses_is_said_on_the_service_with_pod_group_and_code_until_it_has_passed() {
    for (class, reason, said) in [
        (ErrorClass::Denied, Reason::AccessDenied, "allow elasticloadbalancing:RegisterTargets"),
        (ErrorClass::TargetRefused, Reason::TargetRefused, "10.0.0.1:80 of pod a (Code: text)"),
        (ErrorClass::GroupGone, Reason::TargetGroupNotFound, "target group blue does not exist any more"),
    ] {
        let mut world = World::new(vec![web()], vec![]);
        world.apply(pod("a", "1").at(1));
        for _ in 0..3 {
            world.refuse_changes(class);
            world.wait(Duration::from_secs(20));
        }
        assert_eq!(world.said(), [reason]);
        assert!(world.notices[0].note.contains(said), "{}", world.notices[0].note);
        world.answer_all();
        world.apply(pod("a", "1").at(1).terminating());
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    }
    let mut world = World::new(vec![web()], vec![]);
    world.apply(pod("a", "1").at(1));
    world.refuse_changes(ErrorClass::Throttled);
    assert_eq!(world.said(), [], "a passing fault is no news");
}

#[test]
fn removals_take_the_tokens_before_registrations() {
    let mut world = World::new(vec![web()], vec![]);
    // Twenty tokens: all but none are left after twenty lone registrations.
    for last in 1..=20 {
        world.apply(pod(&format!("p{last}"), &format!("{last}")).at(last));
        world.answer_all();
    }
    world.apply(pod("new", "new").at(99));
    world.apply(pod("p1", "1").at(1).terminating());
    world.apply(pod("p2", "2").at(2).terminating());
    assert_eq!(world.changes(), [""; 0], "no token is left");
    world.wait(Duration::from_millis(260));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
    world.wait(Duration::from_millis(260));
    assert_eq!(world.changes()[1..], ["+blue 10.0.0.99:80"]);
}

#[test]
fn a_call_carries_at_most_a_hundred_targets() {
    let pods: Vec<PodBuilder> =
        (1..=150).map(|last| pod(&format!("p{last}"), &format!("{last}")).at(last)).collect();
    let mut world = World::new(vec![web()], pods);
    world.relist_pods(vec![]);
    let sizes: Vec<usize> = world.changes().iter().map(|call| call.split(' ').count() - 1).collect();
    assert_eq!(sizes, [100, 50]);
}

#[test]
fn a_group_is_read_soon_while_a_target_is_not_healthy_and_rarely_otherwise() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    let mut reads = |state: HealthState| {
        let mut count = 0;
        for _ in 0..100 {
            world.wait(Duration::from_secs(1));
            for (id, call) in std::mem::take(&mut world.open) {
                assert!(matches!(call, Call::ReadHealth { .. }));
                count += 1;
                world.step(Input::Answered { id, result: Ok(Answer::Health(vec![(target(1, 80), state)])) });
            }
        }
        count
    };
    let (busy, calm) = (reads(HealthState::Initial), reads(HealthState::Healthy));
    assert!((45..=55).contains(&busy), "{busy} reads in 100 s");
    assert!((1..=3).contains(&calm), "{calm} reads in 100 s");
}

#[test]
fn views_show_a_binding_and_its_group_and_that_they_are_gone() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.wait(Duration::from_secs(2));
    let (id, _) = world.open.pop().unwrap();
    let stranger = Target::new("10.9.9.9".parse().unwrap(), 80);
    let states = vec![(target(1, 80), HealthState::Healthy), (stranger, HealthState::Initial)];
    world.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
    world.wait(Duration::from_millis(200));
    let binding = world.views.iter().rev().find_map(|view| match view {
        Effect::Binding(view) => Some(view.clone()),
        _ => None,
    });
    let shown = &binding.unwrap().targets[0];
    assert_eq!(
        (shown.target, shown.registered, shown.state),
        (target(1, 80), true, Some(HealthState::Healthy))
    );
    let group = world.views.iter().rev().find_map(|view| match view {
        Effect::Group(view) => Some(view.clone()),
        _ => None,
    });
    assert_eq!(group.unwrap().foreign, 1);
    world.service(Change::Deleted(web().build()));
    world.answer_all();
    world.wait(Duration::from_millis(200));
    assert!(world.views.contains(&Effect::GroupGone(arn("blue"))));
    assert!(world.views.iter().any(|view| matches!(view, Effect::BindingGone(_))));
}
