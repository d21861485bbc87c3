//! Tests of paused groups, exclusive groups, and registrations that wait for other registrations.

use super::*;
use crate::model::policy::{HOLD, OWNERSHIP, PAUSED};

fn planned(world: &World) -> Vec<String> {
    let calls = world.views.iter().filter_map(|effect| match effect {
        Effect::Planned(Call::Register { items, .. }) => Some(format!("+{}", items[0].target)),
        Effect::Planned(Call::Deregister { items, .. }) => Some(format!("-{}", items[0].target)),
        _ => None,
    });
    calls.collect()
}

/// Answers the open `DescribeTargetHealth` calls with these healthy targets.
fn show(world: &mut World, there: &[Target]) {
    let (reads, rest) = std::mem::take(&mut world.open)
        .into_iter()
        .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
    world.open = rest;
    for (id, _) in reads {
        let states = there.iter().map(|target| (*target, HealthState::Healthy.into())).collect();
        world.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
    }
}

#[test]
fn nothing_is_written_for_a_paused_service_and_all_that_is_due_when_the_pause_ends() {
    let mut world = World::new(vec![web()], vec![pod("a", "1").at(1)]);
    world.annotate(web().with(PAUSED, "true"));
    world.apply(pod("a", "1").at(1).terminating());
    world.apply(pod("b", "2").at(2));
    world.wait(Duration::from_secs(60));
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(planned(&world), ["-10.0.0.1:80", "+10.0.0.2:80"]);
    assert_eq!(world.said(), [Reason::RemovalsPaused]);
    let view = world.views.iter().rev().find_map(|effect| match effect {
        Effect::Shows(Picture::Group(view)) => view.paused,
        _ => None,
    });
    assert_eq!(view, Some((1, 1)), "a registration and a removal wait");
    world.annotate(web());
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80", "+blue 10.0.0.2:80"]);
}

/// A Service that selects other pods and binds them to the same target group.
fn api() -> ServiceBuilder {
    service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=blue")
}

/// A Service that selects the same pods as the Service `web`.
fn twin() -> ServiceBuilder {
    service("twin").selector(&[("app", "web")]).port("http", 80).annotated("http=blue")
}

#[test]
fn a_pause_holds_for_the_targets_of_its_own_service_also_where_others_share_the_group() {
    let mut world = World::new(vec![web(), api().with(PAUSED, "true")], vec![]);
    world.apply(pod("a", "1").at(1));
    world.apply(pod("b", "2").at(2).labelled("api"));
    world.wait(Duration::from_secs(10));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
    assert_eq!(planned(&world), ["+10.0.0.2:80"]);
    world.answer_all();
    world.annotate(api());
    world.wait(Duration::from_secs(10));
    assert_eq!(world.changes(), ["+blue 10.0.0.2:80"]);
    world.answer_all();
    world.annotate(api().with(PAUSED, "true"));
    world.apply(pod("a", "1").at(1).terminating());
    world.apply(pod("b", "2").at(2).labelled("api").terminating());
    world.wait(Duration::from_secs(10));
    assert_eq!(world.changes(), ["-blue 10.0.0.1:80"]);
    assert_eq!(planned(&world)[1..], ["-10.0.0.2:80"]);
}

#[test]
fn a_target_of_two_services_is_paused_if_both_are() {
    let paused = |service: ServiceBuilder| service.with(PAUSED, "true");
    for (services, goes) in [
        ([web(), twin()], true),
        ([paused(web()), twin()], true),
        ([web(), paused(twin())], true),
        ([paused(web()), paused(twin())], false),
    ] {
        let mut world = World::new(vec![web(), twin()], vec![pod("a", "1").at(1)]);
        world.answer_all();
        for service in services {
            world.annotate(service);
        }
        world.apply(pod("a", "1").at(1).terminating());
        world.wait(Duration::from_secs(10));
        let expected: Vec<&str> = goes.then_some("-blue 10.0.0.1:80").into_iter().collect();
        assert_eq!(world.changes(), expected);
    }
}

#[test]
fn a_service_that_lets_go_of_a_target_by_what_is_written_has_no_word_about_it_any_more() {
    for (writes, goes) in [(false, true), (true, false)] {
        let mut world = World::new(vec![web(), twin()], vec![pod("a", "1").at(1)]);
        world.answer_all();
        world.annotate(web().with(PAUSED, "true"));
        if writes {
            world.annotate(twin().selector(&[("app", "others")]));
            world.wait(GRACE);
        }
        world.apply(pod("a", "1").at(1).terminating());
        world.wait(Duration::from_secs(10));
        assert_eq!(!world.changes().is_empty(), goes, "written: {writes}");
    }
}

#[test]
fn what_the_services_of_a_namespace_have_left_behind_is_paused_if_all_of_its_services_are() {
    for (paused, goes) in [(false, true), (true, false)] {
        let api = if paused { api().with(PAUSED, "true") } else { api() };
        let mut world = World::new(vec![web(), api], vec![pod("a", "1").at(1)]);
        world.answer_all();
        world.annotate(web().with(PAUSED, "true"));
        world.service(Change::Deleted(web().build()));
        world.wait(GRACE);
        world.wait(Duration::from_secs(60));
        assert_eq!(!world.changes().is_empty(), goes, "paused: {paused}");
    }
}

#[test]
fn read_only_plans_and_reads_and_writes_nothing() {
    let mut world = World::with(Settings { read_only: true, ..cluster_wide() });
    world.relist_services(vec![web()]);
    world.relist_pods(vec![pod("a", "1").at(1)]);
    world.answer_all();
    world.apply(pod("b", "2").at(2));
    world.wait(Duration::from_secs(60));
    assert_eq!((world.changes(), world.ledgers.len()), (vec![], 0));
    assert_eq!(planned(&world), ["+10.0.0.1:80", "+10.0.0.2:80"]);
    assert!(world.open.iter().any(|(_, call)| matches!(call, Call::ReadHealth { .. })), "reads go on");
}

#[test]
fn foreign_targets_stay_in_a_shared_group_and_go_from_an_exclusive_one() {
    for (ownership, gone) in [("shared", false), ("exclusive", true)] {
        let service = web().with(OWNERSHIP, ownership);
        let mut world = World::new(vec![service], vec![pod("a", "1").at(1)]);
        world.wait(Duration::from_secs(60));
        show(&mut world, &[target(1, 80), target(99, 80)]);
        let expected: Vec<String> = gone.then(|| "-blue 10.0.0.99:80".to_owned()).into_iter().collect();
        assert_eq!(world.changes(), expected, "{ownership}");
        assert_eq!(world.causes().first(), gone.then_some(&Cause::ForeignTarget));
    }
}

#[test]
fn a_group_is_exclusive_only_if_every_service_says_so_and_nothing_is_doubtful() {
    let exclusive = || web().with(OWNERSHIP, "exclusive");
    let twin = service("twin").selector(&[("app", "twin")]).port("http", 80).annotated("http=blue");
    let doubtful = service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=unknown");
    for other in [twin, doubtful] {
        let mut world = World::new(vec![exclusive(), other], vec![pod("a", "1").at(1)]);
        world.wait(Duration::from_secs(60));
        show(&mut world, &[target(1, 80), target(99, 80)]);
        assert_eq!(world.changes(), [""; 0]);
    }
}

#[test]
fn a_service_that_is_deleted_has_nothing_of_others_removed_any_more_though_its_own_targets_stay_for_a_while()
{
    let exclusive = || web().with(OWNERSHIP, "exclusive");
    let mut world = World::new(vec![exclusive()], vec![pod("a", "1").at(1)]);
    world.wait(Duration::from_secs(60));
    world.service(Change::Deleted(exclusive().build()));
    show(&mut world, &[target(1, 80), target(99, 80)]);
    assert_eq!(world.changes(), [""; 0]);
    world.service(Change::Applied(exclusive().build()));
    world.wait(Duration::from_secs(60));
    show(&mut world, &[target(1, 80), target(99, 80)]);
    assert_eq!(world.changes(), ["-blue 10.0.0.99:80"]);
}

#[test]
fn the_removal_of_a_foreign_target_is_not_tried_again_when_the_group_has_come_to_be_shared_or_doubtful() {
    let exclusive = || web().with(OWNERSHIP, "exclusive");
    let other = || service("api").selector(&[("app", "api")]).port("http", 80);
    for change in [web(), other().annotated("http=unknown")] {
        let mut world = World::new(vec![exclusive()], vec![pod("a", "1").at(1)]);
        world.wait(Duration::from_secs(60));
        show(&mut world, &[target(1, 80), target(99, 80)]);
        assert_eq!(world.changes(), ["-blue 10.0.0.99:80"]);
        world.annotate(change);
        world.refuse_changes(FailureClass::Unavailable);
        world.wait(Duration::from_secs(10));
        show(&mut world, &[target(1, 80), target(99, 80)]);
        assert_eq!(world.changes(), [""; 0]);
    }
}

#[test]
fn a_foreign_target_whose_removal_waits_is_spared_when_something_beside_the_group_becomes_doubtful() {
    let exclusive = || web().with(OWNERSHIP, "exclusive");
    let doubtful = service("api").selector(&[("app", "api")]).port("http", 80).annotated("http=unknown");
    for (change, sent) in [
        (None, "-blue 10.0.0.1:80 10.0.0.99:80"),
        (Some(exclusive().with(HOLD, "20s")), "-blue 10.0.0.1:80 10.0.0.99:80"),
        (Some(doubtful), "-blue 10.0.0.1:80"),
        (Some(web()), "-blue 10.0.0.1:80"),
    ] {
        let mut world = World::new(vec![exclusive()], vec![pod("a", "1").at(1)]);
        world.wait(Duration::from_secs(60));
        world.apply(pod("a", "1").at(1).terminating());
        world.refuse_changes(FailureClass::Unavailable);
        show(&mut world, &[target(1, 80), target(99, 80)]);
        assert_eq!(world.changes(), [""; 0], "the group's backoff holds both up");
        if let Some(change) = change {
            world.annotate(change);
        }
        world.wait(Duration::from_secs(5));
        assert_eq!(world.changes(), [sent]);
    }
}

#[test]
fn a_foreign_target_is_spared_when_the_group_is_shared_again_and_one_that_comes_to_be_wanted_stays() {
    let mut world = World::new(vec![web().with(OWNERSHIP, "exclusive")], vec![pod("a", "1").at(1)]);
    world.wait(Duration::from_secs(60));
    show(&mut world, &[target(1, 80), target(99, 80)]);
    world.refuse_changes(FailureClass::Unavailable);
    world.annotate(web());
    for _ in 0..2 {
        world.wait(Duration::from_secs(30));
        show(&mut world, &[target(1, 80), target(99, 80)]);
        assert_eq!(world.changes(), [""; 0], "the removal is not tried again");
    }
    assert_eq!(world.claims("blue").len(), 1, "it cannot take effect any more");
    world.annotate(web().with(OWNERSHIP, "exclusive"));
    world.wait(Duration::from_secs(60));
    show(&mut world, &[target(1, 80), target(99, 80)]);
    assert_eq!(world.changes(), ["-blue 10.0.0.99:80"]);
    world.apply(pod("z", "z").at(99));
    world.answer_all();
    assert!(world.engine.groups.get(&arn("blue")).unwrap().registrations().is_registered(&target(99, 80)));
}

#[test]
fn registrations_of_a_busy_group_wait_for_each_other_and_the_first_goes_at_once() {
    let window = Window { idle: Duration::from_millis(50), most: Duration::from_millis(250) };
    let mut world = World::with(Settings { add_window: window, ..cluster_wide() });
    world.relist_services(vec![web()]);
    world.relist_pods(vec![]);
    world.answer_all();
    world.apply(pod("a", "1").at(1));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"], "the group was idle");
    let writes = |world: &World| world.ledgers[&object_name(&arn("blue"))].0;
    let before = writes(&world);
    for last in 2..=9 {
        world.answer_all();
        world.wait(Duration::from_millis(30));
        world.apply(pod(&format!("p{last}"), &format!("{last}")).at(last));
        assert_eq!(world.changes(), [""; 0], "more may come");
    }
    assert!(world.engine.next_wakeup(world.now).is_some_and(|due| due <= world.now + window.idle));
    world.wait(Duration::from_millis(45));
    assert_eq!(world.changes().len(), 1, "no longer than the window");
    assert_eq!(writes(&world), before + 1, "and all are noted in one write");
    world.answer_all();
    world.wait(Duration::from_secs(1));
    world.apply(pod("z", "z").at(99));
    assert_eq!(world.changes(), ["+blue 10.0.0.99:80"], "the group was idle again");
}
