//! A pod of an idle group is deleted while ten other groups register pods continuously and slowly, and are throttled.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use headgate_harness::{aws::Group, figures::percentile, headgate::Headgate, recorder::Micros};
use localstack_world::Facts;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    Size,
    contender::{Contender, Floor},
    report::Row,
    sight::deletions_seen,
    stage::{Stage, target},
    tape::{Tape, millis},
};

const BUSY_GROUPS: usize = 10;
/// Each busy group gets a new pod this often.
const GAIN: Duration = Duration::from_millis(250);
/// The pause between two deletions.
const PACE: Duration = Duration::from_millis(1500);

/// Runs the measure; see the module docs.
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
    let ratio = |busy: &[f64], quiet: &[f64]| {
        let ratio = percentile(busy, 50).zip(percentile(quiet, 50)).map(|(busy, quiet)| busy / quiet);
        ratio.into_iter().collect::<Vec<f64>>()
    };
    let ([quiet, floors_quiet], [busy, floors_busy]) =
        ([&headgate.quiet, &floor.quiet], [&headgate.busy, &floor.busy]);
    let row = |what: &str, ours: &[f64], floors: &[f64]| Row::of(what, "ms", ours, floors);
    vec![
        row("deletion → Deregister, idle group, nothing else", &quiet.whole, &floors_quiet.whole),
        row("– of that, from the event at Headgate", &quiet.ours, &[]),
        row(
            "the same, ten groups registering, 300 ms slower, 30 % throttled",
            &busy.whole,
            &floors_busy.whole,
        ),
        row("– of that, from the event at Headgate", &busy.ours, &[]),
        Row::of(
            "busy divided by quiet: the whole",
            "×",
            &ratio(&busy.whole, &quiet.whole),
            &ratio(&floors_busy.whole, &floors_quiet.whole),
        ),
        Row::of(
            "busy divided by quiet: from the event at Headgate",
            "×",
            &ratio(&busy.ours, &quiet.ours),
            &[],
        ),
    ]
}

#[derive(Default)]
struct Times {
    quiet: Waits,
    busy: Waits,
}

/// The time from deletions to their DeregisterTargets, in milliseconds.
#[derive(Default)]
struct Waits {
    /// From the request to the API server.
    whole: Vec<f64>,
    /// From the event at Headgate. The difference is the API server's time.
    ours: Vec<f64>,
}

impl Waits {
    fn take(&mut self, gone: &[Gone], seen: &BTreeMap<String, Micros>) {
        for Gone { target, deleted, arrived } in gone {
            self.whole.push(millis(*deleted, *arrived));
            self.ours.extend(seen.get(target).map(|seen| millis(*seen, *arrived)));
        }
    }
}

/// The target of a deleted pod.
struct Gone {
    target: String,
    deleted: Micros,
    arrived: Micros,
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
    let quiet = delete(stage, &idle, &mut pods, count).await;

    let slow = json!({"action": "RegisterTargets", "effect": {"delay": [300, 300]}});
    let throttled = json!({
        "action": "RegisterTargets", "probability": 0.3,
        "effect": {"refuse": {"code": "Throttling", "message": "Rate exceeded"}},
    });
    stage.fault(slow).await;
    stage.fault(throttled).await;
    let enough = AtomicBool::new(false);
    let deleting = async {
        tokio::time::sleep(size.rest).await;
        let gone = delete(stage, &idle, &mut pods, count).await;
        enough.store(true, Ordering::Relaxed);
        gone
    };
    let ((), busy) = futures::future::join(gain(stage, &busy, &enough), deleting).await;
    let seen = match &contender {
        Contender::Headgate(headgate) => deletions_seen(headgate),
        Contender::Floor(_) => BTreeMap::new(),
    };
    times.quiet.take(&quiet, &seen);
    times.busy.take(&busy, &seen);
    contender.end().await;
}

/// Adds a pod to every group repeatedly, until `enough` is set. It does not stop between a request and its answer,
/// because the API server would create an unknown pod.
async fn gain(stage: &Stage, groups: &[(String, Group)], enough: &AtomicBool) {
    let gain = |app: String| async move {
        let mut tick = tokio::time::interval(GAIN);
        for at in 0.. {
            tick.tick().await;
            if enough.load(Ordering::Relaxed) {
                break;
            }
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
) -> Vec<Gone> {
    let mut all = Vec::new();
    let mut tape = Tape::from_now(&stage.aws).await;
    for (name, ip) in pods.take(count) {
        let began = Instant::now();
        let deleted = stage.delete(&name).await;
        let arrived = tape.arrival("DeregisterTargets", &group.name, &target(&ip)).await;
        all.push(Gone { target: target(&ip), deleted, arrived });
        tokio::time::sleep_until(began + PACE).await;
    }
    all
}
