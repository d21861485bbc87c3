//! Tests of gates of pods without a binding, or without an expected binding.

use super::{
    gating::{HEALTHY, closed, open, ready},
    *,
};

#[test]
fn a_gate_without_a_binding_opens_only_some_time_after_everything_is_known() {
    let a = closed("a", "1", 1).labelled("other");
    let mut world = World::unsynced();
    world.relist_pods(vec![a.clone()]);
    world.passes(60, &[]);
    assert_eq!(world.turned(), [""; 0], "the Services are not known");
    world.relist_services(vec![]);
    world.passes(29, &[]);
    assert_eq!(world.turned(), ["a - BindingMissing"]);
    world.annotate(web());
    world.answer_all();
    world.passes(29, &[]);
    assert_eq!(world.turned(), [""; 0], "the bindings have changed");
    world.passes(2, &[]);
    assert_eq!(world.turned(), ["a + NothingBound"]);
    assert_eq!(world.said(), [Reason::NotSelected]);
}

#[test]
fn nor_does_one_of_a_leader_that_gets_its_ledgers_last() {
    let mut world = World::standby(cluster_wide());
    world.ledgers_wait = true;
    world.relist_pods(vec![closed("a", "1", 1).labelled("other")]);
    world.relist_services(vec![]);
    world.wait(Duration::from_secs(600));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.written(Change::Relisted(Scope::Cluster, vec![]));
    let [load] = world.loads_of_all()[..] else { panic!("{:?}", world.views) };
    world.wait(Duration::from_secs(1));
    world.step(Input::Answered { id: load, result: Ok(Answer::Ledgers(Vec::new())) });
    assert_eq!(world.turned(), [""; 0], "the TargetBindings are known for a second");
    world.passes(28, &[]);
    assert_eq!(world.turned(), ["a - BindingMissing"]);
    world.passes(2, &[]);
    assert_eq!(world.turned(), ["a + NothingBound"]);
}

#[test]
fn a_binding_that_was_expected_is_waited_for_beside_those_there_are() {
    let mut world = ready();
    world.apply(closed("a", "1", 1).expecting("blue:80,green:80"));
    world.passes(25, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a - BindingMissing"]);
    world.annotate(service("web").port("http", 80).annotated("http=blue,http=green"));
    for _ in 0..3 {
        world.wait(Duration::from_secs(1));
        let look_ups: Vec<_> =
            world.open.iter().filter(|(_, call)| matches!(call, Call::FindGroups { .. })).cloned().collect();
        world.open.retain(|(_, call)| !matches!(call, Call::FindGroups { .. }));
        for (id, _) in look_ups {
            world.step(Input::Answered { id, result: Ok(Answer::Groups(vec![group("green")])) });
        }
        world.takes_changes();
        world.says(&[]);
    }
    // No read has shown that green was empty before.
    assert!(!world.opens("a", 8, &[(1, HealthState::Initial)]));
    assert!(world.opens("a", 8, &[(1, HEALTHY)]));
}

#[test]
fn an_annotation_that_never_could_be_read_keeps_a_gate_closed() {
    let mut world = World::new(vec![service("web").port("http", 80).annotated("http=")], vec![]);
    world.apply(closed("a", "1", 1));
    world.passes(120, &[]);
    assert_eq!(world.turned(), ["a - BindingUnreadable"]);
    assert_eq!(world.said(), [Reason::InvalidBinding]);
    world.annotate(web());
    world.answer_all();
    assert!(!world.opens("a", 8, &[(1, HealthState::Initial)]));
    assert!(world.opens("a", 8, &[(1, HEALTHY)]));
}

#[test]
fn an_annotation_that_cannot_be_read_counts_in_selected_namespaces() {
    let mut world = World::with(Settings { namespaces_are_selected: true, ..cluster_wide() });
    world.step(Input::Namespace {
        change: Change::Relisted(Scope::Cluster, vec![NAMESPACE.into()]),
        seen: Moment::START,
    });
    world.relist_services(vec![service("web").port("http", 80).annotated("http=")]);
    world.relist_pods(vec![closed("a", "1", 1)]);
    world.passes(120, &[]);
    assert_eq!(world.turned(), ["a - BindingUnreadable"]);
    world.step(Input::Namespace { change: Change::Deleted(NAMESPACE.into()), seen: world.now });
    world.passes(29, &[]);
    assert_eq!(world.turned(), ["a - BindingMissing"], "another installation may have come to serve it");
    world.passes(1, &[]);
    assert_eq!(world.turned(), ["a + NothingBound"]);
}

#[test]
fn the_gates_of_a_namespace_that_is_not_selected_are_another_installations_until_it_is() {
    let select = |change| Input::Namespace { change, seen: Moment::START };
    let mut world = World::with(Settings { namespaces_are_selected: true, ..cluster_wide() });
    world.step(select(Change::Relisted(Scope::Cluster, vec!["other".into()])));
    world.relist_services(vec![web()]);
    world.relist_pods(vec![closed("a", "1", 1), closed("lonely", "2", 2).labelled("lonely")]);
    world.answer_all();
    world.passes(400, &[]);
    assert_eq!((world.turned(), world.said()), (vec![], vec![]), "neither opened nor explained");
    world.step(select(Change::Applied(NAMESPACE.into())));
    world.answer_all();
    world.passes(4, &[]);
    assert_eq!(world.turned(), ["a - HealthUnread", "lonely - BindingMissing"]);
    assert!(!world.opens("a", 8, &[(1, HealthState::Initial)]));
    assert!(world.opens("a", 8, &[(1, HEALTHY)]));
    world.apply(open("a", "1", 1));
    world.step(select(Change::Deleted(NAMESPACE.into())));
    world.apply(closed("late", "3", 3));
    world.passes(60, &[]);
    assert_eq!(
        world.turned(),
        ["lonely + NothingBound"],
        "which waited already; the other is of whoever serves it now"
    );
}

#[test]
fn a_standby_knows_whose_gates_wait_in_a_namespace_that_is_not_selected_any_more() {
    let select = |change| Input::Namespace { change, seen: Moment::START };
    let mut world = World::standby(Settings { namespaces_are_selected: true, ..cluster_wide() });
    world.relist_written(vec![]);
    world.relist_services(vec![]);
    world.relist_pods(vec![closed("a", "1", 1)]);
    world.step(select(Change::Relisted(Scope::Cluster, vec![NAMESPACE.into()])));
    world.step(select(Change::Deleted(NAMESPACE.into())));
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    world.answer_all();
    world.passes(4, &[]);
    assert_eq!(world.turned(), ["a - BindingMissing"]);
    world.passes(30, &[]);
    assert_eq!(world.turned(), ["a + NothingBound"]);
}

#[test]
fn what_cannot_be_read_beside_what_was_valid_keeps_no_gate_closed_nor_does_what_selects_other_pods() {
    let mut world = ready();
    world.annotate(service("web").port("http", 80).annotated("http=blue,htp=green"));
    let bad = || service("bad").port("http", 80).annotated("http=");
    world.annotate(bad().selector(&[("app", "other")]));
    let elsewhere = ServiceFacts { key: ObjectKey::new("apps", "bad"), ..bad().build() };
    world.service(Change::Applied(elsewhere));
    world.apply(closed("a", "1", 1));
    world.passes(10, &[(1, HEALTHY)]);
    assert_eq!(world.turned(), ["a + TargetsHealthy"]);
    world.annotate(bad());
    world.apply(closed("b", "2", 2));
    world.passes(10, &[(1, HEALTHY), (2, HEALTHY)]);
    assert_eq!(world.turned(), ["b - BindingUnreadable"], "that may be meant for it");
}
