//! `make bench` measures the speed and size of Headgate and of the floor, in one run on one machine. The floor is a minimal
//! program that watches pods and calls AWS (docs/contributing/bench.md).
//!
//! ```text
//!  quiet busy refused burst gate unhealthy restart takeover crowd drain cpu memory looked sets
//!  hostile                                                      the measures, one file each
//!  killed held                                                  measures on real nodes
//!  contender   runs Headgate and the floor as processes
//!  stage       the namespace, node and target groups; writes pods through the API, without kubelets
//!  replay      an API server with 100,000 pods
//!  tape        the calls that reached AWS
//!  sight       when Headgate received the event of a deletion
//!  bound       the earliest possible end of a burst
//!  report      the table and target/bench/report.json
//! ```
//!
//! A measure reports medians and has no limits for them. It fails if the expected calls never come.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // a failure panics

pub mod bound;
pub mod burst;
pub mod busy;
pub mod contender;
pub mod cpu;
pub mod crowd;
pub mod drain;
pub mod gate;
pub mod held;
pub mod hostile;
pub mod killed;
pub mod looked;
pub mod memory;
pub mod quiet;
pub mod refused;
pub mod replay;
pub mod report;
pub mod restart;
pub mod sets;
pub mod sight;
pub mod stage;
pub mod takeover;
pub mod tape;
pub mod unhealthy;

use std::time::Duration;

use localstack_world::Facts;

use report::Row;

/// The size of a measurement.
#[derive(Clone, Debug)]
pub struct Size {
    /// The number of runs for the medians.
    pub runs: usize,
    /// The number of pods that are created and deleted one after another in a run.
    pub cycles: usize,
    /// The number of targets that AWS rejects.
    pub refused: usize,
    /// The number of groups in a burst, and of pods in each.
    pub burst: (usize, usize),
    /// The number of bursts of each kind with AWS's latency.
    pub late_bursts: usize,
    /// The number of groups with an unhealthy target.
    pub unhealthy: usize,
    /// The number of targets at a restart.
    pub restart: usize,
    /// The pause in which buckets fill and memory settles.
    pub rest: Duration,
    /// How long to wait for a call after a restart.
    pub patience: Duration,
    /// How long to wait for unnecessary calls after a restart.
    pub aftermath: Duration,
    /// The number of connections to the webhook, and of pods created at the same time.
    pub crowd: (headgate_harness::crowd::Size, usize),
    /// The number of nodes that are drained one after another.
    pub drains: usize,
    /// The numbers of pods in the real API server.
    pub memory: [usize; 3],
    /// The number of pods in the replayer, and how many of them are bound.
    pub replay: (usize, usize),
    /// The number of groups that they are bound to.
    pub groups: usize,
    /// The number of target groups that people look at, and of targets in each.
    pub looked: (usize, usize),
    /// The number of pods in the replayer, and of their events.
    pub events: (usize, usize),
    /// The number of nodes in each of five zones for an IngressDaemonSet, if the local world is its own.
    pub nodes_per_zone: u16,
    /// The number of pods of an IngressDaemonSet per node.
    pub pods_per_node: usize,
    /// How many seconds of kubelet time its pods take to become ready, and to terminate.
    pub pod_seconds: u32,
}

impl Size {
    /// The published size.
    pub fn full() -> Self {
        Self {
            runs: 3,
            cycles: 20,
            refused: 500,
            burst: (20, 50),
            late_bursts: 5,
            unhealthy: 200,
            restart: 3000,
            rest: Duration::from_secs(6),
            patience: Duration::from_secs(90),
            aftermath: Duration::from_secs(5),
            crowd: (headgate_harness::crowd::LARGE, 500),
            drains: 5,
            memory: [0, 5_000, 20_000],
            replay: (100_000, 1_000),
            groups: 10,
            looked: (200, 25),
            events: (20_000, 60_000),
            nodes_per_zone: 100,
            pods_per_node: 2,
            pod_seconds: 10,
        }
    }

    /// A small size that only shows that the bench works.
    pub fn quick() -> Self {
        Self {
            runs: 1,
            cycles: 2,
            refused: 20,
            burst: (2, 4),
            late_bursts: 1,
            unhealthy: 3,
            restart: 30,
            rest: Duration::from_millis(200),
            patience: Duration::from_secs(10),
            aftermath: Duration::from_millis(200),
            crowd: (headgate_harness::crowd::Size { silent: 30, slow: 10 }, 10),
            drains: 1,
            memory: [0, 5, 10],
            replay: (1_200, 20),
            groups: 2,
            looked: (3, 2),
            events: (100, 300),
            nodes_per_zone: 2,
            pods_per_node: 2,
            pod_seconds: 1,
        }
    }
}

/// The measures that need real nodes, and therefore root.
pub const ON_REAL_NODES: [&str; 2] = ["killed", "held"];
/// The names of the other measures, in order.
pub const MEASURES: [&str; 15] = [
    "quiet",
    "busy",
    "refused",
    "burst",
    "gate",
    "unhealthy",
    "restart",
    "takeover",
    "crowd",
    "drain",
    "cpu",
    "memory",
    "looked",
    "sets",
    "hostile",
];

/// Runs one of the [`MEASURES`] in a local world.
pub async fn measure(name: &str, facts: &Facts, size: &Size) -> Vec<Row> {
    match name {
        "quiet" => quiet::measure(facts, size).await,
        "busy" => busy::measure(facts, size).await,
        "refused" => refused::measure(facts, size).await,
        "burst" => burst::measure(facts, size).await,
        "gate" => gate::measure(facts, size).await,
        "unhealthy" => unhealthy::measure(facts, size).await,
        "restart" => restart::measure(facts, size).await,
        "takeover" => takeover::measure(facts, size).await,
        "crowd" => crowd::measure(facts, size).await,
        "drain" => drain::measure(facts, size).await,
        "cpu" => cpu::measure(facts, size).await,
        "memory" => memory::measure(facts, size).await,
        "looked" => looked::measure(facts, size).await,
        "sets" => sets::measure(facts, size).await,
        "hostile" => Box::pin(hostile::measure(facts, size)).await,
        _ => panic!("there is no measure {name}"),
    }
}
