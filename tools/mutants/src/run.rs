//! Runs the tests against one mutant after another, and keeps what came of it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// How many worlds are played against each mutant.
const WORLDS: &str = "800";
/// How many values each property is held against.
const CASES: &str = "32";
/// What a mutated program may use of memory, in KiB: some go on for ever.
const MEMORY: u32 = 4 << 20;
/// Times the seconds of processor time that it may use, for one that waits for what never comes.
const IDLE: u64 = 10;
/// What ends a program that has used its processor time.
const SIGNALS_OF_TIME: [i32; 2] = [9, 24];

/// What came of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// It cannot be built, or not into one program with the others.
    NotBuilt,
    /// A unit test failed.
    Caught,
    /// The unit tests did not end.
    CaughtByTimeout,
    /// The unit tests passed; the simulation was not run yet.
    Missed,
    /// The simulation failed, or did not end.
    CaughtBySimulation,
    /// Everything passed.
    Survived,
    /// Everything passed, with sources that were others.
    SurvivedBefore,
    /// The unit tests of such sources passed, and the simulation was not run.
    MissedBefore,
}

/// What is known so far; a file holds it, so that a run can go on later.
#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    /// Of which sources; of others it says nothing.
    pub fingerprint: String,
    /// By the names of the mutants.
    pub outcomes: BTreeMap<String, Outcome>,
    #[serde(skip)]
    path: PathBuf,
}

impl Results {
    /// What the file says of these sources. If `keep`, also what it says of others; what was not caught in those is run
    /// against the unit tests again, which may be more now.
    pub fn load(path: &Path, fingerprint: &str, keep: bool) -> Self {
        let read = fs::read(path).ok().and_then(|json| serde_json::from_slice::<Self>(&json).ok());
        let is_same = |results: &Self| results.fingerprint == fingerprint;
        let mut results = read.filter(|results| keep || is_same(results)).unwrap_or_default();
        if !is_same(&results) {
            results.outcomes.retain(|_, outcome| *outcome != Outcome::NotBuilt);
            for outcome in results.outcomes.values_mut() {
                match outcome {
                    Outcome::Survived => *outcome = Outcome::SurvivedBefore,
                    Outcome::Missed => *outcome = Outcome::MissedBefore,
                    _ => {}
                }
            }
        }
        fingerprint.clone_into(&mut results.fingerprint);
        path.clone_into(&mut results.path);
        results
    }

    /// What came of the mutant of this name.
    pub fn of(&self, name: &str) -> Option<Outcome> {
        self.outcomes.get(name).copied()
    }

    fn put(&mut self, name: &str, outcome: Outcome) {
        // The simulation would pass as it did.
        let again = outcome == Outcome::Missed && self.of(name) == Some(Outcome::SurvivedBefore);
        self.outcomes.insert(name.to_owned(), if again { Outcome::Survived } else { outcome });
    }

    /// Writes the file.
    pub fn save(&self) -> anyhow::Result<()> {
        let next = self.path.with_extension("next");
        fs::write(&next, serde_json::to_vec_pretty(self)?).context("the results could not be written")?;
        fs::rename(&next, &self.path).context("the results could not be written")
    }
}

/// Some of the tests.
pub struct Stage {
    /// Their name.
    pub name: &'static str,
    /// By what cargo knows them.
    pub tests: &'static [&'static str],
    workers: usize,
    /// Seconds of processor time, so that it does not matter what else runs: some 20 times what the tests need.
    patience: u64,
    failed: Outcome,
    timeout: Outcome,
    passed: Outcome,
}

/// The tests that take milliseconds, two mutants at a time.
pub const UNITS: Stage = Stage {
    name: "unit tests",
    tests: &["-p", "headgate-core", "--lib"],
    workers: 2,
    patience: 10,
    failed: Outcome::Caught,
    timeout: Outcome::CaughtByTimeout,
    passed: Outcome::Missed,
};

/// The simulated worlds, which take all cores.
pub const SIMULATION: Stage = Stage {
    name: "simulation",
    tests: &["-p", "headgate-simulation", "--test", "worlds"],
    workers: 1,
    patience: 150,
    failed: Outcome::CaughtBySimulation,
    timeout: Outcome::CaughtBySimulation,
    passed: Outcome::Survived,
};

impl Stage {
    /// Whether a mutant of which this is known is to be run.
    pub fn is_due(&self, known: Option<Outcome>) -> bool {
        let units = [None, Some(Outcome::SurvivedBefore), Some(Outcome::MissedBefore)];
        if self.passed == Outcome::Missed { units.contains(&known) } else { known == Some(Outcome::Missed) }
    }

    /// Runs these mutants, each with its number, until all is done or the time is over. Whether all is.
    pub fn run(
        &self,
        program: &Path,
        due: &[(usize, &str)],
        results: &mut Results,
        end: Instant,
    ) -> anyhow::Result<bool> {
        if due.is_empty() {
            return Ok(true);
        }
        let start = Instant::now();
        let sound = self.try_one(program, 0)?;
        if sound != self.passed {
            bail!("the {} fail without any mutant", self.name);
        }
        println!("{}: {} mutants, {:.1} s each at most", self.name, due.len(), start.elapsed().as_secs_f64());
        let (next, shared) = (AtomicUsize::new(0), Mutex::new((&mut *results, Instant::now(), Ok(()))));
        thread::scope(|scope| {
            for _ in 0..self.workers {
                scope.spawn(|| {
                    while Instant::now() < end
                        && let Some((id, name)) = due.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let outcome = self.try_one(program, *id);
                        let Ok(mut shared) = shared.lock() else { return };
                        match outcome {
                            Ok(outcome) => shared.0.put(name, outcome),
                            Err(error) => return shared.2 = Err(error),
                        }
                        if shared.1.elapsed() > Duration::from_secs(20) {
                            println!("{}: {} done", self.name, next.load(Ordering::Relaxed).min(due.len()));
                            shared.2 = shared.0.save();
                            shared.1 = Instant::now();
                        }
                    }
                });
            }
        });
        if let Ok((_, _, failed)) = shared.into_inner() {
            failed?;
        }
        results.save()?;
        Ok(Instant::now() < end)
    }

    fn try_one(&self, program: &Path, id: usize) -> anyhow::Result<Outcome> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("ulimit -v {MEMORY}; ulimit -t {}; exec \"$0\" \"$@\"", self.patience)])
            .arg(program);
        shell
            .env("MUTANT", id.to_string())
            .env("HEADGATE_SIM_WORLDS", WORLDS)
            .env("PROPTEST_CASES", CASES)
            .env("RUST_BACKTRACE", "0")
            .env("RUST_TEST_THREADS", "2");
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = shell.spawn().context("the program with the mutants could not be started")?;
        let end = Instant::now() + Duration::from_secs(self.patience * IDLE);
        loop {
            if let Some(status) = running.try_wait()? {
                let is_late = status.signal().is_some_and(|signal| SIGNALS_OF_TIME.contains(&signal));
                return Ok(match status.success() {
                    true => self.passed,
                    false if is_late => self.timeout,
                    false => self.failed,
                });
            }
            if Instant::now() > end {
                running.kill()?;
                running.wait()?;
                return Ok(self.timeout);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}
