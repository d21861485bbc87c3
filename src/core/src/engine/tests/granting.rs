//! Tests of grants, and of the owner of a target group without a grant.

use std::collections::BTreeSet;

use super::*;
use crate::model::{
    grant::{GrantFacts, GroupPattern},
    policy::OWNERSHIP,
    settings::Granting,
};

/// How long targets remain after their namespace may no longer bind their group.
const STAY: Duration = Duration::from_secs(600);
const SHORTER: Duration = Duration::from_secs(599);
const HOUR: Duration = Duration::from_secs(3600);

fn grant(group: &str, namespaces: &[&str]) -> GrantFacts {
    GrantFacts {
        name: format!("grant-{group}").into(),
        groups: vec![GroupPattern::parse(group).unwrap()],
        namespaces: namespaces.iter().map(|name| Arc::from(*name)).collect(),
        exclusive: false,
    }
}

/// A Service `web` in this namespace that binds its pods to `blue`.
fn bind(namespace: &str) -> ServiceBuilder {
    web().of(namespace)
}

fn settings(required: bool) -> Settings {
    let grants = if required { Granting::Required } else { Granting::Optional };
    Settings { grants, ..cluster_wide() }
}

fn granted(world: &mut World, all: Vec<GrantFacts>) {
    world.step(Input::Grants { all, seen: world.now });
    world.answer_all();
}

/// Creates a leader with this state, and answers all requests.
fn world(
    required: bool,
    grants: Vec<GrantFacts>,
    services: Vec<ServiceBuilder>,
    pods: Vec<PodBuilder>,
) -> World {
    let mut world = World::with(settings(required));
    world.step(Input::Grants { all: grants, seen: world.now });
    world.relist_services(services);
    world.relist_pods(pods);
    world.answer_all();
    // After a delay, Headgate records in the ledger that AWS has accepted the targets.
    world.wait(Duration::from_secs(10));
    world.answer_all();
    world
}

/// The content of the ledger of `blue`.
fn ledger(world: &World) -> (BTreeSet<Target>, Vec<&str>) {
    let Some((_, packed)) = world.ledgers.get(&object_name(&arn("blue"))) else { return Default::default() };
    let targets = world.claims("blue").into_keys().collect();
    (targets, packed.content.namespaces.iter().map(|name| &**name).collect())
}

/// Creates a new leader with the ledgers of `before`.
fn taken_over(
    before: &World,
    required: bool,
    grants: Vec<GrantFacts>,
    services: Vec<ServiceBuilder>,
    pods: Vec<PodBuilder>,
) -> World {
    let mut world = World::standby(settings(required));
    world.ledgers = before.ledgers.clone();
    world.step(Input::Grants { all: grants, seen: world.now });
    world.relist_written(vec![]);
    world.relist_services(services);
    world.relist_pods(pods);
    world.answer_all();
    world.step(Input::Leadership(Leadership::Leading { term: 1, is_settled: true }));
    // What was not worth a look-up before the ledgers were read.
    let (look_ups, rest) = std::mem::take(&mut world.open)
        .into_iter()
        .partition(|(_, call)| matches!(call, Call::FindGroups { .. }));
    world.open = look_ups;
    world.answer_all();
    world.open.extend::<Vec<_>>(rest);
    world
}

/// Answers the open `DescribeTargetHealth` calls with these healthy targets.
fn show(world: &mut World, there: &[u8]) {
    let (reads, rest) = std::mem::take(&mut world.open)
        .into_iter()
        .partition(|(_, call)| matches!(call, Call::ReadHealth { .. }));
    world.open = rest;
    for (id, _) in reads {
        let states = there.iter().map(|last| (target(*last, 80), HealthState::Healthy.into())).collect();
        world.step(Input::Answered { id, result: Ok(Answer::Health(states)) });
    }
}

fn says(world: &World, reason: Reason) -> Vec<&str> {
    let said = world.notices.iter().filter(|notice| notice.reason == reason);
    said.map(|notice| &*notice.note).collect()
}

#[test]
fn nothing_is_sent_before_the_grants_are_known() {
    let mut world = World::with(settings(false));
    world.relist_services(vec![bind("a")]);
    world.relist_pods(vec![pod("p", "1").of("a").at(1)]);
    world.answer_all();
    assert!(!world.engine.is_synced());
    assert_eq!(ledger(&world).0.len(), 0);
    granted(&mut world, vec![]);
    assert_eq!(ledger(&world), (BTreeSet::from([target(1, 80)]), vec!["a"]));
}

#[test]
fn a_group_that_no_grant_names_is_the_first_namespace_s_that_had_a_target_there() {
    let mut world = world(false, vec![], vec![bind("a")], vec![pod("p", "1").of("a").at(1)]);
    world.annotate(bind("b"));
    world.apply(pod("q", "2").of("b").at(2));
    world.apply(pod("r", "3").of("a").at(3));
    assert_eq!(world.changes(), ["+blue 10.0.0.3:80"]);
    world.answer_all();
    assert_eq!(ledger(&world), (BTreeSet::from([target(1, 80), target(3, 80)]), vec!["a"]));
    let said = says(&world, Reason::NotGranted);
    assert!(said.len() == 1 && said[0].contains("bound first by namespace a"), "{said:?}");
}

#[test]
fn a_binding_without_a_target_holds_nothing() {
    let mut world = world(false, vec![], vec![bind("b")], vec![]);
    world.annotate(bind("a"));
    world.apply(pod("p", "1").of("a").at(1));
    world.apply(pod("q", "2").of("b").at(2));
    assert_eq!(world.changes(), ["+blue 10.0.0.1:80"]);
}

#[test]
fn of_two_namespaces_that_are_listed_with_their_pods_one_alone_gets_the_group() {
    let pods = vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    let mut world = world(false, vec![], vec![bind("a"), bind("b")], pods);
    world.wait(Duration::from_secs(60));
    let (targets, holders) = ledger(&world);
    assert_eq!((targets.len(), holders.len()), (1, 1));
}

#[test]
fn another_leader_knows_who_holds_the_group() {
    let first = world(false, vec![], vec![bind("b")], vec![pod("q", "2").of("b").at(2)]);
    let pods = || vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    let mut next = taken_over(&first, false, vec![], vec![bind("a"), bind("b")], pods());
    assert_eq!(next.changes(), [""; 0]);
    next.answer_all();
    assert_eq!(ledger(&next), (BTreeSet::from([target(2, 80)]), vec!["b"]));
    assert_eq!(says(&next, Reason::NotGranted).len(), 1);
}

#[test]
fn an_hour_without_a_binding_ends_it_and_not_a_second_less() {
    let mut world = world(false, vec![], vec![bind("a")], vec![pod("p", "1").of("a").at(1)]);
    world.annotate(service("web").of("a").port("http", 80));
    world.answer_all();
    world.annotate(bind("b"));
    world.apply(pod("q", "2").of("b").at(2));
    world.answer_all();
    for _ in 0..59 {
        world.wait(Duration::from_secs(60));
        world.answer_all();
    }
    assert!(!ledger(&world).0.contains(&target(2, 80)));
    world.wait(Duration::from_secs(60));
    world.answer_all();
    world.wait(Duration::from_secs(1));
    world.answer_all();
    assert_eq!(ledger(&world).1, vec!["b"]);
    assert!(ledger(&world).0.contains(&target(2, 80)));
}

#[test]
fn a_ledger_is_kept_as_long_as_it_says_who_holds_the_group() {
    let mut world = world(false, vec![], vec![bind("a")], vec![pod("p", "1").of("a").at(1)]);
    world.annotate(service("web").of("a").port("http", 80));
    for _ in 0..58 {
        world.answer_all();
        world.wait(Duration::from_secs(60));
    }
    assert_eq!(ledger(&world), (BTreeSet::new(), vec!["a"]));
    for _ in 0..10 {
        world.wait(Duration::from_secs(60));
        world.answer_all();
    }
    assert!(world.ledgers.is_empty());
}

#[test]
fn grants_say_who_may_bind_whoever_was_first() {
    let both = || vec![grant("blue", &["a", "b"])];
    let pods = || vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    for required in [false, true] {
        let mut both = world(required, both(), vec![bind("a"), bind("b")], pods());
        both.answer_all();
        assert_eq!(ledger(&both), (BTreeSet::from([target(1, 80), target(2, 80)]), vec!["a", "b"]));
        let other = world(required, vec![grant("bl*", &["b"])], vec![bind("a"), bind("b")], pods());
        assert_eq!(ledger(&other), (BTreeSet::from([target(2, 80)]), vec!["b"]));
        let said = says(&other, Reason::NotGranted);
        assert!(said.len() == 1 && said[0].contains("TargetGroupGrant grant-bl*"), "{said:?}");
    }
}

#[test]
fn with_required_grants_nothing_is_bound_without_one() {
    let world = world(true, vec![grant("green", &["a"])], vec![bind("a")], vec![pod("p", "1").of("a").at(1)]);
    assert_eq!(ledger(&world).0.len(), 0);
    assert!(says(&world, Reason::NotGranted)[0].contains("--grants=required"));
}

#[test]
fn what_was_registered_stays_for_a_while_when_a_grant_is_taken_away_and_nothing_is_added() {
    let pods = || vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    let mut world = world(false, vec![grant("blue", &["a", "b"])], vec![bind("a"), bind("b")], pods());
    granted(&mut world, vec![grant("blue", &["a"])]);
    world.apply(pod("r", "3").of("b").at(3));
    world.wait(SHORTER);
    assert_eq!(world.changes(), [""; 0]);
    let said = says(&world, Reason::NotGranted);
    assert!(said.len() == 1 && said[0].contains("Targets remain for 10 min"), "{said:?}");
    // A terminating pod is still deregistered immediately. A grant restores all targets.
    world.apply(pod("q", "2").of("b").at(2).terminating());
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
    world.answer_all();
    granted(&mut world, vec![grant("blue", &["a", "b"])]);
    world.wait(Duration::from_secs(2 * 600));
    world.answer_all();
    let (targets, _) = ledger(&world);
    assert!(targets.contains(&target(1, 80)) && targets.contains(&target(3, 80)), "{targets:?}");
}

#[test]
fn what_is_not_granted_goes_when_its_time_is_over() {
    let pods = || vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    let mut world = world(false, vec![grant("blue", &["a", "b"])], vec![bind("a"), bind("b")], pods());
    granted(&mut world, vec![grant("blue", &["a"])]);
    world.wait(STAY);
    assert_eq!(world.changes(), ["-blue 10.0.0.2:80"]);
    assert_eq!(world.causes(), [Cause::NotGranted]);
}

#[test]
fn another_leader_takes_nothing_out_at_once_either() {
    let pods = || vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2), pod("r", "3").of("b").at(3)];
    let first = world(
        false,
        vec![grant("blue", &["a", "b"])],
        vec![bind("a"), bind("b")],
        pods().into_iter().take(2).collect(),
    );
    for (required, grants) in [(false, vec![grant("blue", &["a"])]), (true, vec![])] {
        let mut next = taken_over(&first, required, grants, vec![bind("a"), bind("b")], pods());
        show(&mut next, &[1, 2]);
        next.wait(SHORTER);
        assert_eq!(next.changes(), [""; 0], "{required}");
        show(&mut next, &[1, 2]);
        next.wait(Duration::from_secs(1));
        let removed = if required { "-blue 10.0.0.1:80 10.0.0.2:80" } else { "-blue 10.0.0.2:80" };
        assert_eq!(next.changes(), [removed], "{required}");
    }
}

#[test]
fn namespaces_that_had_a_group_together_keep_it_without_their_grant_and_are_told_what_to_grant() {
    let pods = || vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    let before = world(false, vec![grant("blue", &["a", "b"])], vec![bind("a"), bind("b")], pods());
    let services = || vec![bind("a"), bind("b"), bind("c")];
    let more = vec![pod("r", "3").of("b").at(3), pod("s", "4").of("c").at(4)];
    let mut after = taken_over(&before, false, vec![], services(), pods().into_iter().chain(more).collect());
    assert_eq!(after.changes(), ["+blue 10.0.0.3:80"]);
    after.answer_all();
    after.wait(2 * HOUR);
    assert_eq!(after.changes(), [""; 0]);
    assert_eq!(ledger(&after).1, ["a", "b"]);
    assert_eq!(says(&after, Reason::NoGrant).len(), 2, "both are told");
    assert_eq!(says(&after, Reason::NotGranted).len(), 1, "and c is refused");
}

#[test]
fn exclusive_needs_a_grant_that_allows_it() {
    let allowed = GrantFacts { exclusive: true, ..grant("blue", &["a"]) };
    for (grants, gone) in [(vec![], false), (vec![grant("blue", &["a"])], false), (vec![allowed], true)] {
        let service = bind("a").with(OWNERSHIP, "exclusive");
        let mut world = world(false, grants, vec![service], vec![pod("p", "1").of("a").at(1)]);
        world.wait(Duration::from_secs(60));
        show(&mut world, &[1, 99]);
        let expected: Vec<String> = gone.then(|| "-blue 10.0.0.99:80".to_owned()).into_iter().collect();
        assert_eq!(world.changes(), expected);
        assert_eq!(says(&world, Reason::ExclusiveNotGranted).is_empty(), gone);
    }
}

#[test]
fn a_standby_refuses_nothing_and_says_nothing() {
    let pods = vec![pod("p", "1").of("a").at(1), pod("q", "2").of("b").at(2)];
    let mut world = World::standby(settings(false));
    world.step(Input::Grants { all: vec![], seen: world.now });
    world.relist_written(vec![]);
    world.relist_services(vec![bind("a"), bind("b")]);
    world.relist_pods(pods);
    world.answer_all();
    assert_eq!(world.said(), []);
    assert_eq!(world.engine.known.index.bindings().all().count(), 2);
}
