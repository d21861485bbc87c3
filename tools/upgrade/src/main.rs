//! `make upgrade`: from the program of an earlier commit to this one and back, one replica after the other, while pods are
//! created. Exit code 1 if a pod was missed or a target lost. `--manifests-first` is the control: it must miss pods.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::{process::ExitCode, time::Duration};

use headgate_upgrade::{
    report,
    stage::{Order, Stage},
    versions::Version,
};
use localstack_world::{Options, World};

/// A new leader waits for a minute before it has replicas that are called by a url called by the secret path.
const REST: Duration = Duration::from_secs(90);

#[tokio::main]
async fn main() -> ExitCode {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the first TLS provider");
    let (mut from, mut rest, mut order) = (None, REST, Order::Right);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let seconds = |text: Option<String>| text.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        match argument.as_str() {
            "--from" => from = arguments.next(),
            "--manifests-first" => order = Order::ManifestsFirst,
            "--rest" => rest = seconds(arguments.next()).unwrap_or(REST),
            _ => return wrong(&format!("{argument} is not known")),
        }
    }
    let Some(from) = from else { return wrong("a commit is missing") };
    let from = match Version::build(&from) {
        Ok(version) => version,
        Err(said) => return wrong(&said),
    };
    let to = Version::present();
    let name = format!("upgrade-{}", std::process::id()).parse().expect("a name");
    let world = World::start(Options { name, ..Options::default() }).await.expect("a world");
    let mut stage = Stage::new(world.facts(), &from, rest).await;
    stage.begin(&from).await;
    let (rows, removed) = stage.play(&from, &to, order).await;
    world.shutdown().await.expect("the world ends");
    println!("{}", report::table(&rows, &removed));
    if report::is_good(&rows, &removed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wrong(said: &str) -> ExitCode {
    eprintln!("upgrade: {said}; expected --from COMMIT [--rest SECONDS] [--manifests-first]");
    ExitCode::from(2)
}
