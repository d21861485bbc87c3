//! `make zero-loss`: plays the table of departures under traffic, saves each cell in `target/zero-loss/report.json`,
//! and writes `docs/zero-loss.md` when the table is complete.

#![allow(clippy::expect_used, clippy::unwrap_used)] // whatever cannot go on says so and ends

use std::{path::Path, process::ExitCode};

use headgate_tests::{
    kinds,
    shared_world::{install_tls, runtime_within},
    zero_loss::{
        cell::Cell,
        page::{self, Circumstances},
        play::{Setting, play},
        report::Report,
    },
};
use localstack_nodes::requirements;
use localstack_world::{Facts, Nodes, Options, World};

const FOLDER: &str = "target/zero-loss";
const PAGE: &str = "docs/zero-loss.md";
const USAGE: &str = "zero-loss [--nodes real|simulated] [--only SCENARIO,PROFILE…] [--resume]";

struct Asked {
    nodes: Nodes,
    only: String,
    resume: bool,
}

fn main() -> ExitCode {
    let asked = arguments(std::env::args().skip(1));
    let chosen = asked.and_then(|asked| Ok((Cell::chosen(asked.nodes, &asked.only)?, asked)));
    let (cells, asked) = match chosen {
        Ok(chosen) => chosen,
        Err(wrong) => {
            eprintln!("zero-loss: {wrong}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    if asked.nodes == Nodes::Real
        && let Err(missing) = requirements::check()
    {
        eprintln!(
            "zero-loss: {missing}\nwithout real nodes: --nodes simulated (make zero-loss NODES=simulated)"
        );
        return ExitCode::from(2);
    }
    install_tls();
    std::fs::create_dir_all(FOLDER).expect("target/zero-loss can be made");
    match run(&cells, &asked).and_then(|report| write_page(&report).map(|()| report)) {
        Ok(report) => verdict(&report, &cells, &asked),
        Err(error) => {
            eprintln!("zero-loss: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked { nodes: Nodes::Real, only: String::new(), resume: false };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--resume" => asked.resume = true,
            "--only" => asked.only = words.next().ok_or("--only needs names")?,
            "--nodes" => {
                asked.nodes = match words.next().as_deref() {
                    Some("real") => Nodes::Real,
                    Some("simulated") => Nodes::Simulated,
                    _ => return Err("--nodes: expected real or simulated".into()),
                }
            }
            _ => return Err(format!("'{word}' is not known")),
        }
    }
    Ok(asked)
}

/// Plays the cells in one world, and saves each when it is done.
fn run(cells: &[Cell], asked: &Asked) -> Result<Report, Box<dyn std::error::Error>> {
    let path = Path::new(FOLDER).join("report.json");
    let mut report = if asked.resume { Report::read(&path)? } else { Report::default() };
    let left: Vec<Cell> = cells.iter().copied().filter(|cell| !report.has(*cell)).collect();
    if left.is_empty() {
        return Ok(report);
    }
    let outside = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = match asked.nodes {
        Nodes::Real => Options::real(),
        Nodes::Simulated => Options::default(),
    };
    let name = format!("zero-loss-{}", std::process::id()).parse()?;
    let world = outside.block_on(World::start(Options { name, ..options }))?;
    // A thread of its own: one that has entered a network never comes back.
    std::thread::scope(|scope| {
        let playing = scope.spawn(|| {
            world.enter_network().expect("a thread enters the world's network");
            let inside = runtime_within(&world);
            inside.block_on(play_all(world.facts(), &left, &mut report, &path));
        });
        playing.join().map_err(|_| "a cell could not be played; go on with RESUME=1 make zero-loss")
    })?;
    outside.block_on(world.shutdown())?;
    Ok(report)
}

async fn play_all(facts: &Facts, cells: &[Cell], report: &mut Report, path: &Path) {
    kinds::install(facts).await;
    for (at, cell) in cells.iter().enumerate() {
        eprintln!("{} of {}: {cell}", at + 1, cells.len());
        let name = format!("cell-{at}");
        let rows = play(facts, *cell, Setting::of(*cell), &name, Path::new(FOLDER)).await;
        let shown = Report { rows: rows.clone() };
        eprint!("{}", shown.table());
        report.take(*cell, rows);
        report.save(path).expect("the report can be saved");
    }
}

/// Writes the page, if all of the table was played on real nodes.
fn write_page(report: &Report) -> Result<(), Box<dyn std::error::Error>> {
    if Cell::all(Nodes::Real).into_iter().all(|cell| report.has(cell)) {
        let all = [Cell::all(Nodes::Real), Cell::all(Nodes::Simulated)].concat();
        std::fs::write(PAGE, page::page(&report.of(&all), &Circumstances::here()))?;
        println!("{PAGE} is written.");
    }
    Ok(())
}

fn verdict(report: &Report, cells: &[Cell], asked: &Asked) -> ExitCode {
    let report = report.of(cells);
    println!("\n{}\nEvery row: {FOLDER}/report.json", report.table());
    let complaints = report.complaints();
    if complaints.is_empty() {
        println!(
            "On {} nodes every promise was kept, every control lost requests, and what was too short was seen to be.",
            asked.nodes
        );
        ExitCode::SUCCESS
    } else {
        println!("Failed:\n  {}", complaints.join("\n  "));
        ExitCode::FAILURE
    }
}
