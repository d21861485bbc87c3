//! `make mutants`: tests the tests of the core. cargo-mutants lists what could be wrong in it; all of that goes into one
//! program, which is built once, and each mutant is switched on in a run of its own. Built one by one, 3,000 mutants would
//! take a day.
//!
//! ```text
//!  list     what could be wrong
//!  rewrite  puts all mutants of a file into it, with a switch at each
//!  build    the copy of the core, without what does not compile
//!  run      the tests against each mutant: unit tests first, the simulation for what they miss
//!  report   numbers and survivors, and where docs/mutation-testing.md says otherwise
//! ```

mod build;
mod list;
mod report;
mod rewrite;
mod run;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{
    build::Copy,
    run::{Outcome, Results, SIMULATION, UNITS},
};

const FOLDER: &str = "target/mutants";
const PAGE: &str = "docs/mutation-testing.md";
const USAGE: &str = "mutants [--minutes 120] [--only FILE] [--keep] [--no-simulation]";

struct Asked {
    minutes: u64,
    /// Only mutants whose names begin so.
    only: String,
    /// What was caught stays so, though the sources are others now: for who writes tests against survivors.
    keep: bool,
    simulation: bool,
}

fn main() -> ExitCode {
    let asked = match arguments(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(wrong) => {
            eprintln!("mutants: {wrong}\nusage: {USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutants: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut given: impl Iterator<Item = String>) -> anyhow::Result<Asked> {
    let mut asked = Asked { minutes: 120, only: String::new(), keep: false, simulation: true };
    while let Some(flag) = given.next() {
        let mut value = || given.next().with_context(|| format!("{flag} needs a value"));
        match &*flag {
            "--minutes" => asked.minutes = value()?.parse().context("--minutes takes a number")?,
            "--only" => asked.only = value()?,
            "--keep" => asked.keep = true,
            "--no-simulation" => asked.simulation = false,
            _ => bail!("{flag} is not known"),
        }
    }
    Ok(asked)
}

fn run(asked: &Asked) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(asked.minutes * 60);
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("this is two folders deep")?;
    let folder = root.join(FOLDER);
    let mutants = list::list(root)?;
    println!("{} mutants", mutants.len());
    let copy = Copy::make(root, &folder.join("copy"))?;
    let mut results = Results::load(&folder.join("results.json"), &copy.fingerprint(), asked.keep);
    results.outcomes.retain(|name, _| mutants.iter().any(|mutant| mutant.name == *name));
    let numbered = || (1..).zip(&mutants).filter(|(_, mutant)| mutant.name.starts_with(&asked.only));

    let is_known = |id: &usize| results.of(&mutants[id - 1].name) == Some(Outcome::NotBuilt);
    let mut without: BTreeSet<usize> = (1..=mutants.len()).filter(is_known).collect();
    copy.mutate(&mutants, &mut without)?;
    for id in without {
        results.outcomes.insert(mutants[id - 1].name.clone(), Outcome::NotBuilt);
    }
    results.save()?;
    let mut is_done = true;
    let stages = [UNITS, SIMULATION];
    for stage in stages.iter().take(if asked.simulation { 2 } else { 1 }) {
        let is_due = |mutant: &list::Mutant| stage.is_due(results.of(&mutant.name));
        let due: Vec<(usize, &str)> =
            numbered().filter(|(_, mutant)| is_due(mutant)).map(|(id, mutant)| (id, &*mutant.name)).collect();
        let start = Instant::now();
        let program = copy.build(stage.tests)?;
        println!("{}: built in {} s", stage.name, start.elapsed().as_secs());
        is_done &= stage.run(&program, &due, &mut results, end)?;
    }

    println!("\n{}", report::table(&mutants, &results.outcomes));
    let survivors = report::survivors(&mutants, &results.outcomes);
    let list: Vec<String> =
        survivors.iter().map(|mutant| format!("- `{}` :{}", mutant.name, mutant.line)).collect();
    fs::write(folder.join("survivors.md"), list.join("\n") + "\n")?;
    println!("{} survivors: {FOLDER}/survivors.md", survivors.len());
    if is_done && asked.simulation && asked.only.is_empty() {
        let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
        let names = survivors.iter().map(|mutant| &*mutant.name).collect();
        let (new, gone) = report::differences(&page, &names);
        for (what, names) in [("not on", new), ("caught, and still on", gone)] {
            println!("{what} {PAGE}: {}", names.len());
            for name in names {
                println!("- `{name}`");
            }
        }
    } else {
        println!("Not all was run. The same command goes on.");
    }
    Ok(())
}
