//! What is said about pods that do not exist yet.

use super::*;
use crate::model::{
    Labels, LoadBalancerType, NamedPort, Protocol,
    injection::{Known, Match},
    policy::HOLD,
};

fn ask(world: &World, app: &str, ports: &[NamedPort]) -> Known {
    world.engine.would_bind(NAMESPACE, &Labels::from_iter([("app", app)]), ports)
}

fn blue(port: Option<u16>, hold: u32) -> Known {
    Known::Bound(vec![Match { group: "blue".into(), port, balancer: LoadBalancerType::Network, hold }])
}

#[test]
fn every_binding_that_selects_the_pod_is_said_with_the_port_and_the_hold() {
    let world = World::new(vec![web()], vec![]);
    assert_eq!(ask(&world, "web", &[]), blue(Some(80), 150));
    assert_eq!(ask(&world, "api", &[]), Known::Bound(vec![]));
    assert_eq!(
        world.engine.would_bind("other", &Labels::from_iter([("app", "web")]), &[]),
        Known::Bound(vec![])
    );
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
