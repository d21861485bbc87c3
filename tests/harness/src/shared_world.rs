//! The local worlds that the tests of a run share. Each starts with the first test that needs it:
//!
//! - one with simulated nodes, in which several tests run at the same time, each in a separate namespace;
//! - two with simulated nodes for tests that disturb their local world (restart the API server, cut AWS off, drain
//!   nodes): one test at a time in each;
//! - one with real nodes, for the scenarios that run on both kinds.
//!
//! This module, not the number of test threads, decides how many tests run at the same time. So a waiting test does not
//! block others. `HEADGATE_TEST_TIMES=FILE` appends a line `SECONDS NAME` for each test, without its waiting time.

use std::{
    fs::OpenOptions,
    future::Future,
    io::Write,
    sync::{LazyLock, Once, OnceLock},
    time::Instant,
};

use localstack_nodes::requirements;
use localstack_world::{Nodes, Options, World};
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, Semaphore, SemaphorePermit},
};

use crate::{admission, kinds};

/// One runtime for all tests, because the local world and its connections outlive each test.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be made")
});

/// A local world with simulated nodes, and the number of tests that may run in it at the same time.
struct Shared {
    name: &'static str,
    world: OnceCell<World>,
    turns: Semaphore,
}

/// Tests mostly wait, so more tests than cores run at the same time.
static QUIET: Shared = Shared::new("e2e", 6);
/// Two worlds, so that a long test only blocks one of them.
static DISTURBED: [Shared; 2] = [Shared::new("e2e-disturbed", 1), Shared::new("e2e-disturbed-too", 1)];
/// Real nodes start containers slowly.
static REAL_TURNS: Semaphore = Semaphore::const_new(3);

impl Shared {
    const fn new(name: &'static str, at_once: usize) -> Self {
        Self { name, world: OnceCell::const_new(), turns: Semaphore::const_new(at_once) }
    }

    async fn world(&self) -> &World {
        self.world
            .get_or_init(|| async {
                // The local world of a run that has just ended may still be stopping.
                let name = format!("{}-{}", self.name, std::process::id()).parse().expect("a name");
                let options = Options { name, ..Options::default() };
                let world = match World::start(options).await {
                    Ok(world) => world,
                    Err(error) => panic!("the world did not start: {error}"),
                };
                kinds::install(world.facts()).await;
                admission::install(world.facts()).await;
                world
            })
            .await
    }

    async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("the semaphore is never closed")
    }

    /// Runs a test that may start now.
    async fn run<F: Future<Output = ()>>(
        &'static self,
        _turn: SemaphorePermit<'_>,
        test: impl FnOnce(&'static World) -> F,
    ) {
        let world = self.world().await;
        let _clock = Clock::start();
        test(world).await;
    }
}

/// Records the duration of this thread's test when it is dropped.
struct Clock {
    test: String,
    start: Instant,
}

impl Clock {
    fn start() -> Self {
        let test = std::thread::current().name().unwrap_or("unnamed").to_owned();
        Self { test, start: Instant::now() }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let Some(path) = std::env::var_os("HEADGATE_TEST_TIMES") else { return };
        let line = format!("{:.1} {}\n", self.start.elapsed().as_secs_f64(), self.test);
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            eprintln!("cannot write to HEADGATE_TEST_TIMES: {error}");
        }
    }
}

/// Installs the TLS provider of this process. May be called again.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// The local world with real nodes, and the runtime whose threads are in its network.
static REAL: OnceLock<(World, Runtime)> = OnceLock::new();

/// A runtime whose threads are in a local world's network namespace.
pub fn runtime_within(world: &World) -> Runtime {
    let facts = world.facts().clone();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(move || facts.enter_network().expect("a thread enters the world's network"))
        .build()
        .expect("a runtime can be made")
}

fn real_world() -> &'static (World, Runtime) {
    REAL.get_or_init(|| {
        let name = format!("e2e-real-{}", std::process::id()).parse().expect("a name");
        let started = RUNTIME.block_on(World::start(Options { name, ..Options::real() }));
        let world =
            started.unwrap_or_else(|error| panic!("the world with real nodes did not start: {error}"));
        let runtime = runtime_within(&world);
        (world, runtime)
    })
}

/// Runs a test on nodes of one kind, at the same time as other tests. If real nodes are impossible on this machine, it
/// prints that to standard error and skips the test, or fails if the environment promises real nodes (CI does).
pub fn on<F: Future<Output = ()>>(
    nodes: Nodes,
    name: &str,
    test: impl FnOnce(&'static World) -> F + Send + 'static,
) {
    if nodes == Nodes::Simulated {
        return beside_others(test);
    }
    match requirements::check_for(name) {
        Ok(true) => {}
        Ok(false) => return,
        Err(missing) => panic!("{missing}"),
    }
    install_tls();
    // A separate thread, because a thread cannot leave a network namespace.
    let thread = std::thread::Builder::new().name(std::thread::current().name().unwrap_or(name).to_owned());
    let body = move || {
        let _turn = RUNTIME.block_on(REAL_TURNS.acquire()).expect("the semaphore is never closed");
        let (world, runtime) = real_world();
        world.enter_network().expect("a thread enters the world's network");
        runtime.block_on(async {
            static READY: OnceCell<()> = OnceCell::const_new();
            READY
                .get_or_init(|| async {
                    kinds::install(world.facts()).await;
                    admission::install(world.facts()).await;
                })
                .await;
            let _clock = Clock::start();
            test(world).await;
        });
    };
    if let Err(panic) = thread.spawn(body).expect("a thread can be started").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Defines two tests of one scenario: `NAME::on_simulated_nodes` and `NAME::on_real_nodes`.
#[macro_export]
macro_rules! on_both_kinds_of_nodes {
    ($(async fn $name:ident($world:ident: World) $body:block)+) => {$(
        mod $name {
            use super::*;

            async fn scenario($world: &'static ::localstack_world::World) $body

            #[test]
            fn on_simulated_nodes() {
                let nodes = ::localstack_world::Nodes::Simulated;
                $crate::shared_world::on(nodes, stringify!($name), scenario);
            }

            #[test]
            fn on_real_nodes() {
                let nodes = ::localstack_world::Nodes::Real;
                $crate::shared_world::on(nodes, stringify!($name), scenario);
            }
        }
    )+};
}

/// Defines a test of a scenario that needs a real kubelet: `NAME::on_real_nodes`.
#[macro_export]
macro_rules! on_real_nodes {
    ($(async fn $name:ident($world:ident: World) $body:block)+) => {$(
        mod $name {
            use super::*;

            #[test]
            fn on_real_nodes() {
                async fn scenario($world: &'static ::localstack_world::World) $body
                let nodes = ::localstack_world::Nodes::Real;
                $crate::shared_world::on(nodes, stringify!($name), scenario);
            }
        }
    )+};
}

/// Runs a test in a shared world, at the same time as other tests.
pub fn beside_others<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    install_tls();
    RUNTIME.block_on(async { QUIET.run(QUIET.turn().await, test).await });
}

/// Runs a test that disturbs its local world, while no other test is in that local world.
pub fn alone<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    install_tls();
    RUNTIME.block_on(async {
        let [one, other] = &DISTURBED;
        let (shared, turn) = tokio::select! {
            biased;
            turn = one.turn() => (one, turn),
            turn = other.turn() => (other, turn),
        };
        shared.run(turn, test).await;
    });
}
