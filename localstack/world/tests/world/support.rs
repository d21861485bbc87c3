//! A cache for one test, and checks that nothing of a world remains.

use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use localstack_world::{Component, Facts, Options, Start, cache::Cache};
use tokio::sync::{Mutex, MutexGuard};

/// How long anything may take. Only reached if something is broken.
const PATIENCE: Duration = Duration::from_secs(120);

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// A folder that contains a cache, so that the test sees files outside of the cache.
pub struct Bench {
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// Waits until no other test runs a world. For asynchronous tests, see [`Self::take`].
    pub fn new() -> Self {
        Self::with(ONE_AT_A_TIME.blocking_lock())
    }

    /// Waits until no other test runs a world.
    pub async fn take() -> Self {
        Self::with(ONE_AT_A_TIME.lock().await)
    }

    fn with(turn: MutexGuard<'static, ()>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("headgate-world-test-{}-{number}", std::process::id()));
        for part in ["cache", "work", "tmp"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let builds = Cache::from_environment().unwrap().kubernetes();
        fs::create_dir_all(&builds).unwrap();
        std::os::unix::fs::symlink(builds, folder.join("cache/kubernetes")).unwrap();
        let images = Cache::from_environment().unwrap().images();
        fs::create_dir_all(&images).unwrap();
        std::os::unix::fs::symlink(images, folder.join("cache/images")).unwrap();
        Self { folder, _turn: turn }
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// The `world` program with this bench's cache, working folder and temporary folder.
    pub fn world(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_world"));
        command
            .args(arguments)
            .env("HEADGATE_CACHE", self.cache())
            .env("TMPDIR", self.folder.join("tmp"))
            .env_remove("KUBEBUILDER_ASSETS")
            .current_dir(self.folder.join("work"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.world(arguments).output().unwrap()
    }

    /// How to start a control plane with the library.
    pub fn start(&self, name: &str) -> Start {
        let options = Options {
            name: name.parse().unwrap(),
            without: vec![Component::Elbv2, Component::Kubelet],
            ..Options::default()
        };
        Start {
            options,
            cache: Some(self.cache()),
            program: Some(PathBuf::from(env!("CARGO_BIN_EXE_world"))),
            ..Start::default()
        }
    }

    pub fn world_folder(&self, name: &str) -> PathBuf {
        self.cache().join("worlds").join(name)
    }

    /// The facts of a world, after it is ready.
    pub fn facts_when_ready(&self, name: &str) -> Facts {
        let folder = self.world_folder(name);
        let ready = || Facts::read(&folder).ok().filter(|facts| facts.ready);
        eventually("the world is ready", || ready().is_some());
        ready().unwrap()
    }

    /// Checks that nothing of the world runs, listens, or is in the cache, and that nothing was written outside it.
    pub fn assert_nothing_is_left(&self, facts: &Facts) {
        assert_nothing_runs(facts);
        eventually("the folder is gone", || !facts.folder.exists());
        assert!(!self.cache().join("failed").exists(), "nothing has failed, yet logs were kept");
        self.assert_nothing_is_outside_the_cache();
    }

    pub fn assert_nothing_is_outside_the_cache(&self) {
        for part in ["work", "tmp"] {
            let left: Vec<_> = fs::read_dir(self.folder.join(part)).unwrap().collect();
            assert!(left.is_empty(), "{left:?}");
        }
        let parts = fs::read_dir(&self.folder).unwrap().count();
        assert_eq!(parts, 3, "something is beside the cache");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A failed test may have left a world, which must not outlive the test.
        if let Ok(worlds) = fs::read_dir(self.cache().join("worlds")) {
            for world in worlds.flatten() {
                let name = world.file_name().to_string_lossy().into_owned();
                let _ = self.world(&["down", "--name", &name]).output();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Checks that neither the supervisor nor a component runs, and that nothing listens on their addresses.
pub fn assert_nothing_runs(facts: &Facts) {
    let mut processes = vec![facts.supervisor];
    processes.extend(facts.components.iter().filter_map(|component| component.process));
    assert_eq!(processes.len(), facts.components.len() + 1, "every component has had a process");
    eventually("every process is gone", || processes.iter().all(|process| !process.is_alive()));
    if facts.network_namespace.is_some() {
        // Its addresses only existed in a network that has been removed.
        return;
    }
    for component in &facts.components {
        let refused = TcpStream::connect(&component.address).is_err();
        assert!(refused, "{} still answers at {}", component.name, component.address);
    }
}

/// Waits for a condition.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not in {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The output of a command, for a message.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the world's own kubectl as its administrator.
pub fn kubectl(facts: &Facts, home: &Path, arguments: &[&str]) -> Output {
    Command::new(&facts.kubectl)
        .args(arguments)
        .env("KUBECONFIG", &facts.kubeconfig)
        // kubectl writes its own cache there.
        .env("HOME", home)
        .output()
        .unwrap()
}
