//! Headgate is restarted with full groups, and three things happened while it was down.
//!
//! A call that never comes has no value, and reduces the number of runs.

use std::collections::BTreeSet;

use headgate_harness::{
    aws::Group,
    headgate::Headgate,
    recorder::{Micros, now},
};
use localstack_world::Facts;

use crate::{
    Size,
    contender::{Contender, Floor},
    report::Row,
    stage::{Stage, target},
    tape::{Tape, millis},
};

const GROUPS: usize = 6;

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "restart").await;
    let mut ours = Vec::new();
    let mut floors = Vec::new();
    for at in 0..GROUPS {
        ours.push((format!("app-{at}"), stage.group(&format!("restart-{at}")).await));
        floors.push(stage.group(&format!("restart-floor-{at}")).await);
        stage.bind(&format!("app-{at}"), &ours[at].1).await;
    }
    let each = size.restart / GROUPS;
    let pods = (0..GROUPS)
        .flat_map(|app| (0..each).map(move |at| (format!("app-{app}-{at}"), format!("app-{app}"))));
    let mut pods = stage.running_pods(pods.collect()).await;
    let kept: BTreeSet<String> =
        pods.split_off(4 * size.runs).into_iter().map(|(_, ip)| target(&ip)).collect();
    let (mut headgate, mut floor) = (Times::default(), Times::default());
    // All of them are targets from the beginning.
    let first = Contender::Headgate(Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await);
    for (_, group) in &ours {
        stage.wait_targets(group, each).await;
    }
    // The registrations are stored by now.
    tokio::time::sleep(size.rest).await;
    first.end().await;
    for run in 0..size.runs {
        let mut names = pods.drain(..2);
        let (leaving, gone) = (names.next().unwrap(), names.next().unwrap());
        drop(names);
        stage.delete(&leaving.0).await;
        stage.cluster.delete_pod(&gone.0, 0).await;
        let new = stage.running_pod(&format!("app-0-new-{run}"), "app-0").await;
        for is_floor in [true, false] {
            let mut tape = Tape::from_now(&stage.aws).await;
            let (contender, synced) = if is_floor {
                let groups: Vec<(&str, &Group)> =
                    ours.iter().zip(&floors).map(|((app, _), group)| (app.as_str(), group)).collect();
                let namespace = stage.cluster.namespace.as_str();
                let floor = Floor::start(facts, &facts.kubeconfig, Some(namespace), &groups).await;
                (Contender::Floor(floor), now())
            } else {
                let headgate = Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await;
                let synced = synced_at(&headgate);
                (Contender::Headgate(headgate), synced)
            };
            let times = if is_floor { &mut floor } else { &mut headgate };
            let mut expected = vec![("RegisterTargets", target(&new), &mut times.add)];
            if !is_floor {
                expected.push(("DeregisterTargets", target(&leaving.1), &mut times.leaving));
                expected.push(("DeregisterTargets", target(&gone.1), &mut times.gone));
            }
            for (action, target, times) in expected {
                let arrived = tape.arrival_at_most(size.patience, action, &target).await;
                times.extend(arrived.map(|arrived| millis(synced, arrived)));
            }
            // Unnecessary calls follow immediately.
            tokio::time::sleep(size.aftermath).await;
            let changes = ["RegisterTargets", "DeregisterTargets"];
            let needless = tape.read().await.iter().filter(|call| {
                changes.contains(&call.action.as_str())
                    && call.targets.iter().any(|target| kept.contains(target))
            });
            #[allow(clippy::cast_precision_loss)] // thousands
            times.needless.push(needless.count() as f64);
            contender.end().await;
        }
    }
    let what = |what: &str| format!("restart with {} targets: {what}", size.restart);
    vec![
        Row::of(what("synced → Register of a pod that came meanwhile"), "ms", &headgate.add, &floor.add),
        Row::of(what("synced → Deregister of a pod that is ending"), "ms", &headgate.leaving, &[]),
        Row::of(what("synced → Deregister of a pod that is gone"), "ms", &headgate.gone, &[]),
        Row::of(what("needless calls"), "calls", &headgate.needless, &floor.needless),
    ]
}

#[derive(Default)]
struct Times {
    add: Vec<f64>,
    leaving: Vec<f64>,
    gone: Vec<f64>,
    needless: Vec<f64>,
}

/// When every watch had listed all objects, from Headgate's log.
fn synced_at(headgate: &Headgate) -> Micros {
    let said = |line: &serde_json::Value| {
        line["message"].as_str().is_some_and(|text| text.starts_with("initial cache sync complete"))
    };
    let line = &headgate.logged(said)[0];
    let at: k8s_openapi::jiff::Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
    u64::try_from(at.as_microsecond()).unwrap()
}
