//! What a pod's life looks like to whoever watches it: on simulated and on real nodes it should look the same.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use headgate_harness::{
    cluster::{Cluster, pod_spec},
    wait,
};
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde::Serialize;
use serde_json::{Value, json};

/// A life: what the pod is told to be like, and how it is ended once it is ready.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// What it is called in the report.
    pub name: &'static str,
    /// Annotation `sim.headgate.dev/on-sigterm`.
    pub on_sigterm: &'static str,
    /// Seconds of `preStop.sleep`, if any.
    pub hold: Option<u32>,
    /// Grace period of the delete, in seconds.
    pub grace: u32,
}

/// The lives that are compared.
pub const LIVES: [Life; 4] = [
    Life { name: "graceful delete", on_sigterm: "close", hold: None, grace: 30 },
    Life { name: "graceful delete with a hold of 2 s", on_sigterm: "close", hold: Some(2), grace: 30 },
    Life { name: "SIGTERM ignored, grace 2 s", on_sigterm: "ignore", hold: None, grace: 2 },
    Life { name: "force delete", on_sigterm: "close", hold: None, grace: 0 },
];

/// What was seen of a life.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Each state of the object that differs from the one before, as one line.
    pub steps: Vec<String>,
    /// Milliseconds from its creation to its first IP.
    pub ip_ms: u128,
    /// Milliseconds from its creation to Ready.
    pub ready_ms: u128,
    /// Milliseconds from the delete to the end of the object.
    pub gone_ms: u128,
}

/// Lives a life in this namespace, and watches it.
pub async fn live(cluster: &Cluster, life: Life) -> Seen {
    let name = format!("life-{}", LIVES.iter().position(|other| other.name == life.name).unwrap_or_default());
    let pods = cluster.api::<Pod>();
    let now = pods.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = pods.watch(&only, &now).await.unwrap().boxed();

    let mut spec = pod_spec(&[("http", 8080)]);
    if let Some(seconds) = life.hold {
        spec["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": seconds}}});
    }
    spec["containers"][0]["readinessProbe"] =
        json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    let metadata = json!({"name": name, "annotations": {"sim.headgate.dev/on-sigterm": life.on_sigterm}});
    let created = Instant::now();
    cluster.create::<Pod>(json!({"metadata": metadata, "spec": spec})).await;

    let mut seen = Seen { steps: Vec::new(), ip_ms: 0, ready_ms: 0, gone_ms: 0 };
    let mut deleted: Option<Instant> = None;
    loop {
        let event = tokio::time::timeout(wait::DEADLINE, events.try_next()).await.expect("a life goes on");
        let (kind, pod) = match event.unwrap().expect("the watch goes on") {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => ("", pod),
            WatchEvent::Deleted(pod) => ("DELETED ", pod),
            other => panic!("an unexpected event: {other:?}"),
        };
        let step = format!("{kind}{}", step(&pod));
        if seen.steps.last() != Some(&step) {
            seen.steps.push(step.clone());
        }
        if seen.ip_ms == 0 && step.contains(" ip") {
            seen.ip_ms = created.elapsed().as_millis();
        }
        if deleted.is_none() && step.contains(" Ready") {
            seen.ready_ms = created.elapsed().as_millis();
            cluster.delete_pod(&name, life.grace).await;
            deleted = Some(Instant::now());
        }
        if !kind.is_empty() {
            seen.gone_ms = deleted.map_or(Duration::ZERO, |at| at.elapsed()).as_millis();
            return seen;
        }
    }
}

/// The parts of a pod that Headgate decides by, and those that show what the kubelet is doing.
fn step(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let mut words = vec![status.phase.unwrap_or_default()];
    if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
        words.push("bound".to_owned());
    }
    if let Some(grace) =
        pod.metadata.deletion_timestamp.as_ref().and(pod.metadata.deletion_grace_period_seconds)
    {
        words.push(format!("terminating({grace})"));
    }
    for container in status.container_statuses.unwrap_or_default() {
        words.push(state(container.state.unwrap_or_default()));
    }
    if status.pod_ip.is_some() {
        words.push("ip".to_owned());
    }
    let mut conditions: Vec<String> = status
        .conditions
        .unwrap_or_default()
        .into_iter()
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.type_)
        .collect();
    conditions.sort();
    words.extend(conditions);
    words.join(" ")
}

fn state(state: ContainerState) -> String {
    match (state.waiting, state.running, state.terminated) {
        (_, Some(_), _) => "running".to_owned(),
        (_, _, Some(ended)) => format!("exited({})", ended.exit_code),
        (waiting, ..) => {
            format!("waiting({})", waiting.and_then(|waiting| waiting.reason).unwrap_or_default())
        }
    }
}

/// The report as Markdown: for each life the times, and the steps that only one kind of nodes shows.
pub fn report(lives: &[(Life, Seen, Seen)]) -> String {
    let mut rows = vec![
        "# Simulated and real nodes, side by side".to_owned(),
        String::new(),
        "Made by `make compare-nodes`: the same pods on both, as a watch shows them. Times are of one run, in \
         milliseconds."
            .to_owned(),
        String::new(),
        "| life | nodes | to its IP | to Ready | delete to gone |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for (life, simulated, real) in lives {
        for (nodes, seen) in [("simulated", simulated), ("real", real)] {
            let Seen { ip_ms, ready_ms, gone_ms, .. } = seen;
            rows.push(format!("| {} | {nodes} | {ip_ms} | {ready_ms} | {gone_ms} |", life.name));
        }
    }
    for (life, simulated, real) in lives {
        let (simulated_only, real_only) = (simulated.not_in(real), real.not_in(simulated));
        let common = real.steps.len() - real_only.len();
        rows.extend([String::new(), format!("## {}", life.name), format!("{common} steps in common.")]);
        rows.extend(simulated_only.iter().map(|step| format!("- only simulated: `{step}`")));
        rows.extend(real_only.iter().map(|step| format!("- only real: `{step}`")));
    }
    rows.join("\n") + "\n"
}

impl Seen {
    /// The steps that the other life does not have.
    fn not_in(&self, other: &Self) -> Vec<&String> {
        self.steps.iter().filter(|step| !other.steps.contains(step)).collect()
    }
}

/// The report as JSON, with all steps.
pub fn json(lives: &[(Life, Seen, Seen)]) -> Value {
    let rows = lives
        .iter()
        .map(|(life, simulated, real)| json!({"life": life.name, "simulated": simulated, "real": real}));
    rows.collect()
}
