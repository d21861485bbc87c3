//! Tests of when a pod becomes a target of a target group, and when the pod stops being a target.

use super::*;

#[test]
fn a_pod_is_registered_the_moment_it_has_its_ip() {
    let mut world = World::new(vec![web()], vec![pod("a", "1")]);
    assert_eq!(world.changes(), [""; 0]);
    world.apply(pod("a", "1").at(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    assert_eq!(world.causes(), [Cause::PodHasIp]);
}

#[test]
fn every_way_of_ending_deregisters_at_once_with_its_reason() {
    let running = || pod("a", "1").at(1);
    type End = fn(&mut World);
    let ends: [(Cause, End); 12] = [
        (Cause::PodTerminating, |w| w.apply(pod("a", "1").at(1).terminating())),
        (Cause::PodDeleted, |w| w.delete(pod("a", "1").at(1))),
        (Cause::PodDeleted, |w| w.apply(pod("a", "2"))),
        (Cause::PodMissing, |w| w.relist_pods(vec![])),
        (Cause::PodFinished, |w| w.apply(pod("a", "1").at(1).finished())),
        (Cause::IpChanged, |w| w.apply(pod("a", "1"))),
        (Cause::NotSelected, |w| w.apply(pod("a", "1").at(1).labelled("other"))),
        (Cause::LimitExceeded, |w| w.apply(pod("a", "1").at(1).without_labels())),
        (Cause::NotSelected, |w| w.annotate(web().selector(&[("app", "other")]))),
        (Cause::BindingRemoved, |w| w.annotate(service("web").port("http", 80))),
        (Cause::BindingRemoved, |w| {
            w.service(Change::Deleted(web().build()));
            w.wait(GRACE);
        }),
        (Cause::BindingRemoved, |w| {
            w.relist_services(vec![]);
            w.wait(GRACE);
        }),
    ];
    for (cause, end) in ends {
        let mut world = World::new(vec![web()], vec![running()]);
        end(&mut world);
        assert_eq!((world.changes(), world.causes()), (vec!["-blue 10.0.0.1:80".into()], vec![cause]));
        world.answer_all();
        assert_eq!(world.changes(), [""; 0], "{cause:?}");
    }
}

#[test]
fn a_pod_with_more_labels_than_are_read_is_told_once() {
    let large = || pod("a", "1").at(1).without_labels();
    let mut world = World::new(vec![web()], vec![]);
    for _ in 0..2 {
        world.apply(large());
        world.apply(large().containers_ready());
    }
    let said: Vec<_> = world.notices.iter().map(|notice| (notice.reason, &notice.about)).collect();
    let about = About::Pod(large().build().key, large().build().uid);
    assert_eq!(said, [(Reason::LimitExceeded, &about)]);
    assert!(
        world.notices[0].note.contains("The size of the labels of a pod is 16385 bytes"),
        "{}",
        world.notices[0].note
    );
    world.apply(pod("b", "2").at(2));
    assert_eq!(world.changes(), ["+blue 10.0.0.2:80"], "nobody else is disturbed");
}

#[test]
fn a_registration_says_whether_the_pod_the_list_or_the_binding_caused_it() {
    let world = World::new(vec![web()], vec![]);
    let cause = |mut world: World, cause: fn(&mut World)| {
        cause(&mut world);
        (world.changes(), world.causes())
    };
    let call = vec!["+blue 10.0.0.1:80".to_owned()];
    assert_eq!(
        cause(world, |w| w.relist_pods(vec![pod("a", "1").at(1)])),
        (call.clone(), vec![Cause::PodListed])
    );
    let bound_elsewhere = web().selector(&[("app", "other")]);
    let world = World::new(vec![bound_elsewhere], vec![pod("a", "1").at(1)]);
    assert_eq!(cause(world, |w| w.annotate(web())), (call, vec![Cause::BindingAdded]));
}

#[test]
fn a_changed_ip_moves_the_target_and_the_removal_is_sent_first() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("a", "1").at(2));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.2:80"]);
    assert_eq!(world.causes(), [Cause::IpChanged, Cause::PodHasIp]);
}

#[test]
fn a_changed_target_port_moves_the_targets() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.annotate(service("web").port_to("http", 80, 8080).annotated("http=blue"));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8080"], "the new one first, see replacing.rs");
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
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "the health of a's target must not count for b");
    world.accepts_removals();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "registered again for b");
    world.answer_all();
    world.apply(pod("a", "1").at(1).terminating());
    assert_eq!(world.changes(), [""; 0], "a's claim was void");
    world.apply(pod("b", "2").at(1).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
}

#[test]
fn a_pod_whose_ip_another_one_got_has_none_for_as_long_as_that_one_is_there() {
    let ends: [fn(&mut World); 2] = [
        |world| world.apply(pod("b", "2").at(1).terminating()),
        |world| world.apply(pod("b", "2").at(1).labelled("other")),
    ];
    for end in ends {
        let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
        world.apply(pod("b", "2").at(1));
        world.answer_all();
        end(&mut world);
        assert_eq!(world.changes(), ["-blue 10.0.0.1:80"], "it is not a's because b is no target");
        world.answer_all();
        world.delete(pod("b", "2").at(1));
        assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "a's status says so, and nothing says otherwise");
    }
}

#[test]
fn a_pod_that_nothing_binds_takes_the_target_with_the_ip() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.apply(pod("b", "2").at(1).labelled("other"));
    assert_eq!((world.changes(), world.causes()), (vec!["-blue 10.0.0.1:80".into()], vec![Cause::IpChanged]));
    world.answer_all();
    world.apply(pod("b", "2").at(1).labelled("other").finished());
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn a_pod_that_is_listed_as_terminating_takes_no_ip_from_a_living_one() {
    let (living, going) = (pod("a", "1").at(1).created(10), pod("b", "2").at(1).created(20).terminating());
    let mut world = World::new(vec![web()], vec![living, going.clone()]);
    assert_eq!(world.changes(), [""; 0], "registered for a already");
    world.delete(going);
    assert_eq!(world.changes(), [""; 0]);
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
    assert_eq!(world.said(), [Reason::AddressContested; 2]);
    world.apply(first().terminating());
    world.accepts_removals();
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "b takes over");
}

#[test]
fn nothing_but_look_ups_is_sent_before_every_watch_has_listed() {
    let mut world = World::unsynced();
    world.relist_services(vec![web()]);
    world.apply(pod("a", "1").at(1));
    let look_ups = |world: &World| world.open.iter().all(|(_, call)| matches!(call, Call::FindGroups { .. }));
    assert!(look_ups(&world) && !world.engine.is_synced());
    world.answer_all();
    assert_eq!(world.changes(), [""; 0]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    assert!(world.engine.is_synced());
}

#[test]
fn a_relist_of_one_namespace_says_nothing_about_another() {
    let scopes = vec![Scope::Namespace(NAMESPACE.into()), Scope::Namespace("other".into())];
    let settings =
        Settings { region: "us-east-1".into(), scopes: scopes.clone(), seed: 1, ..Settings::default() };
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
fn a_relist_of_the_services_or_bindings_of_one_namespace_says_nothing_about_another() {
    let scopes = vec![Scope::Namespace(NAMESPACE.into()), Scope::Namespace("other".into())];
    let settings = Settings { scopes: scopes.clone(), ..cluster_wide() };
    let mut world = World::with(settings);
    for scope in &scopes {
        world.service(Change::Relisted(scope.clone(), vec![]));
        world.pod(Change::Relisted(scope.clone(), vec![]));
    }
    let mine = BindingFacts {
        key: ObjectKey::new(NAMESPACE, "mine"),
        uid: crate::model::object::Uid::new("b-1"),
        group: "green".into(),
        pods: crate::model::target_binding::Pods::Selected(
            crate::model::object::Labels::from_iter([("app", "web")]),
            crate::model::service::TargetPort::Number(80),
            crate::model::pod::Protocol::Tcp,
        ),
        policy: crate::model::policy::Texts::default(),
        ending: false,
    };
    world.annotate(web());
    world.written(Change::Applied(mine));
    world.apply(pod("a", "1").at(1));
    world.answer_all();
    let goes_away = |world: &mut World, scope: &Scope| {
        world.service(Change::Relisted(scope.clone(), vec![]));
        world.written(Change::Relisted(scope.clone(), vec![]));
        world.wait(GRACE);
        world.changes()
    };
    assert_eq!(goes_away(&mut world, &scopes[1]), [""; 0]);
    assert_eq!(world.said(), []);
    let mut gone = goes_away(&mut world, &scopes[0]);
    gone.sort();
    assert_eq!(gone, ["-blue 10.0.0.1:80", "-green 10.0.0.1:80"]);
}

#[test]
fn only_services_of_selected_namespaces_count() {
    let settings = Settings {
        region: "us-east-1".into(),
        scopes: vec![Scope::Cluster],
        namespaces_are_selected: true,
        seed: 1,
        ..Settings::default()
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
        (world.changes(), world.causes()),
        (vec!["-blue 10.0.0.1:80".into()], vec![Cause::NamespaceNotSelected])
    );
    let said = world.views.iter().filter_map(|effect| match effect {
        Effect::Selected(namespace, selected) => Some((&**namespace, *selected)),
        _ => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), [(NAMESPACE, true), (NAMESPACE, false)]);
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
        let Call::FindGroups { references } = call else { continue };
        let found = references.iter().map(|reference| group(&reference.to_string())).collect();
        world.step(Input::Answered { id, result: Ok(Answer::Groups(found)) });
    }
    assert_eq!(world.changes(), ["+blue 10.0.0.1:8080 10.0.0.2:8081", "+green 10.0.0.1:9000 10.0.0.2:9000"]);
}

#[test]
fn a_pod_without_the_named_port_or_of_the_wrong_family_is_no_target_and_is_said_once() {
    let named = service("web").port_named("http", 80, "web").annotated("http=blue");
    let world = World::new(vec![named], vec![pod("a", "1").at(1), pod("b", "2").at(2)]);
    assert_eq!(world.said(), [Reason::InvalidBinding]);
    assert!(world.notices[0].note.contains("no TCP port \"web\""));

    let mut world = World::new(vec![web()], vec![pod("a", "1").at_v6(), pod("b", "2").at_v6()]);
    assert_eq!((world.said(), world.changes()), (vec![Reason::InvalidBinding], vec![]));
    assert!(world.notices[0].note.contains("Pod a has no ipv4 address for target group blue"));
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
    assert_eq!(world.said(), [Reason::TargetClaimedTwice; 2], "one each");
    assert!(world.notices[0].note.contains("Service shop/"), "{}", world.notices[0].note);
    world.annotate(service("twin").port("http", 80));
    assert_eq!(world.changes(), [""; 0]);
    world.annotate(service("web").port("http", 80));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80 10.0.0.2:80"]);
}
