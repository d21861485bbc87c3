//! `make bench`: how fast and how small Headgate is, beside the floor, in one run on one machine.
//!
//! ```text
//!  quiet busy refused burst gate unhealthy restart takeover crowd drain cpu memory looked sets
//!  hostile                                                                            the measures, one file each
//!  killed held                                                                        on real nodes
//!  contender   Headgate and the floor as processes: started, ended, looked at
//!  stage       namespace, node, target groups; pods written through the API, without kubelets
//!  replay      an API server with a hundred thousand pods
//!  tape        the calls that reached AWS        sight    when Headgate saw a deletion
//!  bound       the earliest possible end of a burst
//!  report      the table and target/bench/report.json
//! ```
//!
//! A measure gives medians and asserts nothing about them; it ends if what it waits for never comes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)] // what cannot go on panics

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

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Size {
    /// Runs that the medians are of.
    pub runs: usize,
    /// Pods that come and go, one after another, in a run.
    pub cycles: usize,
    /// Targets that AWS refuses.
    pub refused: usize,
    /// Groups of a burst, and pods in each.
    pub burst: (usize, usize),
    /// Bursts of each kind with AWS's latency.
    pub late_bursts: usize,
    /// Groups with an unhealthy target.
    pub unhealthy: usize,
    /// Targets that are there at a restart.
    pub restart: usize,
    /// How long a rest is that lets buckets fill and memory settle.
    pub rest: Duration,
    /// How long a call after a restart is waited for.
    pub patience: Duration,
    /// How long needless calls after a restart are waited for.
    pub aftermath: Duration,
    /// A crowd at the webhook, and pods that are created meanwhile.
    pub crowd: (headgate_harness::crowd::Size, usize),
    /// Nodes that are drained, one after another.
    pub drains: usize,
    /// Pods of the real API server.
    pub memory: [usize; 3],
    /// Pods of the replayer, and how many of them are bound.
    pub replay: (usize, usize),
    /// Groups that they are bound to.
    pub groups: usize,
    /// Target groups that people look at, and targets in each.
    pub looked: (usize, usize),
    /// Pods of the replayer, and events of them.
    pub events: (usize, usize),
    /// Nodes of each of five zones for an IngressDaemonSet, where the world is of its own.
    pub nodes_per_zone: u16,
    /// Pods of an IngressDaemonSet on a node.
    pub pods_per_node: usize,
    /// How many seconds of a kubelet its pods take until they are ready, and until they are gone.
    pub pod_seconds: u32,
}

impl Size {
    /// What is published.
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

    /// Whether it all works.
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

/// The measures that take real nodes, and so root.
pub const ON_REAL_NODES: [&str; 2] = ["killed", "held"];
/// The names of the others, in their order.
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

/// Takes one of the [`MEASURES`] in a world.
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
