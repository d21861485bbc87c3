//! Tests of the first start, which builds Kubernetes once, completely or not at all.
//!
//! The compiler is a script, because the real one takes minutes. Its output ends at once when it is run, so every start
//! fails, but only after the build.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use localstack_world::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, eventually, text};

const WITHOUT: &str = "--without=elbv2,kubelet";
const WORKS: &str = "printf '#!/bin/sh\\necho fake\\nexit 7\\n' > ../kubernetes; chmod +x ../kubernetes";

/// A cache without a build, and a `go` that records each of its starts and then acts as configured.
struct Fake {
    bench: Bench,
    cache: PathBuf,
    notes: PathBuf,
}

impl Fake {
    fn new(script: &str) -> Self {
        let bench = Bench::new();
        let (cache, bin) = (bench.cache().join("other"), bench.cache().join("fake"));
        fs::create_dir_all(&bin).unwrap();
        let notes = bench.cache().join("notes");
        let text = format!("#!/bin/sh\necho $$ >> {}\n{script}\n", notes.display());
        fs::write(bin.join("go"), text).unwrap();
        fs::set_permissions(bin.join("go"), fs::Permissions::from_mode(0o755)).unwrap();
        Self { bench, cache, notes }
    }

    fn up(&self, name: &str) -> Command {
        let path = format!("{}:/usr/bin:/bin", self.bench.cache().join("fake").display());
        let mut command = self.bench.world(&["up", "--foreground", &format!("--name={name}"), WITHOUT]);
        command.env("HEADGATE_CACHE", &self.cache).env("PATH", path).stderr(Stdio::piped());
        command
    }

    /// The contents of the builds folder, without its lock.
    fn builds(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.cache.join("kubernetes"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "build.lock")
            .collect();
        names.sort();
        names
    }

    fn starts_of_go(&self) -> usize {
        fs::read_to_string(&self.notes).unwrap_or_default().lines().count()
    }
}

#[test]
fn a_build_is_made_once_and_used_from_then_on() {
    let fake = Fake::new(WORKS);
    let first = text(&fake.up("a").output().unwrap());
    assert!(first.contains("Building Kubernetes v1.") && first.contains("Built Kubernetes v1."), "{first}");
    assert!(first.contains("etcd did not come up"), "{first}");
    let builds = fake.builds();
    assert_eq!(builds.len(), 2, "a build and its log: {builds:?}");
    let files = fs::read_dir(fake.cache.join("kubernetes").join(&builds[0])).unwrap().count();
    assert_eq!(files, 1, "the executable alone is kept");

    let second = text(&fake.up("a").output().unwrap());
    assert!(!second.contains("Building"), "{second}");
    assert_eq!(fake.starts_of_go(), 1);
}

#[test]
fn two_worlds_that_start_at_once_build_once() {
    let fake = Fake::new(&format!("sleep 0.3; {WORKS}"));
    let children = ["a", "b"].map(|name| fake.up(name).spawn().unwrap());
    let said = children.map(|child| text(&child.wait_with_output().unwrap()));
    assert!(said.iter().all(|said| said.contains("etcd did not come up")), "{said:?}");
    assert_eq!(fake.starts_of_go(), 1, "{said:?}");
}

#[test]
fn a_build_that_fails_is_shown_and_leaves_only_its_log() {
    let fake = Fake::new("echo no required module provides package; exit 1");
    let output = fake.up("a").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.contains("failed (exit status: 1)"), "{said}");
    assert!(said.contains("    no required module provides package"), "{said}");
    let builds = fake.builds();
    assert!(builds.len() == 1 && Path::new(&builds[0]).extension().is_some_and(|e| e == "log"), "{builds:?}");
    assert!(said.contains(&builds[0]), "{said}");
}

#[test]
fn a_build_that_is_interrupted_leaves_no_process_and_only_its_log() {
    let fake = Fake::new("exec sleep 1000");
    let mut foreground = fake.up("a").spawn().unwrap();
    eventually("the build has begun", || fake.starts_of_go() == 1);
    let go: i32 = fs::read_to_string(&fake.notes).unwrap().trim().parse().unwrap();
    let go = Process::of(go);
    let pid = Pid::from_raw(i32::try_from(foreground.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert!(!foreground.wait().unwrap().success());
    eventually("the compiler is gone", || !go.is_alive());
    let builds = fake.builds();
    assert!(builds.len() == 1 && Path::new(&builds[0]).extension().is_some_and(|e| e == "log"), "{builds:?}");
    assert!(!fake.cache.join("worlds/a").exists());
}
