//! The worlds that all tests of a run share, and who may disturb them: one with simulated nodes, and one with
//! real nodes for the scenarios that run on both kinds.

use std::{
    future::Future,
    sync::{LazyLock, Once, OnceLock},
};

use localstack_nodes::requirements;
use localstack_world::{Nodes, Options, World};
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, RwLock},
};

use crate::{admission, kinds};

/// One runtime for all tests: the world and its connections outlive each of them.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime can be made")
});
static WORLD: OnceCell<World> = OnceCell::const_new();
/// Tests read it; those that restart components or cut AWS off write it, and run alone.
static QUIET: LazyLock<RwLock<()>> = LazyLock::new(|| RwLock::new(()));

async fn world() -> &'static World {
    WORLD
        .get_or_init(|| async {
            // The world of a run that has just ended may still be stopping.
            let name = format!("e2e-{}", std::process::id()).parse().expect("a name");
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

/// Lets this process speak TLS; may be called again.
pub fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// The world with real nodes, and the runtime whose threads are in its network.
static REAL: OnceLock<(World, Runtime)> = OnceLock::new();

/// A runtime whose threads are in a world's network.
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

/// Runs a test on nodes of one kind, beside others. A machine that cannot have real nodes says so on standard error,
/// and leaves the test out unless it was promised (CI does).
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
    // A thread of its own: one that has entered a network never comes back.
    let ended = std::thread::spawn(move || {
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
            test(world).await;
        });
    })
    .join();
    if let Err(panic) = ended {
        std::panic::resume_unwind(panic);
    }
}

/// Makes two tests of one scenario: `NAME::on_simulated_nodes` and `NAME::on_real_nodes`.
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

/// Runs a test beside others.
pub fn beside_others<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    install_tls();
    RUNTIME.block_on(async {
        let world = world().await;
        let _quiet = QUIET.read().await;
        test(world).await;
    });
}

/// Runs a test that disturbs the world, while no other runs.
pub fn alone<F: Future<Output = ()>>(test: impl FnOnce(&'static World) -> F) {
    install_tls();
    RUNTIME.block_on(async {
        let world = world().await;
        let _quiet = QUIET.write().await;
        test(world).await;
    });
}
