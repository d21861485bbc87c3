//! `make upgrade`: from the program of an earlier commit to this one and back, one replica after the other, while pods
//! are created. The file `from` names the commit. Exit code 1 if a pod was missed or a target lost. `--together` is the
//! control, which must miss pods.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a failure ends the program with a message

use std::{process::ExitCode, time::Duration};

use clap::Parser;
use headgate_harness::shared_world::install_tls;
use headgate_upgrade::{
    report,
    stage::{Order, Stage},
    versions::Version,
};
use localstack_world::{Options, World};

/// The default first commit: the newest release, once there is one.
const FROM: &str = include_str!("../from");
/// The seconds after a step in which errors may show.
const REST: u64 = 30;

/// Upgrades and downgrades Headgate in a local world.
#[derive(Parser)]
#[command(name = "upgrade")]
struct Arguments {
    /// The commit to begin with
    #[arg(long, default_value = FROM.trim(), value_name = "COMMIT")]
    from: String,
    /// Replace both replicas at once: the control, which must miss pods
    #[arg(long)]
    together: bool,
    /// Seconds between two steps
    #[arg(long, default_value_t = REST, value_name = "SECONDS")]
    rest: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { from, together, rest } = Arguments::parse();
    install_tls();
    let order = if together { Order::Together } else { Order::Right };
    let from = match Version::build(&from) {
        Ok(version) => version,
        Err(said) => {
            eprintln!("upgrade: {said}");
            return ExitCode::from(2);
        }
    };
    let to = Version::present();
    let name = format!("upgrade-{}", std::process::id()).parse().expect("a name");
    let world = World::start(Options { name, ..Options::default() }).await.expect("a world");
    let mut stage = Stage::new(world.facts(), &from, Duration::from_secs(rest)).await;
    stage.begin(&from).await;
    let (rows, removed) = stage.play(&from, &to, order).await;
    world.shutdown().await.expect("the world ends");
    println!("{}", report::table(&rows, &removed));
    if report::is_good(&rows, &removed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
