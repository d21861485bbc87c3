//! The leader of two replicas ends, cleanly or not. Then a pod is deleted. The Lease has default settings.

use headgate_harness::{headgate::Headgate, recorder::now};
use localstack_world::Facts;

use crate::{
    Size,
    contender::Contender,
    report::Row,
    stage::{Stage, target},
    tape::{Tape, millis},
};

/// Runs the measure; see the module docs. There is no floor: it has no second replica.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "takeover").await;
    let group = stage.group("takeover").await;
    stage.bind("web", &group).await;
    let pods = (0..2 * size.runs).map(|at| (format!("web-{at}"), "web".to_owned())).collect();
    let mut pods = stage.running_pods(pods).await.into_iter();
    let (mut after_term, mut after_kill) = (Vec::new(), Vec::new());
    let start = || Headgate::start(facts, &facts.kubeconfig, &[NAMESPACE]);
    for _ in 0..size.runs {
        for cleanly in [true, false] {
            let leader = start().await;
            leader.wait_leads().await;
            stage.wait_targets(&group, pods.len()).await;
            let standby = start().await;
            let mut tape = Tape::from_now(&stage.aws).await;
            let ended = now();
            if cleanly {
                leader.terminate().await;
            } else {
                leader.kill().await;
            }
            let (name, ip) = pods.next().unwrap();
            stage.delete(&name).await;
            let arrived = tape.arrival("DeregisterTargets", &group.name, &target(&ip)).await;
            let times = if cleanly { &mut after_term } else { &mut after_kill };
            times.push(millis(ended, arrived) / 1000.0);
            Contender::Headgate(standby).end().await;
        }
    }
    let what = |signal: &str| format!("{signal} of the leader → the standby's first Deregister");
    vec![Row::of(what("SIGTERM"), "s", &after_term, &[]), Row::of(what("SIGKILL"), "s", &after_kill, &[])]
}

const NAMESPACE: &str = "--namespaces=takeover";
