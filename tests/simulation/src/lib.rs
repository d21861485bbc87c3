//! The simulation: the real engine in a small world that goes wrong in every way it can.
//!
//! One seed is one world. In it, pods, Services and written TargetBindings come, change and go; pods become ready and
//! are not any more, users pause and ask for policies; watches are late, repeat themselves, are cut and relisted, and a
//! list now and then leaves out what is there, or a watch says that it is gone; AWS throttles, fails, loses answers, shows the past and applies calls
//! long after they were given up; others put targets in and take them out; listeners and zones come and go. Pods with
//! the readiness gate start slowly, get another sandbox, and have their condition written over by others. Two replicas
//! crash, pause, lose the lease and give it up, and what a dead or deposed one has sent still lands. Nodes are cordoned,
//! marked, deleted and come again; whoever drains them asks either replica for evictions, again and again or not, under
//! PodDisruptionBudgets that change; what is written on pods about that is late, lost or refused, by clocks that differ.
//!
//! After every step the [`properties`] are checked against the truth: what AWS, Kubernetes and the pods have done.
//! At the end, when all faults have stopped, AWS must hold exactly what it should, and every gate be open that should; in
//! most worlds somebody then drains or marks a node, and each pod goes in a bounded time, and not too early.
//!
//! ```text
//!  cluster  the Kubernetes of a world: the truth, and what its watches have not said yet
//!  aws      the AWS of a world: target groups, calls in flight and what becomes of them
//!  properties what Headgate guarantees, in terms of what AWS, Kubernetes and the pods do
//!  store    where the ledgers are kept
//!  gates    what is written to readiness gates, and what becomes of it
//!  requests what is written on pods that leave and asked of their budgets, and what becomes of it
//!  swaps    sets of targets that are replaced as a whole: worlds of their own
//!  brakes   lists and watches that say that most of something is gone: worlds of their own
//!  accounts two accounts of AWS, which do not touch each other: worlds of their own
//!  tenants  two namespaces, which do not touch each other: worlds of their own
//!  daemonsets the controller of IngressDaemonSets: worlds of their own
//!  refusals what AWS refuses, and what that costs the others: worlds of their own
//!  timeline what happens when, in such worlds
//!  replica  one of two: the real engine, and what must hold after each of its steps
//!  world    one world: what happens next, how the replicas learn of it and carry out what they decide, and how it ends
//!  coverage how often everything occurred: what never did was never tested
//! ```
//!
//! Three things are simulated on their own: [`lease`], replicas at one Lease; [`limits`], bursts behind AWS's limits;
//! [`reads`], many target groups that are to be read again and again. And [`exhaustive`] looks at every state of one
//! small world.
//!
//! This is built twice: with the core, for `tests/worlds.rs`; and, by the package in `planted/`, with a copy of the core
//! that holds mistakes which can be switched on: each must be noticed.
//!
//! `HEADGATE_SIM_SEED=42 cargo test -p headgate-simulation -- --nocapture` replays a seed with its trace;
//! `HEADGATE_SIM_SECONDS=600` goes on with new seeds for as long as asked (`make soak`), also when a world breaks, tells of
//! each that does at once and of all at the end, and once a minute how far it is; `HEADGATE_SIM_FROM=10000` begins with that
//! one; `HEADGATE_SIM_WORLDS=800` plays so many, and does not ask that everything occurs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, clippy::missing_panics_doc)]

pub mod accounts;
mod aws;
pub mod brakes;
pub mod cases;
pub mod claims;
mod cluster;
mod coverage;
pub mod daemonsets;
pub mod exhaustive;
mod gates;
pub mod lease;
pub mod limits;
mod objects;
mod properties;
pub mod reads;
pub mod refusals;
mod replica;
mod requests;
mod say;
mod store;
pub mod swaps;
pub mod tenants;
mod timeline;
mod words;
mod world;

use std::{
    fs::File,
    hash::{DefaultHasher, Hasher},
    io::Write,
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

pub use crate::coverage::Coverage;
pub use crate::world::TOLD_AT_ONCE;
use crate::world::World;

/// Steps of a world, on average.
const STEPS: u64 = 1_000;
/// So many of the last steps of a world that broke are shown.
const SHOWN: usize = 40;

/// Where it is recorded what the engines of each world decide (`HEADGATE_SIM_DECIDED=file`): a change that is to change no
/// decision leaves the same lines.
static DECIDED: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    std::env::var_os("HEADGATE_SIM_DECIDED").map(|path| Mutex::new(File::create(path).unwrap()))
});

fn world(seed: u64) -> (World, u64) {
    let mut world = World::new(seed);
    let steps = world.rng.u64(STEPS / 2..STEPS * 3 / 2);
    (world, steps)
}

/// Runs a world; gives its steps.
pub fn run(seed: u64, coverage: &mut Coverage) -> Result<u64, String> {
    let (mut it, steps) = world(seed);
    it.decided = DECIDED.is_some().then(DefaultHasher::new);
    let ended = it.run(steps);
    coverage.add(&it.coverage);
    if let (Some(file), Some(decided)) = (&*DECIDED, it.decided) {
        writeln!(file.lock().unwrap(), "{seed} {:016x}", decided.finish()).unwrap();
    }
    ended.map(|()| steps).map_err(|broken| {
        let (mut again, steps) = world(seed);
        let (_, kept) = again.run_and_keep(steps);
        let last = kept[kept.len().saturating_sub(SHOWN)..].iter();
        let last = last.map(|step| format!("    {step}")).collect::<Vec<_>>().join("\n");
        format!(
            "seed {seed}: {broken}\n  the last steps:\n{last}\n  replay: HEADGATE_SIM_SEED={seed} cargo test -p headgate-simulation -- --nocapture",
        )
    })
}

/// Runs a world, and prints all of its steps.
pub fn replay(seed: u64) -> Result<(), String> {
    let (mut world, steps) = world(seed);
    let (ended, kept) = world.run_and_keep(steps);
    println!("{}", kept.join("\n"));
    ended
}

/// What many worlds were.
#[derive(Default)]
pub struct Worlds {
    /// How many there were.
    pub seeds: u64,
    /// Of all worlds.
    pub steps: u64,
    /// Of all worlds.
    pub coverage: Coverage,
    /// What is wrong with each of those that broke.
    pub broken: Vec<String>,
}

/// Runs worlds from this seed on, on all cores, until `enough` of them, by the next seed and how many have broken. `each`
/// hears of every one: its steps, or what is wrong with it.
pub fn run_many(
    from: u64,
    enough: impl Fn(u64, usize) -> bool + Sync,
    each: impl Fn(Result<u64, &str>) + Sync,
) -> Worlds {
    let next = AtomicU64::new(from);
    let (broken, all) = (Mutex::new(Vec::new()), Mutex::new(Worlds::default()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                let mut own = Worlds::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if enough(seed, broken.lock().unwrap().len()) {
                        break;
                    }
                    let end = run(seed, &mut own.coverage);
                    each(end.as_ref().copied().map_err(String::as_str));
                    match end {
                        Ok(steps) => {
                            own.seeds += 1;
                            own.steps += steps;
                        }
                        Err(text) => broken.lock().unwrap().push(text),
                    }
                }
                let mut all = all.lock().unwrap();
                all.steps += own.steps;
                all.seeds += own.seeds;
                all.coverage.add(&own.coverage);
            });
        }
    });
    Worlds { broken: broken.into_inner().unwrap(), ..all.into_inner().unwrap() }
}
