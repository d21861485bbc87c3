//! `make e2e KUBERNETES=1.34`: the end-to-end tests on a minor of Kubernetes. Exit code 1 if a test failed or was not
//! reached.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Parser;
use headgate_minors::{
    choice,
    results::Seen,
    run::{self, Outcome, Run},
};
use localstack_world::Minor;

/// Runs the end-to-end tests on a minor of Kubernetes.
#[derive(Parser)]
#[command(name = "minors")]
struct Arguments {
    /// The minor of Kubernetes
    #[arg(long, value_enum, value_name = "MINOR")]
    kubernetes: Minor,

    /// Run only tests whose names contain this, and write no result
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// After how many minutes the tests are cut off, and no result is written
    #[arg(long, default_value_t = 90)]
    minutes: u64,

    /// The program of the tests, such as a copy of it with all programs beside [default: built now]
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match play(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(arguments: &Arguments) -> io::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    let minor = arguments.kubernetes;
    let program = match &arguments.tests {
        Some(program) => program.clone(),
        None => run::build(root)?,
    };
    build_kubernetes(&program, minor)?;
    let (chosen, left_out) = choice::choose(&run::list(&program)?, arguments.only.as_deref());
    if chosen.is_empty() {
        let only = arguments.only.as_deref().unwrap_or_default();
        return Err(io::Error::other(format!("no test that would be run has {only:?} in its name")));
    }
    let commit = commit(root);
    println!(
        "{} tests on Kubernetes {}, for {} minutes at most",
        chosen.len(),
        minor.version(),
        arguments.minutes
    );
    let deadline = run::within(arguments.minutes);
    let first = run::run(&program, minor, &chosen, None, deadline)?;
    if let Some(missing) = missing(&first, &chosen) {
        eprintln!("{missing}");
        return Ok(false);
    }
    let again = failed(&first);
    let second = if again.is_empty() {
        Run::default()
    } else {
        println!("\n{} tests failed; each is run again, alone", again.len());
        run::run(&program, minor, &again, Some(1), deadline)?
    };
    if let Some(missing) = missing(&second, &again) {
        eprintln!("{missing}");
        return Ok(false);
    }
    let failed = failed(&second);
    let at_second_try: Vec<String> = again.into_iter().filter(|test| !failed.contains(test)).collect();
    let seen = Seen {
        minor,
        version: minor.version().to_owned(),
        headgate: commit,
        passed: chosen.len() - failed.len(),
        at_second_try,
        failed,
        left_out,
    };
    println!("\nKubernetes {}: {} passed, {} failed", seen.version, seen.passed, seen.failed.len());
    for test in &seen.failed {
        println!("failed twice: {test}");
    }
    for test in &seen.at_second_try {
        println!("passed only when run again, alone: {test}");
    }
    if arguments.only.is_none() {
        println!("Written: {}; `make docs` makes the table of it.", seen.write(root)?.display());
    }
    Ok(seen.is_good())
}

/// Builds the Kubernetes of a minor, if it never was: its time is not that of the tests.
fn build_kubernetes(tests: &Path, minor: Minor) -> io::Result<()> {
    let beside = |folder: &Path| folder.join("world");
    let world =
        tests.ancestors().skip(1).take(2).map(beside).find(|program| program.is_file()).ok_or_else(|| {
            io::Error::other(format!("the program `world` is not beside {}", tests.display()))
        })?;
    let status = Command::new(world).args(["kubernetes", "--kubernetes", minor.name()]).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("Kubernetes {minor} cannot be built")))
    }
}

fn failed(run: &Run) -> Vec<String> {
    let failed = run.outcomes.iter().filter(|(_, outcome)| **outcome == Outcome::Failed);
    failed.map(|(test, _)| test.clone()).collect()
}

/// Why a run cannot count, if tests of it did not come to their end.
fn missing(run: &Run, tests: &[String]) -> Option<String> {
    let missing: Vec<&str> =
        tests.iter().filter(|test| !run.outcomes.contains_key(*test)).map(String::as_str).collect();
    let why = if run.cut_off { "the time was over" } else { "the program of the tests ended" };
    (!missing.is_empty()).then(|| {
        format!(
            "{why} before {} of {} tests had ended, so there is no result; give more time with MINUTES. Among them: {}",
            missing.len(),
            tests.len(),
            missing.iter().take(10).copied().collect::<Vec<_>>().join(", ")
        )
    })
}

/// The commit of Headgate, with a `+` if files were changed since.
fn commit(root: &Path) -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=7", "HEAD"]) else { return "unknown".to_owned() };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|files| !files.is_empty());
    if changed { commit + "+" } else { commit }
}
