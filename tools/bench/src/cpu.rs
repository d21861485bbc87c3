//! Processor time for pod events, in a cluster of 20,000 pods. Most of these pods are not bound, like in any cluster.

use headgate_harness::{headgate::Headgate, scenario::http_port};
use localstack_world::Facts;
use serde_json::{Value, json};

use crate::{
    Size,
    contender::{Contender, Floor},
    memory::elsewhere,
    replay::{Replay, as_served},
    report::Row,
    stage::{Stage, pod, running, target},
    tape::Tape,
};

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "cpu").await;
    let (mut headgate, mut floor) = (Vec::new(), Vec::new());
    for run in 0..size.runs {
        for is_floor in [true, false] {
            let (pods, events) = size.events;
            let name = format!("cpu-{run}-{}", if is_floor { "floor" } else { "headgate" });
            let group = stage.group(&name).await;
            let service = json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {
                    "name": "bound", "namespace": "team-0", "uid": "service", "resourceVersion": "1",
                    "annotations": {"headgate.dev/target-groups": group.name},
                },
                "spec": {"selector": {"app": "bound"}, "ports": http_port()},
            });
            let server = Replay::start(pods, |number| of(number, 0).to_string(), vec![service]).await;
            let kubeconfig = server.kubeconfig(&facts.folder);
            let contender = if is_floor {
                Contender::Floor(Floor::start(facts, &kubeconfig, None, &[("bound", &group)]).await)
            } else {
                Contender::Headgate(Headgate::start(facts, &kubeconfig, &[]).await)
            };
            contender.settled_memory(size.rest).await;
            let mut tape = Tape::from_now(&stage.aws).await;
            let ip = stage.fresh_ip();
            let before = contender.processor_time();
            // The condition of each pod changes repeatedly. The last event is about a bound pod, and shows that all
            // were processed.
            server.say((0..events).map(|at| ("MODIFIED", of(at % pods, at / pods + 1))));
            let mut last = pod("last", "team-0", "bound");
            last["status"] = running(&ip);
            server.say([("ADDED", as_served(last, pods))]);
            tape.arrival("RegisterTargets", &group.name, &target(&ip)).await;
            let used = contender.processor_time() - before;
            #[allow(clippy::cast_precision_loss)] // thousands
            let per_thousand = used * 1000.0 / (events as f64 / 1000.0);
            if is_floor { &mut floor } else { &mut headgate }.push(per_thousand);
            contender.end().await;
        }
    }
    vec![Row::of("processor time for 1,000 events of pods", "ms", &headgate, &floor)]
}

/// A pod in one of a hundred namespaces, after its status was written `turn` times.
fn of(number: usize, turn: usize) -> Value {
    let app = format!("service-{}", number / 20);
    let mut object = pod(&format!("{app}-{number}"), &format!("team-{}", number % 100), &app);
    object["status"] = running(&elsewhere(number));
    let ready = if turn.is_multiple_of(2) { "True" } else { "False" };
    object["status"]["conditions"][0]["status"] = ready.into();
    as_served(object, number)
}
