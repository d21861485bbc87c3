//! `make fixtures`: stores objects with the program of an earlier commit, and keeps them in `tests/fixtures/COMMIT`.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::{path::Path, process::ExitCode};

use headgate_upgrade::{fixtures::Maker, versions::Version};
use localstack_world::{Options, World};

#[tokio::main]
async fn main() -> ExitCode {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the first TLS provider");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, from] = &arguments[..] else { return wrong("expected --from COMMIT") };
    if flag != "--from" {
        return wrong("expected --from COMMIT");
    }
    let version = match Version::build(from) {
        Ok(version) => version,
        Err(said) => return wrong(&said),
    };
    let name = format!("fixtures-{}", std::process::id()).parse().expect("a name");
    let world = World::start(Options { name, ..Options::default() }).await.expect("a world");
    let folder = Path::new("tests/fixtures").join(from);
    Maker::new(world.facts(), &version, &folder).await.make().await;
    world.shutdown().await.expect("the world ends");
    println!("{}", folder.display());
    ExitCode::SUCCESS
}

fn wrong(said: &str) -> ExitCode {
    eprintln!("fixtures: {said}");
    ExitCode::from(2)
}
