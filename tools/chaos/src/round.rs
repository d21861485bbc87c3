//! A round: traffic, rolls, faults, rest, and what was counted.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use headgate_harness::{
    cluster::Running,
    judge,
    recorder::{APP, Micros, Record, now},
};
use headgate_zero_loss::{
    margin,
    play::{lost, start_load},
};
use localstack_load::{Counts, Run};
use tokio::time::sleep;

use crate::{
    faults::strike,
    plan::Strike,
    quiet,
    report::{Loss, Row},
    stage::{Stage, Workload},
};

/// Requests per second to each load balancer.
const RATE: f64 = 80.0;
/// How long what the stand-in tells takes to be taken down.
const TOLD: Duration = Duration::from_secs(1);

/// Traffic to both load balancers.
pub struct Traffic(Vec<Run>);

impl Traffic {
    /// Starts it.
    pub fn start(stage: &Stage) -> Self {
        Self(stage.workloads.iter().map(|workload| start_load(&stage.facts, &workload.group, RATE)).collect())
    }
}

/// Waits for the first pods.
///
/// # Errors
/// What is not as it must be when time is up.
pub async fn begin(stage: &Stage) -> Result<(), String> {
    let none = stage.workloads.iter().map(|workload| (workload.name, Running::new())).collect();
    quiet::wait(stage, &none).await
}

/// Plays a round under this traffic; gives the traffic of the next one, which begins before this one's ends.
pub async fn play(stage: &mut Stage, number: usize, strikes: &[Strike], traffic: Traffic) -> (Row, Traffic) {
    let began = now();
    let mut old = BTreeMap::new();
    for workload in &stage.workloads {
        old.insert(workload.name, workload.cluster.running(APP).await);
        workload.roll().await;
    }
    let mut struck = Vec::new();
    for one in strikes {
        sleep(one.after).await;
        struck.push(strike(&stage.facts, &stage.aws, &mut stage.replicas, *one).await);
    }
    let ended = Instant::now();
    let rest = quiet::wait(stage, &old).await;
    let quiet_after = ended.elapsed();
    let next = Traffic::start(stage);
    let mut row = Row { number, struck, quiet_after, ..Row::default() };
    row.differs.extend(rest.err());
    for (workload, run) in stage.workloads.iter().zip(traffic.0) {
        let report = run.stop().await.expect("the load can be accounted for");
        sleep(TOLD).await;
        let Counts { offered, retried, behind, .. } = report.counts;
        row.offered += offered;
        row.retried += retried;
        row.behind += behind;
        let removal = Duration::from_millis(margin::longest_ms(&since(workload, began)).unwrap_or_default());
        row.removal = row.removal.max(removal);
        let now = workload.cluster.running(APP).await;
        row.rolled += old[workload.name].keys().filter(|pod| !now.contains_key(*pod)).count();
        let lost = lost(&report);
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

/// What was taken down of the calls and the leaving pods since then.
fn since(workload: &Workload, began: Micros) -> Record {
    workload.recorder.look(|record| {
        let pods = record.pods.iter().filter(|(_, pod)| pod.leaving.is_some_and(|leaving| leaving >= began));
        let calls = record.trace.iter().filter(|entry| {
            use headgate_harness::recorder::Traced;
            matches!(entry, Traced::Call { answered, .. } if *answered >= began)
        });
        Record {
            pods: pods.map(|(uid, pod)| (uid.clone(), pod.clone())).collect(),
            trace: calls.cloned().collect(),
            ..Record::default()
        }
    })
}
