//! `make bench`: prints one table and writes `target/bench/report.json`. `--quick` shows that it works, in a minute;
//! `--only quiet,burst` takes some of the measures.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::{path::Path, process::ExitCode};

use headgate_bench::{MEASURES, Size, measure, report};
use headgate_harness::kinds;
use localstack_world::{Component, Options, World};

/// What writes to the API server by itself: its time is not Headgate's.
const WITHOUT: [Component; 3] = [Component::Kubelet, Component::ControllerManager, Component::Scheduler];
const REPORT: &str = "target/bench/report.json";

#[tokio::main]
async fn main() -> ExitCode {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the first TLS provider");
    let (mut size, mut only) = (Size::full(), String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => size = Size::quick(),
            "--only" => only = arguments.next().unwrap_or_default(),
            _ => {
                eprintln!("bench: {argument} is not known; expected --quick, --only {}", MEASURES.join(","));
                return ExitCode::from(2);
            }
        }
    }
    let chosen = if only.is_empty() { MEASURES.to_vec() } else { only.split(',').collect() };
    let mut rows = Vec::new();
    for name in chosen {
        eprintln!("measuring: {name}");
        // A fresh world for each: none measures what another left behind.
        let world = format!("bench-{}", std::process::id()).parse().expect("a name");
        let options = match name {
            // The demo's world.
            "drain" => Options { name: world, zones: 3, nodes_per_zone: 2, ..Options::default() },
            _ => Options { name: world, without: WITHOUT.to_vec(), ..Options::default() },
        };
        let world = World::start(options).await.expect("a world");
        kinds::install(world.facts()).await;
        let measured = measure(name, world.facts(), &size).await;
        world.shutdown().await.expect("the world ends");
        match measured {
            Ok(measured) => {
                eprint!("{}", report::table(&measured));
                rows.extend(measured);
            }
            Err(said) => {
                eprintln!("bench: {said}");
                return ExitCode::from(2);
            }
        }
    }
    println!("{}", report::table(&rows));
    report::write(&rows, Path::new(REPORT)).expect("a folder target");
    println!("{REPORT}");
    ExitCode::SUCCESS
}
