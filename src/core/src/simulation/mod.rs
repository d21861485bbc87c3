//! The simulation: the real engine in a small world that goes wrong in every way it can.
//!
//! One seed is one world. In it, pods, Services and written TargetBindings come, change and go; pods become ready and
//! are not any more, users pause and ask for policies; watches are late, repeat themselves, are cut and relisted, and a
//! list now and then leaves out what is there; AWS throttles, fails, loses answers, shows the past and applies calls
//! long after they were given up; others put targets in and take them out; listeners and zones come and go. Pods with
//! the readiness gate start slowly, get another sandbox, and have their condition written over by others. Two replicas
//! crash, pause, lose the lease and give it up, and what a dead or deposed one has sent still lands. Nodes are cordoned,
//! marked, deleted and come again; whoever drains them asks either replica for evictions, again and again or not, under
//! PodDisruptionBudgets that change; what is written on pods about that is late, lost or refused, by clocks that differ.
//!
//! After every step the [`oracle`], which knows only what the engine was told, checks what the engine did; that a gate
//! opens on a pod's own health, and that a pod is let go when no load balancer sends to it, is checked against the truth.
//! At the end, when all faults have stopped, AWS must hold exactly what it should, and every gate be open that should; in
//! most worlds somebody then drains or marks a node, and each pod goes in a bounded time, and not too early.
//!
//! ```text
//!  cluster  the Kubernetes of a world: the truth, and what its watches have not said yet
//!  aws      the AWS of a world: target groups, calls in flight and what becomes of them
//!  oracle   what should be, worked out the slow and simple way
//!  held     what a set that is replaced as a whole must wait for
//!  store    where the ledgers are kept
//!  gates    what is written to readiness gates, and what becomes of it
//!  requests what is written on pods that leave and asked of their budgets, and what becomes of it
//!  replica  one of two: the real engine, and what must hold after each of its steps
//!  world    one world: what happens next, how the replicas learn of it and carry out what they decide, and how it ends
//!  recorded what the engine did in each world, as a number: a rebuilt one does the same
//!  coverage how often everything occurred: what never did was never tested
//! ```
//!
//! `HEADGATE_SIM_SEED=42 cargo test -p headgate-core simulation -- --nocapture` replays a seed with its trace;
//! `HEADGATE_SIM_SECONDS=600` goes on with new seeds for as long as asked (`make soak`); `HEADGATE_SIM_FROM=10000` begins
//! with that one.

mod aws;
mod cluster;
mod coverage;
mod gates;
mod held;
mod oracle;
mod recorded;
mod replica;
mod requests;
mod say;
mod store;
mod world;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    planted::{self, Bug},
    simulation::{coverage::Coverage, world::World},
};

/// Worlds of a plain test run.
const SEEDS: u64 = 10_000;
/// Steps of a world, on average.
const STEPS: u64 = 1_000;
/// A planted bug must be caught within so many worlds.
const BUDGET: u64 = 1_000;

/// Runs a world; gives its steps, and the number of what the engine did.
fn run(seed: u64, coverage: &mut Coverage) -> Result<(u64, u64), String> {
    let mut world = World::new(seed);
    let steps = world.rng.u64(STEPS / 2..STEPS * 3 / 2);
    let ended = world.run(steps);
    coverage.add(&world.coverage);
    ended.map(|()| (steps, world.done.number())).map_err(|broken| {
        format!(
            "seed {seed}: {broken}\n  the last steps:\n{}\n  replay: HEADGATE_SIM_SEED={seed} cargo test -p headgate-core simulation -- --nocapture",
            world.last_steps()
        )
    })
}

/// What many worlds were: the number of each seed, their steps and coverage.
#[derive(Default)]
struct Worlds {
    done: Vec<(u64, u64)>,
    steps: u64,
    coverage: Coverage,
}

/// Runs worlds from this seed on, on all cores, until `enough` or one breaks.
fn run_many(from: u64, enough: impl Fn(u64) -> bool + Sync) -> Result<Worlds, String> {
    let next = AtomicU64::new(from);
    let (broken, all) = (Mutex::new(None), Mutex::new(Worlds::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let mut own = Worlds::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if enough(seed) || broken.lock().unwrap().is_some() {
                        break;
                    }
                    match run(seed, &mut own.coverage) {
                        Ok((steps, number)) => {
                            own.steps += steps;
                            own.done.push((seed, number));
                        }
                        Err(text) => *broken.lock().unwrap() = Some(text),
                    }
                }
                let mut all = all.lock().unwrap();
                all.steps += own.steps;
                all.done.append(&mut own.done);
                all.coverage.add(&own.coverage);
            });
        }
    });
    match broken.into_inner().unwrap() {
        Some(text) => Err(text),
        None => Ok(all.into_inner().unwrap()),
    }
}

/// The number in an environment variable, if it is set.
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn simulation_holds_every_invariant_in_thousands_of_worlds_that_go_wrong() {
    if let Some(seed) = asked("HEADGATE_SIM_SEED") {
        let mut world = World::new(seed);
        let steps = world.rng.u64(STEPS / 2..STEPS * 3 / 2);
        let ended = world.run(steps);
        println!("{}", world.all_steps());
        ended.unwrap();
        return;
    }
    let start = Instant::now();
    let from = asked("HEADGATE_SIM_FROM").unwrap_or(0);
    let soak = asked("HEADGATE_SIM_SECONDS").map(Duration::from_secs);
    let enough = |seed| soak.map_or(seed >= from + SEEDS, |soak| start.elapsed() >= soak);
    let Worlds { done, steps, coverage } = run_many(from, enough).unwrap_or_else(|broken| panic!("{broken}"));
    let seeds = done.len();
    let seconds = start.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // millions
    let rate = steps as f64 / seconds;
    println!("{seeds} seeds, {steps} steps, {seconds:.1} s, {rate:.0} steps/s\n{coverage}");
    assert_eq!(coverage.never(), Vec::<String>::new(), "these never occurred, so they were never tested");
    if from == 0 && soak.is_none() {
        recorded::compare(done).unwrap();
    }
}

#[test]
fn simulation_catches_every_planted_bug() {
    let mut missed = Vec::new();
    let elsewhere = [Bug::OF_THE_LEASE, Bug::OF_THE_LIMITS, Bug::OF_THE_ENGINE].concat();
    for bug in Bug::ALL.iter().filter(|bug| !elsewhere.contains(bug)) {
        let caught = (0..BUDGET).find_map(|seed| {
            planted::with(*bug, || run(seed, &mut Coverage::default())).err().map(|text| (seed, text))
        });
        match caught {
            Some((seed, text)) => {
                println!("{bug:?}: caught by seed {seed}: {}", text.lines().next().unwrap_or_default());
            }
            None => missed.push(*bug),
        }
    }
    assert_eq!(missed, [], "not caught within {BUDGET} seeds");
}
