//! Tests of the answers about pods that do not exist yet.

use super::*;
use crate::model::{
    Labels, LoadBalancerType, NamedPort, Protocol,
    injection::{Known, Match},
    policy::HOLD,
};

fn would_bind(world: &World, namespace: &str, labels: &[(&str, &str)], ports: &[NamedPort]) -> Known {
    world.engine.would_bind(namespace, &labels.iter().copied().collect(), ports, world.now)
}

fn ask(world: &World, app: &str, ports: &[NamedPort]) -> Known {
    would_bind(world, NAMESPACE, &[("app", app)], ports)
}

fn blue(port: Option<u16>, hold: u32) -> Known {
    let about =
        Some(About::Service(ObjectKey::new(NAMESPACE, "web"), crate::model::object::Uid::new("svc-web")));
    Known::Bound(vec![Match { group: "blue".into(), port, about, balancer: LoadBalancerType::Network, hold }])
}

#[test]
fn every_binding_that_selects_the_pod_is_said_with_the_port_and_the_hold() {
    let world = World::new(vec![web()], vec![]);
    assert_eq!(ask(&world, "web", &[]), blue(Some(80), 150));
    assert_eq!(ask(&world, "api", &[]), Known::Bound(vec![]));
    assert_eq!(would_bind(&world, "other", &[("app", "web")], &[]), Known::Bound(vec![]));
    let held = World::new(vec![web().with(HOLD, "40s")], vec![]);
    assert_eq!(ask(&held, "web", &[]), blue(Some(80), 40));
}

#[test]
fn a_named_port_is_the_pods_own() {
    let world = World::new(vec![service("web").annotated("blue").port_named("http", 80, "web")], vec![]);
    let port = NamedPort { name: "web".into(), port: 8080, protocol: Protocol::Tcp };
    assert_eq!(ask(&world, "web", &[port]), blue(Some(8080), 150));
    assert_eq!(ask(&world, "web", &[]), blue(None, 150));
}

#[test]
fn before_everything_was_seen_nothing_is_known_but_that_the_namespace_is_looked_after() {
    assert_eq!(ask(&World::unsynced(), "web", &[]), Known::Unknown { served: true });
    let selected =
        Settings { scopes: vec![Scope::Cluster], namespaces_are_selected: true, ..Settings::default() };
    assert_eq!(ask(&World::fresh(selected), "web", &[]), Known::Unknown { served: false });
}

#[test]
fn a_namespace_that_is_not_looked_after_is_said_to_be_so() {
    let elsewhere = Settings { scopes: vec![Scope::Namespace("other".into())], ..Settings::default() };
    assert_eq!(ask(&World::fresh(elsewhere), "web", &[]), Known::NotServed);
    let settings =
        Settings { scopes: vec![Scope::Cluster], namespaces_are_selected: true, ..Settings::default() };
    let mut world = World::fresh(settings);
    world.relist_services(vec![web()]);
    world.relist_written(vec![]);
    world.relist_pods(vec![]);
    let select = |names: &[&str]| Input::Namespace {
        change: Change::Relisted(Scope::Cluster, names.iter().map(|name| (*name).into()).collect()),
        seen: Moment::START,
    };
    world.step(select(&["other"]));
    assert_eq!(ask(&world, "web", &[]), Known::NotServed);
    world.step(select(&[NAMESPACE]));
    world.answer_all();
    assert_eq!(ask(&world, "web", &[]), blue(Some(80), 150));
}

const SETTLED: Duration = Duration::from_secs(30);
const ALMOST: Duration = Duration::from_millis(29_999);
const MOMENT: Duration = Duration::from_millis(1);

fn db() -> PodBuilder {
    pod("db-0", "u-db").labelled("db").at(9)
}

#[test]
fn bindings_that_stay_exclude_the_pods_of_a_workload_that_has_been_there_unbound() {
    let mut world = World::new(vec![web()], vec![db(), pod("web", "u-1").at(1)]);
    let api = || Known::Bound(vec![]);
    world.wait(ALMOST);
    assert_eq!(ask(&world, "db", &[]), api());
    world.wait(MOMENT);
    assert_eq!(ask(&world, "db", &[]), Known::Excluded);
    assert_eq!(ask(&world, "web", &[]), blue(Some(80), 150));
    assert_eq!(ask(&world, "api", &[]), api(), "its Service may be about to come");
    assert_eq!(would_bind(&world, "other", &[("app", "db")], &[]), api(), "nothing is bound there yet");
    // The only pod of the workload is replaced.
    world.delete(db());
    world.wait(SETTLED);
    assert_eq!(ask(&world, "db", &[]), Known::Excluded);
    // The Service `api` starts to bind pods.
    world.annotate(service("api").port("http", 81).annotated("green").selector(&[("app", "api")]));
    world.answer_all();
    world.wait(ALMOST);
    assert_eq!(ask(&world, "db", &[]), api());
    world.wait(MOMENT);
    assert_eq!(ask(&world, "db", &[]), Known::Excluded);
}

#[test]
fn a_workload_that_was_bound_is_never_excluded_though_nothing_selects_its_next_version() {
    let revision = "rollouts-pod-template-hash";
    let selects = |version| web().selector(&[("app", "web"), (revision, version)]);
    let pod = |name, version| {
        let mut pod = pod(name, &format!("u-{name}")).at(1).build();
        pod.labels = Labels::from_iter([("app", "web"), (revision, version)]);
        pod
    };
    let mut world = World::new(vec![selects("1")], vec![]);
    world.pod(Change::Applied(pod("old", "1")));
    world.wait(2 * SETTLED);
    let next = [("app", "web"), (revision, "2")];
    assert_eq!(would_bind(&world, NAMESPACE, &next, &[]), Known::Bound(vec![]));
    world.pod(Change::Deleted(pod("old", "1")));
    world.wait(SETTLED);
    assert_eq!(would_bind(&world, NAMESPACE, &next, &[]), Known::Bound(vec![]));
}

#[test]
fn a_service_that_cannot_be_followed_yet_excludes_none_that_it_selects() {
    let broken = service("db").port("http", 80).annotated("x=y=z").selector(&[("app", "db")]);
    let world = {
        let mut world = World::new(vec![web(), broken], vec![db()]);
        world.wait(2 * SETTLED);
        world
    };
    assert_eq!(ask(&world, "db", &[]), Known::Bound(vec![]));
}
