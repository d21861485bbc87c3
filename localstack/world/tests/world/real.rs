//! Tests of a world with real nodes: its pods run, and after any end, nothing of it remains.
//!
//! They need root and packages. Without these, the tests print that to standard error and pass. If HEADGATE_REAL_NODES
//! is set, as in CI, they fail.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use localstack_nodes::requirements;
use localstack_world::Facts;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, eventually, text};

/// One node and no load balancers. The ends of a world do not depend on the number of nodes.
const SMALL: [&str; 4] = ["--nodes=real", "--zones=1", "--nodes-per-zone=1", "--without=elbv2"];

/// A pod that ignores SIGTERM, has a volume that the kubelet must mount, and calls the API.
const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
    "containers": [{"name": "web", "image": "headgate.local/web:1",
        "env": [{"name": "ON_SIGTERM", "value": "ignore"}, {"name": "POD_NAME", "value": "web"}]}]}}"#;

/// The files of this machine's own programs in the default folders of the nodes' programs.
#[derive(Debug, PartialEq, Eq)]
struct Host(BTreeSet<PathBuf>);

impl Host {
    fn look() -> Self {
        let folders =
            ["/run/netns", "/run/containerd", "/var/lib/cni", "/var/lib/kubelet", "/var/log/containers"];
        let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        Self(entries.map(|entry| entry.path()).collect())
    }
}

/// The state of this machine before the test, if real nodes are possible on it.
fn possible(test: &str) -> Option<Host> {
    requirements::check_for(test).unwrap().then(Host::look)
}

fn arguments<'a>(first: &'a [&'a str]) -> Vec<&'a str> {
    [first, &SMALL].concat()
}

/// Runs a command in the world's network, with the world's environment.
fn inside(bench: &Bench, name: &str, command: &[&str]) -> Command {
    let mut command = bench.world(&[&["exec", "--name", name, "--"], command].concat());
    // kubectl writes its own cache there.
    command.env("HOME", bench.world_folder(name));
    command
}

/// What must not remain. Recorded while the world runs.
struct Traces {
    facts: Facts,
    network: u64,
}

/// Runs a pod, and records what could remain.
fn with_a_pod(bench: &Bench, name: &str) -> Traces {
    let facts = bench.facts_when_ready(name);
    let object = bench.cache().join("pod.json");
    fs::write(&object, POD).unwrap();
    let created = inside(bench, name, &["kubectl", "apply", "-f", object.to_str().unwrap()]).output();
    fs::remove_file(&object).unwrap();
    assert!(created.as_ref().unwrap().status.success(), "{}", text(&created.unwrap()));
    let ready = ["kubectl", "wait", "pod/web", "--for=condition=Ready", "--timeout=60s"];
    let ready = inside(bench, name, &ready).output().unwrap();
    assert!(ready.status.success(), "{}", text(&ready));
    let network = fs::metadata(facts.network_namespace.as_ref().unwrap()).unwrap().ino();
    let traces = Traces { facts, network };
    assert!(traces.processes() > 5, "the supervisor, a control plane, a node and a pod");
    traces
}

impl Traces {
    /// The number of processes in the world's network or in one of its cgroups.
    fn processes(&self) -> usize {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours = processes.filter(|process| {
            let network = fs::metadata(process.join("ns/net")).is_ok_and(|file| file.ino() == self.network);
            let cgroups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
            network || cgroups.contains(&self.facts.cgroup)
        });
        ours.count()
    }

    fn assert_gone(&self, bench: &Bench, host: &Host) {
        eventually("no process is left", || self.processes() == 0);
        bench.assert_nothing_is_left(&self.facts);
        for hierarchy in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
            let Ok(folders) = fs::read_dir(hierarchy.path()) else { continue };
            let left = folders
                .flatten()
                .find(|folder| folder.file_name().to_string_lossy().starts_with(&self.facts.cgroup));
            assert!(left.is_none(), "{left:?}");
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(self.facts.folder.to_str().unwrap()), "{mounts}");
        assert_eq!(Host::look(), *host, "what was left where the programs of nodes leave things by default");
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn pods_of_real_nodes_are_reached_and_reach_the_api_and_down_leaves_nothing() {
    let Some(host) = possible("pods run, and down leaves nothing") else { return };
    let bench = Bench::new();
    let up = bench.run(&arguments(&["up"]));
    assert!(up.status.success(), "{}", text(&up));
    assert!(text(&up).contains("1 real nodes"), "{}", text(&up));
    let traces = with_a_pod(&bench, "default");

    let run = |command: &[&str]| {
        let output = inside(&bench, "default", command).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let ip = run(&["kubectl", "get", "pod", "web", "-o", "jsonpath={.status.podIP}"]);
    assert!(
        ip.starts_with("10.0.")
            && traces.facts.zones[0].cidr.contains(&ip.parse::<std::net::Ipv4Addr>().unwrap()),
        "{ip}"
    );
    let answer = run(&[
        "bash",
        "-c",
        &format!("exec 3<>/dev/tcp/{ip}/8080; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3"),
    ]);
    assert!(answer.contains(r#""pod":"web""#), "{answer}");
    assert!(run(&["kubectl", "logs", "web"]).contains("serving, on SIGTERM: ignore"));
    eventually("the API has an address inside", || {
        let answer =
            inside(&bench, "default", &["bash", "-c", "exec 3<>/dev/tcp/10.96.0.1/443"]).output().unwrap();
        answer.status.success()
    });

    let down = bench.run(&["down"]);
    assert!(down.status.success(), "{}", text(&down));
    assert_eq!(traces.processes(), 0, "down returns when all is over");
    traces.assert_gone(&bench, &host);
}

#[test]
fn ctrl_c_leaves_nothing_of_real_nodes() {
    let Some(host) = possible("Ctrl-C leaves nothing") else { return };
    let bench = Bench::new();
    let command = arguments(&["up", "--foreground", "--name=front"]);
    let mut foreground = bench.world(&command).stdout(Stdio::null()).spawn().unwrap();
    let traces = with_a_pod(&bench, "front");
    signal(&foreground, Signal::INT);
    assert!(foreground.wait().unwrap().success());
    traces.assert_gone(&bench, &host);
}

#[test]
fn killing_the_process_that_holds_a_world_leaves_nothing_of_real_nodes() {
    let Some(host) = possible("kill -9 of the parent leaves nothing") else { return };
    let bench = Bench::new();
    let command = arguments(&["hold", "--name=held"]);
    let mut holder = bench.world(&command).stdout(Stdio::null()).spawn().unwrap();
    let traces = with_a_pod(&bench, "held");
    holder.kill().unwrap();
    holder.wait().unwrap();
    traces.assert_gone(&bench, &host);
}

#[test]
fn killing_the_supervisor_ends_every_process_of_real_nodes_and_the_next_command_removes_the_rest() {
    let Some(host) = possible("kill -9 of the supervisor") else { return };
    let bench = Bench::new();
    let up = bench.run(&arguments(&["up", "--name=killed"]));
    assert!(up.status.success(), "{}", text(&up));
    let traces = with_a_pod(&bench, "killed");
    traces.facts.supervisor.kill();
    eventually("no process is left", || traces.processes() == 0);
    assert_eq!(bench.run(&["status", "--name=killed"]).status.code(), Some(3));
    traces.assert_gone(&bench, &host);
}
