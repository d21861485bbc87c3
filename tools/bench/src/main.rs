//! `make bench`: prints one table and writes `target/bench/report.json`. `--quick` checks in a minute that the measures work.
//! `--only quiet,burst` runs some of the measures. `killed` and `held` need real nodes, and only run if you name them.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a failure ends the program with a message

use std::{path::Path, process::ExitCode};

use clap::{Parser, builder::PossibleValuesParser};
use headgate_bench::{MEASURES, ON_REAL_NODES, Size, held, killed, measure, report, report::Row};
use headgate_harness::{
    kinds,
    shared_world::{install_tls, runtime_within},
};
use localstack_world::{Component, Options, World};

/// The components that write to the API server on their own. Their time is not Headgate's.
const WITHOUT: [Component; 3] = [Component::Kubelet, Component::ControllerManager, Component::Scheduler];
const REPORT: &str = "target/bench/report.json";

/// Measures the speed and size of Headgate and of the floor, a minimal program for comparison.
#[derive(Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Run each measure briefly, in a minute in all, to check that it works
    #[arg(long)]
    quick: bool,
    /// Run these measures, separated by commas [default: all except those on real nodes]
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new([&MEASURES[..], &ON_REAL_NODES].concat()))]
    only: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { quick, only } = Arguments::parse();
    install_tls();
    let size = if quick { Size::quick() } else { Size::full() };
    let chosen: Vec<&str> =
        if only.is_empty() { MEASURES.to_vec() } else { only.iter().map(String::as_str).collect() };
    let mut rows = Vec::new();
    for name in chosen {
        eprintln!("measuring: {name}");
        // A fresh world for each, so that no measure sees leftovers of another.
        let world = format!("bench-{}", std::process::id()).parse().expect("a name");
        let options = match name {
            // The same world as the demo.
            "drain" => Options { name: world, zones: 3, nodes_per_zone: 2, ..Options::default() },
            // A local world with the pace of real kubelets: the time of pods is realistic.
            "sets" => Options {
                name: world,
                zones: 5,
                nodes_per_zone: size.nodes_per_zone,
                time_scale: 1.0,
                ..Options::default()
            },
            name if ON_REAL_NODES.contains(&name) => Options { name: world, ..Options::real() },
            _ => Options { name: world, without: WITHOUT.to_vec(), ..Options::default() },
        };
        let world = World::start(options).await.expect("a world");
        if ON_REAL_NODES.contains(&name) {
            let measured = on_real_nodes(name, world, size.clone());
            eprint!("{}", report::table(&measured));
            rows.extend(measured);
            continue;
        }
        kinds::install(world.facts()).await;
        let measured = measure(name, world.facts(), &size).await;
        world.shutdown().await.expect("the world ends");
        eprint!("{}", report::table(&measured));
        rows.extend(measured);
    }
    println!("{}", report::table(&rows));
    report::write(&rows, Path::new(REPORT)).expect("a folder target");
    println!("{REPORT}");
    ExitCode::SUCCESS
}

/// The simulated world ends with this program, because its threads cannot leave the network namespace.
fn on_real_nodes(name: &str, world: World, size: Size) -> Vec<Row> {
    let is_held = name == "held";
    let world: &'static World = Box::leak(Box::new(world));
    let measuring = std::thread::spawn(move || {
        let runtime = runtime_within(world);
        world.enter_network().expect("a thread enters the world's network");
        runtime.block_on(async {
            kinds::install(world.facts()).await;
            if is_held { held::measure(world, &size).await } else { killed::measure(world, &size).await }
        })
    });
    measuring.join().expect("the measure ends")
}
