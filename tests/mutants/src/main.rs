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
const USAGE: &str = "mutants [--minutes 120] [--only FILE] [--no-simulation]";

struct Asked {
    minutes: u64,
    /// Only mutants whose names begin so.
    only: String,
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
    let mut asked = Asked { minutes: 120, only: String::new(), simulation: true };
    while let Some(flag) = given.next() {
        let mut value = || given.next().with_context(|| format!("{flag} needs a value"));
        match &*flag {
            "--minutes" => asked.minutes = value()?.parse().context("--minutes takes a number")?,
            "--only" => asked.only = value()?,
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
    let mut results = Results::load(&folder.join("results.json"), &copy.fingerprint());
    let known = |results: &Results, wanted: Option<Outcome>| -> Vec<usize> {
        let of = |mutant: &list::Mutant| results.outcomes.get(&mutant.name).copied();
        (1..).zip(&mutants).filter(|(_, mutant)| of(mutant) == wanted).map(|(id, _)| id).collect()
    };

    let mut without: BTreeSet<usize> = known(&results, Some(Outcome::NotBuilt)).into_iter().collect();
    copy.mutate(&mutants, &mut without)?;
    for id in &without {
        results.outcomes.insert(mutants[id - 1].name.clone(), Outcome::NotBuilt);
    }
    results.save()?;
    let start = Instant::now();
    let program = copy.build()?;
    println!("built in {} s", start.elapsed().as_secs());

    let mut is_done = true;
    for (stage, wanted) in [(UNITS, None), (SIMULATION, Some(Outcome::Missed))] {
        if wanted.is_some() && !asked.simulation {
            is_done = false;
            continue;
        }
        let due: Vec<(usize, &str)> = known(&results, wanted)
            .into_iter()
            .map(|id| (id, &*mutants[id - 1].name))
            .filter(|(_, name)| name.starts_with(&asked.only))
            .collect();
        is_done &= stage.run(&program, &due, &mut results, end)?;
    }

    println!("\n{}", report::table(&mutants, &results.outcomes));
    let survivors = report::survivors(&mutants, &results.outcomes);
    let list: String =
        survivors.iter().map(|mutant| format!("- `{}` :{}\n", mutant.name, mutant.line)).collect();
    fs::write(folder.join("survivors.md"), list)?;
    println!("{} survivors: {FOLDER}/survivors.md", survivors.len());
    if is_done && asked.only.is_empty() {
        let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
        let names = survivors.iter().map(|mutant| &*mutant.name).collect();
        let (new, gone) = report::differences(&page, &names);
        for (what, names) in [("not on", new), ("caught, and still on", gone)] {
            println!("{what} {PAGE}: {}", names.len());
            names.iter().for_each(|name| println!("- `{name}`"));
        }
    } else {
        println!("Not all was run. The same command goes on.");
    }
    Ok(())
}
