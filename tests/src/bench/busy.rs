//! A pod of an idle group is deleted while ten other groups register steadily, slowly, and are throttled.

use std::time::Duration;

use localstack_world::Facts;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    aws::Group,
    bench::{
        Size,
        contender::{Contender, Floor},
        report::{Row, median},
        stage::{Stage, target},
        tape::{Tape, millis},
    },
    headgate::Headgate,
};

const BUSY_GROUPS: usize = 10;
/// Each busy group gains a pod this often.
const GAIN: Duration = Duration::from_millis(250);
/// Between two deletions.
const PACE: Duration = Duration::from_millis(1500);

/// Measures; see the module.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let (mut headgate, mut floor) = (Times::default(), Times::default());
    for run in 0..size.runs {
        for is_floor in [true, false] {
            let name = if is_floor { format!("busy-floor-{run}") } else { format!("busy-{run}") };
            let stage = Stage::new(facts, &name).await;
            let times = if is_floor { &mut floor } else { &mut headgate };
            one(&stage, is_floor, size, times).await;
            stage.no_faults().await;
            stage.end_pods().await;
        }
    }
    let times_quiet = |times: &Times| {
        let ratio = median(&times.busy).zip(median(&times.quiet)).map(|(busy, quiet)| busy / quiet);
        ratio.into_iter().collect::<Vec<f64>>()
    };
    vec![
        Row::of("deletion → Deregister, idle group, nothing else", "ms", &headgate.quiet, &floor.quiet),
        Row::of(
            "the same, ten groups registering, 300 ms slower, 30 % throttled",
            "ms",
            &headgate.busy,
            &floor.busy,
        ),
        Row::of("the latter divided by the former", "×", &times_quiet(&headgate), &times_quiet(&floor)),
    ]
}

#[derive(Default)]
struct Times {
    quiet: Vec<f64>,
    busy: Vec<f64>,
}

async fn one(stage: &Stage, is_floor: bool, size: &Size, times: &mut Times) {
    let count = size.cycles.div_ceil(3);
    let idle = stage.group(&stage.cluster.namespace).await;
    stage.bind("idle", &idle).await;
    let mut busy = Vec::new();
    for at in 0..BUSY_GROUPS {
        let group = stage.group(&format!("{}-{at}", stage.cluster.namespace)).await;
        let app = format!("busy-{at}");
        stage.bind(&app, &group).await;
        busy.push((app, group));
    }
    let pods = (0..2 * count).map(|at| (format!("idle-{at}"), "idle".to_owned())).collect();
    let mut pods = stage.running_pods(pods).await.into_iter();
    let facts = &stage.facts;
    let contender = if is_floor {
        let mut groups: Vec<(&str, &Group)> = busy.iter().map(|(app, group)| (app.as_str(), group)).collect();
        groups.push(("idle", &idle));
        let namespace = stage.cluster.namespace.as_str();
        Contender::Floor(Floor::start(facts, &facts.kubeconfig, Some(namespace), &groups).await)
    } else {
        Contender::Headgate(Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await)
    };
    stage.wait_targets(&idle, 2 * count).await;
    // The token bucket is full again.
    tokio::time::sleep(size.rest).await;
    delete(stage, &idle, &mut pods, count, &mut times.quiet).await;

    let slow = json!({"action": "RegisterTargets", "effect": {"delay": [300, 300]}});
    let throttled = json!({
        "action": "RegisterTargets", "probability": 0.3,
        "effect": {"refuse": {"code": "Throttling", "message": "Rate exceeded"}},
    });
    stage.fault(slow).await;
    stage.fault(throttled).await;
    let gaining = gain(stage, &busy);
    let deleting = async {
        tokio::time::sleep(size.rest).await;
        delete(stage, &idle, &mut pods, count, &mut times.busy).await;
    };
    tokio::select! {
        () = gaining => {}
        () = deleting => {}
    }
    contender.end().await;
}

/// Lets every group gain a pod again and again, without end.
async fn gain(stage: &Stage, groups: &[(String, Group)]) {
    let gain = |app: String| async move {
        let mut tick = tokio::time::interval(GAIN);
        for at in 0.. {
            tick.tick().await;
            stage.running_pod(&format!("{app}-{at}"), &app).await;
        }
    };
    futures::future::join_all(groups.iter().map(|(app, _)| gain(app.clone()))).await;
}

async fn delete(
    stage: &Stage,
    group: &Group,
    pods: &mut impl Iterator<Item = (String, String)>,
    count: usize,
    times: &mut Vec<f64>,
) {
    let mut tape = Tape::from_now(&stage.aws).await;
    for (name, ip) in pods.take(count) {
        let began = Instant::now();
        let deleted = stage.delete(&name).await;
        let gone = tape.arrival("DeregisterTargets", &group.name, &target(&ip)).await;
        times.push(millis(deleted, gone));
        tokio::time::sleep_until(began + PACE).await;
    }
}
