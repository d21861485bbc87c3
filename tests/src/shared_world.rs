//! The one world that all tests of a run share, and who may disturb it.

use std::{
    future::Future,
    sync::{LazyLock, Once},
};

use localstack_world::{Options, World};
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, RwLock},
};

use crate::kinds;

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
            world
        })
        .await
}

fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
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
