//! A pod gets an IP, and a pod is deleted, while nothing else happens.

use std::time::Duration;

use headgate_harness::{aws::Group, headgate::Headgate};
use localstack_world::Facts;
use tokio::time::Instant;

use crate::{
    Size,
    contender::{Contender, Floor},
    report::Row,
    stage::{Stage, target},
    tape::{Tape, millis},
};

/// Slower than AWS's limit of four calls per second.
pub const PACE: Duration = Duration::from_millis(600);

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "quiet").await;
    let (ours, floors) = (stage.group("quiet").await, stage.group("quiet-floor").await);
    stage.bind("web", &ours).await;
    let (mut headgate, mut floor) = (Times::default(), Times::default());
    for run in 0..size.runs {
        let namespace = stage.cluster.namespace.as_str();
        let running = Floor::start(facts, &facts.kubeconfig, Some(namespace), &[("web", &floors)]).await;
        cycles(&stage, &floors, &format!("floor-{run}"), size.cycles, None, &mut floor).await;
        Contender::Floor(running).end().await;
        let running = Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await;
        let name = format!("headgate-{run}");
        cycles(&stage, &ours, &name, size.cycles, Some(&running), &mut headgate).await;
        Contender::Headgate(running).end().await;
    }
    vec![
        Row::of("pod IP → RegisterTargets, quiet", "ms", &headgate.in_, &floor.in_),
        Row::of("– of that, the ledger write", "ms", &headgate.ledger, &[]),
        Row::of("deletion → DeregisterTargets, quiet", "ms", &headgate.out, &floor.out),
    ]
}

#[derive(Default)]
struct Times {
    in_: Vec<f64>,
    out: Vec<f64>,
    /// The ledger write before the registration.
    ledger: Vec<f64>,
}

async fn cycles(
    stage: &Stage,
    group: &Group,
    name: &str,
    count: usize,
    headgate: Option<&Headgate>,
    times: &mut Times,
) {
    let mut tape = Tape::from_now(&stage.aws).await;
    for at in 0..=count {
        let began = Instant::now();
        let (name, ip) = (format!("{name}-{at}"), stage.fresh_ip());
        stage.pod(&name, "web").await;
        let before = ledger_writes(headgate).await;
        let sent = stage.give_ip(&name, &ip).await;
        let registered = tape.arrival("RegisterTargets", &group.name, &target(&ip)).await;
        let after = ledger_writes(headgate).await;
        // So that no write after the registration delays the deletion.
        tokio::time::sleep(PACE / 3).await;
        let deleted = stage.delete(&name).await;
        let gone = tape.arrival("DeregisterTargets", &group.name, &target(&ip)).await;
        stage.cluster.end_pod(&name).await;
        // The first call must open connections.
        if at > 0 {
            times.in_.push(millis(sent, registered));
            times.out.push(millis(deleted, gone));
            let writes = after.0 - before.0;
            if writes > 0.0 {
                times.ledger.push((after.1 - before.1) * 1000.0 / writes);
            }
        }
        tokio::time::sleep_until(began + PACE).await;
    }
}

/// The number of ledger writes, and their total duration in seconds.
async fn ledger_writes(headgate: Option<&Headgate>) -> (f64, f64) {
    let Some(headgate) = headgate else { return (0.0, 0.0) };
    let mut all = (0.0, 0.0);
    for verb in ["create", "update"] {
        let of = |field: &str| format!("headgate_ledger_request_duration_seconds_{field}{{verb=\"{verb}\"}}");
        all.0 += headgate.metric(&of("count")).await.unwrap_or_default();
        all.1 += headgate.metric(&of("sum")).await.unwrap_or_default();
    }
    all
}
