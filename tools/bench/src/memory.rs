//! Resident memory with no, 5,000 and 20,000 pods in a real API server, and with 100,000 in a replayer.

use futures::{StreamExt, stream};
use headgate_harness::{aws::Group, headgate::Headgate, scenario::http_port};
use k8s_openapi::api::core::v1::Pod;
use localstack_world::Facts;
use serde_json::{Value, json};

use crate::{
    Size,
    contender::{Contender, Floor},
    replay::{Replay, as_served},
    report::Row,
    stage::{AT_ONCE, Stage, pod, running},
};

/// The number of pods of one Deployment.
const REPLICAS: usize = 20;

/// Runs the measure; see the module docs.
pub async fn measure(facts: &Facts, size: &Size) -> Vec<Row> {
    let stage = Stage::new(facts, "memory").await;
    let mut rows = Vec::new();
    let mut there = 0;
    let mut empty = (0.0, 0.0);
    for pods in size.memory {
        fill(&stage, there, pods).await;
        there = pods;
        let namespace = stage.cluster.namespace.as_str();
        let kubeconfig = &facts.kubeconfig;
        let floor = Contender::Floor(Floor::start(facts, kubeconfig, Some(namespace), &[]).await);
        let floors = floor.settled_memory(size.rest).await;
        floor.end().await;
        let headgate = Contender::Headgate(Headgate::start(facts, kubeconfig, &[&stage.only_here()]).await);
        let ours = headgate.settled_memory(size.rest).await;
        headgate.end().await;
        if pods == 0 {
            empty = (ours, floors);
        }
        rows.push(Row::of(format!("resident memory at {pods} pods, none bound"), "MiB", &[ours], &[floors]));
    }
    let (pods, bound) = size.replay;
    let measured = replayed(&stage, size).await;
    let what = format!("resident memory at {pods} pods, {bound} of them bound");
    rows.push(Row::of(what, "MiB", &[measured.0], &[measured.1]));
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let each = |full: f64, empty: f64| (full - empty) * 1024.0 / pods as f64;
    let (ours, floors) = (each(measured.0, empty.0), each(measured.1, empty.1));
    rows.push(Row::of(format!("of that, for each of the {pods} pods"), "KiB", &[ours], &[floors]));
    rows
}

/// Creates pods until there are `to`, without kubelets and VPC IPs.
async fn fill(stage: &Stage, from: usize, to: usize) {
    let make = |number: usize| async move {
        let object = numbered(number, &stage.cluster.namespace);
        stage.cluster.create::<Pod>(object).await;
    };
    stream::iter(from..to).map(make).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// A pod of a Deployment with [`REPLICAS`] pods, with a name like those of ReplicaSets.
fn numbered(number: usize, namespace: &str) -> Value {
    let app = format!("service-{}", number / REPLICAS);
    let mut object = pod(&format!("{app}-5d8f7c9b64-{number:05x}"), namespace, &app);
    // No scheduler handles them: they only have to exist.
    object["spec"]["schedulerName"] = "nobody".into();
    object
}

/// The memory of Headgate and of the floor with these pods in a hundred namespaces, the first of which are bound to
/// some groups.
async fn replayed(stage: &Stage, size: &Size) -> (f64, f64) {
    let ((pods, bound), groups, facts) = (size.replay, size.groups, &stage.facts);
    let per_group = bound / groups;
    let mut services = Vec::new();
    let mut names = Vec::new();
    for at in 0..groups {
        let group = stage.group(&format!("memory-{at}")).await;
        services.push(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": format!("bound-{at}"), "namespace": "bound", "uid": format!("service-{at}"),
                "resourceVersion": "1", "annotations": {"headgate.dev/target-groups": group.name},
            },
            "spec": {"selector": {"app": format!("bound-{at}")}, "ports": http_port()},
        }));
        names.push((format!("bound-{at}"), group));
    }
    let ips: Vec<String> = (0..bound).map(|_| stage.fresh_ip()).collect();
    // Rendered once: a hundred thousand pods are too many to build piece by piece.
    let mut template = pod("POD-NAME", "POD-NAMESPACE", "POD-APP");
    template["status"] = running("POD-IP");
    let mut template = as_served(template, 0);
    template["metadata"]["uid"] = "POD-UID-1c5e-4f60-a1b2-5d8f7c9b64aa".into();
    let template = template.to_string();
    let make = move |number: usize| {
        let (app, namespace, ip) = match ips.get(number) {
            Some(ip) => (format!("bound-{}", number / per_group), "bound".to_owned(), ip.clone()),
            None => (
                format!("service-{}", number / REPLICAS),
                format!("team-{}", number / REPLICAS % 100),
                elsewhere(number),
            ),
        };
        let text =
            template.replace("POD-NAMESPACE", &namespace).replace("POD-APP", &app).replace("POD-IP", &ip);
        let text = text.replace("POD-NAME", &format!("{app}-5d8f7c9b64-{number:05x}"));
        text.replace("POD-UID", &format!("{number:08x}"))
    };
    let server = Replay::start(pods, make, services).await;
    let kubeconfig = server.kubeconfig(&facts.folder);
    let of: Vec<(&str, &Group)> = names.iter().map(|(app, group)| (app.as_str(), group)).collect();
    let floor = Contender::Floor(Floor::start(facts, &kubeconfig, None, &of).await);
    let floors = floor.settled_memory(size.rest).await;
    floor.end().await;
    let headgate = Contender::Headgate(Headgate::start(facts, &kubeconfig, &[]).await);
    for (_, group) in &names {
        stage.wait_targets(group, per_group).await;
    }
    let ours = headgate.settled_memory(size.rest).await;
    headgate.end().await;
    (ours, floors)
}

/// An address of a large cluster.
pub fn elsewhere(number: usize) -> String {
    format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255)
}
