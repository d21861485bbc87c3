//! Tests that after any end of a world, nothing of it remains.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
};

use localstack_world::{Process, State, World};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, assert_nothing_runs, text};

const WITHOUT: &str = "--without=elbv2,kubelet";

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn down_leaves_nothing_and_may_be_said_twice() {
    let bench = Bench::new();
    let up = bench.run(&["up", WITHOUT]);
    assert!(up.status.success(), "{}", text(&up));
    assert!(text(&up).contains("world env)\""), "{}", text(&up));
    let facts = bench.facts_when_ready("default");
    assert!(facts.components.iter().all(|component| component.state == State::Running));

    let again = bench.run(&["up", WITHOUT]);
    assert!(again.status.success() && text(&again).contains("was up already"), "{}", text(&again));
    assert_eq!(bench.facts_when_ready("default").supervisor, facts.supervisor);

    let status = bench.run(&["status"]);
    assert_eq!(status.status.code(), Some(0), "{}", text(&status));
    let environment = text(&bench.run(&["env"]));
    assert!(environment.contains(&format!("KUBECONFIG='{}'", facts.kubeconfig.display())), "{environment}");

    let down = bench.run(&["down"]);
    assert!(down.status.success(), "{}", text(&down));
    // `down` returns when everything has ended, so the test need not wait.
    assert!(!facts.folder.exists() && !facts.supervisor.is_alive());
    bench.assert_nothing_is_left(&facts);

    assert_eq!(bench.run(&["status"]).status.code(), Some(3));
    assert_eq!(bench.run(&["env"]).status.code(), Some(3));
    let again = bench.run(&["down"]);
    assert!(again.status.success() && text(&again).contains("is not up"), "{}", text(&again));
}

#[test]
fn ctrl_c_in_the_foreground_leaves_nothing() {
    let bench = Bench::new();
    let mut foreground =
        bench.world(&["up", "--foreground", "--name=front", WITHOUT]).stdout(Stdio::null()).spawn().unwrap();
    let facts = bench.facts_when_ready("front");
    signal(&foreground, Signal::INT);
    assert!(foreground.wait().unwrap().success());
    bench.assert_nothing_is_left(&facts);
}

#[test]
fn ctrl_c_while_it_starts_leaves_nothing() {
    let bench = Bench::new();
    let mut foreground =
        bench.world(&["up", "--foreground", "--name=early", WITHOUT]).stdout(Stdio::null()).spawn().unwrap();
    crate::support::eventually("etcd has been started", || {
        let facts = localstack_world::Facts::read(&bench.world_folder("early"));
        facts.is_ok_and(|facts| facts.components[0].process.is_some())
    });
    signal(&foreground, Signal::INT);
    assert!(!foreground.wait().unwrap().success());
    assert!(!bench.world_folder("early").exists());
    bench.assert_nothing_is_outside_the_cache();
}

#[test]
fn killing_the_process_that_holds_a_world_leaves_nothing() {
    let bench = Bench::new();
    let mut holder = bench.world(&["hold", "--name=held", WITHOUT]).stdout(Stdio::piped()).spawn().unwrap();
    let mut folder = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut folder).unwrap();
    let facts = bench.facts_when_ready("held");
    assert_eq!(folder.trim_end(), facts.folder.to_str().unwrap());
    assert_ne!(facts.supervisor, Process::of(i32::try_from(holder.id()).unwrap()));
    holder.kill().unwrap();
    holder.wait().unwrap();
    bench.assert_nothing_is_left(&facts);
}

#[test]
fn killing_the_supervisor_leaves_no_process_and_the_next_command_removes_the_rest() {
    let bench = Bench::new();
    let up = bench.run(&["up", "--name=killed", WITHOUT]);
    assert!(up.status.success(), "{}", text(&up));
    let facts = bench.facts_when_ready("killed");
    facts.supervisor.kill();
    assert_nothing_runs(&facts);
    assert!(facts.folder.exists(), "who has removed it?");
    let status = bench.run(&["status", "--name=killed"]);
    assert_eq!(status.status.code(), Some(3), "{}", text(&status));
    bench.assert_nothing_is_left(&facts);
}

#[tokio::test]
async fn a_world_ends_with_the_value_that_stands_for_it() {
    let bench = Bench::take().await;
    let world = World::start(bench.start("dropped")).await.unwrap();
    let facts = world.facts().clone();
    drop(world);
    bench.assert_nothing_is_left(&facts);
}
