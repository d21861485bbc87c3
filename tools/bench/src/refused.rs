//! AWS rejects all targets of one group, and a pod of another group gets its IP.
//!
//! There is no floor: the same measure without rejections is next to it.

use headgate_harness::{aws::Group, headgate::Headgate};
use localstack_world::Facts;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    Size,
    contender::Contender,
    report::Row,
    stage::{Stage, target},
    tape::{Tape, millis},
};

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let (mut quiet, mut beside, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..size.runs {
        let stage = Stage::new(facts, &format!("refused-{run}")).await;
        let good = stage.group(&format!("taken-{run}")).await;
        let bad = stage.group(&format!("refused-{run}")).await;
        stage.bind("good", &good).await;
        stage.bind("bad", &bad).await;
        let why = json!({"code": "InvalidTarget", "message": "The IP address is not within the VPC"});
        stage
            .fault(json!({"action": "RegisterTargets", "target_group": bad.name, "effect": {"refuse": why}}))
            .await;
        let running = Headgate::start(facts, &facts.kubeconfig, &[&stage.only_here()]).await;
        cycles(&stage, &good, "quiet", size, &mut quiet).await;
        let mut tape = Tape::from_now(&stage.aws).await;
        let pods = (0..size.refused).map(|at| (format!("bad-{at}"), "bad".to_owned())).collect();
        stage.running_pods(pods).await;
        cycles(&stage, &good, "beside", size, &mut beside).await;
        let refused = tape.read().await.iter().filter(|call| call.is("RegisterTargets", &bad.name)).count();
        calls.push(f64::from(u32::try_from(refused).unwrap()));
        Contender::Headgate(running).end().await;
        stage.no_faults().await;
        stage.end_pods().await;
    }
    let pods = size.refused;
    vec![
        Row::of(
            format!("pod IP → RegisterTargets, {pods} targets of another group refused; beside it, quiet"),
            "ms",
            &beside,
            &quiet,
        ),
        Row::of(format!("RegisterTargets of those {pods} meanwhile"), "calls", &calls, &[]),
    ]
}

/// Good pods get their IPs one after another.
async fn cycles(stage: &Stage, group: &Group, name: &str, size: &Size, times: &mut Vec<f64>) {
    let mut tape = Tape::from_now(&stage.aws).await;
    for at in 0..=size.cycles {
        let began = Instant::now();
        let (name, ip) = (format!("{name}-{at}"), stage.fresh_ip());
        stage.pod(&name, "good").await;
        let sent = stage.give_ip(&name, &ip).await;
        let registered = tape.arrival("RegisterTargets", &group.name, &target(&ip)).await;
        // The first call must open connections.
        if at > 0 {
            times.push(millis(sent, registered));
        }
        tokio::time::sleep_until(began + crate::quiet::PACE).await;
    }
}
