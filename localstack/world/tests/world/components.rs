//! Tests of single components of a running world.

use std::process::Output;

use localstack_world::{Component, State, World};

use crate::support::{Bench, eventually, kubectl, text};

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_control_plane_survives_the_loss_of_its_parts_with_all_data() {
    let bench = Bench::take().await;
    let world = World::start(bench.start("parts")).await.unwrap();
    let facts = world.facts().clone();
    let home = facts.folder.clone();
    let run = |arguments: &[&str]| succeeded(kubectl(&facts, &home, arguments));

    // A program can run as a ServiceAccount with the permissions of a Role.
    run(&["create", "serviceaccount", "reader"]);
    run(&["create", "role", "reader", "--verb=list", "--resource=pods"]);
    run(&["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader"]);
    let token = run(&["create", "token", "reader"]);
    let as_reader = |what: &str| {
        let server = format!("--server={}", facts.api_server);
        let token = format!("--token={}", token.trim());
        let authority = format!("--certificate-authority={}", home.join("pki/ca.crt").display());
        let no_kubeconfig = ["--kubeconfig=/dev/null", &server, &token, &authority, "get", what];
        kubectl(&facts, &home, &no_kubeconfig)
    };
    succeeded(as_reader("pods"));
    let refused = as_reader("secrets");
    assert!(text(&refused).contains("system:serviceaccount:default:reader"), "{}", text(&refused));

    // The API server is restarted: same address, same data, same tokens.
    let before = state(&world, Component::ApiServer).await;
    world.restart_component(Component::ApiServer).await.unwrap();
    let after = state(&world, Component::ApiServer).await;
    assert_ne!(before.process, after.process);
    assert_eq!((before.address, after.state), (after.address, State::Running));
    succeeded(as_reader("pods"));

    // etcd is killed: everything that the API server had acknowledged is still there.
    world.kill_component(Component::Etcd).await.unwrap();
    assert_eq!(state(&world, Component::Etcd).await.state, State::Stopped);
    world.start_component(Component::Etcd).await.unwrap();
    eventually("the API server has its database again", || as_reader("pods").status.success());

    // An end without a request is reported as a failure, and the component can be started again.
    state(&world, Component::Scheduler).await.process.unwrap().kill();
    let failed = loop {
        let scheduler = state(&world, Component::Scheduler).await;
        if scheduler.state == State::Failed {
            break scheduler;
        }
    };
    assert!(failed.ended.unwrap().contains("SIGKILL"));
    let log = std::fs::read_to_string(facts.logs.join("world.log")).unwrap();
    assert!(log.contains("ended by itself"), "{log}");
    assert_eq!(bench.run(&["status", "--name=parts"]).status.code(), Some(4));
    world.start_component(Component::Scheduler).await.unwrap();
    assert_eq!(bench.run(&["status", "--name=parts"]).status.code(), Some(0));

    let error = world.start_component(Component::Scheduler).await.unwrap_err().to_string();
    assert!(error.contains("runs already"), "{error}");
    let error = world.restart_component(Component::Elbv2).await.unwrap_err().to_string();
    assert!(error.contains("started without elbv2"), "{error}");

    world.shutdown().await.unwrap();
    assert!(!facts.folder.exists(), "shutdown returns when everything is gone");
}

async fn state(world: &World, component: Component) -> localstack_world::ComponentFacts {
    let facts = world.status().await.unwrap();
    facts.components.into_iter().find(|facts| facts.name == component).unwrap()
}

#[tokio::test]
async fn two_worlds_live_side_by_side_and_a_third_of_the_same_name_does_not() {
    let bench = Bench::take().await;
    let one = World::start(bench.start("one")).await.unwrap();
    let two = World::start(bench.start("two")).await.unwrap();
    assert_ne!(one.facts().slot, two.facts().slot);
    assert_ne!(one.facts().zones[0].cidr, two.facts().zones[0].cidr);
    let error = World::start(bench.start("one")).await.unwrap_err().to_string();
    assert!(error.contains("world one is up already"), "{error}");
    one.shutdown().await.unwrap();
    assert_eq!(state(&two, Component::ApiServer).await.state, State::Running);
    two.shutdown().await.unwrap();
}
