//! A pod gets an IP, a pod is deleted, and nothing else happens.

use std::time::Duration;

use localstack_world::Facts;
use tokio::time::Instant;

use crate::{
    aws::Group,
    bench::{
        Size,
        contender::{Contender, Floor},
        report::Row,
        stage::{Stage, target},
        tape::{Tape, millis},
    },
    headgate::Headgate,
};

/// Slower than AWS's limit of four calls a second.
const PACE: Duration = Duration::from_millis(600);

/// Measures; see the module.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "quiet").await;
    let (ours, floors) = (stage.group("quiet").await, stage.group("quiet-floor").await);
    stage.bind("web", &ours).await;
    let (mut headgate, mut floor) = (Times::default(), Times::default());
    for run in 0..size.runs {
        let namespace = stage.cluster.namespace.as_str();
        let running = Floor::start(facts, &facts.kubeconfig, Some(namespace), &[("web", &floors)]).await;
        cycles(&stage, &floors, &format!("floor-{run}"), size.cycles, &mut floor).await;
        Contender::Floor(running).end().await;
        let running = Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await;
        cycles(&stage, &ours, &format!("headgate-{run}"), size.cycles, &mut headgate).await;
        Contender::Headgate(running).end().await;
    }
    vec![
        Row::of("pod IP → RegisterTargets, quiet", "ms", &headgate.in_, &floor.in_),
        Row::of("deletion → DeregisterTargets, quiet", "ms", &headgate.out, &floor.out),
    ]
}

#[derive(Default)]
struct Times {
    in_: Vec<f64>,
    out: Vec<f64>,
}

async fn cycles(stage: &Stage, group: &Group, name: &str, count: usize, times: &mut Times) {
    let mut tape = Tape::from_now(&stage.aws).await;
    for at in 0..=count {
        let began = Instant::now();
        let (name, ip) = (format!("{name}-{at}"), stage.fresh_ip());
        stage.pod(&name, "web").await;
        let sent = stage.give_ip(&name, &ip).await;
        let registered = tape.arrival("RegisterTargets", &group.name, &target(&ip)).await;
        // So that no write of the registration's aftermath is in the deletion's way.
        tokio::time::sleep(PACE / 3).await;
        let deleted = stage.delete(&name).await;
        let gone = tape.arrival("DeregisterTargets", &group.name, &target(&ip)).await;
        stage.cluster.end_pod(&name).await;
        // The first one finds connections to be made.
        if at > 0 {
            times.in_.push(millis(sent, registered));
            times.out.push(millis(deleted, gone));
        }
        tokio::time::sleep_until(began + PACE).await;
    }
}
