//! Tests of TargetBindings.

use super::*;
use crate::model::{
    Labels, ObjectKey, Protocol, TargetPort, Texts, Uid, service::PortRef, target_binding::Pods,
};

fn of_pods(group: &str, app: &str, port: u16) -> BindingFacts {
    BindingFacts {
        key: ObjectKey::new(NAMESPACE, "mine"),
        uid: Uid::new("b-1"),
        group: group.into(),
        pods: Pods::Selected(Labels::from_iter([("app", app)]), TargetPort::Number(port), Protocol::Tcp),
        policy: Texts::default(),
        ending: false,
    }
}

fn of_service(group: &str, service: &str, port: PortRef) -> BindingFacts {
    BindingFacts { pods: Pods::OfService(service.into(), port), ..of_pods(group, "", 0) }
}

fn ending(facts: BindingFacts) -> BindingFacts {
    BindingFacts { ending: true, ..facts }
}

impl World {
    /// Answers only the open look-ups.
    fn answer_look_ups(&mut self) {
        let (look_ups, rest) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(_, call)| matches!(call, Call::FindGroups { .. }));
        self.open = look_ups;
        let mut rest: Vec<(RequestId, Call)> = rest;
        while let Some(at) = self.open.iter().position(|(_, call)| matches!(call, Call::FindGroups { .. })) {
            let (id, call) = self.open.remove(at);
            let Call::FindGroups { references } = &call else { continue };
            let result = find(&self.known, references);
            self.step(Input::Answered { id, result });
        }
        rest.append(&mut self.open);
        self.open = rest;
    }
}

impl World {
    /// Accepts the open deregistrations of exactly these targets.
    fn answer_removals_of(&mut self, targets: &[Target]) {
        let is_meant = |call: &Call| match call {
            Call::Deregister { items, .. } => {
                items.iter().map(|item| item.target).eq(targets.iter().copied())
            }
            _ => false,
        };
        let (meant, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|(_, call)| is_meant(call));
        assert!(!meant.is_empty(), "{rest:?}");
        self.open = rest;
        for (id, _) in meant {
            self.step(Input::Answered { id, result: Ok(Answer::Done) });
        }
    }
}

/// Creates a `World` with the pod `a` at 10.0.0.1 and this TargetBinding.
fn bound(facts: BindingFacts) -> World {
    let mut world = World::new(vec![], vec![pod("a", "u-1").at(1)]);
    world.written(Change::Applied(facts));
    world.answer_look_ups();
    world
}

fn said(world: &World) -> Vec<(Reason, String)> {
    world.notices.iter().map(|notice| (notice.reason, notice.note.clone())).collect()
}

fn released(world: &World) -> bool {
    world.views.iter().any(|effect| matches!(effect, Effect::Released(key, _) if &*key.name == "mine"))
}

#[test]
fn a_binding_with_a_selector_needs_no_service() {
    let mut world = bound(of_pods("blue", "web", 8080));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8080"]);
    world.answer_all();
    world.written(Change::Applied(of_pods("blue", "other", 8080)));
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:8080".into()], vec![Cause::NotSelected])
    );
}

#[test]
fn a_binding_may_name_the_pods_own_port() {
    let mut world = World::new(vec![], vec![pod("a", "u-1").at(1).port("http", 9000)]);
    let named =
        Pods::Selected(Labels::from_iter([("app", "web")]), TargetPort::Name("http".into()), Protocol::Tcp);
    world.written(Change::Applied(BindingFacts { pods: named, ..of_pods("blue", "web", 0) }));
    world.answer_look_ups();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:9000"]);
}

#[test]
fn a_binding_of_a_service_follows_its_selector_and_port_without_any_annotation() {
    let mut world = bound(of_service("blue", "web", PortRef::Name("http".into())));
    assert_eq!(world.changes(), [""; 0]);
    world.annotate(service("web").port_to("http", 80, 8080));
    world.answer_look_ups();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8080"]);
    world.answer_all();
    world.annotate(service("web").port_to("http", 80, 8081));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8081"]);
}

#[test]
fn a_binding_keeps_its_targets_while_its_service_is_deleted_and_made_again() {
    let web = || service("web").port_to("http", 80, 8080);
    let mut world = World::new(vec![web()], vec![pod("a", "u-1").at(1)]);
    world.written(Change::Applied(of_service("blue", "web", PortRef::Only)));
    world.answer_all();
    for deletion in [Change::Deleted(web().build()), Change::Relisted(Scope::Cluster, vec![])] {
        world.service(deletion);
        let (reason, note) = said(&world).pop().unwrap();
        assert!(reason == Reason::BindingRemoved && note.contains("remain for 60 s"), "{note}");
        world.wait(GRACE.saturating_sub(Duration::from_secs(1)));
        world.annotate(web());
        world.wait(GRACE);
        assert_eq!(world.changes(), [""; 0], "it was made again in time");
        assert_eq!(said(&world).len(), 1);
        world.notices.clear();
    }
    world.service(Change::Deleted(web().build()));
    world.wait(GRACE);
    assert_eq!(
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:8080".into()], vec![Cause::BindingRemoved])
    );
    assert_eq!(said(&world).pop().unwrap().0, Reason::InvalidBinding);
}

#[test]
fn pods_that_end_while_the_service_of_a_binding_is_deleted_are_removed_at_once() {
    let web = || service("web").port_to("http", 80, 8080);
    let mut world = World::new(vec![web()], vec![pod("a", "u-1").at(1)]);
    world.written(Change::Applied(of_service("blue", "web", PortRef::Only)));
    world.answer_all();
    world.service(Change::Deleted(web().build()));
    world.apply(pod("a", "u-1").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"]);
}

#[test]
fn a_binding_that_comes_to_name_a_service_that_is_not_there_keeps_what_was_valid() {
    let web = || service("web").port_to("http", 80, 8080);
    let mut world = World::new(vec![web()], vec![pod("a", "u-1").at(1)]);
    world.written(Change::Applied(of_service("blue", "web", PortRef::Only)));
    world.answer_all();
    world.written(Change::Applied(of_service("blue", "wbe", PortRef::Only)));
    world.wait(GRACE * 2);
    assert_eq!(world.changes(), [""; 0]);
    let (reason, note) = said(&world).pop().unwrap();
    assert!(
        reason == Reason::InvalidBinding && note.contains("The previous value remains in effect"),
        "{note}"
    );
    world.written(Change::Applied(of_service("blue", "web", PortRef::Only)));
    assert_eq!(said(&world).len(), 1);
}

#[test]
fn a_service_that_is_not_there_is_said_once_services_were_listed() {
    let mut world = World::fresh(cluster_wide());
    world.relist_written(vec![of_service("blue", "nowhere", PortRef::Only)]);
    assert_eq!(said(&world), []);
    world.relist_services(vec![]);
    let [(Reason::InvalidBinding, note)] = &said(&world)[..] else { panic!("{:?}", said(&world)) };
    assert!(note.contains("There is no Service nowhere in namespace shop"), "{note}");
    assert!(matches!(&world.notices[0].about, About::TargetBinding(key, _) if &*key.name == "mine"));
}

#[test]
fn a_port_that_the_service_does_not_have_is_said_and_what_was_valid_stays() {
    let mut world = World::new(vec![service("web").port("http", 80)], vec![pod("a", "u-1").at(1)]);
    world.written(Change::Applied(of_service("blue", "web", PortRef::Name("http".into()))));
    world.answer_all();
    world.written(Change::Applied(of_service("blue", "web", PortRef::Name("htpt".into()))));
    assert_eq!(world.changes(), [""; 0]);
    let said = said(&world);
    assert_eq!(
        said,
        [(
            Reason::InvalidBinding,
            "serviceRef names port \"htpt\", which the Service lacks. Name one of: http (80).".to_owned()
        )]
    );
}

#[test]
fn a_service_with_several_ports_needs_the_port_to_be_named() {
    let two = service("web").port("http", 80).port("https", 443);
    let mut world = World::new(vec![two], vec![pod("a", "u-1").at(1)]);
    world.written(Change::Applied(of_service("blue", "web", PortRef::Only)));
    let said = said(&world);
    assert!(said[0].0 == Reason::InvalidBinding && said[0].1.contains("Set serviceRef.port"), "{said:?}");
}

#[test]
fn a_group_that_aws_does_not_know_is_said_on_the_binding() {
    let world = bound(of_pods("nowhere", "web", 8080));
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(said(&world)[0].0, Reason::TargetGroupNotFound);
}

#[test]
fn nothing_is_sent_before_the_bindings_were_listed() {
    let mut world = World::fresh(cluster_wide());
    world.relist_services(vec![service("web").port("http", 80).annotated("blue")]);
    world.relist_pods(vec![pod("a", "u-1").at(1)]);
    assert!(!world.engine.is_synced());
    world.relist_written(vec![]);
    assert!(world.engine.is_synced());
}

#[test]
fn a_deleted_binding_is_kept_until_aws_has_taken_every_removal() {
    let mut world = bound(of_pods("blue", "web", 8080));
    world.answer_all();
    world.written(Change::Applied(ending(of_pods("blue", "web", 8080))));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"]);
    assert!(!released(&world));
    world.answer_all();
    assert!(released(&world));
}

#[test]
fn a_deleted_binding_waits_for_no_target_of_another() {
    let other = || BindingFacts { key: ObjectKey::new(NAMESPACE, "other"), ..of_pods("blue", "api", 8080) };
    let mut world = bound(of_pods("blue", "web", 8080));
    world.written(Change::Applied(other()));
    world.apply(pod("b", "u-2").at(2).labelled("api"));
    world.answer_all();
    world.written(Change::Applied(ending(other())));
    world.written(Change::Applied(ending(of_pods("blue", "web", 8080))));
    world.wait(Duration::from_millis(200));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:8080", "-blue 10.0.0.1:8080"]);
    world.answer_removals_of(&[target(1, 8080)]);
    assert!(released(&world));
    let others = |effect: &Effect| matches!(effect, Effect::Released(key, _) if &*key.name == "other");
    assert!(!world.views.iter().any(others), "its own target is still there");
}

#[test]
fn after_a_restart_a_deleted_binding_waits_for_whatever_may_be_its_own() {
    let mut world = bound(of_pods("blue", "web", 8080));
    world.answer_all();
    world.engine = Engine::new(cluster_wide());
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.relist_services(vec![]);
    world.relist_pods(vec![pod("a", "u-1").at(1)]);
    world.relist_written(vec![ending(of_pods("blue", "web", 8080))]);
    world.answer_look_ups();
    assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"]);
    assert!(!released(&world));
    world.answer_all();
    assert!(released(&world));
}

#[test]
fn a_deleted_binding_waits_for_the_target_group_that_stayed_in_force_while_the_named_one_was_not_found() {
    for named in ["nowhere", "no_name"] {
        let mut world = bound(of_pods("blue", "web", 8080));
        world.answer_all();
        world.written(Change::Applied(of_pods(named, "web", 8080)));
        world.answer_look_ups();
        world.written(Change::Applied(ending(of_pods(named, "web", 8080))));
        assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"]);
        assert!(!released(&world), "{named}");
        world.answer_all();
        assert!(released(&world), "{named}");
    }
}

#[test]
fn a_new_leader_lets_no_deleted_binding_go_because_no_target_group_was_found_before_it_led() {
    let mut world = World::standby(cluster_wide());
    world.relist_services(vec![]);
    world.relist_pods(vec![pod("a", "u-1").at(1)]);
    world.relist_written(vec![of_pods("nowhere", "web", 8080)]);
    world.answer_look_ups();
    world.written(Change::Applied(ending(of_pods("nowhere", "web", 8080))));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert!(!released(&world), "it may exist by now");
    world.answer_look_ups();
    assert!(released(&world));
}

#[test]
fn a_new_leader_lets_no_deleted_binding_go_before_the_target_that_it_saw_it_have() {
    let mut before = bound(of_pods("blue", "web", 8080));
    before.answer_all();
    let mut world = World::standby(cluster_wide());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_services(vec![]);
    world.relist_pods(vec![pod("b", "u-2").at(1)]);
    world.relist_written(vec![of_pods("blue", "web", 8080)]);
    world.answer_look_ups();
    world.written(Change::Applied(ending(of_pods("green", "web", 8080))));
    world.answer_look_ups();
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"], "the ledger says that it was another pod's");
    assert!(!released(&world));
    world.answer_all();
    assert!(released(&world));
}

#[test]
fn nor_when_another_binding_has_had_that_target_for_a_moment_since() {
    let other = BindingFacts { key: ObjectKey::new(NAMESPACE, "other"), ..of_pods("blue", "api", 8080) };
    let before = {
        let mut before = bound(of_pods("blue", "web", 8080));
        before.answer_all();
        before
    };
    for had in ["u-1", "u-2"] {
        let mut world = World::standby(cluster_wide());
        world.ledgers.clone_from(&before.ledgers);
        world.relist_services(vec![]);
        world.relist_pods(vec![pod("b", had).at(1)]);
        world.relist_written(vec![of_pods("blue", "web", 8080), other.clone()]);
        world.answer_look_ups();
        world.written(Change::Applied(ending(of_pods("green", "web", 8080))));
        world.answer_look_ups();
        world.delete(pod("b", had).at(1));
        world.apply(pod("c", "u-3").at(1).labelled("api"));
        world.apply(pod("c", "u-3").at(1).labelled("api").terminating());
        world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
        assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"], "{had}");
        assert!(!released(&world), "{had}");
        world.answer_all();
        assert!(released(&world), "{had}");
    }
}

#[test]
fn after_a_restart_a_deleted_binding_does_not_wait_for_what_something_else_may_turn_out_to_want() {
    let waits = web().with(REGISTER_WHEN, "ready");
    let mut world = bound(of_pods("blue", "web", 80));
    world.answer_all();
    world.engine = Engine::new(cluster_wide());
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.relist_services(vec![waits]);
    world.relist_pods(vec![pod("a", "u-1").at(1)]);
    world.relist_written(vec![ending(of_pods("blue", "web", 80))]);
    world.answer_look_ups();
    assert_eq!(world.changes(), [""; 0], "the pod only has to become ready");
    assert!(released(&world));
}

#[test]
fn nor_does_a_new_leader_for_the_target_that_it_saw_it_have() {
    let waits = web().with(REGISTER_WHEN, "ready");
    let mut before = bound(of_pods("blue", "web", 80));
    before.answer_all();
    let mut world = World::standby(cluster_wide());
    world.ledgers.clone_from(&before.ledgers);
    world.relist_services(vec![waits]);
    world.relist_pods(vec![pod("b", "u-2").at(1)]);
    world.relist_written(vec![of_pods("blue", "web", 80)]);
    world.answer_look_ups();
    world.written(Change::Applied(ending(of_pods("blue", "web", 80))));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    assert_eq!(world.changes(), [""; 0], "the pod only has to become ready");
    assert!(released(&world));
}

#[test]
fn a_removal_that_aws_denies_keeps_a_deleted_binding() {
    let mut world = bound(of_pods("blue", "web", 8080));
    world.answer_all();
    world.written(Change::Applied(ending(of_pods("blue", "web", 8080))));
    world.refuse_changes(FailureClass::Denied);
    assert!(!released(&world));
}

#[test]
fn a_deleted_binding_without_targets_or_without_a_group_is_kept_by_nothing() {
    for group in ["blue", "nowhere"] {
        let mut world = World::new(vec![], vec![]);
        world.written(Change::Applied(ending(of_pods(group, "web", 8080))));
        world.answer_all();
        assert!(released(&world), "{group}");
    }
}

#[test]
fn a_deleted_binding_takes_no_target_of_another_with_it() {
    let annotated = service("web").port_to("http", 80, 8080).annotated("blue");
    let mut world =
        World::new(vec![annotated], vec![pod("a", "u-1").at(1), pod("b", "u-2").at(2).labelled("api")]);
    world.written(Change::Applied(of_pods("blue", "api", 8080)));
    world.answer_all();
    world.written(Change::Applied(ending(of_pods("blue", "api", 8080))));
    assert_eq!(world.changes(), ["-blue 10.0.0.2:8080"]);
}

#[test]
fn a_binding_missing_from_a_list_has_ended() {
    let mut world = bound(of_pods("blue", "web", 8080));
    world.answer_all();
    world.relist_written(vec![]);
    assert_eq!(world.changes(), ["-blue 10.0.0.1:8080"]);
}

#[test]
fn an_object_that_binds_is_shown_with_what_is_wrong_until_it_binds_no_more() {
    let mut world = bound(of_pods("nowhere", "web", 8080));
    let shown = |world: &World| {
        let mut views = world.views.iter().rev();
        views
            .find_map(|effect| match effect {
                Effect::Shows(Picture::Origin(view)) => Some(Some(view.clone())),
                Effect::Shows(Picture::OriginGone(_)) => Some(None),
                _ => None,
            })
            .unwrap()
    };
    assert_eq!(shown(&world).unwrap().problems[0].reason, Reason::TargetGroupNotFound);
    world.written(Change::Deleted(of_pods("nowhere", "web", 8080)));
    assert_eq!(shown(&world), None);
}

#[test]
fn a_binding_that_cannot_be_read_any_more_keeps_its_targets_and_says_so_and_no_other_is_touched() {
    let unreadable =
        |facts| BindingFacts { pods: Pods::Unreadable("its spec makes no sense".into()), ..facts };
    let other = BindingFacts { key: ObjectKey::new(NAMESPACE, "other"), ..of_pods("green", "web", 8081) };
    let mut world = bound(of_pods("blue", "web", 8080));
    world.written(Change::Applied(other.clone()));
    world.answer_look_ups();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8080", "+green 10.0.0.1:8081"]);
    world.answer_all();
    let listed = vec![unreadable(of_pods("", "", 0)), other];
    world.written(Change::Relisted(Scope::Cluster, listed));
    assert_eq!(world.changes(), [""; 0]);
    let note = "its spec makes no sense The previous value remains in effect.";
    assert!(said(&world).contains(&(Reason::InvalidBinding, note.into())), "{:?}", said(&world));
    world.written(Change::Applied(of_pods("blue", "web", 8082)));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8082"], "it is followed again");
}

#[test]
fn a_binding_that_never_could_be_read_binds_nothing_and_says_so() {
    let world = bound(BindingFacts { pods: Pods::Unreadable("it is odd".into()), ..of_pods("blue", "", 0) });
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(said(&world), [(Reason::InvalidBinding, "it is odd".into())]);
}
