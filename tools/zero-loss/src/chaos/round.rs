//! A round: traffic, rollouts, faults, a quiet phase, and the counts.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use headgate_harness::{
    cluster::Running,
    judge,
    recorder::{APP, Micros, Record, Traced, now},
};
use localstack_load::{Counts, Run};
use tokio::time::sleep;

use super::{
    faults::strike,
    plan::Strike,
    quiet,
    report::{Loss, Row},
    stage::{Stage, Workload},
};
use crate::{margin, play::start_load};

/// Requests per second to each load balancer.
const RATE: f64 = 80.0;
/// How long the recorder needs for the stand-in's trace.
const TOLD: Duration = Duration::from_secs(1);

/// Traffic to both load balancers.
pub struct Traffic(Vec<Run>);

impl Traffic {
    /// Starts the traffic.
    pub fn start(stage: &Stage) -> Self {
        Self(stage.workloads.iter().map(|workload| start_load(&stage.facts, &workload.group, RATE)).collect())
    }
}

/// Waits for the first pods.
///
/// # Errors
/// The violated condition at the timeout.
pub async fn begin(stage: &Stage) -> Result<(), String> {
    let none = stage.workloads.iter().map(|workload| (workload.name, Running::new())).collect();
    quiet::wait(stage, &none).await.map(drop)
}

/// Plays a round under this traffic. Returns the traffic of the next round, which begins before this one's ends.
pub async fn play(stage: &mut Stage, number: usize, strikes: &[Strike], traffic: Traffic) -> (Row, Traffic) {
    let began = now();
    let mut old = BTreeMap::new();
    let mut row = Row { number, ..Row::default() };
    for one in strikes {
        for workload in &stage.workloads {
            roll_unless_it_rolls(workload, old.entry(workload.name).or_default()).await;
        }
        sleep(one.after).await;
        strike_as_pods_go(stage, *one, &mut old, &mut row).await;
    }
    let ended = Instant::now();
    let rest = quiet::wait(stage, &old).await;
    row.quiet_after = ended.elapsed();
    let next = Traffic::start(stage);
    match rest {
        Ok(waited) => row.waited = waited,
        Err(differs) => row.differs.push(differs),
    }
    for (workload, run) in stage.workloads.iter().zip(traffic.0) {
        let report = run.stop().await.expect("the load can be accounted for");
        sleep(TOLD).await;
        let Counts { offered, retried, behind, .. } = report.counts;
        row.offered += offered;
        row.retried += retried;
        row.behind += behind;
        let removal = Duration::from_millis(margin::longest_ms(&since(workload, began)).unwrap_or_default());
        row.removal = row.removal.max(removal);
        row.replaced += old[workload.name].len();
        let lost = judge::lost(&report);
        if !lost.is_empty() {
            let found = workload.recorder.look(|record| judge::examine(record, &lost));
            row.doubtful.extend(found.unhealthy_alive);
            row.lost.extend(found.lost.into_iter().map(|lost| Loss { workload: workload.name, lost }));
        }
        let named = quiet::calls_about_the_foreign_target(workload);
        if named > 0 {
            row.differs.push(format!("{}: {named} calls named the foreign target", workload.name));
        }
        let dropped = workload.recorder.look(|record| record.dropped);
        if dropped > 0 {
            row.differs.push(format!("{}: the trace has lost {dropped} entries", workload.name));
        }
    }
    (row, next)
}

/// Begins a rollout, unless one is in progress, so that each fault occurs during one.
async fn roll_unless_it_rolls(workload: &Workload, old: &mut Running) {
    let pods = workload.cluster.running(APP).await;
    let is_under_way = !old.is_empty() && pods.keys().any(|pod| old.contains_key(pod));
    if !is_under_way {
        old.extend(pods);
        workload.roll().await;
    }
}

/// Makes a fault, and deletes a pod of each workload during it: while AWS is unreachable no gate opens, so a rollout
/// alone would delete none. Waits until Headgate has recovered and AWS has accepted all deregistrations, so that no pod
/// meets two faults.
async fn strike_as_pods_go(
    stage: &mut Stage,
    one: Strike,
    old: &mut BTreeMap<&'static str, Running>,
    row: &mut Row,
) {
    let Stage { facts, aws, workloads, replicas } = stage;
    let deleting = async {
        sleep(one.lasts / 4).await;
        for workload in &*workloads {
            let gone = workload.delete_one().await;
            old.entry(workload.name).or_default().extend(gone);
        }
    };
    let (mut struck, ()) = futures::join!(strike(facts, aws, replicas, one), deleting);
    let since = Instant::now();
    for workload in &*workloads {
        row.differs.extend(workload.wait_removed(aws).await.err());
    }
    struck.recovered_in += since.elapsed();
    row.struck.push(struck);
}

/// The recorded calls and terminating pods since this time.
fn since(workload: &Workload, began: Micros) -> Record {
    workload.recorder.look(|record| {
        let pods = record.pods.iter().filter(|(_, pod)| pod.leaving.is_some_and(|leaving| leaving >= began));
        let is_late = |entry: &&Traced| matches!(entry, Traced::Call { answered, .. } if *answered >= began);
        let calls = record.trace.iter().filter(is_late);
        Record {
            pods: pods.map(|(uid, pod)| (uid.clone(), pod.clone())).collect(),
            trace: calls.cloned().collect(),
            ..Record::default()
        }
    })
}
