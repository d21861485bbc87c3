//! `make demo`: shows that a rollout can drop no request, and why it usually drops some.
//!
//! The pods of `careful` get gate and hold from Headgate's webhook, those of `plain` do not. `--profile NAME`
//! (`PROFILE=NAME make demo`) uses another profile of the stand-in than `typical-nlb`, and the hold follows its delay.

#![allow(clippy::expect_used)] // a failure ends the program with a message

use std::{path::Path, process::ExitCode, time::Duration};

use clap::Parser;
use headgate_demo::{
    play::{Phase, Script, play, start, usual},
    report::{Demands, Report, Verdict},
    stage::{Care, bound_of_profile},
};
use headgate_harness::{aws::Aws, kinds, shared_world::install_tls};
use localstack_world::{Options, World, WorldName};

/// Shows a rollout under traffic that loses no request, and the same without Headgate's gate and hold.
#[derive(Parser)]
#[command(name = "demo")]
struct Arguments {
    /// The profile of the load balancer: typical-nlb, slow-nlb, worst or instant
    #[arg(long, default_value = "typical-nlb", value_name = "NAME")]
    profile: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { profile } = Arguments::parse();
    install_tls();
    let keep = std::env::var("KEEP").is_ok_and(|keep| keep == "1");
    let folder = Path::new("target/demo");
    std::fs::create_dir_all(folder).expect("target/demo can be made");

    let name: WorldName = "demo".parse().expect("a name");
    let options = Options { name, zones: 3, nodes_per_zone: 2, ..Options::default() };
    eprintln!(
        "Starting a world: Kubernetes, 6 nodes in 3 zones, a Network Load Balancer that lags like AWS's."
    );
    let world = match World::start(options).await {
        Ok(world) => world,
        Err(error) => {
            eprintln!("demo: {error}");
            return ExitCode::FAILURE;
        }
    };
    let facts = world.facts().clone();
    kinds::install(&facts).await;
    let bound = bound_of_profile(&Aws::new(&facts).await, &profile).await;
    let (headgate, _) = start(&facts, &["careful", "plain"], "demo", bound).await;
    let script =
        |name, number, care, later| Script { name, number, care, later, mine: "demo", phases: &Phase::ALL };
    let careful = script("careful", 1, Care::covering(bound, facts.time_scale), usual(&Phase::ALL));
    let plain = script("plain", 2, Care::None, Duration::ZERO);
    let report = Report {
        careful: play(&facts, &headgate, careful).await,
        plain: play(&facts, &headgate, plain).await,
    };
    let demands = Demands {
        offered: 10_000,
        pods_replaced: 12,
        lag_bound_ms: bound * facts.time_scale * 1000.0,
        plain_loss: 0.005,
    };
    let json = serde_json::to_string_pretty(&report).expect("a report is plain data");
    std::fs::write(folder.join("report.json"), json + "\n").expect("the report can be written");
    std::fs::write(folder.join("headgate.log"), headgate.text()).expect("the log can be written");

    println!("\n{}", report.table());
    println!("Details, with each lost request explained: target/demo/report.json");
    let verdict = report.verdict(demands);
    match &verdict {
        Verdict::Pass => {
            println!("Passed: with gate and hold nothing was lost; without, what the table says.");
        }
        Verdict::Fail(why) => println!("Failed:\n  {}", why.join("\n  ")),
        Verdict::Invalid(why) => println!("Invalid, neither passed nor failed:\n  {}", why.join("\n  ")),
    }
    let ended = if keep {
        println!(
            "The world stays up: eval \"$(target/debug/world env --name demo)\"; target/debug/world down --name demo"
        );
        world.detach().await.map(|_| ())
    } else {
        world.shutdown().await
    };
    if let Err(error) = ended {
        eprintln!("demo: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::from(verdict.exit_code())
}
