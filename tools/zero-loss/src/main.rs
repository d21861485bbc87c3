//! `make zero-loss`: plays the scenarios under traffic, and saves each cell in `target/zero-loss/report.json`. With
//! `--record` also in `docs/reference/zero-loss.csv`. `make chaos` (`--chaos`) plays faults during rollouts. Exit code
//! 1 if a request was lost that must not be.

#![allow(clippy::expect_used, clippy::unwrap_used)] // a failure ends the program with a message

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use headgate_harness::{
    kinds, pods, root,
    shared_world::{install_tls, runtime_within},
};
use headgate_zero_loss::{
    cell::Cell,
    chaos, data,
    play::{Setting, play},
    report::Report,
};
use localstack_nodes::requirements;
use localstack_world::{
    Facts, Nodes, Options, World,
    ingresses::{Image, Ingress},
};

const FOLDER: &str = "target/zero-loss";

/// Counts the requests that are lost when pods terminate.
#[derive(Parser)]
#[command(name = "zero-loss")]
struct Asked {
    /// All cells on simulated nodes, or only those on real ones [default: as the table has them]
    #[arg(long, value_enum)]
    nodes: Option<Nodes>,

    /// Only cells with these scenarios, ingresses, profiles, holds: comma-separated names
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMES")]
    only: String,

    /// Keep the cells that were played before
    #[arg(long)]
    resume: bool,

    /// Write the cells into the docs, in the place of what was there of them
    #[arg(long)]
    record: bool,

    /// Instead, play faults during rolls
    #[arg(long)]
    chaos: bool,

    /// How long --chaos takes
    #[arg(long, default_value_t = 30)]
    minutes: u64,

    /// The seed of the faults of --chaos
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Seconds that pods are held beyond the load balancer's delay with --chaos; 0: the control, which must lose
    #[arg(long, default_value_t = chaos::plan::MARGIN)]
    margin: u32,
}

fn main() -> ExitCode {
    let asked = Asked::parse();
    install_tls();
    let ended = if asked.chaos { play_chaos(&asked) } else { play_table(&asked) };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zero-loss: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play_chaos(asked: &Asked) -> Result<bool, Box<dyn std::error::Error>> {
    let Asked { minutes, seed, margin, .. } = *asked;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(chaos::run(chaos::Setting { minutes, seed, margin }))
}

fn play_table(asked: &Asked) -> Result<bool, Box<dyn std::error::Error>> {
    let cells = chosen(asked)?;
    if cells.iter().any(|cell| cell.nodes == Nodes::Real)
        && let Err(missing) = requirements::check()
    {
        return Err(format!("{missing}\nWithout real nodes: make zero-loss NODES=simulated").into());
    }
    std::fs::create_dir_all(FOLDER)?;
    let report = run(&cells, asked.resume)?;
    let report = report.of(&cells);
    if asked.record {
        data::record(root(), &report)?;
        println!("{} and {} are written.", data::DATA, data::PAGE);
    }
    println!("\n{}{}\nEvery row: {FOLDER}/report.json", data::csv(&report), data::how_sure(&report));
    let complaints = report.complaints();
    if complaints.is_empty() {
        println!(
            "Every promise was kept, every control lost requests, and what was too short was seen to be."
        );
    } else {
        println!("Failed:\n  {}", complaints.join("\n  "));
    }
    Ok(complaints.is_empty())
}

fn chosen(asked: &Asked) -> Result<Vec<Cell>, String> {
    let mut cells = Cell::chosen(&asked.only)?;
    match asked.nodes {
        Some(Nodes::Simulated) => {
            // They run no programs.
            cells.retain(|cell| cell.ingress.is_none());
            for cell in &mut cells {
                cell.nodes = Nodes::Simulated;
            }
        }
        Some(Nodes::Real) => cells.retain(|cell| cell.nodes == Nodes::Real),
        None => {}
    }
    Ok(cells)
}

fn saved() -> PathBuf {
    Path::new(FOLDER).join("report.json")
}

/// Plays the cells one after another, those of each kind of nodes in their own local world, with both worlds at once.
/// Saves each when it is done.
fn run(cells: &[Cell], resume: bool) -> Result<Report, Box<dyn std::error::Error>> {
    if !resume {
        Report::default().save(&saved())?;
    }
    let before = Report::read(&saved())?;
    let left: Vec<Cell> = cells.iter().copied().filter(|cell| !before.has(*cell)).collect();
    let (real, simulated): (Vec<Cell>, Vec<Cell>) =
        left.into_iter().partition(|cell| cell.nodes == Nodes::Real);
    let played = std::thread::scope(|scope| {
        let worlds = [(Options::real(), real), (Options { zones: 2, ..Options::default() }, simulated)];
        let worlds = worlds.map(|(options, cells)| {
            scope.spawn(move || run_in_a_world(options, &cells).map_err(|error| error.to_string()))
        });
        worlds.map(|world| world.join().unwrap_or_else(|_| Err("its thread has panicked".into())))
    });
    if let Some(failure) = played.into_iter().find_map(Result::err) {
        return Err(
            format!("a cell could not be played ({failure}); go on with RESUME=1 make zero-loss").into()
        );
    }
    Ok(Report::read(&saved())?)
}

fn run_in_a_world(options: Options, cells: &[Cell]) -> Result<(), Box<dyn std::error::Error>> {
    if cells.is_empty() {
        return Ok(());
    }
    let outside = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // From within a local world's network, nothing can be downloaded.
    let mut images = Vec::new();
    for ingress in Ingress::ALL.into_iter().filter(|one| cells.iter().any(|cell| cell.ingress == Some(*one)))
    {
        images.push(outside.block_on(ingress.image(&|said| eprintln!("{said}")))?);
    }
    let name = format!("zero-loss-{}-{}", options.nodes, std::process::id()).parse()?;
    let world = outside.block_on(World::start(Options { name, ..options }))?;
    // A separate thread: one that has entered a network never leaves it.
    let played = std::thread::scope(|scope| {
        let playing = scope.spawn(|| {
            world.enter_network().expect("a thread enters the world's network");
            runtime_within(&world).block_on(play_all(world.facts(), cells, &images));
        });
        playing.join().map_err(|_| "it has panicked")
    });
    outside.block_on(world.shutdown())?;
    Ok(played?)
}

async fn play_all(facts: &Facts, cells: &[Cell], images: &[Image]) {
    kinds::install(facts).await;
    for image in images {
        pods::load(facts, image).await;
    }
    for (at, cell) in cells.iter().enumerate() {
        eprintln!("{} of {} on {} nodes: {cell}", at + 1, cells.len(), cell.nodes);
        let name = format!("cell-{at}");
        let rows = play(facts, *cell, Setting::of(*cell), &name, Path::new(FOLDER)).await;
        eprint!("{}", data::csv(&Report { rows: rows.clone() }));
        Report::add(&saved(), *cell, rows).expect("the report can be saved");
    }
}
