//! `make zero-loss`: plays the table of departures under traffic, saves each cell in `target/zero-loss/report.json`,
//! and writes `docs/zero-loss.md` when the table is complete.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use headgate_harness::{
    kinds, pods,
    shared_world::{install_tls, runtime_within},
};
use headgate_zero_loss::{
    cell::Cell,
    page::{self, Circumstances},
    play::{Setting, play},
    report::Report,
    tables,
};
use localstack_nodes::requirements;
use localstack_world::{
    Facts, Nodes, Options, World,
    ingresses::{Image, Ingress},
};

const FOLDER: &str = "target/zero-loss";
const PAGE: &str = "docs/zero-loss.md";
const USAGE: &str = "zero-loss [--nodes real|simulated] [--only SCENARIO,INGRESS,PROFILE…] [--resume]";

struct Asked {
    /// All of the table on simulated nodes, or what it has on real ones; without: as it is.
    nodes: Option<Nodes>,
    only: String,
    resume: bool,
}

fn main() -> ExitCode {
    let asked = arguments(std::env::args().skip(1));
    let chosen = asked.and_then(|asked| Ok((chosen(&asked)?, asked)));
    let (cells, asked) = match chosen {
        Ok(chosen) => chosen,
        Err(wrong) => {
            eprintln!("zero-loss: {wrong}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    if cells.iter().any(|cell| cell.nodes == Nodes::Real)
        && let Err(missing) = requirements::check()
    {
        eprintln!(
            "zero-loss: {missing}\nwithout real nodes: --nodes simulated (make zero-loss NODES=simulated)"
        );
        return ExitCode::from(2);
    }
    install_tls();
    std::fs::create_dir_all(FOLDER).expect("target/zero-loss can be made");
    match run(&cells, asked.resume).and_then(|report| write_page(&report).map(|()| report)) {
        Ok(report) => verdict(&report, &cells),
        Err(error) => {
            eprintln!("zero-loss: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { nodes: None, only: String::new(), resume: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--resume" => asked.resume = true,
            "--only" => asked.only = words.next().ok_or("--only needs names")?,
            "--nodes" => {
                asked.nodes = match words.next().as_deref() {
                    Some("real") => Some(Nodes::Real),
                    Some("simulated") => Some(Nodes::Simulated),
                    _ => return Err("--nodes: expected real or simulated".into()),
                }
            }
            _ => return Err(format!("'{word}' is not known")),
        }
    }
    Ok(asked)
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

/// Plays the cells, those of each kind of nodes in a world of their own, one after another; both worlds at once. Saves
/// each when it is done.
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
    // From within a world's network nothing can be fetched any more.
    let mut images = Vec::new();
    for ingress in Ingress::ALL.into_iter().filter(|one| cells.iter().any(|cell| cell.ingress == Some(*one)))
    {
        images.push(outside.block_on(ingress.image(&|said| eprintln!("{said}")))?);
    }
    let name = format!("zero-loss-{}-{}", options.nodes, std::process::id()).parse()?;
    let world = outside.block_on(World::start(Options { name, ..options }))?;
    // A thread of its own: one that has entered a network never comes back.
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
        let shown = Report { rows: rows.clone() };
        eprint!("{}", tables::all(&shown));
        Report::add(&saved(), *cell, rows).expect("the report can be saved");
    }
}

/// Writes the page, if all of the table was played.
fn write_page(report: &Report) -> Result<(), Box<dyn std::error::Error>> {
    let table = Cell::table();
    if table.iter().all(|cell| report.has(*cell)) {
        std::fs::write(PAGE, page::page(&report.of(&table), &Circumstances::here()))?;
        println!("{PAGE} is written.");
    }
    Ok(())
}

fn verdict(report: &Report, cells: &[Cell]) -> ExitCode {
    let report = report.of(cells);
    println!("\n{}\nEvery row: {FOLDER}/report.json", tables::all(&report));
    let complaints = report.complaints();
    if complaints.is_empty() {
        println!(
            "Every promise was kept, every control lost requests, and what was too short was seen to be."
        );
        ExitCode::SUCCESS
    } else {
        println!("Failed:\n  {}", complaints.join("\n  "));
        ExitCode::FAILURE
    }
}
